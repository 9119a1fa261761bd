"""Connections to the HTTPS front: uvicorn's HTTP protocol, with what it does not bring: who the client's certificate
names, and limits that keep a slow or greedy client from holding anything for long.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from muster.cluster.apiserver.certificates import user_of_der
from muster.cluster.apiserver.crowd import Crowd, Guest
from muster.cluster.apiserver.tunnels.wire import RawWire
from muster.cluster.apiserver.users import User

CORKED_BYTES = 64 * 1024  # what is more than this is not held back, and written in pieces of this size
MAX_HEADER_BYTES = 64 * 1024  # of a request's line and headers
HEADER_SECONDS = 10.0  # from the first byte to the end of the headers
# A client that takes nothing of its answer for so long is cut off.
STALLED_SECONDS = 60.0
BEHIND_BYTES = 128 * 1024  # with more than this unsent a client is behind, and what it has not taken is counted
MAX_UNSENT_BYTES = 256 << 20  # of all clients that do not take their answers as fast as they come

EXTENSION = "muster.connection"  # where a request's scope has its `Connection`


class _Gone(asyncio.Transport):
    """The transport of a client that has gone: there is nothing more to do with it."""

    def is_closing(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> None:
        """Nobody reads it."""

    def close(self) -> None:
        """It is closed."""

    def abort(self) -> None:
        """It is closed."""

    def resume_reading(self) -> None:
        """There is nothing to read."""

    def pause_reading(self) -> None:
        """There is nothing to read."""


_GONE = _Gone()


class _Corked:
    """A transport that joins what is written in one turn of the loop.

    uvicorn writes the headers and the body of an answer separately; with TLS each write is a record and a system
    call, which together cost more than all the rest of a small answer.
    """

    def __init__(self, transport: asyncio.Transport, written: Callable[[int], None]) -> None:
        """`written` is told of how much was handed on."""
        self._transport = transport
        self._written = written
        self._loop = asyncio.get_running_loop()
        self._pieces: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write now if it is much, else with what else there is to write in this turn."""
        if not self._pieces:
            self._loop.call_soon(self.flush)
        self._pieces.append(data)
        self._size += len(data)
        if self._size > CORKED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what there is."""
        if self._pieces:
            pieces, size, self._pieces, self._size = self._pieces, self._size, [], 0
            if not self._transport.is_closing():
                # No more at once: TLS keeps a buffer as big as the biggest write for as long as the connection lasts.
                whole = memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))
                for first in range(0, size, CORKED_BYTES):
                    self._transport.write(whole[first : first + CORKED_BYTES])
                self._written(size)

    def close(self) -> None:
        """Write what there is, and close."""
        self.flush()
        self._transport.close()

    def release(self) -> None:
        """Let go of the transport: its TLS buffers are as big as the biggest answer, and whoever belongs to the
        connection is in a circle that is collected much later.
        """
        self._transport = _GONE


class Abortable(Protocol):
    """A transport, as far as it is counted."""

    def abort(self) -> None:
        """Close it at once."""
        ...


class Unsent:
    """What all connections together were given to send and have not sent, as far as it is much.

    A connection counts from when its client falls behind until it has caught up. When all together are over the limit,
    the one that has been behind for longest is cut off: the others go on.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[Abortable, int] = {}  # in the order in which they fell behind
        self.total = 0

    def add(self, connection: Abortable, size: int) -> None:
        """So many bytes more wait for this client."""
        self._sizes[connection] = self._sizes.get(connection, 0) + size
        self.total += size
        while self.total > self._limit:
            longest = next(iter(self._sizes))
            self.forget(longest)
            longest.abort()

    def forget(self, connection: Abortable) -> None:
        """Its client has caught up, or is gone."""
        self.total -= self._sizes.pop(connection, 0)


class Connection(HttpToolsProtocol):
    """One client. Its requests find it in `scope["extensions"]`."""

    unsent: Unsent  # all connections', given by who makes them
    crowd: Crowd  # as well
    guest: Guest  # what this is to the crowd
    deadline: float  # on the loop's clock: by then the headers of the first request must be there
    user: User | None = None  # whom the client certificate names
    is_upgrade = False  # the request that is under way asks for another protocol than HTTP
    streaming: "asyncio.Task[Any] | None" = None  # what is to be cancelled when the client goes

    _header_bytes = 0  # of a request whose headers are not complete
    _in_headers = False
    _in_request = False  # one whose headers are complete, until it is answered
    _header_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None
    _wire: RawWire | None = None  # once the connection has left HTTP

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has come, and the TLS handshake is over."""
        transport.set_write_buffer_limits(BEHIND_BYTES)
        self._corked = _Corked(transport, self._wrote)
        super().connection_made(self._corked)  # type: ignore[arg-type]
        self.guest.leave = transport.abort
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        self.user = user_of_der(certificate) if certificate else None
        self._header_timer = self.loop.call_at(self.deadline, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self.crowd.left(self.guest)
        self._headers_came()
        self.resume_writing()
        super().connection_lost(exc)
        if self._wire is not None:
            self._wire.end()
        if self.streaming is not None:
            self.streaming.cancel()
        self.unsent.forget(self.transport)
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
        """A header of it; what comes after the body (trailers) is none: nobody in between has looked at that."""
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
        """Agree to another protocol; what comes from now on is for the wire. Whoever asks closes the transport."""
        self._wire = RawWire(self)
        self.cycle.disconnected = True  # uvicorn is to expect no answer
        lines = [b"HTTP/1.1 101 Switching Protocols", *(name + b": " + value for name, value in headers), b"", b""]
        self.transport.write(b"\r\n".join(lines))
        return self._wire

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
        # Whoever pages through what a command shows may take his time.
        if self._stall_timer is None and self._wire is None:
            self._stall_timer = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It goes on."""
        super().resume_writing()
        self.unsent.forget(self.transport)
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _wrote(self, size: int) -> None:
        if self.flow.write_paused:
            self.unsent.add(self.transport, size)

    def _count(self, size: int) -> None:
        """A header that never ends is not kept: nobody has seen it so far, but the parser holds it."""
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
