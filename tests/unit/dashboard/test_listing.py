"""Parts of a long list."""

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.dashboard.listing import PER_PAGE, cut, find_first, make_listing, read_list_query
from muster.dashboard.visits import Visit

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOBODY: Any = None


def part(count, **query):
    return cut(range(count), read_list_query(Visit(NOBODY, NOBODY, "/jobs", query, NOW)))


def test_a_short_list_is_one_part():
    listing = part(3)
    assert [*listing.items] == [0, 1, 2]
    assert (listing.before, listing.after) == ("", "")


def test_parts_lead_to_each_other_and_keep_the_filters():
    middle = part(3 * PER_PAGE, page="2", state="Running", text="a b&c")
    assert (middle.first, middle.last, middle.total) == (PER_PAGE + 1, 2 * PER_PAGE, 3 * PER_PAGE)
    assert middle.before == "/ui/jobs?page=1&state=Running&text=a+b%26c"
    assert middle.after == "/ui/jobs?page=3&state=Running&text=a+b%26c"


@pytest.mark.parametrize("said", ["", "0", "-1", "x", "١", "1e3", "9" * 30, "1.5"])
def test_what_is_no_number_of_a_part_is_the_first(said):
    assert part(2 * PER_PAGE, page=said).first == 1


def test_a_number_that_is_too_high_is_the_last():
    assert part(2 * PER_PAGE, page="999").first == PER_PAGE + 1
    assert [*part(0, page="7").items] == []


def test_a_part_that_was_cut_elsewhere_is_told_alike():
    query = read_list_query(Visit(NOBODY, NOBODY, "/jobs", {"page": "3"}, NOW))
    total = 2 * PER_PAGE + 50
    assert find_first(total, query) == 2 * PER_PAGE
    assert make_listing(range(2 * PER_PAGE, total), total, query) == cut(range(total), query)
    assert find_first(0, query) == 0
