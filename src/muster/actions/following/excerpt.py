"""Which part of a job's output is shown, and how its lines look."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

# A line that goes on for longer is taken for several.
_LINE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What is wanted of the output.

    ranks: that of these workers; of all, if it is empty.
    tail: of each worker only so many lines, the last ones, of what there is already; None for all.
    since: only what is not older. matches: only lines of which this is true.
    stamped: each line begins with the time at which it was written.
    """

    ranks: frozenset[str] = frozenset()
    tail: int | None = None
    since: datetime | None = None
    matches: Callable[[bytes], bool] | None = None
    stamped: bool = False

    def has(self, rank: str) -> bool:
        """Whether the output of this worker is wanted."""
        return not self.ranks or rank in self.ranks


# All of it, as it is.
WHOLE = Excerpt()


class Lines:
    """What one container prints, passed on as an excerpt wants it: byte for byte if it wants nothing of lines."""

    def __init__(self, excerpt: Excerpt, show: Callable[[bytes, bytes], Awaitable[None]]) -> None:
        self._matches = excerpt.matches or (lambda _: True)
        self._stamped = excerpt.stamped
        self._as_is = excerpt.matches is None and not excerpt.stamped
        self._show = show
        self._begun: dict[bytes, tuple[bytes, bytes]] = {}  # by stream the line that has no end so far, and its stamp

    async def add(self, stream: bytes, stamp: bytes, text: bytes) -> None:
        """What was written to a stream at that time: whole lines, or part of one."""
        shown = text if self._as_is else self._shaped(stream, stamp, text)
        if shown:
            await self._show(stream, shown)

    async def finish(self) -> None:
        """What has no end has none any more."""
        while self._begun:
            stream, (stamp, line) = self._begun.popitem()
            if shown := self._line(stamp, line):
                await self._show(stream, shown)

    def _shaped(self, stream: bytes, stamp: bytes, text: bytes) -> bytes:
        first, begun = self._begun.pop(stream, (stamp, b""))
        *lines, rest = (begun + text).split(b"\n")
        if len(rest) > _LINE_BYTES:
            lines, rest = [*lines, rest], b""
        if rest:
            self._begun[stream] = (stamp if lines else first, rest)
        stamps = [first, *[stamp] * len(lines)]
        return b"".join(map(self._line, stamps, lines))

    def _line(self, stamp: bytes, line: bytes) -> bytes:
        if not self._matches(line):
            return b""
        return b"%s %s\n" % (stamp, line) if self._stamped else line + b"\n"
