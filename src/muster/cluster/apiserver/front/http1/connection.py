"""A connection of HTTP/1.1: reads requests with llhttp, has them answered one after the other, and bounds its client.

Limits hold for slow and greedy clients: time for the headers and between requests, bytes of headers, of a body that is
not read and of an answer that is not taken.
"""

import asyncio
from collections import deque
from urllib.parse import unquote

import httptools

from muster.cluster.apiserver.front.asgi import App
from muster.cluster.apiserver.front.corked import GONE, Corked
from muster.cluster.apiserver.front.crowd import Guest
from muster.cluster.apiserver.front.http1.exchange import UNREAD_BYTES, Exchange, Field
from muster.cluster.apiserver.front.http1.requests import check_framing, split_target
from muster.cluster.apiserver.front.shared import (
    HEADER_SECONDS,
    KEEP_ALIVE_SECONDS,
    MAX_HEADER_BYTES,
    Shared,
    known_by,
)
from muster.cluster.apiserver.front.unsent import BEHIND_BYTES, STALLED_SECONDS, TLS_BYTES
from muster.cluster.apiserver.identity.users import User
from muster.cluster.apiserver.pods.tunnels.wire import HELD_BYTES, RawWire

MAX_PIPELINED = 100  # requests that wait behind the one that is answered; one read can bring thousands

_MALFORMED = b"Invalid HTTP request received."
_TOO_LARGE = b"Request header fields too large."


