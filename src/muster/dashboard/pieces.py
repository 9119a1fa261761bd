"""Decide which part of a page to send again after a change. Pure.

Templates enclose each part that changes on its own, such as a row of a table, in `<!--piece ID-->...<!--/piece-->`,
around an element with that id. While only the content of pieces changes, only changed pieces are sent. If a piece is
added, removed or moved, the whole page is sent.
"""

import re

import msgspec

_PIECE = re.compile(r"<!--piece ([^>\s]+)-->(.*?)<!--/piece-->", re.DOTALL)
# The text of an age changes with time, and the page's script keeps it up to date.
_AGE = re.compile(r'(<time class="(?:age|until)"[^>]*>)[^<]*')


class Shown(msgspec.Struct, frozen=True):
    """A page as it was sent: the HTML with placeholders for its pieces, and each piece's HTML by its id."""

    frame: str
    pieces: dict[str, str]


def split_page(html: str) -> Shown:
    """Split the HTML of a page into its frame and its pieces, without ages, which change all the time."""
    still = _AGE.sub(r"\1", html)
    pieces = dict[str, str](_PIECE.findall(still))
    return Shown(_PIECE.sub(r"<!--\1-->", still), pieces)


def find_changes(before: Shown | None, html: str) -> tuple[Shown, dict[str, str] | None]:
    """Return the page split into pieces, and what to send to the browser.

    The second result is the changed pieces by id, {} if none changed, or None to send the whole page.
    """
    after = split_page(html)
    if before is None or before.frame != after.frame or before.pieces.keys() != after.pieces.keys():
        return after, None
    changed = {name for name, body in after.pieces.items() if body != before.pieces[name]}
    if not changed:
        return after, {}
    return after, {name: body for name, body in _PIECE.findall(html) if name in changed}
