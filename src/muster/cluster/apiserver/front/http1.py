"""HTTP/1.1: uvicorn's protocol, with client certificates, and limits that keep slow or greedy clients short."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from muster.cluster.apiserver.front.asgi import EXTENSION
from muster.cluster.apiserver.front.corked import Corked
from muster.cluster.apiserver.front.crowd import Guest
from muster.cluster.apiserver.front.shared import HEADER_SECONDS, MAX_HEADER_BYTES, Shared, known_by
from muster.cluster.apiserver.front.unsent import BEHIND_BYTES, STALLED_SECONDS
from muster.cluster.apiserver.identity.users import User
from muster.cluster.apiserver.pods.tunnels.wire import RawWire


class Connection(HttpToolsProtocol):
    """One client. It is the `Caller` of its requests."""

    shared: Shared  # given by who makes it, as the next two
    guest: Guest  # what this is to the crowd
    deadline: float  # on the loop's clock: by then the headers of the first request must be there
    user: User | None = None  # whom the client certificate names
    is_upgrade = False  # the request that is under way asks for another protocol than HTTP
    is_alone = True  # one request at a time
    streaming: "asyncio.Task[Any] | None" = None  # what is to be cancelled when the client goes
    is_endless = False  # the answer under way

    _header_bytes = 0  # of a request whose headers are not complete
    _in_headers = False
    _in_request = False  # one whose headers are complete, until it is answered
    _header_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None
    _wire: RawWire | None = None  # once the connection has left HTTP

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has come, and the TLS handshake is over."""
        transport.set_write_buffer_limits(BEHIND_BYTES)
        self._corked = Corked(transport, self._wrote)
        super().connection_made(self._corked)  # type: ignore[arg-type]
        self.guest.leave = transport.abort
        self.user = known_by(transport)
        self._header_timer = self.loop.call_at(self.deadline, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self.shared.left(self)
        self._headers_came()
        self.resume_writing()
        super().connection_lost(exc)
        if self._wire is not None:
            self._wire.end()
        if self.streaming is not None:
            self.streaming.cancel()
        self.shared.unsent.forget(self.transport)
        self._corked.release()

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._wire is not None:
            self._wire.feed(data)
            return
        began_before = self._in_headers
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_headers:
            self._expect_headers()
            if began_before:
                self._count(len(data))
        elif not self._in_request:
            self._expect_headers()  # bytes that are no request yet

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self.scope["extensions"] = {EXTENSION: self}  # type: ignore[dict-item]
        self._header_bytes = 0
        self._in_headers = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of it; what comes after the body (trailers) is none: no proxy in between has looked at that."""
        if not self._in_headers:
            return
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value) + 4  # with the colon and the line end
        if self._header_bytes > MAX_HEADER_BYTES:
            raise ValueError("the headers are too big")  # which the parser makes a bad request

    def on_headers_complete(self) -> None:
        """The request is known, but for its body."""
        self._in_headers, self._in_request = False, True
        self.guest.idle_since = None
        self._headers_came()
        self.is_upgrade = self.parser.should_upgrade()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """The answer is on its way."""
        self._corked.flush()
        self._in_request = bool(self.pipeline)
        if not self._in_request:
            self.guest.idle_since = self.loop.time()
        super().on_response_complete()

    def leave_http(self, headers: list[tuple[bytes, bytes]]) -> RawWire:
        """Agree to another protocol; what comes from now on is for the wire. The caller closes the transport."""
        self._wire = RawWire(self)
        self.cycle.disconnected = True  # uvicorn is to expect no answer
        lines = [b"HTTP/1.1 101 Switching Protocols", *(name + b": " + value for name, value in headers), b"", b""]
        self.transport.write(b"\r\n".join(lines))
        return self._wire

    @property
    def is_gone(self) -> bool:
        """Whether no answer can reach the client any more."""
        return self.transport.is_closing()

    def break_off(self) -> None:
        """Send what there is, and close: the client sees that the answer is not whole."""
        self.transport.close()

    def cut_streams(self) -> None:
        """Cut off what would go on without an end."""
        if self.is_endless:
            self.transport.abort()

    def abort(self) -> None:
        """Close at once."""
        self.transport.abort()

    def write(self, data: bytes) -> None:
        """For the wire: send, or keep for sending."""
        self.transport.write(data)

    async def drained(self) -> None:
        """For the wire: wait until not much is kept."""
        await self.flow.drain()

    def pause(self) -> None:
        """For the wire: let the client wait."""
        self.flow.pause_reading()

    def resume(self) -> None:
        """For the wire: go on."""
        self.flow.resume_reading()

    def pause_writing(self) -> None:
        """The client does not take what it is sent."""
        super().pause_writing()
        # A user who pages through what a command shows may take his time.
        if self._stall_timer is None and self._wire is None:
            self._stall_timer = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It goes on."""
        super().resume_writing()
        self.shared.unsent.forget(self.transport)
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _wrote(self, size: int) -> None:
        if self.flow.write_paused:
            self.shared.unsent.add(self.transport, size)

    def _count(self, size: int) -> None:
        """A header that never ends is not kept: no one else has seen it so far, but the parser holds it."""
        self._header_bytes += size
        if self._header_bytes > MAX_HEADER_BYTES:
            self.send_400_response("Request header fields too large.")

    def _expect_headers(self) -> None:
        if self._header_timer is None:
            self._header_timer = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _headers_came(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None
