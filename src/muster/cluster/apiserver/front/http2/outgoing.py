"""The output of one connection: control frames are sent at once, and responses within the client's windows."""

from collections.abc import Iterator

from muster.cluster.apiserver.front.http2 import frames
from muster.cluster.apiserver.front.http2.bounds import SMALL_BYTES, UPDATE_BYTES, Patience
from muster.cluster.apiserver.front.http2.exchanges import Exchange, Exchanges
from muster.cluster.apiserver.front.http2.frames import DEFAULT_WINDOW, MAX_WINDOW, BadConnection, Code


class Outgoing:
    """The output of one connection that is not written yet. The caller fetches bytes to write with `take`."""

    def __init__(self, exchanges: Exchanges, patience: Patience) -> None:
        self._exchanges = exchanges
        self._patience = patience
        self._written: list[bytes | memoryview] = []
        self._ready: dict[int, None] = {}  # streams that can send within their windows; the next to send comes first
        self._may_send = DEFAULT_WINDOW
        self.first_window = DEFAULT_WINDOW  # the window of a new stream
        self._answered_by = 0  # free window updates, which data that was sent has earned
        self._was_small = False  # whether the window cut the last piece of an answer to less than `SMALL_BYTES`

    def frame(self, *pieces: bytes) -> None:
        """Queue a frame for writing."""
        self._written += pieces

    def take(self) -> bytes:
        """Return the bytes to write now, and clear them."""
        if not self._written:
            return b""
        written, self._written = self._written, []
        return b"".join(written)

    # -- answers

    def send(self, number: int, data: bytes, *, ends: bool) -> int:
        """Add a part of a response, and return how many bytes of the response are unsent.

        Drop the part if the stream has ended.

        ends: whether this is the last part.
        """
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
        """The streams with unsent bytes."""
        return (number for number, exchange in self._exchanges.items() if exchange.unsent_bytes)

    def pump(self, most: int, now: float) -> Iterator[int]:
        """Queue about `most` bytes of responses as frames, within the client's windows; yield the stream of each frame.

        Raises `BadConnection` if the client's windows keep cutting responses into small pieces.
        """
        while self._ready and most > 0:
            number = next(iter(self._ready))
            exchange = self._exchanges[number]
            if exchange.unsent_bytes and self._may_send <= 0:
                break
            del self._ready[number]
            most -= self._queue_frame(number, exchange, now)
            yield number

    def _queue_frame(self, number: int, exchange: Exchange, now: float) -> int:
        """Queue one frame of a response; return how many bytes of the response the frame contains."""
        # The client may have made the window smaller than what was sent already.
        size = max(min(exchange.unsent_bytes, exchange.may_send, self._may_send, frames.MAX_FRAME_BYTES), 0)
        data = _take_first(exchange.unsent, size)
        exchange.unsent_bytes -= size
        exchange.may_send -= size
        self._may_send -= size
        # As often as a client may read of the frame, it opens the windows of the stream and of the connection.
        self._answered_by += 2 * (1 + size // UPDATE_BYTES) if size else 0
        is_last = exchange.ends and not exchange.unsent_bytes
        if size or is_last:
            self._written += [frames.encode_head(size, frames.DATA, frames.END_STREAM if is_last else 0, number), *data]
        if is_last:
            if not exchange.is_received:  # the reset stops the client from sending the rest of the body
                self.frame(frames.encode_reset(number, Code.NO_ERROR))
            self._exchanges.end(number)
        else:
            self._charge_small_piece(size, now, is_cut=bool(exchange.unsent_bytes))
            if exchange.unsent_bytes and exchange.may_send > 0:
                self._ready[number] = None  # behind the others
        return size + frames.HEAD_BYTES

    def _charge_small_piece(self, size: int, now: float, *, is_cut: bool) -> None:
        """Charge the client's patience for two small cut pieces in a row. A single one may be the rest of a window.

        size: the bytes of the piece.
        is_cut: whether the client's window cut it.
        """
        was_small, self._was_small = self._was_small, is_cut and size < SMALL_BYTES
        if was_small and self._was_small:
            self._patience.spend(now)

    def forget(self, number: int) -> None:
        """Drop the unsent output of a stream."""
        self._exchanges.end(number)
        self._ready.pop(number, None)

    # -- windows

    def widen_window(self, size: int) -> None:
        """Widen the window of the connection by `size` bytes. Raises `BadConnection`."""
        self._may_send += size
        if not size or self._may_send > MAX_WINDOW:
            raise BadConnection(Code.FLOW_CONTROL_ERROR if size else Code.PROTOCOL_ERROR, "a window out of range")

    def charge_window_update(self, now: float) -> None:
        """Count a window update: free if sent data justifies it, else charged to the client's patience.

        Raises `BadConnection`.
        """
        if self._answered_by:
            self._answered_by -= 1
        else:
            self._patience.spend(now)

    def open(self, number: int, size: int) -> None:
        """Let a stream send `size` more bytes, or fewer if `size` is negative (flow control).

        Raises `BadConnection`.
        """
        exchange = self._exchanges[number]
        exchange.may_send += size
        if exchange.may_send > MAX_WINDOW:
            raise BadConnection(Code.FLOW_CONTROL_ERROR, "a window out of range")
        if exchange.may_send > 0 and exchange.unsent_bytes:
            self._ready.setdefault(number)

    def set_first_window(self, size: int, now: float) -> None:
        """Set the initial window of new streams, and change the windows of open streams accordingly.

        Raises `BadConnection`.
        """
        if size > MAX_WINDOW:
            raise BadConnection(Code.FLOW_CONTROL_ERROR, "a window that is too large")
        difference, self.first_window = size - self.first_window, size
        self._patience.spend(now, len(self._exchanges) // 50)  # the loop below visits each of them
        for number in self._exchanges:
            self.open(number, difference)


def _take_first(pieces: list[memoryview], size: int) -> list[bytes | memoryview]:
    """Remove `size` bytes from the front of the pieces, and return them."""
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
