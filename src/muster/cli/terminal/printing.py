"""Print the output of workers: their stdout on this command's stdout, and their stderr on its stderr."""

import os
import stat
import sys
from functools import partial
from io import RawIOBase

from muster.actions.following.carriagereturns import is_wiped, last_state, make_row, split_lines
from muster.cli.terminal.liveline import LiveLine
from muster.cli.terminal.output import has_colours, make_prefix
from muster.cli.terminal.streams import raw_of
from muster.runtime.containerlogs import STDERR, STDOUT
from muster.runtime.eventloop import has_loop, make_slots


class Printer:
    """A printer of workers' output, unchanged or, with `ranks`, in whole lines that begin with the worker's rank.

    With `ranks`, a terminal shows each unfinished line in a row of `line`, and a pipe or a file gets the line when it
    is complete. The printer waits for a slow reader without blocking other tasks.
    """

    def __init__(self, *, ranks: bool, line: LiveLine | None = None) -> None:
        self._ranks = ranks
        self._line = line
        self._files = {STDOUT: sys.stdout, STDERR: sys.stderr}
        self._unended: dict[tuple[str, bytes], bytes] = {}  # the unfinished line of a worker's stream
        self._terminals = {stream for stream, file in self._files.items() if file.isatty()}
        self._turn = make_slots(1)  # stdout and stderr may be the same terminal

    async def show(self, rank: str, stream: bytes, text: bytes) -> None:
        """Print text that a worker has written to a stream: with `ranks`, its whole lines; otherwise, all of it."""
        if self._ranks:
            lines, rest = split_lines(self._unended.pop((rank, stream), b""), text)
            if rest:
                self._unended[rank, stream] = rest
            self._set_row(rank, stream, rest)
            text = self._add_prefixes(rank, stream, lines)
        await self._write(stream, text)

    async def finish(self) -> None:
        """Print the unfinished last line of each worker, unless blanks have overwritten it."""
        unended, self._unended = self._unended, {}
        for (rank, stream), rest in unended.items():
            self._set_row(rank, stream, b"")
            lines = b"" if is_wiped(rest) else last_state(rest) + b"\n"
            await self._write(stream, self._add_prefixes(rank, stream, lines))

    def _set_row(self, rank: str, stream: bytes, unended: bytes) -> None:
        if self._line is not None and stream in self._terminals:
            row = make_row(unended)
            self._line.set_row(rank, stream, self._make_prefix(rank, stream) + row if row else "")

    def _add_prefixes(self, rank: str, stream: bytes, lines: bytes) -> bytes:
        if not lines:
            return b""
        head = self._make_prefix(rank, stream).encode()
        return head + lines[:-1].replace(b"\n", b"\n" + head) + b"\n"

    def _make_prefix(self, rank: str, stream: bytes) -> str:
        return make_prefix(rank, colour=has_colours(self._files[stream], os.environ))

    async def _write(self, stream: bytes, data: bytes) -> None:
        file = raw_of(self._files[stream])
        async with self._turn:
            if self._line is None or stream not in self._terminals:
                await _write(file, data)
                return
            with self._line.around(data) as framed:
                await _write(file, framed)


async def _write(file: RawIOBase, data: bytes) -> None:
    """Write all data, in a thread if the file may stay full for long, such as a pipe. Raises `OutputError`."""
    if not data:
        return
    if not has_loop() or stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        _write_now(file, data)
        return
    from muster.runtime.tasks import in_daemon  # importing it loads asyncio

    await in_daemon(partial(_write_now, file, data), "output")


def _write_now(file: RawIOBase, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]
