"""Select the part of a job's output to show, and format its lines."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from msgspec import Struct

# The maximum length of a line; a longer line is split.
_LINE_BYTES = 1 << 20


class Excerpt(Struct, frozen=True):
    """A selection from a job's output.

    ranks: the workers whose output is shown; all workers if empty.
    tail: how many of each worker's last existing lines are shown; None for all.
    since: the time from which lines are shown.
    matches: returns whether a line is shown.
    stamped: whether the time at which a line was written precedes it.
    """

    ranks: frozenset[str] = frozenset()
    tail: int | None = None
    since: datetime | None = None
    matches: Callable[[bytes], bool] | None = None
    stamped: bool = False

    def has(self, rank: str) -> bool:
        """Return whether the output of this worker is selected."""
        return not self.ranks or rank in self.ranks


# The whole output, unchanged.
WHOLE = Excerpt()


class Lines:
    """The formatter of one container's output: it selects lines and adds their times, as an excerpt says.

    It changes nothing if the excerpt selects whole output.
    """

    def __init__(self, excerpt: Excerpt, show: Callable[[bytes, bytes], Awaitable[None]]) -> None:
        self._matches = excerpt.matches or (lambda _: True)
        self._stamped = excerpt.stamped
        self._as_is = excerpt.matches is None and not excerpt.stamped
        self._show = show
        self._begun: dict[bytes, tuple[bytes, bytes]] = {}  # by stream the time stamp and text of the unfinished line

    async def add(self, stream: bytes, stamp: bytes, text: bytes) -> None:
        """Add text that the container wrote to a stream at a time, and show the selected whole lines in it.

        text: whole lines, or part of a line.
        """
        shown = text if self._as_is else self._format_text(stream, stamp, text)
        if shown:
            await self._show(stream, shown)

    async def finish(self) -> None:
        """Show the unfinished lines that are selected, because nothing follows."""
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
