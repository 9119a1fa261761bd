"""One request on a connection of HTTP/2 and its response: the `Caller`, with the application's `receive` and `send`."""

import asyncio
import logging
from collections import deque
from typing import Any, Protocol

from muster.api.status import bad_request
from muster.cluster.apiserver.front.asgi import EXTENSION, App, Message
from muster.cluster.apiserver.front.connectionlimit import ConnectionSlot
from muster.cluster.apiserver.front.http2.frames import Code
from muster.cluster.apiserver.front.http2.headers import Field
from muster.cluster.apiserver.front.http2.requests import Head
from muster.cluster.apiserver.front.http2.session import RequestReceived, Session
from muster.cluster.apiserver.identity.users import User
from muster.cluster.apiserver.pods.tunnels.negotiation import UPGRADE_REQUIRED
from muster.cluster.apiserver.pods.tunnels.wire import RawWire

HELD_BYTES = 64 * 1024  # while more bytes than this of a response are unsent, the application waits

log = logging.getLogger(__name__)


class StreamConnection(Protocol):
    """The methods of a connection that its streams use."""

    user: User | None
    slot: ConnectionSlot
    session: Session

    def write_soon(self, *numbers: int) -> None:
        """Write at the end of this iteration of the loop. `numbers` are the streams that have new output."""
        ...

    def write(self) -> None:
        """Write to the transport as much as the client's windows and the transport allow."""
        ...

    def done(self, stream: "Stream") -> None:
        """Release a stream whose application has finished."""
        ...

    def break_off(self, stream: "Stream", code: Code) -> None:
        """Break off the response of a stream."""
        ...


