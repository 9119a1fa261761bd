"""Select the part of a job's output to show, and format its lines."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from msgspec import Struct

# The maximum number of bytes in a line; a longer line is split.
_LINE_BYTES = 1 << 20


class Excerpt(Struct, frozen=True):
    """The selection of a job's output to show, and its format.

    ranks: the ranks of the workers whose output is shown; empty for all workers.
    tail: the number of existing lines to show per worker, counted from the end; None for all lines.
    since: the time from which lines are shown; None for all lines.
    matches: returns whether a line is shown.
    stamped: whether each line starts with the time at which it was written.
    """

    ranks: frozenset[str] = frozenset()
    tail: int | None = None
    since: datetime | None = None
    matches: Callable[[bytes], bool] | None = None
    stamped: bool = False

    def has(self, rank: str) -> bool:
        """Return whether the output of the worker with this rank is selected."""
        return not self.ranks or rank in self.ranks


# The whole output, without changes.
WHOLE = Excerpt()


class Lines:
    """A formatter of one container's output: it selects lines and adds timestamps according to an excerpt.

    If the excerpt selects the whole output, the text passes unchanged.
    """

    def __init__(self, excerpt: Excerpt, show: Callable[[bytes, bytes], Awaitable[None]]) -> None:
        self._matches = excerpt.matches or (lambda _: True)
        self._stamped = excerpt.stamped
        self._as_is = excerpt.matches is None and not excerpt.stamped
        self._show = show
        self._begun: dict[bytes, tuple[bytes, bytes]] = {}  # the timestamp and text of each stream's unfinished line

    async def add(self, stream: bytes, stamp: bytes, text: bytes) -> None:
        """Accept text that the container wrote to a stream; show the selected whole lines in it.

        text: whole lines, or part of a line.
        stamp: the time at which the text was written.
        """
        shown = text if self._as_is else self._format_text(stream, stamp, text)
        if shown:
            await self._show(stream, shown)

    async def finish(self) -> None:
        """Show the unfinished lines that are selected, because no more text follows."""
        while self._begun:
            stream, (stamp, line) = self._begun.popitem()
            if shown := self._format_line(stamp, line):
                await self._show(stream, shown)

    def _format_text(self, stream: bytes, stamp: bytes, text: bytes) -> bytes:
        first, begun = self._begun.pop(stream, (stamp, b""))
        *lines, rest = (begun + text).split(b"\n")
        if len(rest) > _LINE_BYTES:
            lines, rest = [*lines, rest], b""
        if rest:
            self._begun[stream] = (stamp if lines else first, rest)
        stamps = [first, *[stamp] * len(lines)]
        return b"".join(map(self._format_line, stamps, lines))

    def _format_line(self, stamp: bytes, line: bytes) -> bytes:
        if not self._matches(line):
            return b""
        return b"%s %s\n" % (stamp, line) if self._stamped else line + b"\n"
