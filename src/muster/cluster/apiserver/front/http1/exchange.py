"""One request on a connection of HTTP/1.1, and its response: the `Caller`, with the ASGI calls `receive` and `send`."""

import asyncio
import logging
from http import HTTPStatus
from typing import Any, Protocol

from muster.cluster.apiserver.front.asgi import EXTENSION, App, Message
from muster.cluster.apiserver.front.connectionlimit import ConnectionSlot
from muster.cluster.apiserver.identity.users import User
from muster.cluster.apiserver.pods.tunnels.wire import RawWire

UNREAD_BYTES = 64 * 1024  # the most unread bytes of a body; beyond it the client must wait

Field = tuple[bytes, bytes]

log = logging.getLogger(__name__)

_NO_BODY = frozenset({204, 304})
_STATUS_LINES = {status.value: b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}


class ExchangeConnection(Protocol):
    """The methods of a connection that its exchanges use."""

    user: User | None
    slot: ConnectionSlot

    @property
    def is_closing(self) -> bool:
        """Whether the transport accepts no more output."""
        ...

    def write(self, data: bytes) -> None:
        """Send data, or buffer it for sending."""
        ...

    def write_last(self, data: bytes) -> None:
        """Send the end of a response, and all buffered data."""
        ...

    async def drain(self) -> None:
        """Wait until little is left to send."""
        ...

    def count_held(self, size: int) -> None:
        """Set the number of bytes of the response that the application still holds."""
        ...

    def pace(self) -> None:
        """Pause or resume reading, depending on how much of the client's input is unread."""
        ...

    def finish(self) -> None:
        """Continue after a complete response."""
        ...

    def close(self) -> None:
        """Send the buffered data, and close."""
        ...

    def leave_http(self) -> RawWire:
        """Return a wire that receives all later bytes of the connection."""
        ...


