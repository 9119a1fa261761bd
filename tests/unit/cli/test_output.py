"""How commands print."""

import io
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.api.yaml_decode import decode
from muster.cli.output import age, dump, has_colours, prefix, table

NOW = datetime(2026, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (12000, "3h20m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (-5, "0s"),
    ],
)
def test_age(seconds, text):
    assert age(NOW - timedelta(seconds=seconds), NOW) == text


def test_an_age_that_nobody_knows():
    assert age(None, NOW) == "<unknown>"


def test_tables_align_and_end_without_blanks():
    assert table(["A", "LONG"], [["wide cell", ""], ["b", "c"]]) == "A           LONG\nwide cell\nb           c"


@pytest.mark.parametrize("width", [0, 33, 100])
def test_a_table_that_fits_stays_as_it_is(width):
    assert (
        table(["A", "REASON"], [["b", "it lacks a good deal of cpu"]], width=width).splitlines()[1].startswith("b   it")
    )


def test_in_a_narrow_terminal_the_last_column_has_lines_of_its_own():
    rows = [["one", "Queued", "no node ever has 900 cpu; the largest has 2"], ["other", "Running", ""]]
    assert table(["NAME", "STATE", "REASON"], rows, width=24).splitlines() == [
        "NAME    STATE",
        "one     Queued",
        "   no node ever has 900",
        "   cpu; the largest has",
        "   2",
        "other   Running",
    ]


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_the_narrowest_terminals(width):
    assert table(["A", "B"], [["a", "long words"]], width=width).split() == ["A", "a", "long", "words"]


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
    assert prefix("3", colour=False) == "[3] "
    assert "\x1b[" in prefix("3", colour=True)
    assert prefix("3", colour=True) != prefix("2", colour=True)
