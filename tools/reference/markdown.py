"""Pieces of Markdown that read the same on a forge and on the site."""

import re
from collections.abc import Iterable, Sequence

_MARKUP = re.compile(r"[<*#|\[\]]|(?<!\w)_|_(?!\w)")


def render_code(text: str) -> str:
    """Return inline code for a table cell: a bar would end the cell, and only HTML can hide it from every renderer."""
    if "|" not in text:
        return f"`{text}`"
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "&#124;")
    return f"<code>{escaped}</code>"


def render_text(text: str) -> str:
    """Return prose on one line, with what Markdown would take for markup outside of code shown as it is."""
    pieces = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(piece if piece.startswith("`") else _MARKUP.sub(r"\\\g<0>", piece) for piece in pieces)


def render_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, with an empty line after it; none if there are no rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings), *lines, ""] if lines else []
