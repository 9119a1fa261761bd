"""Cuts long lists into pages. Pure."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from muster.dashboard.visits import Visit, make_address

PER_PAGE = 100


class Listing(Struct, frozen=True):
    """A part of a list. before, after: the addresses of the parts beside it; "" where there are none."""

    items: Sequence[Any]
    total: int
    first: int
    before: str = ""
    after: str = ""

    @property
    def last(self) -> int:
        """The number of the last item, from 1."""
        return self.first + len(self.items) - 1


class ListQuery(Struct, frozen=True):
    """Which part of a list an address names."""

    visit: Visit
    page: int


def read_list_query(visit: Visit) -> ListQuery:
    """Return which part of a list the address names: the first, where it does not say."""
    said = visit.query.get("page", "1")
    return ListQuery(visit, max(1, int(said)) if said.isascii() and said.isdecimal() and len(said) < 7 else 1)


def cut(items: Sequence[Any], query: ListQuery) -> Listing:
    """Return a part of a list, the last one for a number that is too high."""
    first = find_first(len(items), query)
    return make_listing(items[first : first + PER_PAGE], len(items), query)


def find_first(total: int, query: ListQuery) -> int:
    """Return the index of the first item of a part of a list that is as long as this."""
    return (min(query.page, max(1, -(-total // PER_PAGE))) - 1) * PER_PAGE


def make_listing(items: Sequence[Any], total: int, query: ListQuery) -> Listing:
    """Return a part of a list that has been cut already."""
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
