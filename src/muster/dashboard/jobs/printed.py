"""Convert programs' output to lines for a page. Lines are short and few, whatever a program prints. Pure."""

import re
from collections import deque

from msgspec import Struct

from muster.actions.following.carriagereturns import is_wiped, last_state, split_lines
from muster.runtime.containerlogs import STDERR

MOST_LINES = 2_000
"""The most lines that wait to be sent: the newest."""
_LINE_CHARACTERS = 2_000
# The number of bytes to keep of an unfinished line; more than a page shows.
_LINE_BYTES = 32 * 1024
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?", re.DOTALL)
# Control characters are replaced by a mark, so that binary output is recognizable; tabs are kept. Characters that
# reverse the following text are replaced, too. Arabic and Hebrew text does not need them.
_DIRECTIONS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_CONTROLS = dict.fromkeys((*range(9), *range(10, 32), *range(127, 160), *_DIRECTIONS), "\N{REPLACEMENT CHARACTER}")
_MEGABYTE = 1_000_000


class PrintedLine(Struct, frozen=True, array_like=True):
    """A line of a worker's output.

    worker: the title of the worker.
    is_error: whether the line was written to stderr.
    """

    worker: str
    is_error: bool
    text: str


class OutputBatch(Struct, frozen=True):
    """The output that arrived since the last batch.

    unfinished: the current text of lines without a line break.
    left_out: the number of older lines that were dropped because there were too many.
    """

    lines: list[PrintedLine]
    unfinished: list[PrintedLine]
    left_out: int = 0


class Tray:
    """A buffer of the newest lines that have not been sent to a page. Older lines are dropped and counted."""

    def __init__(self) -> None:
        self._lines: deque[PrintedLine] = deque(maxlen=MOST_LINES)
        self._left_out = 0
        self._begun: dict[tuple[str, bytes], bytes] = {}
        self._over: dict[tuple[str, bytes], int] = {}  # the number of dropped bytes of each unfinished line

    def add(self, worker: str, stream: bytes, text: bytes) -> None:
        """Add text that a worker wrote to a stream: whole lines, or a part of a line."""
        key = worker, stream
        whole, rest = split_lines(self._begun.pop(key, b""), text)
        over = self._over.pop(key, 0)
        for line in whole.split(b"\n")[:-1] if whole else ():
            self._put(key, line, over)
            over = 0
        if b"\r" in text:
            over = 0  # the line was overwritten
        if rest:
            self._begun[key] = rest[:_LINE_BYTES]
            self._over[key] = over + max(len(rest) - _LINE_BYTES, 0)

    def finish(self) -> None:
        """Complete all unfinished lines, because no more output follows."""
        for key, rest in self._begun.items():
            if not is_wiped(rest):
                self._put(key, last_state(rest), self._over.get(key, 0))
        self._begun.clear()
        self._over.clear()

    def take(self) -> OutputBatch:
        """Return and clear the complete lines since the last call, together with the current unfinished lines."""
        unfinished = [_make_line(key, last_state(rest), self._over.get(key, 0)) for key, rest in self._begun.items()]
        batch = OutputBatch([*self._lines], [line for line in unfinished if line.text.strip()], self._left_out)
        self._lines.clear()
        self._left_out = 0
        return batch

    def _put(self, key: tuple[str, bytes], line: bytes, over: int) -> None:
        self._left_out += len(self._lines) == MOST_LINES
        self._lines.append(_make_line(key, line, over))


def _make_line(key: tuple[str, bytes], line: bytes, over: int) -> PrintedLine:
    worker, stream = key
    return PrintedLine(worker, stream == STDERR, make_text(line, over))


def make_text(line: bytes, over: int = 0) -> str:
    """Return a line as text without control characters, truncated with a mark if it is long.

    over: the number of further bytes of the line that were already dropped.
    """
    start = line[: 4 * _LINE_CHARACTERS]
    text = _ESCAPES.sub("", start.decode(errors="replace")).translate(_CONTROLS)
    if len(text) <= _LINE_CHARACTERS and len(start) == len(line) and not over:
        return text
    return f"{text[:_LINE_CHARACTERS]}… [cut: the line has {_describe_size(len(line) + over)}]"


def _describe_size(size: int) -> str:
    return f"{size / _MEGABYTE:.1f} MB" if size >= _MEGABYTE else f"{size:,} bytes"
