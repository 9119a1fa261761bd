"""The requests under way on one connection of HTTP/2, and the state of their answers."""

from msgspec import Struct, field


class Exchange(Struct):
    """One HTTP/2 request and its answer.

    may_send: bytes of the answer that the client's window still takes; below 0 after the client has shrunk the window.
    may_come: bytes of the body that the server's window still takes.
    length: length of the body by its headers, or None.
    received_bytes: bytes of the body that have arrived.
    is_received: whether the whole request has arrived.
    ends: whether the answer ends after `unsent`.
    unsent: the part of the answer that waits for the window.
    """

    may_send: int
    may_come: int
    headers_bytes: int
    length: int | None = None
    received_bytes: int = 0
    is_received: bool = False
    ends: bool = False
    unsent: list[memoryview] = field(default_factory=list)
    unsent_bytes: int = 0


class Exchanges(dict[int, Exchange]):
    """The exchanges of one connection, by the numbers of their streams."""

    headers_bytes = 0  # of all exchanges

    def begin(self, number: int, exchange: Exchange) -> None:
        """Add an exchange."""
        self[number] = exchange
        self.headers_bytes += exchange.headers_bytes

    def end(self, number: int) -> None:
        """Remove an exchange if it is still there."""
        exchange = self.pop(number, None)
        if exchange is not None:
            self.headers_bytes -= exchange.headers_bytes
