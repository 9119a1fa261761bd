"""A connection of HTTP/1.1: it reads requests with llhttp, and runs the application on one after the other.

A connection limits a slow or greedy client by:

- the time for the headers, and the time between two requests,
- the bytes of the headers,
- the bytes of a body that the application has not read, and of a response that the client has not received.
"""

import asyncio
from collections import deque
from urllib.parse import unquote

import httptools

from muster.cluster.apiserver.front.asgi import App
from muster.cluster.apiserver.front.connectionlimit import ConnectionSlot
from muster.cluster.apiserver.front.corkedtransport import GONE, CorkedTransport
from muster.cluster.apiserver.front.http1.exchange import UNREAD_BYTES, Exchange, Field
from muster.cluster.apiserver.front.http1.requests import check_framing, split_target
from muster.cluster.apiserver.front.shared import (
    HEADER_SECONDS,
    KEEP_ALIVE_SECONDS,
    MAX_HEADER_BYTES,
    Shared,
    identify_client,
)
from muster.cluster.apiserver.front.unsent import BEHIND_BYTES, STALLED_SECONDS, TLS_BYTES
from muster.cluster.apiserver.identity.users import User
from muster.cluster.apiserver.pods.tunnels.wire import HELD_BYTES, RawWire

MAX_PIPELINED = 100  # the requests that wait behind the current one; one read can contain thousands

_MALFORMED = b"Invalid HTTP request received."
_TOO_LARGE = b"Request header fields too large."


