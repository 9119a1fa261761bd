"""The requests that are under way on one connection, and their answers."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Exchange:
    """One request and its answer.

    may_send: what the client takes. unsent: what waits for that; `ends`: and then it is the end.
    may_come: what we take. length: what the body is to have, as far as that is known.
    """

    may_send: int
    may_come: int
    headers_bytes: int
    length: int | None = None
    came: int = 0
    is_asked: bool = False  # all of the request has come
    ends: bool = False
    unsent: list[memoryview] = field(default_factory=list)
    unsent_bytes: int = 0


class Exchanges(dict[int, Exchange]):
    """By the number of their streams."""

    headers_bytes = 0  # of all

    def begin(self, number: int, exchange: Exchange) -> None:
        """One more."""
        self[number] = exchange
        self.headers_bytes += exchange.headers_bytes

    def end(self, number: int) -> None:
        """It is over, if it was not before."""
        exchange = self.pop(number, None)
        if exchange is not None:
            self.headers_bytes -= exchange.headers_bytes
