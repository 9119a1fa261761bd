"""Prints the output of workers: their stdout on our stdout, and their stderr on our stderr."""

import asyncio
import os
import stat
import sys
from contextlib import nullcontext
from functools import partial
from io import RawIOBase
from typing import TextIO

from muster.cli.terminal.liveline import LiveLine
from muster.cli.terminal.output import has_colours, prefix
from muster.cli.terminal.streams import raw_of
from muster.runtime.containerlogs import STDERR, STDOUT
from muster.runtime.tasks import in_daemon

# A longer line is split into several.
_LINE_BYTES = 1 << 20


class Printer:
    """A printer of workers' output, unchanged or, with `ranks`, in whole lines that begin with the worker's rank.

    The printer waits for a slow reader without blocking other tasks. line: is hidden while whole lines are printed.
    """

    def __init__(self, *, ranks: bool, line: LiveLine | None = None) -> None:
        self._ranks = ranks
        self._line = line
        self._files = {STDOUT: sys.stdout, STDERR: sys.stderr}
        self._unended: dict[tuple[str, bytes], bytes] = {}  # the unfinished line of a worker's stream
        self._turn = asyncio.Lock()  # stdout and stderr may be the same terminal

    async def show(self, rank: str, stream: bytes, text: bytes) -> None:
        """Print text of a worker."""
        if self._ranks:
            whole, newline, rest = (self._unended.pop((rank, stream), b"") + text).rpartition(b"\n")
            if len(rest) > _LINE_BYTES:
                whole, newline, rest = whole + newline + rest, b"\n", b""
            if rest:
                self._unended[rank, stream] = rest
            text = self._add_prefixes(rank, stream, whole) if newline else b""
        if text:
            await self._write(self._files[stream], text)

    async def finish(self) -> None:
        """Print the last lines that have no end."""
        for (rank, stream), rest in self._unended.items():
            await self._write(self._files[stream], self._add_prefixes(rank, stream, rest))
        self._unended.clear()

    def _add_prefixes(self, rank: str, stream: bytes, lines: bytes) -> bytes:
        head = prefix(rank, colour=has_colours(self._files[stream], os.environ)).encode()
        return head + lines.replace(b"\n", b"\n" + head) + b"\n"

    async def _write(self, file: TextIO, data: bytes) -> None:
        async with self._turn:
            with self._line.aside() if self._line is not None else nullcontext():
                await _write(raw_of(file), data)


async def _write(file: RawIOBase, data: bytes) -> None:
    """Write all data in a thread, because a pipe may stay full for any time."""
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        _write_now(file, data)
        return
    await in_daemon(partial(_write_now, file, data), "output")


def _write_now(file: RawIOBase, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]
