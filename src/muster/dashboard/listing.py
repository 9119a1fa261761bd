"""Split long lists into pages. Pure."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from muster.dashboard.visits import Visit, make_address

PER_PAGE = 100


class Listing(Struct, frozen=True):
    """One page of a list.

    total: the number of items in the whole list.
    first: the number of the first shown item, from 1.
    before, after: the addresses of the previous and the next page; "" if there is none.
    """

    items: Sequence[Any]
    total: int
    first: int
    before: str = ""
    after: str = ""

    @property
    def last(self) -> int:
        """The number of the last shown item in the whole list, from 1."""
        return self.first + len(self.items) - 1


class ListQuery(Struct, frozen=True):
    """The number of a list's page, from 1, and the visit whose address names it."""

    visit: Visit
    page: int


def read_list_query(visit: Visit) -> ListQuery:
    """Return which page of a list the address names; page 1 if the address has no valid number."""
    said = visit.query.get("page", "1")
    return ListQuery(visit, max(1, int(said)) if said.isascii() and said.isdecimal() and len(said) < 7 else 1)


def cut(items: Sequence[Any], query: ListQuery) -> Listing:
    """Return the requested page of a list; the last page if the number is too high."""
    first = find_first(len(items), query)
    return make_listing(items[first : first + PER_PAGE], len(items), query)


def find_first(total: int, query: ListQuery) -> int:
    """Return the index of the first item on the requested page of a list with `total` items."""
    return (min(query.page, max(1, -(-total // PER_PAGE))) - 1) * PER_PAGE


def make_listing(items: Sequence[Any], total: int, query: ListQuery) -> Listing:
    """Return a page of a list.

    items: the items on the page.
    total: the number of items in the whole list.
    """
    first = find_first(total, query)
    page, pages = first // PER_PAGE + 1, max(1, -(-total // PER_PAGE))
    return Listing(
        items,
        total,
        first + 1,
        _make_page_address(query.visit, page - 1) if page > 1 else "",
        _make_page_address(query.visit, page + 1) if page < pages else "",
    )


def _make_page_address(visit: Visit, page: int) -> str:
    return make_address(*visit.path.strip("/").split("/"), **{**visit.query, "page": str(page)})
