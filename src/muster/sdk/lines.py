"""What workers print, as lines of text."""

from collections.abc import Awaitable, Callable, Sequence

# A line that goes on for longer is told in several.
_LINE_BYTES = 1 << 20

# What is said of output that is gone comes on stderr, whichever stream it was of.
_SAID = b"[muster: "


class Lines:
    """Makes lines of what comes, each told once it has ended; with `ranks`, each begins with its worker's.

    stream: the only one whose lines are told; b"" for both.
    """

    def __init__(self, tell: Callable[[Sequence[str]], Awaitable[None]], *, ranks: bool, stream: bytes = b"") -> None:
        self._tell = tell
        self._ranks = ranks
        self._stream = stream
        self._unended: dict[tuple[str, bytes], bytes] = {}  # the last line of a worker's stream

    async def show(self, rank: str, stream: bytes, text: bytes) -> None:
        """Take what a worker has written."""
        if self._stream not in (b"", stream) and not text.startswith(_SAID):
            return
        *whole, rest = (self._unended.pop((rank, stream), b"") + text).split(b"\n")
        if len(rest) > _LINE_BYTES:
            whole, rest = [*whole, rest], b""
        if rest:
            self._unended[rank, stream] = rest
        if whole:
            await self._tell([self._line(rank, line) for line in whole])

    async def finish(self) -> None:
        """Tell the last lines that have no end."""
        if self._unended:
            await self._tell([self._line(rank, rest) for (rank, _), rest in self._unended.items()])
        self._unended.clear()

    def _line(self, rank: str, line: bytes) -> str:
        text = line.decode(errors="replace")
        return f"[{rank}] {text}" if self._ranks else text
