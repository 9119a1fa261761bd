"""How much of bodies a client may send: the windows that are opened to it."""

from muster.cluster.apiserver.front.http2 import frames
from muster.cluster.apiserver.front.http2.bounds import BODY_WINDOW, READ_WINDOW, WINDOW
from muster.cluster.apiserver.front.http2.exchanges import Exchange, Exchanges
from muster.cluster.apiserver.front.http2.frames import DEFAULT_WINDOW, BadConnection, Code
from muster.cluster.apiserver.front.http2.outgoing import Outgoing


class Room:
    """The windows of one connection, and of its streams."""

    def __init__(self, exchanges: Exchanges, out: Outgoing) -> None:
        self._exchanges = exchanges
        self._out = out
        self._may_come = WINDOW
        self._owed = 0  # of that, what the client does not know yet
        self.of_body = DEFAULT_WINDOW  # at its beginning; until the client has seen our settings

    @property
    def is_known(self) -> bool:
        """Whether the client has seen our settings."""
        return self.of_body == BODY_WINDOW

    def learned(self) -> None:
        """The client has seen our settings."""
        for exchange in self._exchanges.values():
            exchange.may_come += BODY_WINDOW - self.of_body
        self.of_body = BODY_WINDOW

    def take(self, size: int) -> None:
        """So much has come. Raises `BadConnection`."""
        self._may_come -= size
        if self._may_come < 0:
            raise BadConnection(Code.FLOW_CONTROL_ERROR, "more than the window lets in")

    def give_back(self, size: int) -> None:
        """So much of what has come is not kept any more."""
        self._may_come += size
        self._owed += size
        if self._owed >= WINDOW // 8:
            self._out.frame(frames.window_update(0, self._owed))
            self._owed = 0

    def read(self, number: int) -> None:
        """The body of this request is read from now on: let more of it come at a time."""
        exchange = self._exchanges.get(number)
        if (
            exchange is not None
            and not exchange.is_asked
            and (exchange.length is None or exchange.length > BODY_WINDOW)
        ):
            self._let_in(number, exchange)

    def taken(self, number: int, size: int) -> None:
        """So much of this body was read."""
        self.give_back(size)
        exchange = self._exchanges.get(number)
        if exchange is not None and not exchange.is_asked and exchange.may_come <= READ_WINDOW // 2:
            self._let_in(number, exchange)

    def _let_in(self, number: int, exchange: Exchange) -> None:
        self._out.frame(frames.window_update(number, READ_WINDOW - exchange.may_come))
        exchange.may_come = READ_WINDOW
