"""Clients of the API server, as thin as they can be: they must not be what is measured."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from muster.cluster.apiserver.front.http2 import frames
from muster.cluster.apiserver.front.http2.headers import Decoder, encode

Ask = Callable[[str, str, bytes], Awaitable[bytes]]
WINDOW = 1 << 30  # what one connection of HTTP/2 takes at a time, in all and of each answer


@dataclass
class Times:
    """Durations in seconds of the same thing done many times."""

    values: list[float] = field(default_factory=list)

    @contextmanager
    def one(self) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.values.append(time.perf_counter() - start)

    def percentile(self, percent: int) -> float:
        ordered = sorted(self.values) or [0.0]
        return ordered[min(len(ordered) * percent // 100, len(ordered) - 1)]

    def show(self) -> str:
        return f"p50 {self.percentile(50) * 1e3:8.3f} ms   p99 {self.percentile(99) * 1e3:8.3f} ms"


class Refused(Exception):  # noqa: N818  (it is an answer)
    """The server's answer is no success."""


class Wire(asyncio.Protocol):
    """One HTTP/1.1 connection, as thin as it can be: the client must not be what is measured."""

    def __init__(self, headers: str = "") -> None:
        """`headers` are the lines that go with every request."""
        self._headers = headers
        self._buffer = bytearray()
        self._need = -1
        self._in_pieces = False
        self._answer: asyncio.Future[bytes] | None = None
        self.changes = 0  # lines of a watch that are still to come

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the connection ended"))

    def ask(self, method: str, path: str, body: bytes = b"", type_: str = "") -> asyncio.Future[bytes]:
        """The whole answer, with its head; raises `Refused`."""
        type_ = type_ or ("application/merge-patch+json" if method == "PATCH" else "application/json")
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n{self._headers}"
        if body:
            head += f"content-type: {type_}\r\ncontent-length: {len(body)}\r\n"
        self._answer = asyncio.get_running_loop().create_future()
        if self.transport.is_closing():
            self._answer.set_exception(ConnectionResetError("the connection has ended"))
        self.transport.write(head.encode() + b"\r\n" + body)
        return self._answer

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if self.changes:
            self.changes -= data.count(b"\n") - data.count(b"\r\n")
            if answer is None or answer.done():
                return
            if self.changes <= 0:
                answer.set_result(b"")
            elif data.endswith(b"0\r\n\r\n"):  # no change ends so, with a line end before
                answer.set_exception(Refused("the watch has ended"))
            return
        self._buffer += data
        if self._need < 0:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            length = bytes(self._buffer[:end]).lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
            self._in_pieces = not length  # as long lists come
            self._need = end + 4 + int(length or 0)
        is_whole = self._buffer.endswith(b"\r\n0\r\n\r\n") if self._in_pieces else len(self._buffer) >= self._need
        if is_whole and answer is not None:
            whole = bytes(self._buffer)
            self._buffer.clear()
            self._need = -1
            if answer.done():  # nobody waits for it any more
                return
            if whole[9:11] == b"20":
                answer.set_result(whole)
            else:
                answer.set_exception(Refused(whole.decode()))


