"""Split the output of workers into lines of text."""

from collections.abc import Awaitable, Callable, Sequence

# The maximum length of a line; a longer line is split.
_LINE_BYTES = 1 << 20

# Remarks about missing output appear on stderr, for both streams.
_SAID = b"[muster: "


class Lines:
    """A splitter that passes on each complete line of the workers' output.

    ranks: whether the rank of the worker precedes each line.
    stream: the only stream whose lines are passed on; b"" for both.
    """

    def __init__(self, tell: Callable[[Sequence[str]], Awaitable[None]], *, ranks: bool, stream: bytes = b"") -> None:
        self._tell = tell
        self._ranks = ranks
        self._stream = stream
        self._unended: dict[tuple[str, bytes], bytes] = {}  # the unfinished line of each worker's stream

    async def show(self, rank: str, stream: bytes, text: bytes) -> None:
        """Accept text that a worker has written to a stream, and pass on the completed lines.

        Text of a stream that is not selected is dropped, except Muster's own remarks.
        """
        if self._stream not in (b"", stream) and not text.startswith(_SAID):
            return
        *whole, rest = (self._unended.pop((rank, stream), b"") + text).split(b"\n")
        if len(rest) > _LINE_BYTES:
            whole, rest = [*whole, rest], b""
        if rest:
            self._unended[rank, stream] = rest
        if whole:
            await self._tell([self._format_line(rank, line) for line in whole])

    async def finish(self) -> None:
        """Pass on the unfinished last lines."""
        if self._unended:
            await self._tell([self._format_line(rank, rest) for (rank, _), rest in self._unended.items()])
        self._unended.clear()

    def _format_line(self, rank: str, line: bytes) -> str:
        text = line.decode(errors="replace")
        return f"[{rank}] {text}" if self._ranks else text