class Connection(asyncio.Protocol):
    """One client.

    By `deadline`, on the loop's clock, the headers of the first request must be there.
    """

    transport: asyncio.Transport
    user: User | None = None  # whom the client certificate names

    def __init__(self, app: App, shared: Shared, guest: Guest, deadline: float) -> None:
        self.guest = guest
        self._app = app
        self._shared = shared
        self._deadline = deadline
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: list[Field] = []
        self._header_bytes = 0  # of a request: its target, headers and trailers
        self._pending_bytes = 0  # that llhttp has read since it last reported something
        self._in_headers = False
        self._incoming: Exchange | None = None  # whose body is on its way
        self._answering: Exchange | None = None
        self._waiting: deque[Exchange] = deque()  # behind the one that is answered
        self._is_last = False  # no request is taken any more
        self._is_reading = True
        self._is_writable = asyncio.Event()  # the client takes what it is sent
        self._is_writable.set()
        self._behind = 0  # bytes that were written since it does not
        self._held = 0  # bytes of the answer that wait outside
        self._wire: RawWire | None = None  # once the connection has left HTTP
        self._early = b""  # what came between an upgrade that is asked for and the answer
        self._header_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None

    # -- what comes in

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin with a client, after the TLS handshake."""
        transport.set_write_buffer_limits(BEHIND_BYTES)
        self.transport = transport
        self._corked = Corked(transport, self._count_written)
        self.guest.leave = transport.abort
        self.user = known_by(transport)
        self._shared.connections.add(self)
        self._header_timer = self._loop.call_at(self._deadline, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (whatever the reason)
        """End all that the client asked for."""
        self._shared.left(self)
        for timer in (self._header_timer, self._idle_timer):
            if timer is not None:
                timer.cancel()
        self.resume_writing()
        for exchange in (*self._waiting, self._answering):
            if exchange is not None:
                exchange.lose()
        if self._wire is not None:
            self._wire.end()
        # Its TLS buffers are as big as the biggest answer, and this is in a circle that is collected much later.
        self.transport = GONE
        self._corked.release()
        del self._parser

    def data_received(self, data: bytes) -> None:
        """Read what has come."""
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
            # A header, a trailer or the extension of a chunk does not end, and the parser keeps what has come of it.
            self._refuse(_TOO_LARGE)
        elif self._in_headers or (self._answering is None and (was_between or not self._is_between)):
            # The bound holds also for bytes before a request, and for the rest of a body whose answer is over.
            self._start_header_timer()

    def eof_received(self) -> bool:
        """Return whether the connection stays for answers: a client may close its side once it has sent its requests.

        TLS has no such state, and a client that leaves a stream says so in no other way.
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
        """Whether what comes next belongs to a new request."""
        return self._incoming is None or self._incoming.is_read

    def _is_deaf(self) -> bool:
        """Whether nothing that comes from now on belongs to a request."""
        return self._is_last and self._is_between

    def on_message_begin(self) -> None:
        """Begin a request; llhttp calls this and the next five."""
        self._url = b""
        self._headers = []
        self._header_bytes = self._pending_bytes = 0
        self._in_headers = True

    def on_url(self, url: bytes) -> None:
        """Take more of the target."""
        self._count(len(url))
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. Count trailers and ignore them: no proxy before this server has looked at them."""
        self._count(len(name) + len(value) + 4)  # with the colon and the line end
        if self._in_headers:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Have the request answered, or let it wait for its turn; its body is to come."""
        self._in_headers = False
        self._stop_header_timer()
        self._incoming = None
        if self._is_last:
            return
        self.guest.idle_since = None
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
        is_upgrade = parser.should_upgrade()  # then it is not known which protocol the client speaks from now on
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
        """Pass on more of the body."""
        self._pending_bytes = 0
        if self._incoming is not None and not self._incoming.has_ended:
            self._incoming.take_in(body)
            if self._incoming.unread > UNREAD_BYTES:
                self.pace()

    def on_message_complete(self) -> None:
        """Note that all of the request has come."""
        if self._incoming is not None:
            self._incoming.end_request()
        self._stop_header_timer()

    def _count(self, size: int) -> None:
        """Count bytes of a request outside its body."""
        self._header_bytes += size
        self._pending_bytes = 0
        if self._header_bytes > MAX_HEADER_BYTES:
            raise ValueError("the headers are too big")  # which llhttp reports as a malformed request

    def _keep_early(self, data: bytes) -> None:
        self._early += data
        if len(self._early) > HELD_BYTES:
            self.abort()  # it may not go on before it has an answer

    def _refuse(self, text: bytes) -> None:
        """Answer 400, where that is sure to be taken for the answer to this request, and close.

        A request before this one that is whole gets its answer first.
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
        """Read from the client, or let it wait: while requests wait, or a long body is not read."""
        unread = self._incoming.unread if self._incoming is not None else 0
        is_reading = not self._waiting and unread <= UNREAD_BYTES
        if is_reading != self._is_reading:
            self._is_reading = is_reading
            if is_reading:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    # -- the answers

    def _start(self, exchange: Exchange) -> None:
        self._answering = exchange
        task = self._loop.create_task(exchange.run(self._app))
        self._shared.tasks.add(task)
        task.add_done_callback(self._shared.tasks.discard)

    def finish(self) -> None:
        """Go on after a whole answer: with the next request, or waiting for one."""
        exchange = self._answering
        assert exchange is not None, "an answer belongs to a request"
        self._corked.flush()
        self._answering = None
        if not exchange.keeps_alive:
            self.close()
        elif self._waiting:
            self._start(self._waiting.popleft())
        else:
            self.guest.idle_since = self._loop.time()
            if self._idle_timer is None:
                self._idle_timer = self._loop.call_later(KEEP_ALIVE_SECONDS, self._look_whether_idle)
        self.pace()

    def _look_whether_idle(self) -> None:
        self._idle_timer = None
        if self.guest.idle_since is None or self._in_headers:
            return
        end = self.guest.idle_since + KEEP_ALIVE_SECONDS
        if end <= self._loop.time():
            self.close()
        else:
            self._idle_timer = self._loop.call_at(end, self._look_whether_idle)

    def write(self, data: bytes) -> None:
        """Send, together with what else there is to send in this turn of the loop."""
        self._corked.write(data)

    async def drained(self) -> None:
        """Wait until not much is kept for sending."""
        while not self._is_writable.is_set():
            await self._is_writable.wait()

    def pause_writing(self) -> None:
        """Count what the client does not take, and give it a while to go on."""
        self._is_writable.clear()
        # A user who pages through what a command shows may take his time.
        if self._stall_timer is None and self._wire is None:
            self._stall_timer = self._loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the client has taken most of what it was sent."""
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

    def holds(self, size: int) -> None:
        """Count bytes of the answer that wait outside until the client has taken what is before them."""
        self._held = size
        if not self._is_writable.is_set():
            self._tell_unsent()

    def _tell_unsent(self) -> None:
        self._shared.unsent.owes(self.transport, TLS_BYTES + self._behind + self._held, self.guest.owner)

    # -- another protocol

    def leave_http(self) -> RawWire:
        """Hand over the bytes that come from now on."""
        self._wire = wire = RawWire(self)
        if self._early:
            wire.feed(self._early)
            self._early = b""
        return wire

    def pause(self) -> None:
        """Let the client wait, for the wire."""
        self.transport.pause_reading()

    def resume(self) -> None:
        """Read from the client again, for the wire."""
        self.transport.resume_reading()

    # -- how it ends

    @property
    def is_closing(self) -> bool:
        """Whether nothing can be written any more."""
        return self.transport.is_closing()

    @property
    def is_endless(self) -> bool:
        """Whether the answer under way has no end."""
        return self._answering is not None and self._answering.is_endless

    def close(self) -> None:
        """Send what is kept, and close."""
        self._corked.close()

    def shutdown(self) -> None:
        """Take no more requests, and close once the one that is answered now has its answer."""
        self._is_last = True
        if self._answering is None:
            self.close()
        else:
            self._answering.keeps_alive = False
            self._stop_header_timer()  # which would cut it off for headers that nobody reads

    def cut_streams(self) -> None:
        """Cut off an answer that would go on without an end."""
        if self.is_endless:
            self.abort()

    def abort(self) -> None:
        """Close at once."""
        self.transport.abort()
