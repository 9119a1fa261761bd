"""Follow a server whose address changes: an embedded cluster with `--port 0` has a new port after each start."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeVar

from muster.runtime.transport import Conversation, Request, Response, Transport, TransportError, Tunnels

S = TypeVar("S")


class Reaching(Transport, Tunnels, Protocol):
    """A transport for requests that can also open tunnels."""


class Relocating(Generic[S]):
    """A transport that looks up its server again after its connection has broken.

    make: returns the transport to a server.
    locate: returns the current server; None while that is unknown.
    The transport repeats no request, because only the caller knows which requests may be repeated.
    """

    def __init__(self, make: Callable[[S], Reaching], server: S, locate: Callable[[], S | None]) -> None:
        self._make = make
        self._server = server
        self._locate = locate
        self._transports = [make(server)]
        self._broken = False

    async def request(self, request: Request) -> Response:
        """Return the response of the current server.

        Raises `TransportError`; the next request then looks the server up again.
        """
        try:
            return await self._find_current().request(request)
        except TransportError:
            self._broken = True
            raise

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a stream of the current server.

        Raises `TransportError`; the next request then looks the server up again.
        """
        try:
            async with self._find_current().stream(request) as chunks:
                yield chunks
        except TransportError:
            self._broken = True
            raise

    @asynccontextmanager
    async def converse(self, request: Request, protocol: str) -> AsyncIterator[Conversation]:
        """Open a conversation with the current server.

        Raises `TransportError`; the next request then looks the server up again.
        """
        try:
            async with self._find_current().converse(request, protocol) as conversation:
                yield conversation
        except TransportError:
            self._broken = True
            raise

    async def close(self) -> None:
        """Close the transports to all servers."""
        for transport in self._transports:
            await transport.close()

    def _find_current(self) -> Reaching:
        """Return the transport to the current server, which is looked up again if a connection has broken.

        Streams over earlier transports continue.
        """
        if self._broken:
            self._broken = False
            server = self._locate()
            if server is not None and server != self._server:
                self._transports.append(self._make(server))
                self._server = server
        return self._transports[-1]
