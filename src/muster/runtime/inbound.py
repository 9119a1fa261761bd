"""Describe a request that a server in this process has received, whatever library serves HTTP."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from muster.runtime.transport import Response


class Inbound(Protocol):
    """A received HTTP request. Its body may not have arrived yet.

    path: the decoded path.
    length: the declared length of the body; None if the request declares none.
    """

    path: str
    length: int | None

    async def read(self, most: int, seconds: float) -> bytes:
        """Return the body.

        Raises `ApiError`: 413 for more than `most` bytes, 408 if reading takes longer than `seconds`.
        """
        ...


Handler = Callable[[Inbound], Awaitable[Response]]
"""Answers a request. Raises `ApiError`, which its server makes an answer."""
