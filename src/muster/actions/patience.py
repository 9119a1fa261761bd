"""Tells the user that a server takes long to answer: without a word there is no telling whether to wait."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from muster.runtime.transport import Request, Response, Transport

# An answer that takes longer is talked about.
PATIENCE_SECONDS = 5.0


class Patience:
    """A transport whose user hears, once, that an answer is waited for."""

    def __init__(self, transport: Transport, say: Callable[[str], None]) -> None:
        self._transport = transport
        self._say = say
        self._said = False

    async def request(self, request: Request) -> Response:
        """The answer of the transport behind."""
        waiting = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._tell, request)
        try:
            return await self._transport.request(request)
        finally:
            waiting.cancel()

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The stream of the transport behind; it may be silent for as long as it likes."""
        return self._transport.stream(request)

    async def close(self) -> None:
        """Close the transport behind."""
        await self._transport.close()

    def _tell(self, request: Request) -> None:
        if not self._said:
            self._said = True
            limit = f" for {request.timeout_seconds:g} s at most" if request.timeout_seconds is not None else ""
            self._say(f"the server has not answered for {PATIENCE_SECONDS:g} s; waiting{limit}, Ctrl-C to leave")
