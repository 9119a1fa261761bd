"""What aliases may make of a document: a little text must not become a lot."""

import pytest

from muster.api import yaml_decode
from muster.api.yaml_decode import MAX_ALIASED


def test_aliases_are_what_they_name():
    text = b"a: &a text\nb: &b [*a, *a]\nc: {d: *b}"
    assert yaml_decode.decode(text)[0] == {"a": "text", "b": ["text"] * 2, "c": {"d": ["text"] * 2}}


LONG = "x" * 100_000


@pytest.mark.parametrize(
    "text",
    [
        f"a: &a {LONG}\nb: [{','.join(['*a'] * 32)}]",
        f"a: &a {{{LONG[:1000]}: 1}}\nb: [{','.join(['*a'] * 3200)}]",
        f"a: &a [{LONG}]\nb: &b [{','.join(['*a'] * 8)}]\nc: [*b, *b, *b]",
        "a0: &a0 [" + "x" * 1000 + "]\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]\n" for n in range(14)),
    ],
    ids=["text", "key", "of aliases", "doubling"],
)
def test_a_long_text_named_again_and_again_is_refused(text):
    with pytest.raises(ValueError, match=f"yaml: its aliases add more than {MAX_ALIASED} characters"):
        yaml_decode.decode(text.encode())


def test_a_document_without_aliases_is_as_long_as_it_is():
    text = "a: " + "x" * (MAX_ALIASED + 1)
    assert yaml_decode.decode(text.encode())[0] == {"a": text.removeprefix("a: ")}