class Connection(asyncio.Protocol):
    """The server's side of one client's HTTP/1.1 connection.

    deadline: when the headers of the first request must be complete, on the loop's clock.
    """

    transport: asyncio.Transport
    user: User | None = None  # the user that the client certificate names

    def __init__(self, app: App, shared: Shared, slot: ConnectionSlot, deadline: float) -> None:
        self.slot = slot
        self._app = app
        self._shared = shared
        self._deadline = deadline
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: list[Field] = []
        self._header_bytes = 0  # the size of the request's target, headers and trailers
        self._pending_bytes = 0  # read by llhttp since its last event
        self._in_headers = False
        self._incoming: Exchange | None = None  # the request whose body arrives
        self._answering: Exchange | None = None
        self._waiting: deque[Exchange] = deque()  # the requests behind the one under way
        self._is_last = False  # the connection takes no further request
        self._is_reading = True
        self._is_writable = asyncio.Event()  # the client keeps up with the output
        self._is_writable.set()
        self._behind = 0  # bytes written since the client fell behind
        self._held = 0  # bytes of the answer that the application still holds
        self._wire: RawWire | None = None  # set once the connection has left HTTP
        self._early = b""  # bytes that arrived between an upgrade request and its answer
        self._header_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None

    # -- input

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to serve a client, after the TLS handshake."""
        transport.set_write_buffer_limits(BEHIND_BYTES)
        self.transport = transport
        self._corked = CorkedTransport(transport, self._count_written)
        self.slot.close = transport.abort
        self.user = identify_client(transport, self.slot)
        self._shared.connections.add(self)
        self._header_timer = self._loop.call_at(self._deadline, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (whatever the reason)
        """End every request of the client, because the client has disconnected."""
        self._shared.remove_connection(self)
        for timer in (self._header_timer, self._idle_timer):
            if timer is not None:
                timer.cancel()
        self.resume_writing()
        for exchange in (*self._waiting, self._answering):
            if exchange is not None:
                exchange.lose()
        if self._wire is not None:
            self._wire.end()
        # The transport's TLS buffers are big, and the garbage collector would free this connection much later.
        self.transport = GONE
        self._corked.release()
        del self._parser

    def data_received(self, data: bytes) -> None:
        """Pass bytes from the client to the wire (after an upgrade) or to llhttp."""
        if self._wire is not None:
            self._wire.feed(data)
            return
        if self._incoming is not None and self._incoming.is_upgrade and self._incoming.is_read:
            self._keep_early(data)
            return
        if self._is_deaf():
            return
        self._pending_bytes += len(data)
        was_between = self._is_between
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._keep_early(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError:
            if not self._is_deaf():
                self._refuse(_MALFORMED)
            return
        if self._is_deaf():
            return
        if self._header_bytes + self._pending_bytes > MAX_HEADER_BYTES:
            # A header, a trailer or a chunk extension does not end, and llhttp keeps all of its bytes.
            self._refuse(_TOO_LARGE)
        elif self._in_headers or (self._answering is None and (was_between or not self._is_between)):
            # The timer also bounds bytes before a request, and the rest of a body whose answer is over.
            self._start_header_timer()

    def eof_received(self) -> bool:
        """Return whether the connection stays open for responses after the client has closed its sending side.

        Without TLS a client may close its sending side when its requests are complete. With TLS, or during a stream,
        this means that the client has disconnected.
        """
        last = self._waiting[-1] if self._waiting else self._answering
        if last is None or not last.is_read or last.streaming is not None or self._wire is not None:
            return False
        if self.transport.get_extra_info("ssl_object") is not None:
            return False
        self._is_last = True
        last.keeps_alive = False
        self._stop_header_timer()
        return True

    @property
    def _is_between(self) -> bool:
        """Whether the next byte belongs to a new request."""
        return self._incoming is None or self._incoming.is_read

    def _is_deaf(self) -> bool:
        """Return whether no further byte can belong to a request."""
        return self._is_last and self._is_between

    def on_message_begin(self) -> None:
        """Start a request. llhttp calls this method and the next five."""
        self._url = b""
        self._headers = []
        self._header_bytes = self._pending_bytes = 0
        self._in_headers = True

    def on_url(self, url: bytes) -> None:
        """Append a part of the request's target."""
        self._count(len(url))
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header, or count and drop a trailer: no proxy in front of this server has checked trailers."""
        self._count(len(name) + len(value) + 4)  # 4 bytes for the colon, the blank and the line end
        if self._in_headers:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Run the application on the request, or queue it behind the current one. Its body follows."""
        self._in_headers = False
        self._stop_header_timer()
        self._incoming = None
        if self._is_last:
            return
        self.slot.idle_since = None
        parser, version = self._parser, self._parser.get_http_version()
        check_framing(self._headers, version)
        raw_path, query = split_target(self._url)
        path = raw_path.decode("ascii")
        scope = {
            "type": "http",
            "http_version": version,
            "method": parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": self._headers,
        }
        is_upgrade = parser.should_upgrade()  # no request can follow: the protocol of later bytes is unknown
        has_room = len(self._waiting) + 1 < MAX_PIPELINED
        keeps_alive = version != "1.0" and not is_upgrade and has_room and parser.should_keep_alive()
        self._is_last = not keeps_alive
        exchange = Exchange(self, scope, keeps_alive=keeps_alive, is_upgrade=is_upgrade)
        self._incoming = exchange
        if self._answering is None:
            self._start(exchange)
        else:
            self._waiting.append(exchange)
            self.pace()

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body to its exchange."""
        self._pending_bytes = 0
        if self._incoming is not None and not self._incoming.has_ended:
            self._incoming.add_body(body)
            if self._incoming.unread > UNREAD_BYTES:
                self.pace()

    def on_message_complete(self) -> None:
        """Mark the request as complete."""
        if self._incoming is not None:
            self._incoming.end_request()
        self._stop_header_timer()

    def _count(self, size: int) -> None:
        """Count bytes of a request outside its body. Raises `ValueError` if a request has too many."""
        self._header_bytes += size
        self._pending_bytes = 0
        if self._header_bytes > MAX_HEADER_BYTES:
            raise ValueError("the headers are too big")  # llhttp turns it into an `HttpParserError`

    def _keep_early(self, data: bytes) -> None:
        """Keep bytes that a client sends before the response to its upgrade. Abort if there are too many."""
        self._early += data
        if len(self._early) > HELD_BYTES:
            self.abort()  # the client must wait for the answer to its upgrade

    def _refuse(self, text: bytes) -> None:
        """Answer 400 and close the connection.

        If a complete request is in progress, it gets its response first, and the connection closes without the 400. If
        the response to this request has started, the connection closes at once. So no client takes the 400 for another
        response.
        """
        answered, self._incoming = self._answering, None
        if answered is not None and answered.is_read:
            self._waiting.clear()
            self.shutdown()
            return
        self._is_last = True
        if answered is None or not answered.has_begun:
            head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
            self.write(head % len(text) + b"connection: close\r\n\r\n" + text)
        self.close()

    def _start_header_timer(self) -> None:
        if self._header_timer is None:
            self._header_timer = self._loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def pace(self) -> None:
        """Pause reading while requests wait or much of a body is unread, and resume it otherwise."""
        unread = self._incoming.unread if self._incoming is not None else 0
        is_reading = not self._waiting and unread <= UNREAD_BYTES
        if is_reading != self._is_reading:
            self._is_reading = is_reading
            if is_reading:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    # -- answers

    def _start(self, exchange: Exchange) -> None:
        self._answering = exchange
        task = self._loop.create_task(exchange.run(self._app))
        self._shared.tasks.add(task)
        task.add_done_callback(self._shared.tasks.discard)

    def finish(self) -> None:
        """Continue after a complete response: close, start the next request, or wait for one."""
        exchange = self._answering
        assert exchange is not None, "an answer belongs to a request"
        self._corked.flush()
        self._answering = None
        if not exchange.keeps_alive:
            self.close()
        elif self._waiting:
            self._start(self._waiting.popleft())
        else:
            self.slot.idle_since = self._loop.time()
            if self._idle_timer is None:
                self._idle_timer = self._loop.call_later(KEEP_ALIVE_SECONDS, self._close_if_idle)
        self.pace()

    def _close_if_idle(self) -> None:
        self._idle_timer = None
        if self.slot.idle_since is None or self._in_headers:
            return
        end = self.slot.idle_since + KEEP_ALIVE_SECONDS
        if end <= self._loop.time():
            self.close()
        else:
            self._idle_timer = self._loop.call_at(end, self._close_if_idle)

    def write(self, data: bytes) -> None:
        """Send data, together with all other output of this loop iteration."""
        self._corked.write(data)

    def write_last(self, data: bytes) -> None:
        """Send the end of a response, and all output before it."""
        self._corked.write_now(data)

    async def drain(self) -> None:
        """Wait until the client has received most of the output."""
        while not self._is_writable.is_set():
            await self._is_writable.wait()

    def pause_writing(self) -> None:
        """Start to count unsent bytes, and disconnect the client unless it catches up within `STALLED_SECONDS`."""
        self._is_writable.clear()
        # After an upgrade there is no bound: a user may page slowly through the output of a command.
        if self._stall_timer is None and self._wire is None:
            self._stall_timer = self._loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop counting unsent bytes, because the client has caught up."""
        self._is_writable.set()
        self._behind = 0
        self._shared.unsent.forget(self.transport)
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _count_written(self, size: int) -> None:
        if not self._is_writable.is_set():
            self._behind += size
            self._tell_unsent()

    def count_held(self, size: int) -> None:
        """Set the number of bytes of the response that the application still holds."""
        self._held = size
        if not self._is_writable.is_set():
            self._tell_unsent()

    def _tell_unsent(self) -> None:
        self._shared.unsent.set_unsent(self.transport, TLS_BYTES + self._behind + self._held, self.slot.owner)

    # -- another protocol

    def leave_http(self) -> RawWire:
        """Stop parsing HTTP, and return a wire that receives all further bytes from the client."""
        self._wire = wire = RawWire(self)
        if self._early:
            wire.feed(self._early)
            self._early = b""
        return wire

    def pause(self) -> None:
        """Pause reading from the client, for the wire."""
        self.transport.pause_reading()

    def resume(self) -> None:
        """Resume reading from the client, for the wire."""
        self.transport.resume_reading()

    # -- the end

    @property
    def is_closing(self) -> bool:
        """Whether the transport accepts no more output."""
        return self.transport.is_closing()

    @property
    def is_endless(self) -> bool:
        """Whether the current response ends only when the client or the server stops it."""
        return self._answering is not None and self._answering.is_endless

    def close(self) -> None:
        """Send the buffered output, and close."""
        self._corked.close()

    def shutdown(self) -> None:
        """Accept no more requests, and close after the response to the current request."""
        self._is_last = True
        if self._answering is None:
            self.close()
        else:
            self._answering.keeps_alive = False
            self._stop_header_timer()  # headers are no longer read, so their time limit must not cut off the response

    def cut_streams(self) -> None:
        """Break off the current response if it has no end of its own."""
        if self.is_endless:
            self.abort()

    def abort(self) -> None:
        """Close the connection at once."""
        self.transport.abort()
