"""A connection in virtual time, with a transport that takes whatever it is given: what it waits for, and how long."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.unit.cluster.apiserver.front.http2.test_session import GET, asked, frame, number, windows

from muster.cluster.apiserver.front.connectionlimit import ConnectionLimit, ConnectionSlot
from muster.cluster.apiserver.front.http2 import frames
from muster.cluster.apiserver.front.http2.connection import PART_BYTES, TURN_REQUESTS, Connection
from muster.cluster.apiserver.front.http2.frames import PREFACE, Code, Frame, read_next_frame
from muster.cluster.apiserver.front.shared import HEADER_SECONDS, Shared
from muster.cluster.apiserver.front.unsent import STALLED_SECONDS, TLS_BYTES, Unsent
from muster.runtime.clock import run_virtual

FIRST_HEADERS_SECONDS = 5.0
START = {"type": "http.response.start", "status": 200, "headers": []}


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: Connection
        self.written = b""
        self.is_closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """It takes all."""

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.is_closed

    def write(self, data: Any) -> None:
        self.written += data

    def pause_reading(self) -> None:
        """Nothing comes by itself."""

    def resume_reading(self) -> None:
        """Nothing comes by itself."""

    def abort(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    close = abort


class Client:
    """What it says is bytes, what it is told is frames."""

    def __init__(self, app: Callable[..., Awaitable[None]], most_unsent: int) -> None:
        loop = asyncio.get_running_loop()
        self.problems: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, problem: self.problems.append(problem))
        self.transport = Transport()
        self.shared = Shared(ConnectionLimit(10), Unsent(most_unsent), set(), set(), asyncio.Event())
        slot = ConnectionSlot(lambda: None, loop.time())
        self._connection = Connection(app, self.shared, slot, loop.time() + FIRST_HEADERS_SECONDS)
        self.transport.protocol = self._connection
        self._connection.connection_made(self.transport)
        self._seen = 0

    async def say(self, *said: bytes) -> None:
        for data in said:
            self._connection.data_received(data)
            for _ in range(5):  # for what has to be done
                await asyncio.sleep(0)

    def told(self) -> list[Frame]:
        """What has come since."""
        told = []
        found, self._seen = read_next_frame(self.transport.written, self._seen)
        while found is not None:
            told.append(found)
            found, self._seen = read_next_frame(self.transport.written, self._seen)
        return told

    def resets(self) -> list[tuple[int, bytes]]:
        return [(found.stream, found.payload) for found in self.told() if found.type == frames.RST_STREAM]


def talking(app=None, most_unsent=1 << 30):
    """Run a test with a client that has introduced itself."""

    def decorated(test):
        def run():
            async def body():
                client = Client(app or answering, most_unsent)
                await client.say(PREFACE + windows(0) + frame(frames.SETTINGS, frames.ACK, 0))
                await test(client)
                assert client.problems == []

            run_virtual(body())

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorated


async def answering(_scope, _receive, send):
    await send(START)
    await send({"type": "http.response.body", "body": b""})


async def watched(_scope, _receive, send):
    """Says something small once in a long while."""
    await send(START)
    while True:
        await asyncio.sleep(10 * STALLED_SECONDS)
        await send({"type": "http.response.body", "body": b"x" * 10, "more_body": True})


async def large(_scope, _receive, send):
    await send(START)
    await send({"type": "http.response.body", "body": b"x" * 100_000})


def opened(size, stream=1):
    return frame(frames.WINDOW_UPDATE, 0, stream, number(size))


CANCELLED = [(1, number(Code.CANCEL))]


@talking(watched)
async def test_what_had_nothing_to_say_for_long_has_all_the_time_for_what_it_says(client):
    await client.say(asked(1))
    await asyncio.sleep(10.9 * STALLED_SECONDS)
    assert client.resets() == []
    await asyncio.sleep(0.4 * STALLED_SECONDS)
    assert client.resets() == CANCELLED


@talking(large)
async def test_who_takes_a_little_at_a_time_is_not_cut_off(client):
    """But who takes nothing any more."""
    await client.say(asked(1))
    for _ in range(30):
        await asyncio.sleep(0.9 * STALLED_SECONDS)
        await client.say(opened(300))
    assert client.resets() == []
    await asyncio.sleep(1.3 * STALLED_SECONDS)
    assert client.resets() == CANCELLED


@talking(large)
async def test_what_others_take_does_not_count(client):
    await client.say(asked(1) + asked(3))
    for _ in range(3):
        await asyncio.sleep(0.9 * STALLED_SECONDS)
        await client.say(opened(300, 3))
    assert client.resets() == CANCELLED


@talking(large, most_unsent=50_000)
async def test_an_answer_that_is_itself_what_is_too_much(client):
    await client.say(asked(1))
    assert client.resets() == CANCELLED
    assert (client.shared.unsent.total, client.transport.is_closed) == (0, False)
    await client.say(asked(3))
    assert client.resets() == [(3, number(Code.CANCEL))]


@talking()
async def test_the_buffers_of_a_connection_that_takes_nothing_count(client):
    protocol, unsent = client.transport.protocol, client.shared.unsent
    for end in (protocol.resume_writing, client.transport.abort):
        protocol.pause_writing()
        assert unsent.total == TLS_BYTES
        end()
        await asyncio.sleep(0)
        assert unsent.total == 0


def begun(stream):
    """Headers that go on."""
    return asked(stream, flags=frames.END_STREAM)


def ended(stream):
    return frame(frames.CONTINUATION, frames.END_HEADERS, stream)


@pytest.mark.parametrize("first", [b"", begun(1), asked(1, GET[:2])])
def test_the_first_request_is_waited_for_only_so_long(first):
    @talking()
    async def run(client):
        await client.say(first)
        await asyncio.sleep(FIRST_HEADERS_SECONDS - 0.1)
        assert not client.transport.is_closed
        await asyncio.sleep(0.2)
        assert client.transport.is_closed

    run()


SLOW = {
    "a request": [begun(3), ended(3)],
    "no request": [asked(3, GET[:2], frames.END_STREAM), ended(3)],
    "a request after one that was none": [asked(3, GET[:2]), begun(5), ended(5)],
}


@pytest.mark.parametrize("which", SLOW)
@pytest.mark.parametrize("in_time", [True, False])
def test_headers_have_a_while_to_come(which, in_time):
    """From when they have begun, whether they make a request or not; then nothing is waited for."""

    @talking()
    async def run(client):
        *before, last = SLOW[which]
        await client.say(asked(1), *before)
        await asyncio.sleep(HEADER_SECONDS + (-0.1 if in_time else 0.1))
        assert client.transport.is_closed is not in_time
        if in_time:
            await client.say(last)
            await asyncio.sleep(5 * HEADER_SECONDS)
            assert not client.transport.is_closed

    run()


@talking()
async def test_long_headers_one_after_the_other(client):
    """What comes at a time ends within some, each time within others."""
    await client.say(asked(1), begun(3))
    for stream in range(3, 23, 2):
        await asyncio.sleep(0.4 * HEADER_SECONDS)
        await client.say(ended(stream) + begun(stream + 2))
    assert not client.transport.is_closed
    await asyncio.sleep(1.1 * HEADER_SECONDS)
    assert client.transport.is_closed


BURSTS = {
    "creates of 1 KB": (32, b"x" * 1000, 32),
    "more creates than a turn takes": (100, b"x" * 1000, TURN_REQUESTS + PART_BYTES // 1000),
    "requests without a body": (2000, b"", TURN_REQUESTS + PART_BYTES // 20),
}


@pytest.mark.parametrize("burst", BURSTS)
def test_a_burst_begins_in_one_turn_as_far_as_its_bound_goes(burst):
    """Writes that begin together go to the disk together, and no turn gets long."""
    requests, body, most = BURSTS[burst]
    begun: list[int] = []

    async def count(scope, receive, send):
        begun.append(1)
        await answering(scope, receive, send)

    @talking(count)
    async def run(client):
        ends = 0 if body else frames.END_STREAM
        data = frame(frames.DATA, frames.END_STREAM, 1, body) if body else b""
        pieces = [
            asked(stream, flags=frames.END_HEADERS | ends) + data.replace(number(1), number(stream), 1)
            for stream in range(1, 2 * requests, 2)
        ]
        client.transport.protocol.data_received(b"".join(pieces))
        await asyncio.sleep(0)
        assert min(requests, TURN_REQUESTS) <= len(begun) <= most
        while len(begun) < requests:
            await asyncio.sleep(0)

    run()
