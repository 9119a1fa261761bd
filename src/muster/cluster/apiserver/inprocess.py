"""The server without a socket: a transport that calls the pipeline in the same loop, in virtual time too."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from muster.api.status import bad_request
from muster.cluster.apiserver.answers import Stream, Tunnel, refusal
from muster.cluster.apiserver.pipeline import ApiServer
from muster.cluster.apiserver.tunnels.negotiation import UPGRADE_REQUIRED
from muster.cluster.apiserver.users import ADMIN, User
from muster.runtime.client import error_of
from muster.runtime.transport import Request, Response, TransportError


class InProcessTransport:
    """Requests of one user to a server in this process."""

    def __init__(self, server: ApiServer, user: User = ADMIN) -> None:
        self._server = server
        self._user = user

    async def request(self, request: Request) -> Response:
        """The answer, whatever its status. Raises `TransportError` if it takes too long."""
        # As over a wire, others get their turn meanwhile, even if the answer is there at once.
        await asyncio.sleep(0)
        answer = await self._handle(request)
        if isinstance(answer, Response):
            return answer
        try:
            body = b"".join([chunk async for chunk in answer.chunks])
        finally:
            await answer.close()
        return Response(answer.status, body, answer.content_type, answer.headers)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """The body as it comes. Raises `ApiError` if the server refuses, `TransportError` if it takes too long."""
        answer = await self._handle(request)
        if isinstance(answer, Response):
            if answer.status >= 400:
                raise error_of(answer)
            yield _one(answer.body)
            return
        try:
            yield answer.chunks
        finally:
            await answer.close()

    async def close(self) -> None:
        """There is nothing to let go of."""

    async def _handle(self, request: Request) -> Response | Stream:
        try:
            async with asyncio.timeout(request.timeout_seconds):
                answer = await self._server.handle(request, self._user)
        except TimeoutError:
            message = f"{request.method} {request.path}: no answer within {request.timeout_seconds:g} s"
            raise TransportError(message) from None
        return refusal(bad_request(UPGRADE_REQUIRED)) if isinstance(answer, Tunnel) else answer


async def _one(body: bytes) -> AsyncIterator[bytes]:
    yield body
