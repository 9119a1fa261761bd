"""Call the server's pipeline without a socket, by a transport within one event loop. It also works in virtual time."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, ClassVar, TypeVar

from msgspec.structs import replace

from muster.api.kinds import Kind
from muster.api.status import bad_request
from muster.cluster.apiserver.answers import Stream, Tunnel, make_refusal
from muster.cluster.apiserver.identity.users import ADMIN, User
from muster.cluster.apiserver.pipeline import ApiServer
from muster.cluster.apiserver.pods.tunnels.negotiation import UPGRADE_REQUIRED
from muster.cluster.apiserver.pods.tunnels.wire import FAREWELL_SECONDS, Wire
from muster.runtime.client import error_of
from muster.runtime.tasks import cancel
from muster.runtime.transport import Conversation, RawEvent, Request, Response, SilentError, TransportError

T = TypeVar("T")

# The most messages of a conversation that wait for the other side, each way.
_MESSAGES = 4

log = logging.getLogger(__name__)


class InProcessTransport:
    """The transport of one user's requests to a server that runs in this process.

    is_own: whether components of the cluster itself send the requests.
    """

    is_own: ClassVar[bool] = True

    def __init__(self, server: ApiServer, user: User = ADMIN) -> None:
        self._server = server
        self._user = user

    async def request(self, request: Request) -> Response:
        """Return the server's response to a request, whatever its status. A stream is read to its end first.

        Raises `TransportError` if the response takes too long to start.
        """
        # As with a socket, other tasks run before the answer, even if the answer needs no waiting.
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
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Any]]:
        """Yield the body in pieces.

        Raises `ApiError` if the server refuses, `TransportError` if the response takes too long to start.
        """
        answer = await self._handle(request)
        if isinstance(answer, Response):
            if answer.status >= 400:
                raise error_of(answer)
            yield _yield_body(answer.body)
            return
        try:
            yield answer.chunks
        finally:
            await answer.close()

    def follow(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[Sequence[RawEvent]]]:
        """Open a watch as events. Raises the same errors as `stream`."""
        return self.stream(replace(request, as_events=True))

    def decode(self, kind: Kind[T], body: bytes) -> T:
        """Return the object of a body without managedFields. All clients in this process share the object.

        Raises the same errors as `Kind.decode`.
        """
        return self._server.shared.decode(kind, body)

    @asynccontextmanager
    async def converse(self, request: Request, protocol: str) -> AsyncIterator[Conversation]:
        """Yield a conversation with the server, in a subprotocol that the tunnel has. Raises `ApiError` if refused."""
        answer = await self._server.handle(request, self._user, is_own=self.is_own)
        if not isinstance(answer, Tunnel):
            raise error_of(answer) if isinstance(answer, Response) else bad_request("no conversation is held there")
        to_server, to_client = asyncio.Queue[bytes](_MESSAGES), asyncio.Queue[bytes](_MESSAGES)
        task = asyncio.create_task(_hold_conversation(answer, protocol, _End(to_server, to_client)))
        try:
            yield _Caller(to_server, to_client, task)
        finally:
            await _hang_up(to_server, task)
            answer.ended()

    async def close(self) -> None:
        """Do nothing, because there is no connection."""

    async def _handle(self, request: Request) -> Response | Stream:
        seconds = request.timeout_seconds
        try:
            with nullcontext() if seconds is None else self._server.deadlines.within(seconds):
                answer = await self._server.handle(request, self._user, is_own=self.is_own)
        except TimeoutError:
            message = f"{request.method} {request.path}: no answer within {seconds:g} s"
            raise SilentError(message) from None
        return make_refusal(bad_request(UPGRADE_REQUIRED)) if isinstance(answer, Tunnel) else answer


async def _hold_conversation(tunnel: Tunnel, protocol: str, end: Wire) -> None:
    await tunnel.protocols[protocol](end)


class _End:
    """The server's end of a `Conversation`; an empty message from the client closes it."""

    def __init__(self, to_server: asyncio.Queue[bytes], to_client: asyncio.Queue[bytes]) -> None:
        self._to_server = to_server
        self._to_client = to_client

    async def receive(self) -> bytes:
        return await self._to_server.get()

    async def send(self, data: bytes) -> None:
        if data:
            await self._to_client.put(data)

    async def close(self) -> None:
        """Do nothing, because the client is notified when the server's task finishes."""


class _Caller:
    """The client's end of a two-way exchange of messages with a function of the server (`Conversation`)."""

    def __init__(
        self, to_server: asyncio.Queue[bytes], to_client: asyncio.Queue[bytes], task: asyncio.Task[None]
    ) -> None:
        self._to_server = to_server
        self._to_client = to_client
        self._task = task

    async def send(self, message: bytes) -> None:
        if message and not await self._wait_unless_ended(asyncio.ensure_future(self._to_server.put(message))):
            raise TransportError("the server has ended the conversation")

    async def receive(self) -> bytes:
        coming = asyncio.ensure_future(self._to_client.get())
        return coming.result() if await self._wait_unless_ended(coming) else b""

    async def _wait_unless_ended(self, transfer: "asyncio.Future[Any]") -> bool:
        """Wait for a transfer over a queue; cancel it if the server's task ends first. Return whether it is done."""
        try:
            await asyncio.wait({transfer, self._task}, return_when=asyncio.FIRST_COMPLETED)
            return transfer.done()
        finally:
            transfer.cancel()


async def _hang_up(to_server: asyncio.Queue[bytes], task: asyncio.Task[None]) -> None:
    """Close the conversation, after a moment in which the server can receive the earlier messages."""
    closing = asyncio.create_task(to_server.put(b""))
    try:
        await asyncio.wait({task}, timeout=FAREWELL_SECONDS)
    finally:
        await cancel((closing, task))
    if not task.cancelled() and (error := task.exception()) is not None:
        log.debug("a conversation ended: %s", error)


async def _yield_body(body: bytes) -> AsyncIterator[bytes]:
    yield body
