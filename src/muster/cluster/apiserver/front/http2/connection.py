"""A connection of HTTP/2: the shell between a transport and the pure `Session`.

The connection passes received bytes to the session, and runs the application in a task for each request. It writes the
session's output once in each iteration of the loop. It limits the client in time and memory. The session implements the
protocol.
"""

import asyncio
from collections.abc import Iterable

from muster.cluster.apiserver.front.asgi import App
from muster.cluster.apiserver.front.connectionlimit import ConnectionSlot
from muster.cluster.apiserver.front.corkedtransport import GONE
from muster.cluster.apiserver.front.http2.frames import Code
from muster.cluster.apiserver.front.http2.session import DataReceived, Event, RequestReceived, Session
from muster.cluster.apiserver.front.http2.stream import Stream
from muster.cluster.apiserver.front.shared import HEADER_SECONDS, KEEP_ALIVE_SECONDS, Shared, identify_client
from muster.cluster.apiserver.front.unsent import BEHIND_BYTES, STALLED_SECONDS, TLS_BYTES
from muster.cluster.apiserver.identity.users import User

PART_BYTES = 4 * 1024  # how much input is processed in one step
# One turn of the loop processes at most this much input, and begins at most this many requests. Writes that begin in
# the same turn go to the disk together.
TURN_BYTES = 64 * 1024
TURN_REQUESTS = 32
PIECE_BYTES = 64 * 1024  # the largest write: TLS keeps a buffer as big as the largest write
MAX_BEHIND_BYTES = 1 << 20  # the unsent headers and control frames after which a client that reads nothing is cut off


