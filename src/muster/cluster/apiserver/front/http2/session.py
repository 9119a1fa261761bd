"""The state of one connection of HTTP/2, pure: received bytes become events, and responses become frames to write.

A session checks the protocol, tracks windows and settings, and answers pings. It runs no request and does no I/O;
`connection` does both.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from muster.cluster.apiserver.front.http2 import frames
from muster.cluster.apiserver.front.http2.bounds import (
    BODY_WINDOW,
    MAX_HEADER_BYTES,
    MAX_HEADERS_BYTES,
    MAX_RESET_RUNNING,
    MAX_STREAMS,
    SMALL_BYTES,
    WINDOW,
    Patience,
)
from muster.cluster.apiserver.front.http2.exchanges import Exchange, Exchanges
from muster.cluster.apiserver.front.http2.frames import DEFAULT_WINDOW, MAX_WINDOW, BadConnection, Code, Frame
from muster.cluster.apiserver.front.http2.headers import Decoder, Field, HeaderError, TooLongError, encode
from muster.cluster.apiserver.front.http2.outgoing import Outgoing
from muster.cluster.apiserver.front.http2.reader import Reader
from muster.cluster.apiserver.front.http2.requests import Head, Malformed, head_of
from muster.cluster.apiserver.front.http2.room import Room

_SETTINGS = {
    frames.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
    frames.INITIAL_WINDOW_SIZE: BODY_WINDOW,
    frames.MAX_HEADER_LIST_SIZE: MAX_HEADER_BYTES,
}
_GREETING = frames.encode_settings(_SETTINGS) + frames.window_update(0, WINDOW - DEFAULT_WINDOW)


class RequestReceived(NamedTuple):
    """The event of a new request. is_over: whether the request has no body; otherwise `DataReceived` follow."""

    stream: int
    head: Head
    is_over: bool


class DataReceived(NamedTuple):
    """The event of a part of a request's body. is_over: whether it is the last part."""

    stream: int
    data: bytes
    is_over: bool


class StreamReset(NamedTuple):
    """The event that the client or the session has reset a stream, so that its request gets no answer."""

    stream: int


Event: TypeAlias = RequestReceived | DataReceived | StreamReset


