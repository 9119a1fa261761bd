"""The state of one connection: what has come is told as events, what is to be sent waits for windows. Pure.

What a client can have done or kept for it is bounded: streams at once; headers; what has come of bodies and is not
read, by the windows that are opened to it; and, by our *patience*, what costs it nothing to send.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from muster.cluster.apiserver.front.http2 import frames
from muster.cluster.apiserver.front.http2.frames import MAX_WINDOW, BadConnection, Code, Frame
from muster.cluster.apiserver.front.http2.headers import Decoder, Field, HeaderError, TooLongError, encode
from muster.cluster.apiserver.front.http2.patience import Patience
from muster.cluster.apiserver.front.http2.requests import Head, Malformed, head_of

# At once. kube-apiserver has 250; but programs in Go begin another connection for each request beyond it, and a TLS
# handshake costs more than what most requests ask for.
MAX_STREAMS = 5_000
MAX_GIVEN_UP = 250  # requests that are worked on though the client has given them up
MAX_HEADER_BYTES = 64 * 1024  # of a request
MAX_HEADERS_BYTES = 16 << 20  # of all that are under way
# Of a body that the application has not asked for yet; those that are read get more.
BODY_WINDOW = 16 * 1024
READ_WINDOW = 256 * 1024
# Of all bodies: those that wait never keep those that are read from coming.
WINDOW = MAX_STREAMS * BODY_WINDOW + (4 << 20)
SMALL_BYTES = 256  # a client that lets a long answer out in smaller pieces costs more than it is worth

_SETTINGS = {
    frames.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
    frames.INITIAL_WINDOW_SIZE: BODY_WINDOW,
    frames.MAX_HEADER_LIST_SIZE: MAX_HEADER_BYTES,
}
_DEFAULT_WINDOW = 65_535
_GREETING = frames.settings(_SETTINGS) + frames.window_update(0, WINDOW - _DEFAULT_WINDOW)


class Asked(NamedTuple):
    """A request has come, but for its body."""

    stream: int
    head: Head
    is_over: bool  # there is no body


class Came(NamedTuple):
    """More of a body."""

    stream: int
    data: bytes
    is_over: bool


class GaveUp(NamedTuple):
    """The client wants no answer any more."""

    stream: int


Event: TypeAlias = Asked | Came | GaveUp


@dataclass(slots=True)
class _Stream:
    """One request and its answer.

    may_send: what the client takes. unsent: what waits for that; `ends`: and then it is the end.
    may_come: what we take. length: what the body is to have, as far as that is known.
    """

    may_send: int
    may_come: int
    headers_bytes: int
    length: int | None = None
    came: int = 0
    is_asked: bool = False  # all of the request has come
    ends: bool = False
    unsent: list[memoryview] = field(default_factory=list)
    unsent_bytes: int = 0


class Session:
    """One connection. What is to be written is taken with `take`; once it `is_over`, nothing comes after that."""

    def __init__(self, now: float) -> None:
        self._decoder = Decoder(MAX_HEADER_BYTES)
        self._patience = Patience(now)
        self._streams: dict[int, _Stream] = {}
        self._ready: dict[int, None] = {}  # streams with something unsent that their window lets out, next one first
        self._buffer = b""
        self._block: tuple[int, int, bytearray] | None = None  # of headers that go on: stream, flags
        self._last = 0  # the newest stream of the client's
        self._looked_at = 0  # the newest that was not too late
        self._may_send = _DEFAULT_WINDOW
        self._first_window = _DEFAULT_WINDOW
        self._may_come = WINDOW
        self._body_window = _DEFAULT_WINDOW  # until the client has seen our settings
        self._out: list[bytes | memoryview] = [
            frames.settings(_SETTINGS),
            frames.window_update(0, WINDOW - _DEFAULT_WINDOW),
        ]
        self._is_greeted = False  # the client has sent its preface
        self._is_set = False  # and its settings
        self._leaves = False
        self._headers_bytes = 0
        self._owed = 0  # of our window, which the client does not know yet
        self._answered_by = 0  # windows that it may open, one for the connection and one for the stream of each frame
        self._was_small = False  # the last piece of an answer
        # Requests that the client has given up and that are still worked on: who works on them says how many.
        self.given_up = 0
        self.is_over = False

    # -- what comes

    def receive(self, data: bytes, now: float) -> list[Event]:
        """What bytes from the client mean."""
        events: list[Event] = []
        if self.is_over:
            return events
        try:
            for frame in self._frames(data):
                self._frame(frame, events, now)
        except BadConnection as error:
            self._fail(error.code, str(error))
        return events

    @property
    def in_headers(self) -> int | None:
        """The stream whose header list has begun, and not ended."""
        return self._block[0] if self._block else None

    def _frames(self, data: bytes) -> Iterator[Frame]:
        buffer = self._buffer + data if self._buffer else data
        at = 0
        if not self._is_greeted:
            if not frames.PREFACE.startswith(buffer[: len(frames.PREFACE)]):
                raise BadConnection(Code.PROTOCOL_ERROR, "this is no HTTP/2")
            if len(buffer) < len(frames.PREFACE):
                self._buffer = buffer
                return
            self._is_greeted, at = True, len(frames.PREFACE)
        frame, at = frames.next_frame(buffer, at)
        while frame is not None:
            yield frame
            frame, at = frames.next_frame(buffer, at)
        self._buffer = buffer[at:]

    def _frame(self, frame: Frame, events: list[Event], now: float) -> None:
        if self._block is not None and (frame.type != frames.CONTINUATION or frame.stream != self._block[0]):
            raise BadConnection(Code.PROTOCOL_ERROR, "another frame within a header list")
        if not self._is_set and frame.type != frames.SETTINGS:
            raise BadConnection(Code.PROTOCOL_ERROR, "the first frame has no settings")
        self._heed(frame, events, now)

    def _heed(self, frame: Frame, events: list[Event], now: float) -> None:
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
            case frames.PUSH_PROMISE:
                raise BadConnection(Code.PROTOCOL_ERROR, "a client does not push")
            case frames.PRIORITY if not frame.stream or len(frame.payload) != frames.PRIORITY_BYTES:
                raise BadConnection(Code.FRAME_SIZE_ERROR if frame.stream else Code.PROTOCOL_ERROR, "no priority")
            case frames.GOAWAY if frame.stream:
                raise BadConnection(Code.PROTOCOL_ERROR, "a good-bye of a stream")
            case _:  # none is preferred; who says good-bye waits for answers; what others invented is passed over
                self._spend(now)

    def _on_data(self, frame: Frame, events: list[Event], now: float) -> None:
        size = len(frame.payload)
        self._may_come -= size
        if self._may_come < 0:
            raise BadConnection(Code.FLOW_CONTROL_ERROR, "more than the window lets in")
        data = frames.unpadded(frame)
        stream = self._streams.get(frame.stream)
        if stream is None or stream.is_asked:
            self._no_stream(frame.stream)
            self._give_back(size)
            if stream is not None:
                self._drop(frame.stream, Code.STREAM_CLOSED, events)
            return
        stream.may_come -= size
        stream.came += len(data)
        stream.is_asked = bool(frame.flags & frames.END_STREAM)
        if size and stream.may_come < 0:
            self._give_back(size)
            self._drop(frame.stream, Code.FLOW_CONTROL_ERROR, events)
        elif stream.length is not None and (
            stream.came > stream.length or (stream.is_asked and stream.came < stream.length)
        ):
            self._give_back(size)
            self._drop(frame.stream, Code.PROTOCOL_ERROR, events)
        else:
            if len(data) < SMALL_BYTES and not stream.is_asked:
                self._spend(now)
            self._give_back(size - len(data))  # padding
            events.append(Came(frame.stream, data, stream.is_asked))

    def _on_headers(self, frame: Frame, events: list[Event], now: float) -> None:
        payload = frames.unpadded(frame)
        if frame.flags & frames.HAS_PRIORITY:
            if len(payload) < frames.PRIORITY_BYTES:
                raise BadConnection(Code.FRAME_SIZE_ERROR, "a frame of a wrong size")
            payload = payload[frames.PRIORITY_BYTES :]
        self._block = frame.stream, frame.flags, bytearray(payload)
        if frame.flags & frames.END_HEADERS:
            self._headers_end(events, now)

    def _on_continuation(self, frame: Frame, events: list[Event], now: float) -> None:
        if self._block is None:
            raise BadConnection(Code.PROTOCOL_ERROR, "a header list goes on that has not begun")
        self._spend(now)
        block = self._block[2]
        block += frame.payload
        if len(block) > MAX_HEADER_BYTES:
            raise BadConnection(Code.ENHANCE_YOUR_CALM, "the headers are too big")
        if frame.flags & frames.END_HEADERS:
            self._headers_end(events, now)

    def _headers_end(self, events: list[Event], now: float) -> None:
        assert self._block is not None
        (number, flags, block), self._block = self._block, None
        try:
            fields = self._decoder.decode(bytes(block))
        except TooLongError as error:
            raise BadConnection(Code.ENHANCE_YOUR_CALM, str(error)) from None
        except HeaderError as error:
            raise BadConnection(Code.COMPRESSION_ERROR, str(error)) from None
        ends = bool(flags & frames.END_STREAM)
        if number <= self._last:
            self._trailers(number, ends, events, now)
            return
        if number % 2 == 0:
            raise BadConnection(Code.PROTOCOL_ERROR, "a stream with a number of ours")
        self._last = number
        if self._leaves:
            return
        self._looked_at = number
        self._request(number, fields, ends, events, now)

    def _request(self, number: int, fields: list[Field], ends: bool, events: list[Event], now: float) -> None:
        size = self._decoder.size
        if (
            len(self._streams) >= MAX_STREAMS
            or self.given_up >= MAX_GIVEN_UP
            or self._headers_bytes + size > MAX_HEADERS_BYTES
        ):
            self._spend(now)  # it knows the bound
            self._reset(number, Code.REFUSED_STREAM)  # nothing was done, and it may be sent again
            return
        try:
            head = head_of(fields)
            if ends and head.length:
                raise Malformed("a body is announced and there is none")
        except Malformed:
            self._spend(now)
            self._out.append(frames.reset(number, Code.PROTOCOL_ERROR))
            return
        self._streams[number] = _Stream(self._first_window, self._body_window, size, head.length, is_asked=ends)
        self._headers_bytes += size
        events.append(Asked(number, head, ends))

    def _trailers(self, number: int, ends: bool, events: list[Event], now: float) -> None:
        """Headers behind a body: nothing is made of what they say."""
        stream = self._streams.get(number)
        if stream is None:
            self._no_stream(number)
            self._spend(now)
            self._out.append(frames.reset(number, Code.STREAM_CLOSED))  # or it would wait for an answer
        elif not ends or stream.is_asked or (stream.length or stream.came) != stream.came:
            self._drop(number, Code.STREAM_CLOSED if stream.is_asked else Code.PROTOCOL_ERROR, events)
        else:
            stream.is_asked = True
            events.append(Came(number, b"", is_over=True))

    def _on_reset(self, frame: Frame, events: list[Event], now: float) -> None:
        frames.number_of(frame.payload)
        if frame.stream in self._streams:
            self._spend(now)
            self._forget(frame.stream)
            events.append(GaveUp(frame.stream))
        else:
            self._no_stream(frame.stream)

    def _on_settings(self, frame: Frame, now: float) -> None:
        if frame.stream:
            raise BadConnection(Code.PROTOCOL_ERROR, "settings of a stream")
        if frame.flags & frames.ACK:
            if frame.payload:
                raise BadConnection(Code.FRAME_SIZE_ERROR, "a frame of a wrong size")
            self._our_settings_came(now)
            return
        self._spend(now)
        self._is_set = True
        for name, value in dict(frames.settings_of(frame.payload)).items():  # of several of a name, the last
            self._set(name, value, now)
        self._out.append(frames.head(0, frames.SETTINGS, frames.ACK, 0))

    def _our_settings_came(self, now: float) -> None:
        if not self._is_set:
            raise BadConnection(Code.PROTOCOL_ERROR, "the first frame has no settings")
        if self._body_window == BODY_WINDOW:  # it has said so before
            self._spend(now)
            return
        for stream in self._streams.values():
            stream.may_come += BODY_WINDOW - self._body_window
        self._body_window = BODY_WINDOW

    def _set(self, name: int, value: int, now: float) -> None:
        if name == frames.INITIAL_WINDOW_SIZE:
            if value > MAX_WINDOW:
                raise BadConnection(Code.FLOW_CONTROL_ERROR, "a window that is too large")
            difference, self._first_window = value - self._first_window, value
            self._spend(now, len(self._streams) // 50)  # each of them has to be told
            for number in self._streams:
                self._open(number, difference)
        elif (name == frames.MAX_FRAME_SIZE and not frames.MAX_FRAME_BYTES <= value < 1 << 24) or (
            name == frames.ENABLE_PUSH and value > 1
        ):
            raise BadConnection(Code.PROTOCOL_ERROR, "a setting out of its range")

    def _on_ping(self, frame: Frame, now: float) -> None:
        if len(frame.payload) != 8:
            raise BadConnection(Code.FRAME_SIZE_ERROR, "a frame of a wrong size")
        if frame.stream:
            raise BadConnection(Code.PROTOCOL_ERROR, "a ping of a stream")
        self._spend(now)
        if not frame.flags & frames.ACK:
            self._out += [frames.head(8, frames.PING, frames.ACK, 0), frame.payload]

    def _on_window(self, frame: Frame, events: list[Event], now: float) -> None:
        size = frames.number_of(frame.payload) & MAX_WINDOW
        if self._answered_by:  # as it should be: what was sent makes room by being taken
            self._answered_by -= 1
        else:
            self._spend(now)
        if frame.stream == 0:
            self._may_send += size
            if not size or self._may_send > MAX_WINDOW:
                raise BadConnection(Code.FLOW_CONTROL_ERROR if size else Code.PROTOCOL_ERROR, "a window out of range")
            return
        stream = self._streams.get(frame.stream)
        if stream is None:
            self._no_stream(frame.stream)
        elif not size or stream.may_send + size > MAX_WINDOW:
            self._drop(frame.stream, Code.FLOW_CONTROL_ERROR if size else Code.PROTOCOL_ERROR, events)
        else:
            self._open(frame.stream, size)

    # -- what we do

    def answer(self, number: int, status: int, headers: list[Field]) -> None:
        """The head of an answer."""
        block = encode([(b":status", b"%d" % status), *headers])
        self._out.append(frames.headers(number, block, ends=False))

    def send(self, number: int, data: bytes, *, ends: bool) -> int:
        """More of an answer; returns how much of it waits. What a client that has gone was to get is forgotten."""
        stream = self._streams.get(number)
        if stream is None:
            return 0
        if data:
            stream.unsent.append(memoryview(data))
            stream.unsent_bytes += len(data)
        stream.ends = ends
        if stream.may_send > 0 or not stream.unsent_bytes:
            self._ready[number] = None
        return stream.unsent_bytes

    def unsent(self, number: int) -> int:
        """How much of an answer waits."""
        stream = self._streams.get(number)
        return stream.unsent_bytes if stream else 0

    def has(self, number: int) -> bool:
        """Whether something may still be sent or come on this stream."""
        return number in self._streams

    def pump(self, most: int, now: float) -> list[int]:
        """Let out what the windows allow, not much more than so much at once; returns of which streams it was."""
        moved: dict[int, None] = {}
        try:
            while self._ready and most > 0:
                number = next(iter(self._ready))
                stream = self._streams[number]
                if stream.unsent_bytes and self._may_send <= 0:
                    break
                del self._ready[number]
                most -= self._let_out(number, stream, now)
                moved[number] = None
        except BadConnection as error:
            self._fail(error.code, str(error))
        return list(moved)

    def _let_out(self, number: int, stream: _Stream, now: float) -> int:
        """One frame."""
        # The client may have made the window smaller than what was sent already.
        size = max(min(stream.unsent_bytes, stream.may_send, self._may_send, frames.MAX_FRAME_BYTES), 0)
        data = _first(stream.unsent, size)
        stream.unsent_bytes -= size
        stream.may_send -= size
        self._may_send -= size
        self._answered_by += 2 if size else 0
        is_last = stream.ends and not stream.unsent_bytes
        if size or is_last:
            self._out += [frames.head(size, frames.DATA, frames.END_STREAM if is_last else 0, number), *data]
        if is_last:
            if not stream.is_asked:  # what it still sends is of no use
                self._out.append(frames.reset(number, Code.NO_ERROR))
            self._forget(number)
        else:
            self._small(size, now, is_cut=bool(stream.unsent_bytes))
            if stream.unsent_bytes and stream.may_send > 0:
                self._ready[number] = None  # behind the others
        return size + frames.HEAD_BYTES

    def _small(self, size: int, now: float, *, is_cut: bool) -> None:
        """What is left of a window may be little, once; but not again and again."""
        was_small, self._was_small = self._was_small, is_cut and size < SMALL_BYTES
        if was_small and self._was_small:
            self._spend(now)

    def read(self, number: int) -> None:
        """The body of this request is read from now on: let more of it come at a time."""
        stream = self._streams.get(number)
        if stream is not None and not stream.is_asked and (stream.length is None or stream.length > BODY_WINDOW):
            self._let_in(number, stream)

    def taken(self, number: int, size: int) -> None:
        """So much of a body was read."""
        self._give_back(size)
        stream = self._streams.get(number)
        if stream is not None and not stream.is_asked and stream.may_come <= READ_WINDOW // 2:
            self._let_in(number, stream)

    def _let_in(self, number: int, stream: _Stream) -> None:
        self._out.append(frames.window_update(number, READ_WINDOW - stream.may_come))
        stream.may_come = READ_WINDOW

    def _give_back(self, size: int) -> None:
        self._may_come += size
        self._owed += size
        if self._owed >= WINDOW // 8:
            self._out.append(frames.window_update(0, self._owed))
            self._owed = 0

    def break_off(self, number: int, code: Code) -> None:
        """End an answer that cannot be ended well."""
        if number in self._streams:
            self._reset(number, code)

    def leave(self) -> None:
        """Take no more requests; those that are there are answered."""
        if not self._leaves:
            self._leaves = True
            self._out.append(frames.go_away(self._looked_at, Code.NO_ERROR))

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way."""
        return not self._streams

    @property
    def waiting(self) -> Iterator[int]:
        """The streams with something unsent."""
        return (number for number, stream in self._streams.items() if stream.unsent_bytes)

    def take(self) -> bytes:
        """What is to be written now."""
        if not self._out:
            return b""
        written, self._out = self._out, []
        return b"".join(written)

    # -- how it ends

    def _open(self, number: int, size: int) -> None:
        stream = self._streams[number]
        stream.may_send += size
        if stream.may_send > MAX_WINDOW:
            raise BadConnection(Code.FLOW_CONTROL_ERROR, "a window out of range")
        if stream.may_send > 0 and stream.unsent_bytes:
            self._ready.setdefault(number)

    def _no_stream(self, number: int) -> None:
        """A frame of a stream that has ended means nothing; of one that never began, everything."""
        if not number or number > self._last or number % 2 == 0:
            raise BadConnection(Code.PROTOCOL_ERROR, "a frame of a stream that has not begun")

    def _drop(self, number: int, code: Code, events: list[Event]) -> None:
        self._reset(number, code)
        events.append(GaveUp(number))

    def _reset(self, number: int, code: Code) -> None:
        self._out.append(frames.reset(number, code))
        self._forget(number)

    def _forget(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is not None:
            self._headers_bytes -= stream.headers_bytes
            self._ready.pop(number, None)

    def _spend(self, now: float, count: int = 1) -> None:
        if not self._patience.lasts(now, count):
            raise BadConnection(Code.ENHANCE_YOUR_CALM, "too much that leads to nothing")

    def _fail(self, code: Code, text: str) -> None:
        self.is_over = True
        self._buffer = b""
        self._out.append(frames.go_away(self._looked_at, code, text))


def _first(pieces: list[memoryview], size: int) -> list[bytes | memoryview]:
    """Take so much from the front."""
    taken: list[bytes | memoryview] = []
    used = 0
    for piece in pieces:
        if size <= 0:
            break
        if len(piece) <= size:
            taken.append(piece)
            used += 1
        else:
            taken.append(piece[:size])
            pieces[used] = piece[size:]
        size -= len(piece)
    del pieces[:used]
    return taken
