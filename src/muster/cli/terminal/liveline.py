"""A status line at the bottom of a terminal, which changes in place below all other output."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Self

import click

from muster.cli.terminal.output import say

_ERASE = "\r\x1b[K"


class LiveLine:
    """A status line on stderr with a part for each of several names, side by side.

    The line is invisible if stderr is no terminal.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._works = sys.stderr.isatty() and environ.get("TERM") != "dumb"
        self._parts: dict[str, str] = {}
        self._hidden = 0
        self._drawn = ""

    def show(self, name: str, text: str) -> None:
        """Show this text for a name; "" removes the name."""
        self._parts[name] = text
        self._draw()

    def say(self, text: str) -> None:
        """Print a line that stays."""
        with self.aside():
            say(text)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Hide the status line, so that whole lines may be printed to the terminal."""
        self._hidden += 1
        self._draw()
        try:
            yield
        finally:
            self._hidden -= 1
            self._draw()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.clear()
        self._draw()

    def _draw(self) -> None:
        text = "" if self._hidden else "; ".join(f"{name}: {part}" for name, part in self._parts.items() if part)
        text = text[: shutil.get_terminal_size().columns - 1]  # a wrapped line cannot be erased
        if self._works and text != self._drawn:
            click.echo(_ERASE + text, err=True, nl=False)
            self._drawn = text
