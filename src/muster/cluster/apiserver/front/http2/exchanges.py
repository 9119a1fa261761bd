"""The current requests on one connection of HTTP/2, and the state of their responses."""

from msgspec import Struct, field


class Exchange(Struct):
    """One HTTP/2 request and its response.

    may_send: how many bytes of the response the client's window still allows; negative after the client has shrunk the
    window.
    may_come: how many bytes of the body the server's window still allows.
    headers_bytes: the size of the request's headers, as HPACK counts it.
    length: the length of the body by its headers; None if unknown.
    received_bytes: the bytes of the body that have arrived.
    is_received: whether the whole request has arrived.
    ends: whether the response ends after `unsent`.
    unsent: the part of the response that waits for the window.
    unsent_bytes: the number of bytes in `unsent`.
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

    headers_bytes = 0  # the size of the headers of all exchanges

    def begin(self, number: int, exchange: Exchange) -> None:
        """Add an exchange."""
        self[number] = exchange
        self.headers_bytes += exchange.headers_bytes

    def end(self, number: int) -> None:
        """Remove an exchange if it still exists."""
        exchange = self.pop(number, None)
        if exchange is not None:
            self.headers_bytes -= exchange.headers_bytes
