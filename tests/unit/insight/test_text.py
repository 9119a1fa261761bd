"""Ages, amounts and tables."""

from datetime import UTC, datetime, timedelta

import pytest

from muster.api.values.quantity import parse_amount, parse_whole_units
from muster.insight.text import format_age, format_mean, format_owner, format_owners, format_quantity, format_table

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
    assert format_age(NOW - timedelta(seconds=seconds), NOW) == text


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("0", "0"),
        ("100", "100"),
        ("1Ki", "1Ki"),
        ("100Mi", "100Mi"),
        ("512Mi", "512Mi"),
        ("1536Mi", "1.5Gi"),
        ("1100Mi", "1100Mi"),
        ("4Gi", "4Gi"),
        ("24684084Ki", "23.5Gi"),
        ("1G", "953.7Mi"),
        ("9999Gi", "9999Gi"),
        ("512000Gi", "500Ti"),
        ("500Ti", "500Ti"),
    ],
)
def test_bytes_are_shown_in_the_unit_in_which_they_are_round(written, text):
    assert format_quantity("memory", parse_whole_units(written)) == text


@pytest.mark.parametrize(
    ("resource", "amounts", "text"),
    [
        ("cpu", ["8", "500m"], "8500m"),
        ("cpu", ["1e30"], "1e30"),
        ("cpu", ["1e30", "96"], "1e30"),
        ("nvidia.com/gpu", ["10E"], "10E"),
        ("nvidia.com/gpu", ["10E", "32"], "1e19"),
        ("nvidia.com/gpu", ["123456789012"], "123456789012"),
    ],
)
def test_a_number_of_many_digits_is_rounded(resource: str, amounts: list[str], text: str) -> None:
    assert format_quantity(resource, sum(parse_amount(resource, one) for one in amounts)) == text


def test_an_age_that_nobody_knows():
    assert format_age(None, NOW) == "<unknown>"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("ada", "ada"),
        ("", ""),
        ("ada.lovelace@analytical.example.com", "ada.lovelace@analyt…"),
        ("system:serviceaccount:lab:robot", "lab:robot"),
        ("system:serviceaccount:muster-users:ada", "ada"),
        ("a\x1b[2J", "a\\x1b[2J"),
        ("unix:ada", "ada"),
    ],
)
def test_an_owner_takes_no_more_room_than_a_name(name, shown):
    assert format_owner(name) == shown


def test_users_whose_short_names_are_the_same_have_whole_names():
    here, there = "system:serviceaccount:muster-users:ada", "unix:ada"
    shown = format_owners(["ada", here, there, "unix:bob", here])
    assert shown == {"ada": "ada", here: here, there: there, "unix:bob": "bob"}


def test_tables_align_and_end_without_blanks():
    assert format_table(["A", "LONG"], [["wide cell", ""], ["b", "c"]]) == "A           LONG\nwide cell\nb           c"


@pytest.mark.parametrize("width", [0, 33, 100])
def test_a_table_that_fits_stays_as_it_is(width):
    assert (
        format_table(["A", "REASON"], [["b", "it lacks a good deal of cpu"]], width=width)
        .splitlines()[1]
        .startswith("b   it")
    )


def test_in_a_narrow_terminal_the_last_column_has_lines_of_its_own():
    rows = [["one", "Queued", "no node ever has 900 cpu; the largest has 2"], ["other", "Running", ""]]
    assert format_table(["NAME", "STATE", "REASON"], rows, width=24).splitlines() == [
        "NAME    STATE",
        "one     Queued",
        "   no node ever has 900",
        "   cpu; the largest has",
        "   2",
        "other   Running",
    ]


@pytest.mark.parametrize(("width", "heading"), [(14, "NAME    STATE"), (13, "NAME  STATE"), (12, "NAME  STATE")])
def test_in_a_narrower_one_the_columns_are_closer(width, heading):
    rows = [["other", "Queued", "it waits"]]
    assert format_table(["NAME", "STATE", "REASON"], rows, width=width).splitlines()[0] == heading


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_the_narrowest_terminals(width):
    assert format_table(["A", "B"], [["a", "long words"]], width=width).split() == ["A", "a", "long", "words"]


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("cpu", 57_914.6, "57.9"),
        ("cpu", 60_000, "60"),
        ("cpu", -162.9, "-0.163"),
        ("cpu", 1_234_567.0, "1,235"),
        ("nvidia.com/gpu", 6.154, "6.15"),
        ("nvidia.com/gpu", 999.7, "1,000"),
        ("nvidia.com/gpu", 0, "0"),
        ("memory", 1.5 * 2**30, "1.5Gi"),
    ],
)
def test_a_mean_has_three_digits(resource, value, text):
    assert format_mean(resource, value) == text
