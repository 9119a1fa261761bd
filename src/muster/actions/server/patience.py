"""Tell the user when a server is slow to respond, so that the user can decide whether to wait."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from muster.runtime.eventloop import call_later
from muster.runtime.transport import Request, Response, Transport

# The user is told if a response takes longer than this number of seconds.
PATIENCE_SECONDS = 5.0


class Patience:
    """A transport that tells the user, once, that a response takes long."""

    def __init__(self, transport: Transport, say: Callable[[str], None]) -> None:
        self._transport = transport
        self._say = say
        self._said = False

    async def request(self, request: Request) -> Response:
        """Forward a request; tell the user if the response takes long. Raises `TransportError`."""
        cancel = call_later(PATIENCE_SECONDS, lambda: self._tell(request))
        try:
            return await self._transport.request(request)
        finally:
            cancel()

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream, without a remark about its duration.

        A stream may be silent for any time, so silence is no sign of a slow server.
        """
        return self._transport.stream(request)

    async def close(self) -> None:
        """Close the inner transport."""
        await self._transport.close()

    def _tell(self, request: Request) -> None:
        if not self._said:
            self._said = True
            limit = f" for {request.timeout_seconds:g} s at most" if request.timeout_seconds is not None else ""
            self._say(f"the server has not answered for {PATIENCE_SECONDS:g} s; waiting{limit}, Ctrl-C to leave")
