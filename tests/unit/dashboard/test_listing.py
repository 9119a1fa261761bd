"""Long lists are cut into pages."""

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.dashboard.listing import cut, find_first, make_listing, read_list_query
from muster.dashboard.visits import Visit


def query(page: str) -> Any:
    visit = Visit(None, None, "/jobs", {"page": page, "state": "Running"}, datetime(2026, 1, 1, tzinfo=UTC))  # type: ignore[arg-type]
    return read_list_query(visit)


@pytest.mark.parametrize(
    ("page", "first", "last", "has_before", "has_after"),
    [
        ("1", 1, 100, False, True),
        ("2", 101, 200, True, True),
        ("3", 201, 250, True, False),
        ("99", 201, 250, True, False),
        ("0", 1, 100, False, True),
        ("-1", 1, 100, False, True),
        ("٣", 1, 100, False, True),
        ("9" * 30, 1, 100, False, True),
        ("x", 1, 100, False, True),
    ],
)
def test_a_page_is_cut(page: str, first: int, last: int, has_before: bool, has_after: bool) -> None:
    listing = cut(range(250), query(page))
    assert (listing.first, listing.last, listing.total) == (first, last, 250)
    assert (bool(listing.before), bool(listing.after)) == (has_before, has_after)
    assert list(listing.items) == list(range(first - 1, last))
    if has_after:
        assert listing.after == f"/ui/jobs?page={(first - 1) // 100 + 2}&state=Running"


def test_a_part_that_was_cut_before_is_told_alike() -> None:
    assert find_first(250, query("3")) == 200
    assert make_listing(range(200, 250), 250, query("3")) == cut(range(250), query("3"))
    assert find_first(0, query("5")) == 0