class Streams(asyncio.Protocol):
    """One HTTP/2 connection. What the server does not take yet waits here."""

    def __init__(self, headers: list[tuple[bytes, bytes]]) -> None:
        """`headers` go with every request: once as they are, then by their numbers in the server's table."""
        self._decoder = Decoder(1 << 20)
        self._always = headers
        self._asked = 0
        self._under_way: dict[int, _Stream] = {}
        self._waiting: deque[tuple[_Stream, list[tuple[bytes, bytes]], bytes]] = deque()
        self._most = 100  # streams, until the server has said how many
        self._may_send = frames.DEFAULT_WINDOW
        self._taken = 0
        self._buffer = b""
        self.is_greeted = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        settings = frames.encode_settings({frames.ENABLE_PUSH: 0, frames.INITIAL_WINDOW_SIZE: WINDOW})
        opened = frames.window_update(0, WINDOW - frames.DEFAULT_WINDOW)
        self.transport.write(frames.PREFACE + settings + opened)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or ConnectionResetError("the connection ended"))

    def _end(self, error: Exception) -> None:
        for stream in [*self._under_way.values(), *(waiting[0] for waiting in self._waiting)]:
            stream.fail(error)
        self._under_way.clear()
        self._waiting.clear()

    def ask(self, method: str, path: str, body: bytes = b"") -> asyncio.Future[bytes]:
        """The body of the answer; raises `Refused`."""
        return self._begin(method, path, body, 0)

    def watch(self, path: str, changes: int) -> asyncio.Future[bytes]:
        """Done when so many have come."""
        return self._begin("GET", path, b"", changes)

    def _begin(self, method: str, path: str, body: bytes, changes: int) -> asyncio.Future[bytes]:
        stream = _Stream(asyncio.get_running_loop().create_future(), changes)
        fields = [(b":method", method.encode()), (b":scheme", b"https"), (b":authority", b"localhost")]
        fields.append((b":path", path.encode()))
        if body:
            type_ = b"application/merge-patch+json" if method == "PATCH" else b"application/json"
            fields += [(b"content-type", type_), (b"content-length", b"%d" % len(body))]
        if self.transport.is_closing():
            stream.fail(ConnectionResetError("the connection has ended"))
        else:
            self._waiting.append((stream, fields, body))
            self._go_on()
        return stream.answer

    def _go_on(self) -> None:
        out = []
        while self._waiting and len(self._under_way) < self._most and len(self._waiting[0][2]) <= self._may_send:
            stream, fields, body = self._waiting.popleft()
            number = 2 * self._asked + 1
            # Pseudo-headers come first, so those that are kept come behind, and have the numbers from 62 on.
            kept = self._always_written() if not self._asked else bytes(range(0xBE, 0xBE + len(self._always)))
            self._asked += 1
            self._under_way[number] = stream
            self._may_send -= len(body)
            out.append(frames.encode_headers(number, encode(fields) + kept, ends=not body))
            if body:
                out += [frames.encode_head(len(body), frames.DATA, frames.END_STREAM, number), body]
        if out:
            self.transport.write(b"".join(out))

    def _always_written(self) -> bytes:
        """Names and values in plain text, each to be kept in the table."""
        pieces = [(len(name), name, len(value), value) for name, value in self._always]
        return b"".join(b"\x40%c%s%c%s" % piece for piece in pieces)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        frame, at = frames.read_next_frame(self._buffer, 0)
        while frame is not None:
            self._heed(frame)
            frame, at = frames.read_next_frame(self._buffer, at)
        self._buffer = self._buffer[at:]
        self._go_on()

    def _heed(self, frame: frames.Frame) -> None:
        stream = self._under_way.get(frame.stream)
        match frame.type:
            case frames.DATA:
                self._take(len(frame.payload))
                if stream is not None:
                    stream.came(frame.payload)
            case frames.HEADERS:
                (_, status), *_ = self._decoder.decode(frame.payload)  # each has one frame
                if stream is not None:
                    stream.status = int(status)
            case frames.SETTINGS if not frame.flags & frames.ACK:
                self._most = dict(frames.settings_of(frame.payload)).get(frames.MAX_CONCURRENT_STREAMS, self._most)
                self.transport.write(frames.encode_head(0, frames.SETTINGS, frames.ACK, 0))
                if not self.is_greeted.done():
                    self.is_greeted.set_result(self._most)
            case frames.PING if not frame.flags & frames.ACK:
                self.transport.write(frames.encode_head(8, frames.PING, frames.ACK, 0) + frame.payload)
            case frames.WINDOW_UPDATE if not frame.stream:
                self._may_send += frames.number_of(frame.payload)
            case frames.RST_STREAM if stream is not None:
                self._under_way.pop(frame.stream).fail(Refused(f"reset: {frames.number_of(frame.payload)}"))
            case frames.GOAWAY:
                self._end(ConnectionResetError(repr(frame.payload)))
        if frame.type in (frames.DATA, frames.HEADERS) and frame.flags & frames.END_STREAM and stream is not None:
            self._under_way.pop(frame.stream, stream).end()

    def _take(self, size: int) -> None:
        self._taken += size
        if self._taken > WINDOW // 4:
            self.transport.write(frames.window_update(0, self._taken))
            self._taken = 0


class _Stream:
    """One request; `changes` of a watch that are still to come."""

    status = 0

    def __init__(self, answer: asyncio.Future[bytes], changes: int) -> None:
        self.answer = answer
        self._changes = changes
        self._pieces: list[bytes] = []

    def came(self, data: bytes) -> None:
        if not self._changes:
            self._pieces.append(data)
            return
        self._changes -= data.count(b"\n")
        if self._changes <= 0 and not self.answer.done():
            self.answer.set_result(b"")

    def end(self) -> None:
        body = b"".join(self._pieces)
        if self.answer.done():
            return
        if self.status in (200, 201) and not self._changes:
            self.answer.set_result(body)
        else:
            self.answer.set_exception(Refused(f"{self.status} {body.decode()}"))

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


async def at_once(
    connections: list[Ask], seconds: float, job: Callable[[Ask], Awaitable[object]]
) -> tuple[float, Times]:
    """Every connection does the job over and over; the rate, and how long each took."""
    times, end = Times(), time.perf_counter() + seconds

    async def work(ask: Ask) -> None:
        while time.perf_counter() < end:
            with times.one():
                await job(ask)

    start = time.perf_counter()
    await asyncio.gather(*map(work, connections))
    return len(times.values) / (time.perf_counter() - start), times


class Watch(asyncio.Protocol):
    """One watch: a line for each change, as HTTP/1.0 has no chunks that would come in between."""

    def __init__(self, seen: Callable[[bytes], None], path: str, headers: str = "", after: str = "0") -> None:
        """path: of the list, with the query. headers: further lines of the request. after: the version seen last."""
        self._seen = seen
        self._path = path
        self._headers = headers
        self._after = after
        self._rest = b""
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        path = f"{self._path}&resourceVersion={self._after}&allowWatchBookmarks=false"
        head = f"GET {path} HTTP/1.0\r\nhost: localhost\r\n{self._headers}\r\n"
        transport.write(head.encode())  # type: ignore[attr-defined]

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.ended.set()

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"{"):
                self._seen(line)
