"""Follow a server whose address changes. An embedded cluster with `--port 0` has a new port after each start."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeVar

from muster.runtime.transport import Conversation, Request, Response, Transport, TransportError, Tunnels

S = TypeVar("S")


class Reaching(Transport, Tunnels, Protocol):
    """A transport for requests that can also open tunnels."""


class Relocating(Generic[S]):
    """A transport that looks up its server's address again after its connection has failed.

    make: returns a transport to a server.
    locate: returns the current address of the server; None while it is unknown.

    The transport retries no request, because only the caller knows which requests may be retried.
    """

    def __init__(self, make: Callable[[S], Reaching], server: S, locate: Callable[[], S | None]) -> None:
        self._make = make
        self._server = server
        self._locate = locate
        self._transports = [make(server)]
        self._broken = False

    async def request(self, request: Request) -> Response:
        """Forward a request to the current server.

        Raises `TransportError`. The next request then looks up the server's address again.
        """
        try:
            return await self._find_current().request(request)
        except TransportError:
            self._broken = True
            raise

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a stream from the current server.

        Raises `TransportError`. The next request then looks up the server's address again.
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

        Raises `TransportError`. The next request then looks up the server's address again.
        """
        try:
            async with self._find_current().converse(request, protocol) as conversation:
                yield conversation
        except TransportError:
            self._broken = True
            raise

    async def close(self) -> None:
        """Close the transports to all servers, current and earlier."""
        for transport in self._transports:
            await transport.close()

    def _find_current(self) -> Reaching:
        """Return the transport to the current server. Its address is looked up again if a connection has failed.

        Open streams of earlier transports continue.
        """
        if self._broken:
            self._broken = False
            server = self._locate()
            if server is not None and server != self._server:
                self._transports.append(self._make(server))
                self._server = server
        return self._transports[-1]
