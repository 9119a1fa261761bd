"""Record what a request has borrowed, such as seats, and give it back at the request's end."""

from collections.abc import Callable
from types import TracebackType
from typing import Self


class Loans:
    """The calls that give back what one request has borrowed. They run in reverse order when the context closes.

    An `ExitStack` does the same and more, and costs a request three times as much.
    """

    __slots__ = ("_returns",)

    def __init__(self) -> None:
        self._returns: list[tuple[Callable[..., object], tuple[object, ...]]] = []

    def callback(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function with these arguments when the context closes."""
        self._returns.append((function, arguments))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._returns:
            function, arguments = self._returns.pop()
            try:
                function(*arguments)
            except BaseException:
                self.__exit__(kind, error, trace)  # the other loans are given back all the same
                raise