class Stream:
    """A request on its connection, from its headers until the application has finished."""

    is_upgrade = False
    is_alone = False
    streaming: "asyncio.Task[Any] | None" = None
    is_endless = False
    task: "asyncio.Task[None]"

    def __init__(self, carrier: StreamConnection, request: RequestReceived) -> None:
        self.number = request.stream
        self.user = carrier.user
        self.slot = carrier.slot
        self.is_gone = False
        self.is_done = False
        self.progressed_at = 0.0  # when the client last took a part of the answer
        self._carrier = carrier
        self._head = request.head
        self._has_body = not request.is_over
        self.is_received = request.is_over  # the whole request has arrived
        self._received: deque[bytes] = deque()
        self._is_read = False
        self._has_begun = False  # whether the response has started
        self._has_ended = False
        self._unsent = 0
        self.held = 0  # bytes of the answer that the application still holds
        self._news: asyncio.Future[None] | None = None  # set while the application waits for the body or the client

    async def run(self, app: App) -> None:
        """Run the application on the request.

        If it fails, answer 500, or reset the stream if the response has started.
        """
        try:
            await app(scope_of(self._head, self, has_body=self._has_body), self.receive, self.send)
            if not self._has_ended and not self.is_gone:
                log.error("a request was left without an answer")
        except Exception:
            log.exception("a request failed")
            await self._fail()
        finally:
            self.is_done = True
            self._drop_body()
            if not self._has_ended and not self.is_gone:
                self._carrier.session.break_off(self.number, Code.INTERNAL_ERROR)
            self._carrier.done(self)

    async def _fail(self) -> None:
        if not self._has_begun:
            await self.send({"type": "http.response.start", "status": 500, "headers": []})
            await self.send({"type": "http.response.body", "body": b"Internal Server Error"})

    # -- for the application

    async def receive(self) -> Message:
        """Return the next part of the body, or `http.disconnect` after the client has gone.

        The first call widens the window of the body, and sends status 100 if the client waits for that.
        """
        session = self._carrier.session
        if not self._is_read:
            self._is_read = True
            session.widen_window(self.number)
            is_awaited = not (self._received or self.is_received or self.is_gone)
            if is_awaited and (b"expect", b"100-continue") in self._head.headers:
                session.answer(self.number, 100, [])
            self._carrier.write_soon()
        while not (self._received or self.is_received or self.is_gone):
            await self._wait()
        if self.is_gone:
            return {"type": "http.disconnect"}
        data = b"".join(self._received)
        self._received.clear()
        session.count_read(self.number, len(data))
        self._carrier.write_soon()
        return {"type": "http.request", "body": data, "more_body": not self.is_received}

    async def send(self, message: Message) -> None:
        """Send the next part of the response, after the client has received most of the previous parts."""
        await self.drain()
        if self.is_gone:
            return
        session = self._carrier.session
        if message["type"] == "http.response.start":
            self._has_begun = True
            session.answer(self.number, message["status"], fields_of(message["headers"]))
            self._carrier.write_soon()
        else:
            self._has_ended = not message.get("more_body", False)
            body = b"" if self._head.method == "HEAD" else message["body"]
            if not session.count_unsent(self.number):
                self.progressed_at = asyncio.get_running_loop().time()  # the client has received all earlier data
            self._unsent = session.send(self.number, body, ends=self._has_ended)
            self._carrier.write_soon(self.number)

    async def answer(self, status: int, headers: list[Field], body: bytes) -> None:
        """Send a whole response with a short body. Its unsent bytes wait for the client's window."""
        if self.is_gone:
            return
        session = self._carrier.session
        self._has_begun = self._has_ended = True
        session.answer(self.number, status, fields_of(headers))
        self.progressed_at = asyncio.get_running_loop().time()  # no data was sent before
        self._unsent = session.send(self.number, b"" if self._head.method == "HEAD" else body, ends=True)
        self._carrier.write_soon(self.number)

    async def drain(self) -> None:
        """Wait until only few bytes of the response are unsent."""
        while self._unsent > HELD_BYTES and not self.is_gone:
            await self._wait()

    def count_held(self, size: int) -> None:
        """Set the number of bytes of the response that the application still holds."""
        self.held = size

    async def _wait(self) -> None:
        self._news = asyncio.get_running_loop().create_future()
        try:
            await self._news
        finally:
            self._news = None

    def break_off(self) -> None:
        """Send the buffered data, and reset the stream, so that the client can tell that the response is incomplete."""
        self._carrier.write()
        self._carrier.break_off(self, Code.INTERNAL_ERROR)

    def leave_http(self, headers: list[Field]) -> RawWire:  # noqa: ARG002
        """Raise `ApiError` (400), because a client that wants another protocol must use HTTP/1.1."""
        raise bad_request(UPGRADE_REQUIRED)

    # -- for the connection

    def add_body(self, data: bytes, *, is_over: bool) -> None:
        """Store a part of the body for the application. is_over: whether it is the last part."""
        self.is_received = is_over
        if self.is_done:
            self._carrier.session.count_read(self.number, len(data))
        elif data:
            self._received.append(data)
        self._wake_reader()

    def set_unsent(self, unsent: int) -> None:
        """Set the number of unsent bytes of the response, and let the application continue if only few are left."""
        self._unsent = unsent
        if unsent <= HELD_BYTES:
            self._wake_reader()

    def end_request(self) -> None:
        """End the request, because the client has reset the stream or disconnected."""
        self.is_gone = True
        self._drop_body()
        self._wake_reader()
        if self.streaming is not None:
            self.streaming.cancel()

    def abort(self) -> None:
        """Break off the response, because the server stops or the client receives it too slowly."""
        self._carrier.break_off(self, Code.CANCEL)

    def _drop_body(self) -> None:
        self._carrier.session.count_read(self.number, sum(map(len, self._received)))
        self._received.clear()

    def _wake_reader(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


def scope_of(head: Head, stream: Stream, *, has_body: bool) -> dict[str, Any]:
    """Return the ASGI scope of a request.

    A body of unknown length gets the header `transfer-encoding: chunked`, as in HTTP/1.1.
    """
    is_chunked = has_body and head.length is None
    return {
        "type": "http",
        "http_version": "2",
        "method": head.method,
        "path": head.path,
        "raw_path": head.raw_path,
        "query_string": head.query,
        "headers": [*head.headers, (b"transfer-encoding", b"chunked")] if is_chunked else head.headers,
        "extensions": {EXTENSION: stream},
    }


def fields_of(headers: list[Field]) -> list[Field]:
    """Return the headers of a response without `connection`, which HTTP/2 forbids."""
    return [field for field in headers if field[0] != b"connection"]