class Connection(asyncio.Protocol):
    """The server's side of one client's HTTP/2 connection."""

    transport: asyncio.Transport
    user: User | None = None  # the user that the client certificate names

    def __init__(self, app: App, shared: Shared, slot: ConnectionSlot, deadline: float) -> None:
        """Make a connection.

        deadline: when the headers of the first request must be complete, on the loop's clock.
        """
        self.slot = slot
        self.is_paused = False  # the client is behind with reading
        self._app = app
        self._shared = shared
        self._deadline = deadline
        self._loop = asyncio.get_running_loop()
        self.session = Session(self._loop.time())
        self._streams: dict[int, Stream] = {}
        self._touched: dict[int, None] = {}  # streams with new output, or whose application has ended
        self._unread = b""  # received bytes for later turns of the loop
        self._is_due = False  # whether a write is scheduled in this turn
        self._has_request = False
        self._awaited: int | None = 0  # the stream whose headers the timer bounds; 0 for the first request
        self._is_leaving = False
        self._header_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._pause_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to serve a client, after the TLS handshake."""
        transport.set_write_buffer_limits(BEHIND_BYTES)
        self.transport = transport
        self.slot.close = transport.abort
        self.user = identify_client(transport, self.slot)
        self._shared.connections.add(self)
        self._header_timer = self._loop.call_at(self._deadline, transport.abort)
        self.write_soon()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (whatever the reason)
        """End every request of the client, because the client has disconnected."""
        self._shared.remove_connection(self)
        for timer in (self._header_timer, self._idle_timer, self._stall_timer, self._pause_timer):
            if timer is not None:
                timer.cancel()
        self._shared.unsent.forget(self.transport)
        for stream in list(self._streams.values()):
            self._shared.unsent.forget(stream)
            stream.end_request()
        self._streams.clear()
        # The transport's TLS buffers are big, and the garbage collector would free this connection much later.
        self.transport = GONE

    def data_received(self, data: bytes) -> None:
        """Process bytes from the client, a part in each iteration of the loop.

        One read may contain thousands of requests.
        """
        if self._unread:
            self._unread += data
            return
        if self._process(data):
            self.transport.pause_reading()

    def _process_unread(self) -> None:
        data, self._unread = self._unread, b""
        if self.transport.is_closing():
            return
        if not self._process(data):
            self.transport.resume_reading()

    def _process(self, data: bytes) -> bool:
        """Process a limited part of the input, and store the rest for the next loop iteration.

        Return whether there is a rest.
        """
        now, end, processed, begun = self._loop.time(), min(len(data), TURN_BYTES), 0, 0
        while processed < end and begun < TURN_REQUESTS:
            for event in self.session.receive(data[processed : processed + PART_BYTES], now):
                begun += isinstance(event, RequestReceived)
                self._handle_event(event)
            processed += PART_BYTES
        self._unread = data[processed:]
        if self._unread:
            self._loop.call_soon(self._process_unread)
        self._expect_headers()
        self.write_soon()
        return bool(self._unread)

    def _expect_headers(self) -> None:
        """Limit the time of a header list that has started. `connection_made` has limited the first one."""
        begun = self.session.in_headers
        if not self._has_request or begun == self._awaited:
            return
        self._awaited = begun
        if self._header_timer is not None:
            self._header_timer.cancel()
        self._header_timer = self._loop.call_later(HEADER_SECONDS, self.transport.abort) if begun else None

    def _handle_event(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            self._begin(event)
        elif (stream := self._streams.get(event.stream)) is not None:
            if isinstance(event, DataReceived):
                stream.add_body(event.data, is_over=event.is_over)
            else:
                self._end_stream(stream)

    def _begin(self, request: RequestReceived) -> None:
        self._has_request = True
        self.slot.idle_since = None
        stream = Stream(self, request)
        self._streams[stream.number] = stream
        stream.task = task = self._loop.create_task(stream.run(self._app))
        self._shared.tasks.add(task)
        task.add_done_callback(self._shared.tasks.discard)

    def _end_stream(self, stream: Stream) -> None:
        """End the request of a stream that was reset, and count its application as running until it finishes."""
        if not stream.is_gone:
            self.session.reset_running += not stream.is_done
            stream.end_request()
        self._update_unsent((stream.number,))

    def done(self, stream: Stream) -> None:
        """Release a stream whose application has finished."""
        if stream.is_gone:
            self.session.reset_running -= 1
        self._touched[stream.number] = None
        self.write_soon()

    # -- output

    def write_soon(self, *numbers: int) -> None:
        """Write at the end of this iteration of the loop. `numbers` are the streams that have new output."""
        for number in numbers:
            self._touched[number] = None
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self.write)

    def write(self) -> None:
        """Write to the transport until the session has no more output, or the transport closes.

        The session sends responses only within the client's flow-control windows, and none while the transport is
        paused. Acknowledgements and other control frames are sent even then.
        """
        self._is_due = False
        changed = dict(self._touched)
        self._touched.clear()
        now = self._loop.time()
        while not self.transport.is_closing():
            if not self.is_paused:
                for number in self.session.pump(PIECE_BYTES, now):
                    changed[number] = None
                    self._streams[number].progressed_at = now
            data = self.session.take()
            if not data:
                break
            self.transport.write(data)
        self._update_unsent(changed)
        self._close_or_idle()

    def _update_unsent(self, numbers: Iterable[int]) -> None:
        """Tell the streams and `Unsent` how many bytes of each stream are unsent, and drop finished streams."""
        for number in numbers:
            stream = self._streams.get(number)
            if stream is None:
                continue
            unsent = self.session.count_unsent(number)
            stream.set_unsent(unsent)
            self._shared.unsent.set_unsent(stream, unsent and unsent + stream.held, self.slot.owner)
            if stream.is_done and not self.session.has(number):
                self._streams.pop(number, None)  # `Unsent` may have cut the stream off just now
            elif unsent and self._stall_timer is None:
                self._stall_timer = self._loop.call_later(STALLED_SECONDS / 4, self._abort_stalled)

    def _close_or_idle(self) -> None:
        """Close a finished connection, abort one that is too far behind, or start the timer of an idle one."""
        if self.transport.is_closing():
            return
        if self.session.is_over or (self._is_leaving and self.session.is_idle):
            self.transport.close()
        elif self.is_paused and self.transport.get_write_buffer_size() > MAX_BEHIND_BYTES:
            self.transport.abort()
        elif self.session.is_idle and not self._streams and self.slot.idle_since is None:
            self.slot.idle_since = self._loop.time()
            if self._idle_timer is None:
                self._idle_timer = self._loop.call_later(KEEP_ALIVE_SECONDS, self._close_if_idle)

    def _close_if_idle(self) -> None:
        self._idle_timer = None
        if self.slot.idle_since is None:
            return
        end = self.slot.idle_since + KEEP_ALIVE_SECONDS
        if end <= self._loop.time():
            self.shutdown()
        else:
            self._idle_timer = self._loop.call_at(end, self._close_if_idle)

    def _abort_stalled(self) -> None:
        """Break off the responses of which the client has received nothing for `STALLED_SECONDS`."""
        self._stall_timer = None
        before = self._loop.time() - STALLED_SECONDS
        waiting = [self._streams[number] for number in self.session.waiting]
        for stream in waiting:
            if stream.progressed_at <= before:
                stream.abort()
        if waiting and self._stall_timer is None:
            self._stall_timer = self._loop.call_later(STALLED_SECONDS / 4, self._abort_stalled)

    def pause_writing(self) -> None:
        """Stop sending to a client that is behind, and disconnect it unless it catches up within `STALLED_SECONDS`."""
        self.is_paused = True
        self._pause_timer = self._loop.call_later(STALLED_SECONDS, self.transport.abort)
        self._shared.unsent.set_unsent(self.transport, TLS_BYTES, self.slot.owner)

    def resume_writing(self) -> None:
        """Resume sending, because the client has caught up."""
        self.is_paused = False
        self._shared.unsent.forget(self.transport)
        if self._pause_timer is not None:
            self._pause_timer.cancel()
        self.write_soon()

    # -- the end

    def break_off(self, stream: Stream, code: Code) -> None:
        """Break off the response to one request."""
        self.session.break_off(stream.number, code)
        self._end_stream(stream)
        self.write_soon()

    def shutdown(self) -> None:
        """Accept no more requests, and close after the responses to the accepted requests."""
        self._is_leaving = True
        self.session.leave()
        self.write_soon()

    @property
    def is_endless(self) -> bool:
        """Whether there are responses, and none of them has an end of its own."""
        return bool(self._streams) and all(stream.is_endless for stream in self._streams.values())

    def cut_streams(self) -> None:
        """Break off the responses that have no end of their own."""
        for stream in list(self._streams.values()):
            if stream.is_endless:
                stream.abort()

    def abort(self) -> None:
        """Close the connection at once."""
        self.transport.abort()
