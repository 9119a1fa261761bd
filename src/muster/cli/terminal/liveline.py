"""Rows at the bottom of a terminal, which change in place below all other output."""

import os
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

import click

_ERASE, _UP = "\r\x1b[K", "\x1b[A"
_CUT_LONG_ROWS, _WRAP_LONG_ROWS = "\x1b[?7l", "\x1b[?7h"


class LiveLine:
    """A status line on stderr, with a text for each of several names next to each other.

    Above it are the rows of lines that workers have not finished. Nothing is drawn if stderr is no terminal, nor while
    a pager uses the terminal, as in `muster logs -f train | less`.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._is_visible = sys.stderr.isatty() and environ.get("TERM") != "dumb"
        self._parts: dict[str, str] = {}
        self._rows: dict[tuple[str, bytes], str] = {}  # by worker and stream
        self._remarks: list[str] = []  # the remarks that have not been printed
        self._drawn: Sequence[str] = ()
        self._is_writing = False  # whether a caller writes to the terminal
        self._is_mid_line = False  # whether the terminal's cursor is behind text without a line end

    def show(self, name: str, text: str) -> None:
        """Show this text for a name, or alone if the name is ""; the text "" removes the name."""
        self._parts[name] = text
        self._draw()

    def set_row(self, rank: str, stream: bytes, text: str) -> None:
        """Set the unfinished line of a worker, to be drawn with the next output; "" removes it.

        rank, stream: the worker, and which of its outputs the line belongs to.
        """
        self._rows.pop((rank, stream), None)
        if text:
            self._rows[rank, stream] = text

    def say(self, text: str) -> None:
        """Print a line above the status line; it stays on the terminal."""
        self._remarks.append(text)
        self._draw()

    @contextmanager
    def around(self, data: bytes) -> Iterator[bytes]:
        """Yield the bytes to write so that the data appear above all rows; b"" if nothing changes.

        The caller writes the bytes inside the `with` block, and nothing else is drawn in the meantime. Only one caller
        at a time may do so.
        """
        rows = self._compose_rows()
        framed = _erase(self._drawn).encode() + data + _render(rows).encode() if data or rows != self._drawn else b""
        self._is_writing = True
        try:
            yield framed
        finally:
            self._is_writing = False
            self._drawn = rows
            if data:
                self._is_mid_line = not data.endswith(b"\n")
            self._draw()  # draw the changes since the block began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.clear()
        self._rows.clear()
        self._draw()

    def _draw(self) -> None:
        """Print the collected remarks, and draw the rows again if they have changed.

        Do nothing if neither is new, or while another caller writes to the terminal.
        """
        rows = self._compose_rows()
        if self._is_writing or not (self._remarks or rows != self._drawn):
            return
        remarks = "".join(f"{text}\n" for text in self._remarks)
        self._remarks.clear()
        if self._is_visible and self._is_mid_line:
            remarks = "\n" + remarks
        click.echo(_erase(self._drawn) + remarks + _render(rows), err=True, nl=False)
        self._drawn, self._is_mid_line = rows, False

    def _compose_rows(self) -> Sequence[str]:
        """Return the rows to show now, at most as many as the terminal has room for.

        The result is empty if stderr is no terminal, or another program uses it. The drawn rows are then forgotten.
        """
        if not self._is_visible:
            return ()
        if _is_taken():
            self._drawn = ()  # the other program has cleared the screen
            return ()
        import shutil  # importing it loads every compressor

        columns, lines = shutil.get_terminal_size()
        titles = sorted(self._rows, key=lambda key: (len(key[0]), key))  # rank 2 before rank 10
        rows = [_CUT_LONG_ROWS + self._rows[title] + _WRAP_LONG_ROWS for title in titles]
        status = "; ".join(f"{name}: {part}" if name else part for name, part in self._parts.items() if part)
        if status:
            rows.append(status[: columns - 1])  # a wrapped line cannot be erased
        return tuple(rows[-max(lines - 1, 1) :])


def _is_taken() -> bool:
    """Return whether another program, such as a pager, uses the terminal and reads it key by key."""
    try:
        return not termios.tcgetattr(sys.stderr.fileno())[3] & termios.ICANON
    except (OSError, termios.error):
        return False


def _render(rows: Sequence[str]) -> str:
    return "\n".join(rows)


def _erase(rows: Sequence[str]) -> str:
    """Return the control characters that erase the drawn rows, with the cursor at the end of the last row."""
    return _ERASE + (_UP + _ERASE) * (len(rows) - 1) if rows else ""
