"""Prints the output of workers on stdout, line by line."""

import os
import sys

from muster.cli.output import prefix


class Printer:
    """Prints lines, each with its worker's rank if `ranks` is true."""

    def __init__(self, *, ranks: bool) -> None:
        self._ranks = ranks
        self._colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def show(self, rank: str, line: bytes) -> None:
        """Print a line."""
        head = prefix(rank, colour=self._colour).encode() if self._ranks else b""
        sys.stdout.buffer.write(head + line + b"\n")
        sys.stdout.buffer.flush()
