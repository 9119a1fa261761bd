"""The room for bodies: the windows that the server opens to a client, for the connection and for each stream."""

from muster.cluster.apiserver.front.http2 import frames
from muster.cluster.apiserver.front.http2.bounds import BODY_WINDOW, READ_WINDOW, WINDOW
from muster.cluster.apiserver.front.http2.exchanges import Exchange, Exchanges
from muster.cluster.apiserver.front.http2.frames import DEFAULT_WINDOW, BadConnection, Code
from muster.cluster.apiserver.front.http2.outgoing import Outgoing


class Room:
    """The receive windows of one connection and of its streams."""

    def __init__(self, exchanges: Exchanges, out: Outgoing) -> None:
        self._exchanges = exchanges
        self._out = out
        self._may_come = WINDOW
        self._owed = 0  # the part of `_may_come` that the client has not been granted yet
        # The window of a new stream: the protocol's default until the client acknowledges the server's settings.
        self.of_body = DEFAULT_WINDOW

    @property
    def is_known(self) -> bool:
        """Whether the client has acknowledged the server's settings."""
        return self.of_body == BODY_WINDOW

    def adopt_window(self) -> None:
        """Use the server's own window size for all streams, because the client has acknowledged the settings."""
        for exchange in self._exchanges.values():
            exchange.may_come += BODY_WINDOW - self.of_body
        self.of_body = BODY_WINDOW

    def take(self, size: int) -> None:
        """Count `size` bytes that have arrived. Raises `BadConnection` if they exceed the window of the connection."""
        self._may_come -= size
        if self._may_come < 0:
            raise BadConnection(Code.FLOW_CONTROL_ERROR, "more than the window lets in")

    def give_back(self, size: int) -> None:
        """Count `size` bytes as freed, and widen the window of the connection when that is worth a frame."""
        self._may_come += size
        self._owed += size
        if self._owed >= WINDOW // 8:
            self._out.frame(frames.window_update(0, self._owed))
            self._owed = 0

    def widen_window(self, number: int) -> None:
        """Open a bigger window for the body of a stream that the application starts to read."""
        exchange = self._exchanges.get(number)
        if (
            exchange is not None
            and not exchange.is_received
            and (exchange.length is None or exchange.length > BODY_WINDOW)
        ):
            self._open_window(number, exchange)

    def count_read(self, number: int, size: int) -> None:
        """Count `size` bytes of a body as read, and widen its window again when at least half of it is used."""
        self.give_back(size)
        exchange = self._exchanges.get(number)
        if exchange is not None and not exchange.is_received and exchange.may_come <= READ_WINDOW // 2:
            self._open_window(number, exchange)

    def _open_window(self, number: int, exchange: Exchange) -> None:
        self._out.frame(frames.window_update(number, READ_WINDOW - exchange.may_come))
        exchange.may_come = READ_WINDOW