class Session:
    """The protocol state of one HTTP/2 connection.

    The caller fetches bytes to write with `take`. Once `is_over` is set, the caller writes them and closes the
    connection.
    """

    def __init__(self, now: float) -> None:
        self._decoder = Decoder(MAX_HEADER_BYTES)
        self._patience = Patience(now)
        self._reader = Reader()
        self._exchanges = Exchanges()
        self._outgoing = Outgoing(self._exchanges, self._patience)
        self._room = Room(self._exchanges, self._outgoing)
        self._block: tuple[int, int, bytearray] | None = None  # stream, flags and bytes of an incomplete header list
        self._last = 0  # the newest stream of the client
        self._last_processed = 0  # the newest stream that the session did not ignore
        self._is_set = False  # the client has sent its settings
        self._leaves = False
        # How many requests the application still works on after their streams were reset. The connection counts them.
        self.reset_running = 0
        self.is_over = False
        self._outgoing.frame(_GREETING)

    # -- input

    def receive(self, data: bytes, now: float) -> list[Event]:
        """Process bytes from the client, and return their events.

        A breach of the protocol raises no error: it queues a GOAWAY frame and sets `is_over`.
        """
        events: list[Event] = []
        if self.is_over:
            return events
        try:
            for frame in self._reader.frames(data):
                self._handle_frame(frame, events, now)
        except BadConnection as error:
            self._fail(error.code, str(error))
        return events

    @property
    def in_headers(self) -> int | None:
        """The stream whose header list is incomplete; None if there is none."""
        return self._block[0] if self._block else None

    def _handle_frame(self, frame: Frame, events: list[Event], now: float) -> None:
        if self._block is not None and (frame.type != frames.CONTINUATION or frame.stream != self._block[0]):
            raise BadConnection(Code.PROTOCOL_ERROR, "another frame within a header list")
        if not self._is_set and frame.type != frames.SETTINGS:
            raise BadConnection(Code.PROTOCOL_ERROR, "the first frame has no settings")
        match frame.type:
            case frames.DATA:
                self._on_data(frame, events, now)
            case frames.HEADERS:
                self._on_headers(frame, events, now)
            case frames.WINDOW_UPDATE:
                self._on_window(frame, events, now)
            case frames.RST_STREAM:
                self._on_reset(frame, events, now)
            case frames.SETTINGS:
                self._on_settings(frame, now)
            case frames.PING:
                self._on_ping(frame, now)
            case frames.CONTINUATION:
                self._on_continuation(frame, events, now)
            case _:
                self._on_other(frame, now)

    def _on_other(self, frame: Frame, now: float) -> None:
        """Check a frame that needs no action (PRIORITY, GOAWAY, an extension), and charge the client's patience for it.

        Raises `BadConnection`.
        """
        match frame.type:
            case frames.PUSH_PROMISE:
                raise BadConnection(Code.PROTOCOL_ERROR, "a client does not push")
            case frames.PRIORITY if not frame.stream or len(frame.payload) != frames.PRIORITY_BYTES:
                raise BadConnection(Code.FRAME_SIZE_ERROR if frame.stream else Code.PROTOCOL_ERROR, "no priority")
            case frames.GOAWAY if frame.stream:
                raise BadConnection(Code.PROTOCOL_ERROR, "a good-bye of a stream")
        self._patience.spend(now)

    def _on_data(self, frame: Frame, events: list[Event], now: float) -> None:
        """Handle a DATA frame: check its stream, windows and length, and report the data as an event.

        Bytes that no stream will read are given back to the client's window at once.
        """
        size = len(frame.payload)
        self._room.take(size)
        data = frames.remove_padding(frame)
        stream = self._exchanges.get(frame.stream)
        if stream is None or stream.is_received:
            self._require_started(frame.stream)
            self._room.give_back(size)
            if stream is not None:
                self._drop(frame.stream, Code.STREAM_CLOSED, events)
            return
        stream.may_come -= size
        stream.received_bytes += len(data)
        stream.is_received = bool(frame.flags & frames.END_STREAM)
        if size and stream.may_come < 0:
            self._room.give_back(size)
            self._drop(frame.stream, Code.FLOW_CONTROL_ERROR, events)
        elif stream.length is not None and (
            stream.received_bytes > stream.length or (stream.is_received and stream.received_bytes < stream.length)
        ):
            self._room.give_back(size)
            self._drop(frame.stream, Code.PROTOCOL_ERROR, events)
        else:
            if len(data) < SMALL_BYTES and not stream.is_received:
                self._patience.spend(now)
            if len(data) < size:
                self._room.give_back(size - len(data))  # padding
            events.append(DataReceived(frame.stream, data, stream.is_received))

    def _on_headers(self, frame: Frame, events: list[Event], now: float) -> None:
        if not frame.stream:
            raise BadConnection(Code.PROTOCOL_ERROR, "headers of no stream")
        payload = frames.remove_padding(frame)
        if frame.flags & frames.HAS_PRIORITY:
            if len(payload) < frames.PRIORITY_BYTES:
                raise BadConnection(Code.FRAME_SIZE_ERROR, "a frame of a wrong size")
            payload = payload[frames.PRIORITY_BYTES :]
        self._block = frame.stream, frame.flags, bytearray(payload)
        if frame.flags & frames.END_HEADERS:
            self._process_headers(events, now)

    def _on_continuation(self, frame: Frame, events: list[Event], now: float) -> None:
        if self._block is None:
            raise BadConnection(Code.PROTOCOL_ERROR, "a header list goes on that has not begun")
        self._patience.spend(now)
        block = self._block[2]
        block += frame.payload
        if len(block) > MAX_HEADER_BYTES:
            raise self._make_headers_error(frame.stream, "the headers are too big")
        if frame.flags & frames.END_HEADERS:
            self._process_headers(events, now)

    def _process_headers(self, events: list[Event], now: float) -> None:
        assert self._block is not None
        (number, flags, block), self._block = self._block, None
        try:
            fields = self._decoder.decode(bytes(block))
        except TooLongError as error:
            raise self._make_headers_error(number, str(error)) from None
        except HeaderError as error:
            raise BadConnection(Code.COMPRESSION_ERROR, str(error)) from None
        ends = bool(flags & frames.END_STREAM)
        if number <= self._last:
            self._process_trailers(number, ends, events, now)
            return
        if number % 2 == 0:
            raise BadConnection(Code.PROTOCOL_ERROR, "a stream with a number of ours")
        self._last = number
        if self._leaves:
            return
        self._last_processed = number
        self._start_request(number, fields, ends, events, now)

    def _make_headers_error(self, number: int, text: str) -> BadConnection:
        """Return the error of a header list that is too long, and mark its stream as processed.

        So the client does not retry the request.
        """
        self._last_processed = max(self._last_processed, number)
        return BadConnection(Code.ENHANCE_YOUR_CALM, text)

    def _start_request(self, number: int, fields: list[Field], ends: bool, events: list[Event], now: float) -> None:
        size = self._decoder.size
        if (
            len(self._exchanges) >= MAX_STREAMS
            or self.reset_running >= MAX_RESET_RUNNING
            or self._exchanges.headers_bytes + size > MAX_HEADERS_BYTES
        ):
            self._patience.spend(now)  # the client has got the bound in the settings
            self._reset(number, Code.REFUSED_STREAM)  # this code lets the client retry: nothing was done
            return
        try:
            head = head_of(fields)
            if ends and head.length:
                raise Malformed("a body is announced and there is none")
        except Malformed:
            self._patience.spend(now)
            self._outgoing.frame(frames.encode_reset(number, Code.PROTOCOL_ERROR))
            return
        windows = self._outgoing.first_window, self._room.of_body
        self._exchanges.begin(number, Exchange(*windows, size, head.length, is_received=ends))
        events.append(RequestReceived(number, head, ends))

    def _process_trailers(self, number: int, ends: bool, events: list[Event], now: float) -> None:
        """End a body with trailers, whose content is ignored."""
        stream = self._exchanges.get(number)
        if stream is None:
            self._require_started(number)
            self._patience.spend(now)
            self._outgoing.frame(frames.encode_reset(number, Code.STREAM_CLOSED))  # else the client waits for an answer
        elif not ends or stream.is_received or (stream.length or stream.received_bytes) != stream.received_bytes:
            self._drop(number, Code.STREAM_CLOSED if stream.is_received else Code.PROTOCOL_ERROR, events)
        else:
            stream.is_received = True
            events.append(DataReceived(number, b"", is_over=True))

    def _on_reset(self, frame: Frame, events: list[Event], now: float) -> None:
        frames.number_of(frame.payload)
        if frame.stream in self._exchanges:
            self._patience.spend(now)
            self._outgoing.forget(frame.stream)
            events.append(StreamReset(frame.stream))
        else:
            self._require_started(frame.stream)

    def _on_settings(self, frame: Frame, now: float) -> None:
        if frame.stream:
            raise BadConnection(Code.PROTOCOL_ERROR, "settings of a stream")
        if frame.flags & frames.ACK:
            if frame.payload:
                raise BadConnection(Code.FRAME_SIZE_ERROR, "a frame of a wrong size")
            self._on_settings_acknowledged(now)
            return
        self._patience.spend(now)
        self._is_set = True
        for name, value in dict(frames.settings_of(frame.payload)).items():  # the last of a repeated setting counts
            self._set(name, value, now)
        self._outgoing.frame(frames.encode_head(0, frames.SETTINGS, frames.ACK, 0))

    def _on_settings_acknowledged(self, now: float) -> None:
        if not self._is_set:
            raise BadConnection(Code.PROTOCOL_ERROR, "the first frame has no settings")
        if self._room.is_known:  # the client has acknowledged them before
            self._patience.spend(now)
        else:
            self._room.adopt_window()

    def _set(self, name: int, value: int, now: float) -> None:
        if name == frames.INITIAL_WINDOW_SIZE:
            self._outgoing.set_first_window(value, now)
        elif (name == frames.MAX_FRAME_SIZE and not frames.MAX_FRAME_BYTES <= value < 1 << 24) or (
            name == frames.ENABLE_PUSH and value > 1
        ):
            raise BadConnection(Code.PROTOCOL_ERROR, "a setting out of its range")

    def _on_ping(self, frame: Frame, now: float) -> None:
        if len(frame.payload) != 8:
            raise BadConnection(Code.FRAME_SIZE_ERROR, "a frame of a wrong size")
        if frame.stream:
            raise BadConnection(Code.PROTOCOL_ERROR, "a ping of a stream")
        self._patience.spend(now)
        if not frame.flags & frames.ACK:
            self._outgoing.frame(frames.encode_head(8, frames.PING, frames.ACK, 0), frame.payload)

    def _on_window(self, frame: Frame, events: list[Event], now: float) -> None:
        size = frames.number_of(frame.payload) & MAX_WINDOW
        self._outgoing.charge_window_update(now)
        if frame.stream == 0:
            self._outgoing.widen_window(size)
            return
        stream = self._exchanges.get(frame.stream)
        if stream is None:
            self._require_started(frame.stream)
        elif not size or stream.may_send + size > MAX_WINDOW:
            self._drop(frame.stream, Code.FLOW_CONTROL_ERROR if size else Code.PROTOCOL_ERROR, events)
        else:
            self._outgoing.open(frame.stream, size)

    # -- output

    def answer(self, number: int, status: int, headers: list[Field]) -> None:
        """Queue the status and headers of a response."""
        block = encode([(b":status", b"%d" % status), *headers])
        self._outgoing.frame(frames.encode_headers(number, block, ends=False))

    def send(self, number: int, data: bytes, *, ends: bool) -> int:
        """Add a part of a response, and return how many bytes of the response are unsent.

        Drop the part if the stream has ended.

        ends: whether this is the last part.
        """
        return self._outgoing.send(number, data, ends=ends)

    def count_unsent(self, number: int) -> int:
        """Return how many bytes of a response are unsent."""
        stream = self._exchanges.get(number)
        return stream.unsent_bytes if stream else 0

    def has(self, number: int) -> bool:
        """Return whether a stream is still open in either direction."""
        return number in self._exchanges

    def pump(self, most: int, now: float) -> list[int]:
        """Queue about `most` bytes of responses as frames, and return the streams of the frames.

        The client's windows limit how much is queued.
        """
        progressed: dict[int, None] = {}
        try:
            for number in self._outgoing.pump(most, now):
                progressed[number] = None
        except BadConnection as error:
            self._fail(error.code, str(error))
        return list(progressed)

    def widen_window(self, number: int) -> None:
        """Open a bigger window for the body of a stream that the application starts to read."""
        self._room.widen_window(number)

    def count_read(self, number: int, size: int) -> None:
        """Count `size` bytes of a body as read."""
        self._room.count_read(number, size)

    def break_off(self, number: int, code: Code) -> None:
        """Reset a stream whose response cannot be completed."""
        if number in self._exchanges:
            self._reset(number, code)

    def leave(self) -> None:
        """Accept no more requests. The accepted requests still get their responses."""
        if not self._leaves:
            self._leaves = True
            self._outgoing.frame(frames.go_away(self._last_processed, Code.NO_ERROR))

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress."""
        return not self._exchanges

    @property
    def waiting(self) -> Iterator[int]:
        """The streams with unsent bytes."""
        return self._outgoing.waiting

    def take(self) -> bytes:
        """Return the bytes to write now, and clear them."""
        return self._outgoing.take()

    # -- the end

    def _require_started(self, number: int) -> None:
        """Raise `BadConnection` for a frame of a stream that never started. A frame of an ended stream is harmless."""
        if not number or number > self._last or number % 2 == 0:
            raise BadConnection(Code.PROTOCOL_ERROR, "a frame of a stream that has not begun")

    def _drop(self, number: int, code: Code, events: list[Event]) -> None:
        self._reset(number, code)
        events.append(StreamReset(number))

    def _reset(self, number: int, code: Code) -> None:
        self._outgoing.frame(frames.encode_reset(number, code))
        self._outgoing.forget(number)

    def _fail(self, code: Code, text: str) -> None:
        self.is_over = True
        self._outgoing.frame(frames.go_away(self._last_processed, code, text))
