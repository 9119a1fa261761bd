"""Prints the output of workers on stdout, line by line."""

import os
import sys

import click

from muster.cli.output import prefix

# What a shell reports of a program that wrote to a pipe which nobody reads any more.
BROKEN_PIPE_CODE = 141


class Printer:
    """Prints lines, each with its worker's rank if `ranks` is true."""

    def __init__(self, *, ranks: bool) -> None:
        self._ranks = ranks
        self._colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def show(self, rank: str, line: bytes) -> None:
        """Print a line. Raises `click.exceptions.Exit` when nobody reads any more."""
        head = prefix(rank, colour=self._colour).encode() if self._ranks else b""
        try:
            sys.stdout.buffer.write(head + line + b"\n")
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            # What is left in the buffer must go somewhere when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(BROKEN_PIPE_CODE) from None
