"""Text that expansion leaves as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.values.expansion import escape
from muster.cluster.nodes.container.environment import expand

TEXTS = st.text(alphabet=st.sampled_from("$(){}AB \né😀"), max_size=20) | st.text()
VARIABLES = st.dictionaries(st.text(alphabet=st.sampled_from("$(AB{é"), max_size=3), TEXTS, max_size=5)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("", ""),
        ("$", "$"),
        ("$HOME ${HOME} a$", "$HOME ${HOME} a$"),
        ("a$$b", "a$$$$b"),
        ("$$$", "$$$$$$"),
        ("$(RANK)", "$$(RANK)"),
        ("$(date", "$$(date"),
        ("5 $é", "5 $$é"),  # the kubelet would make `$Ã` of it
    ],
)
def test_only_what_expansion_would_change_is_escaped(text, escaped):
    assert escape(text) == escaped


@given(TEXTS, VARIABLES)
def test_what_is_escaped_expands_to_what_it_was(text, variables):
    assert expand(escape(text), variables) == text
