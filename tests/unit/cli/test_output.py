"""How commands print."""

from datetime import UTC, datetime, timedelta

import pytest
import yaml

from muster.cli.output import age, dump, prefix, table

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


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_dump_reads_back(form):
    document = {"b": ["x\ny", 1, None, True], "a": {"yes": "no", "n": "1"}}
    assert yaml.safe_load(dump(document, form)) == document


def test_ranks_have_a_prefix_and_a_colour_on_a_terminal():
    assert prefix("3", colour=False) == "[3] "
    assert "\x1b[" in prefix("3", colour=True)
    assert prefix("3", colour=True) != prefix("2", colour=True)