class Exchange:
    """One HTTP/1.1 request and its response.

    keeps_alive: whether the connection takes another request afterwards.
    unread: bytes of the body that have arrived and that the application has not read.
    is_read: whether the whole request has arrived.
    has_begun, has_ended: whether the response has started, and whether it is complete.
    """

    is_alone = True
    streaming: "asyncio.Task[Any] | None" = None
    is_endless = False

    def __init__(
        self, carrier: ExchangeConnection, scope: dict[str, Any], *, keeps_alive: bool, is_upgrade: bool
    ) -> None:
        self.user = carrier.user
        self.slot = carrier.slot
        self.is_upgrade = is_upgrade
        self.keeps_alive = keeps_alive
        self.scope = scope
        self.unread = 0
        self.is_read = False
        self.has_begun = False
        self.has_ended = False
        self._carrier = carrier
        self._is_awaited = False  # the application has started to read the body
        self._pieces: list[bytes] = []
        self._is_lost = False
        self._is_chunked = True
        self._bytes_left = 0  # what remains of a response; -1 if it ends with the connection
        self._news: asyncio.Future[None] | None = None  # set while the application waits for the body
        scope["extensions"] = {EXTENSION: self}

    async def run(self, app: App) -> None:
        """Run the application on the request.

        If it fails, answer 500, or close the connection if the response has started.
        """
        try:
            await app(self.scope, self.receive, self.send)
            if not self.has_ended and not self.is_gone:
                log.error("a request was left without an answer")
        except Exception:
            log.exception("a request failed")
            if not self.has_begun:
                await self._fail()
        finally:
            if not self.has_ended:
                self._carrier.close()

    async def _fail(self) -> None:
        text = b"Internal Server Error"
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(text)), (b"connection", b"close")]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": text})

    # -- for the application

    async def receive(self) -> Message:
        """Return the next part of the body, or `http.disconnect` after the client has gone or the response is complete.

        The first call sends `100 Continue` if the client waits for that.
        """
        if not self._is_awaited:
            self._is_awaited = True
            if self._expects_continue():
                self._carrier.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not (self._pieces or self.is_read or self._is_lost):
            self._news = asyncio.get_running_loop().create_future()
            try:
                await self._news
            finally:
                self._news = None
        if self._is_lost or self.has_ended:
            return {"type": "http.disconnect"}
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self.unread = 0
        self._carrier.pace()
        return {"type": "http.request", "body": body, "more_body": not self.is_read}

    def _expects_continue(self) -> bool:
        """Return whether the client sends the body only after the server asks for it."""
        if self.is_read or self._pieces or self.has_begun or self.is_gone or self.scope["http_version"] == "1.0":
            return False
        return any(name == b"expect" and value.lower() == b"100-continue" for name, value in self.scope["headers"])

    async def send(self, message: Message) -> None:
        """Send the next part of the response, after the client has received most of the previous parts."""
        await self._carrier.drain()
        if self.is_gone:
            return
        if message["type"] == "http.response.start":
            self._begin(message["status"], message["headers"])
        else:
            self._continue(message["body"], is_last=not message.get("more_body", False))

    async def answer(self, status: int, headers: list[Field], body: bytes) -> None:
        """Send a whole response with a short body, after the client has received most of the output before it."""
        await self._carrier.drain()
        if self.is_gone:
            return
        head = self._make_head(status, headers)
        if self.scope["method"] == "HEAD":
            body = b""
        assert self._bytes_left == len(body), "an answer has another length than it says"
        self.has_begun = True
        self._carrier.write_last(head + body)
        self._end()

    def _begin(self, status: int, headers: list[Field]) -> None:
        head = self._make_head(status, headers)
        self.has_begun = True
        self._carrier.write(head)

    def _make_head(self, status: int, headers: list[Field]) -> bytes:
        """Return the status line and headers of the response.

        Also record how the body ends (its length, chunks, or the end of the connection) and whether the connection
        stays open, because the headers decide both.
        """
        lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
        says_close = False
        for name, value in headers:
            if name == b"content-length":
                self._is_chunked, self._bytes_left = False, int(value)
            elif name == b"connection" and value == b"close":
                self.keeps_alive, says_close = False, True
            lines.append(b"%b: %b\r\n" % (name, value))
        if not self.keeps_alive and not says_close:
            lines.append(b"connection: close\r\n")
        if self.scope["method"] == "HEAD" or status in _NO_BODY:
            self._is_chunked, self._bytes_left = False, 0
        elif self._is_chunked:
            if self.scope["http_version"] == "1.0":
                self._is_chunked, self._bytes_left = False, -1  # the end of the connection ends the answer
            else:
                lines.append(b"transfer-encoding: chunked\r\n")
        head = b"".join(lines)
        if not head.count(b"\r") == head.count(b"\n") == len(lines) or b"\0" in head:
            raise ValueError("a header of an answer has a line end in it")
        return head + b"\r\n"

    def _continue(self, body: bytes, *, is_last: bool) -> None:
        if self.scope["method"] == "HEAD":
            body = b""
        if self._is_chunked:
            end = b"0\r\n\r\n" if is_last else b""
            if body:
                self._carrier.write(b"%x\r\n%b\r\n%b" % (len(body), body, end))
            elif end:
                self._carrier.write(end)
        else:
            if self._bytes_left >= 0:
                self._bytes_left -= len(body)
                assert self._bytes_left >= 0, "an answer is longer than it says"
                assert self._bytes_left == 0 or not is_last, "an answer is shorter than it says"
            if body:
                self._carrier.write(body)
        if is_last:
            self._end()

    def _end(self) -> None:
        """End the exchange after its complete response. The connection continues with the next request."""
        self.has_ended = True
        self._pieces.clear()  # the application does not read the rest of the body
        self.unread = 0
        self._wake_reader()
        self._carrier.finish()

    @property
    def is_received(self) -> bool:
        """Whether the whole request has arrived, including its body."""
        return self.is_read

    @property
    def is_gone(self) -> bool:
        """Whether no response can reach the client any more."""
        return self._is_lost or self._carrier.is_closing

    async def drain(self) -> None:
        """Wait until little is left to send."""
        await self._carrier.drain()

    def count_held(self, size: int) -> None:
        """Set the number of bytes of the response that the application still holds."""
        self._carrier.count_held(size)

    def break_off(self) -> None:
        """Send the buffered data, and close, so that the client can tell that the response is incomplete."""
        self._carrier.close()

    def leave_http(self, headers: list[Field]) -> RawWire:
        """Send a 101 response, and return the wire for all later bytes. The caller calls `break_off` at the end."""
        lines = [b"HTTP/1.1 101 Switching Protocols", *(name + b": " + value for name, value in headers), b"", b""]
        self.has_begun = True
        self._carrier.write(b"\r\n".join(lines))
        return self._carrier.leave_http()

    # -- for the connection

    def add_body(self, data: bytes) -> None:
        """Store a part of the body until the application reads it."""
        self._pieces.append(data)
        self.unread += len(data)
        self._wake_reader()

    def end_request(self) -> None:
        """Mark the request as complete."""
        self.is_read = True
        self._wake_reader()

    def lose(self) -> None:
        """End the request, because the client has disconnected."""
        self._is_lost = True
        self._wake_reader()
        if self.streaming is not None:
            self.streaming.cancel()

    def _wake_reader(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
