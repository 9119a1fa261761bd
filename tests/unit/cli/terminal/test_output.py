"""How commands print."""

import io

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.api.values.yaml_decode import decode
from muster.cli.terminal.output import dump, has_colours, make_prefix


@pytest.mark.parametrize(
    ("terminal", "environ", "colours"),
    [
        (True, {}, True),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_who_sees_colours(terminal, environ, colours, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    assert has_colours(stream, environ) == colours


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_dump_reads_back(form):
    document = {"b": ["x\ny", 1, None, True], "a": {"yes": "no", "n": "1"}}
    assert yaml.safe_load(dump(document, form)) == document


# By what readers of YAML take for something else than strings, each in its own way.
TEXTS = st.text(alphabet=st.sampled_from("-+.0123eExoby_:# \t\n\r|>'\"\\\x85\u2028é😀"), max_size=12) | st.text()


@pytest.mark.parametrize("form", ["json", "yaml"])
@given(text=TEXTS)
def test_any_text_reads_back(form, text):
    printed = dump({"command": ["sh", text]}, form) + "\n"
    assert decode(printed.encode()) == ({"command": ["sh", text]}, ())


@pytest.mark.parametrize("word", ["y", "N", "1e3", "+.5e3", "0o17", "0X1F", "08", "1_000"])
def test_what_kubectl_takes_for_no_string_is_quoted(word):
    assert dump([word], "yaml") == f"- '{word}'"


def test_ranks_have_a_prefix_and_a_colour_on_a_terminal():
    assert make_prefix("3", colour=False) == "[3] "
    assert "\x1b[" in make_prefix("3", colour=True)
    assert make_prefix("3", colour=True) != make_prefix("2", colour=True)
