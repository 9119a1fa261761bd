"""What is to be sent: frames as they are, and answers as the client's windows let them out."""

from collections.abc import Iterator

from muster.cluster.apiserver.front.http2 import frames
from muster.cluster.apiserver.front.http2.bounds import SMALL_BYTES, Patience
from muster.cluster.apiserver.front.http2.exchanges import Exchange, Exchanges
from muster.cluster.apiserver.front.http2.frames import DEFAULT_WINDOW, MAX_WINDOW, BadConnection, Code


class Outgoing:
    """Of one connection. What is to be written is taken with `take`."""

    def __init__(self, exchanges: Exchanges, patience: Patience) -> None:
        self._exchanges = exchanges
        self._patience = patience
        self._written: list[bytes | memoryview] = []
        self._ready: dict[int, None] = {}  # streams with something unsent that their window lets out, next one first
        self._may_send = DEFAULT_WINDOW
        self.first_window = DEFAULT_WINDOW  # of a stream
        self._answered_by = 0  # windows that it may open, one for the connection and one for the stream of each frame
        self._was_small = False  # the last piece of an answer

    def frame(self, *pieces: bytes) -> None:
        """Send a frame."""
        self._written += pieces

    def take(self) -> bytes:
        """What is to be written now."""
        if not self._written:
            return b""
        written, self._written = self._written, []
        return b"".join(written)

    # -- answers

    def send(self, number: int, data: bytes, *, ends: bool) -> int:
        """More of an answer; returns how much of it waits. What a client that has gone was to get is forgotten."""
        exchange = self._exchanges.get(number)
        if exchange is None:
            return 0
        if data:
            exchange.unsent.append(memoryview(data))
            exchange.unsent_bytes += len(data)
        exchange.ends = ends
        if exchange.may_send > 0 or not exchange.unsent_bytes:
            self._ready[number] = None
        return exchange.unsent_bytes

    @property
    def waiting(self) -> Iterator[int]:
        """The streams with something unsent."""
        return (number for number, exchange in self._exchanges.items() if exchange.unsent_bytes)

    def pump(self, most: int, now: float) -> Iterator[int]:
        """Let out what the windows allow, not much more than so much at once; of which streams it was.

        Raises `BadConnection`.
        """
        while self._ready and most > 0:
            number = next(iter(self._ready))
            exchange = self._exchanges[number]
            if exchange.unsent_bytes and self._may_send <= 0:
                break
            del self._ready[number]
            most -= self._let_out(number, exchange, now)
            yield number

    def _let_out(self, number: int, exchange: Exchange, now: float) -> int:
        """One frame."""
        # The client may have made the window smaller than what was sent already.
        size = max(min(exchange.unsent_bytes, exchange.may_send, self._may_send, frames.MAX_FRAME_BYTES), 0)
        data = _first(exchange.unsent, size)
        exchange.unsent_bytes -= size
        exchange.may_send -= size
        self._may_send -= size
        self._answered_by += 2 if size else 0
        is_last = exchange.ends and not exchange.unsent_bytes
        if size or is_last:
            self._written += [frames.head(size, frames.DATA, frames.END_STREAM if is_last else 0, number), *data]
        if is_last:
            if not exchange.is_asked:  # what it still sends is of no use
                self.frame(frames.reset(number, Code.NO_ERROR))
            self._exchanges.end(number)
        else:
            self._small(size, now, is_cut=bool(exchange.unsent_bytes))
            if exchange.unsent_bytes and exchange.may_send > 0:
                self._ready[number] = None  # behind the others
        return size + frames.HEAD_BYTES

    def _small(self, size: int, now: float, *, is_cut: bool) -> None:
        """What is left of a window may be little, once; but not again and again."""
        was_small, self._was_small = self._was_small, is_cut and size < SMALL_BYTES
        if was_small and self._was_small:
            self._patience.spend(now)

    def forget(self, number: int) -> None:
        """Of this stream nothing more is sent."""
        self._exchanges.end(number)
        self._ready.pop(number, None)

    # -- windows

    def opened(self, size: int) -> None:
        """The client takes so much more, on all streams together. Raises `BadConnection`."""
        self._may_send += size
        if not size or self._may_send > MAX_WINDOW:
            raise BadConnection(Code.FLOW_CONTROL_ERROR if size else Code.PROTOCOL_ERROR, "a window out of range")

    def may_open(self, now: float) -> None:
        """The client opens a window, as it should: what was sent makes room by being taken. Raises `BadConnection`."""
        if self._answered_by:
            self._answered_by -= 1
        else:
            self._patience.spend(now)

    def open(self, number: int, size: int) -> None:
        """The client takes so much more of a stream, or less. Raises `BadConnection`."""
        exchange = self._exchanges[number]
        exchange.may_send += size
        if exchange.may_send > MAX_WINDOW:
            raise BadConnection(Code.FLOW_CONTROL_ERROR, "a window out of range")
        if exchange.may_send > 0 and exchange.unsent_bytes:
            self._ready.setdefault(number)

    def set_first_window(self, size: int, now: float) -> None:
        """So large is the window of every stream to be. Raises `BadConnection`."""
        if size > MAX_WINDOW:
            raise BadConnection(Code.FLOW_CONTROL_ERROR, "a window that is too large")
        difference, self.first_window = size - self.first_window, size
        self._patience.spend(now, len(self._exchanges) // 50)  # each of them has to be told
        for number in self._exchanges:
            self.open(number, difference)


def _first(pieces: list[memoryview], size: int) -> list[bytes | memoryview]:
    """Take so much from the front."""
    taken: list[bytes | memoryview] = []
    used = 0
    for piece in pieces:
        if size <= 0:
            break
        if len(piece) <= size:
            taken.append(piece)
            used += 1
        else:
            taken.append(piece[:size])
            pieces[used] = piece[size:]
        size -= len(piece)
    del pieces[:used]
    return taken
