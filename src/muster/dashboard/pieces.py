"""Decide what of a page to send again after a change. Pure.

Templates mark what changes by itself, such as a row of a table, with `<!--piece ID-->...<!--/piece-->` around an
element of that id. While only pieces change, only these are sent; when one comes, goes or moves, the whole is.
"""

import re

import msgspec

_PIECE = re.compile(r"<!--piece ([^>\s]+)-->(.*?)<!--/piece-->", re.DOTALL)
# The text of an age changes with time alone, and the page keeps it up to date.
_AGE = re.compile(r'(<time class="(?:age|until)"[^>]*>)[^<]*')


class Shown(msgspec.Struct, frozen=True):
    """A page as it was sent: the HTML with places instead of its pieces, and each piece's HTML by its id."""

    frame: str
    pieces: dict[str, str]


def split_page(html: str) -> Shown:
    """Split the HTML of a page into its frame and its pieces, without ages, which change all the time."""
    still = _AGE.sub(r"\1", html)
    pieces = dict[str, str](_PIECE.findall(still))
    return Shown(_PIECE.sub(r"<!--\1-->", still), pieces)


def find_changes(before: Shown | None, html: str) -> tuple[Shown, dict[str, str] | None]:
    """Return the page in its pieces, and what to send to the browser.

    That is the changed pieces by id, {} if none changed, or None for the whole page.
    """
    after = split_page(html)
    if before is None or before.frame != after.frame or before.pieces.keys() != after.pieces.keys():
        return after, None
    changed = {name for name, body in after.pieces.items() if body != before.pieces[name]}
    if not changed:
        return after, {}
    return after, {name: body for name, body in _PIECE.findall(html) if name in changed}
