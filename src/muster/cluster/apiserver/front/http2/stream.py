"""One request on a connection of HTTP/2, as the application sees it: its `Caller`, and where its messages go."""

import asyncio
import logging
from collections import deque
from typing import Any, Protocol

from muster.api.status import bad_request
from muster.cluster.apiserver.front.asgi import EXTENSION, App, Message
from muster.cluster.apiserver.front.crowd import Guest
from muster.cluster.apiserver.front.http2.frames import Code
from muster.cluster.apiserver.front.http2.headers import Field
from muster.cluster.apiserver.front.http2.requests import Head
from muster.cluster.apiserver.front.http2.session import Asked, Session
from muster.cluster.apiserver.identity.users import User
from muster.cluster.apiserver.pods.tunnels.negotiation import UPGRADE_REQUIRED
from muster.cluster.apiserver.pods.tunnels.wire import RawWire

HELD_BYTES = 64 * 1024  # of an answer: while more than this waits, the application waits too

log = logging.getLogger(__name__)


class Carrier(Protocol):
    """The connection of a stream."""

    user: User | None
    guest: Guest
    session: Session

    def write_soon(self, *numbers: int) -> None:
        """There is something to write, of these streams."""
        ...

    def write(self) -> None:
        """Write what can be written."""
        ...

    def done(self, stream: "Stream") -> None:
        """The application has ended with it."""
        ...

    def break_off(self, stream: "Stream", code: Code) -> None:
        """Cut it off."""
        ...


class Stream:
    """A request."""

    is_upgrade = False
    is_alone = False
    streaming: "asyncio.Task[Any] | None" = None
    is_endless = False
    task: "asyncio.Task[None]"

    def __init__(self, carrier: Carrier, asked: Asked) -> None:
        self.number = asked.stream
        self.user = carrier.user
        self.guest = carrier.guest
        self.is_gone = False
        self.is_done = False
        self.moved_at = 0.0  # when the client last took something
        self._carrier = carrier
        self._head = asked.head
        self._has_body = not asked.is_over
        self._is_over = asked.is_over  # all of the body has come
        self._came: deque[bytes] = deque()
        self._is_read = False
        self._has_begun = False  # the answer
        self._has_ended = False
        self._unsent = 0
        self.held = 0  # bytes of the answer that wait outside
        self._news: asyncio.Future[None] | None = None  # for who waits, for the body or for what is sent

    async def run(self, app: App) -> None:
        """Have the request answered."""
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
        """More of the body."""
        session = self._carrier.session
        if not self._is_read:
            self._is_read = True
            session.read(self.number)
            is_awaited = not (self._came or self._is_over or self.is_gone)
            if is_awaited and (b"expect", b"100-continue") in self._head.headers:
                session.answer(self.number, 100, [])
            self._carrier.write_soon()
        while not (self._came or self._is_over or self.is_gone):
            await self._wait()
        if self.is_gone:
            return {"type": "http.disconnect"}
        data = b"".join(self._came)
        self._came.clear()
        session.taken(self.number, len(data))
        self._carrier.write_soon()
        return {"type": "http.request", "body": data, "more_body": not self._is_over}

    async def send(self, message: Message) -> None:
        """More of the answer."""
        await self.drained()
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
            if not session.unsent(self.number):
                self.moved_at = asyncio.get_running_loop().time()  # it has taken all there was
            self._unsent = session.send(self.number, body, ends=self._has_ended)
            self._carrier.write_soon(self.number)

    async def drained(self) -> None:
        """Wait until not much is kept for sending."""
        while self._unsent > HELD_BYTES and not self.is_gone:
            await self._wait()

    def holds(self, size: int) -> None:
        """So much of the answer waits outside until the client has taken what is before it."""
        self.held = size

    async def _wait(self) -> None:
        self._news = asyncio.get_running_loop().create_future()
        try:
            await self._news
        finally:
            self._news = None

    def break_off(self) -> None:
        """Send what there is, and let the client see that the answer is not whole."""
        self._carrier.write()
        self._carrier.break_off(self, Code.INTERNAL_ERROR)

    def leave_http(self, headers: list[Field]) -> RawWire:  # noqa: ARG002
        """There is no other protocol on a stream: who wants one comes over HTTP/1.1."""
        raise bad_request(UPGRADE_REQUIRED)

    # -- for the connection

    def came(self, data: bytes, *, is_over: bool) -> None:
        """More of the body is there."""
        self._is_over = is_over
        if self.is_done:
            self._carrier.session.taken(self.number, len(data))
        elif data:
            self._came.append(data)
        self._tell()

    def settle(self, unsent: int) -> None:
        """So much waits to be sent."""
        self._unsent = unsent
        if unsent <= HELD_BYTES:
            self._tell()

    def go(self) -> None:
        """The client wants no answer any more, or is gone."""
        self.is_gone = True
        self._drop_body()
        self._tell()
        if self.streaming is not None:
            self.streaming.cancel()

    def abort(self) -> None:
        """Cut it off: its client takes nothing of it."""
        self._carrier.break_off(self, Code.CANCEL)

    def _drop_body(self) -> None:
        self._carrier.session.taken(self.number, sum(map(len, self._came)))
        self._came.clear()

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


def scope_of(head: Head, stream: Stream, *, has_body: bool) -> dict[str, Any]:
    """The request in the words of ASGI; a body of unknown length is announced as HTTP/1.1 does."""
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
    """What an answer says of itself; nothing is said of the connection."""
    return [field for field in headers if field[0] != b"connection"]
