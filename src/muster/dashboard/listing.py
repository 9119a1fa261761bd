"""Cut long lists into pages. Pure."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from muster.dashboard.visits import Visit, make_address

PER_PAGE = 100


class Listing(Struct, frozen=True):
    """A page of a list. total: how many items the whole list has. first: the number of the first shown item, from 1.

    before, after: the addresses of the neighbouring pages; "" where there are none.
    """

    items: Sequence[Any]
    total: int
    first: int
    before: str = ""
    after: str = ""

    @property
    def last(self) -> int:
        """The number, from 1, of the last shown item in the whole list."""
        return self.first + len(self.items) - 1


class ListQuery(Struct, frozen=True):
    """The number of the page of a list, from 1, that the address of a visit names."""

    visit: Visit
    page: int


def read_list_query(visit: Visit) -> ListQuery:
    """Return which page of a list the address names; the first one if it names none, or no valid number."""
    said = visit.query.get("page", "1")
    return ListQuery(visit, max(1, int(said)) if said.isascii() and said.isdecimal() and len(said) < 7 else 1)


def cut(items: Sequence[Any], query: ListQuery) -> Listing:
    """Return the page of a list that a query names; the last page for a number that is too high."""
    first = find_first(len(items), query)
    return make_listing(items[first : first + PER_PAGE], len(items), query)


def find_first(total: int, query: ListQuery) -> int:
    """Return the index of the first item on the page that a query names, in a list with `total` items."""
    return (min(query.page, max(1, -(-total // PER_PAGE))) - 1) * PER_PAGE


def make_listing(items: Sequence[Any], total: int, query: ListQuery) -> Listing:
    """Return a page of a list, from its items and the length of the whole list."""
    first = find_first(total, query)
    page, pages = first // PER_PAGE + 1, max(1, -(-total // PER_PAGE))
    return Listing(
        items,
        total,
        first + 1,
        _address_of(query.visit, page - 1) if page > 1 else "",
        _address_of(query.visit, page + 1) if page < pages else "",
    )


def _address_of(visit: Visit, page: int) -> str:
    return make_address(*visit.path.strip("/").split("/"), **{**visit.query, "page": str(page)})
