"""The last line of a terminal, which changes in place below all else that is printed there."""

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
    """Shows a part for each of several names, side by side, on stderr. Where that is no terminal, it shows nothing."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._works = sys.stderr.isatty() and environ.get("TERM") != "dumb"
        self._parts: dict[str, str] = {}
        self._hidden = 0
        self._drawn = ""

    def show(self, name: str, text: str) -> None:
        """Of this name, show that; "" for nothing any more."""
        self._parts[name] = text
        self._draw()

    def say(self, text: str) -> None:
        """Print a line that stays."""
        with self.aside():
            say(text)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Meanwhile the line is away: whole lines may be printed to the terminal."""
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
        text = "" if self._hidden else "; ".join(f"{name}: {said}" for name, said in self._parts.items() if said)
        text = text[: shutil.get_terminal_size().columns - 1]  # a line that breaks cannot be erased
        if self._works and text != self._drawn:
            click.echo(_ERASE + text, err=True, nl=False)
            self._drawn = text
