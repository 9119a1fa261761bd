"""The HTTPS front over HTTP/2, with a client of other people's making (h2): the same answers as over HTTP/1.1."""

import asyncio
import json
import ssl
from contextlib import suppress

import h2.connection
import h2.events
import pytest
from h2.config import H2Configuration
from h2.errors import ErrorCodes
from tests.system.apiserver.harness import DEFAULT, MAPS, config_map
from tests.system.apiserver.test_https_front import Answer, Wire, logged, over_https

from muster.cluster.apiserver.front import acceptor, application, incoming, listener
from muster.cluster.apiserver.front.http2 import bounds, connection
from muster.cluster.apiserver.identity.certificates import Authority
from muster.cluster.apiserver.identity.users import User
from muster.runtime.clock import RealClock


class Client(asyncio.Protocol):
    """One connection, with as many requests as one likes. It reads bodies as they come, unless it `is_slow`."""

    def __init__(self, window: int | None) -> None:
        self.h2 = h2.connection.H2Connection(H2Configuration(client_side=True, header_encoding="latin-1"))
        self.streams: dict[int, Stream] = {}
        self.ended = asyncio.Event()
        self.left: h2.events.ConnectionTerminated | None = None
        self._window = window
        self._buffer = b""
        self._opened = asyncio.Event()

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.h2.initiate_connection()
        if self._window is not None:
            self.h2.update_settings({4: self._window})
        self.flush()

    def connection_lost(self, exc) -> None:
        self.ended.set()
        self._opened.set()
        for stream in self.streams.values():
            stream.end(None)

    async def close(self) -> None:
        self.transport.abort()
        await self.ended.wait()

    def flush(self) -> None:
        self.transport.write(self.h2.data_to_send())

    def data_received(self, data: bytes) -> None:
        """One frame after the other: to h2, nothing comes after a GOAWAY, though what was asked before is answered."""
        self._buffer += data
        while len(self._buffer) >= (end := 9 + int.from_bytes(self._buffer[:3], "big")) >= 9:
            frame, self._buffer = self._buffer[:end], self._buffer[end:]
            self._heed(self.h2.receive_data(frame))
        self._opened.set()
        self.flush()

    def _heed(self, events) -> None:
        for event in events:
            match event:
                case h2.events.ResponseReceived():
                    self.streams[event.stream_id].head.set_result(
                        {str(name): str(value) for name, value in event.headers}
                    )
                case h2.events.DataReceived():
                    stream = self.streams[event.stream_id]
                    stream.pieces.put_nowait(event.data)
                    if not stream.is_slow:
                        self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                case h2.events.StreamEnded():
                    self.streams[event.stream_id].end(b"")
                case h2.events.StreamReset():
                    if (known := self.streams.get(event.stream_id)) is not None:
                        known.reset = event.error_code
                        known.end(None)
                case h2.events.ConnectionTerminated():
                    self.left = event
                    self.h2.state_machine.state = h2.connection.ConnectionState.CLIENT_OPEN

    def begin(self, method, path, *, ends=True, slow=False, **headers) -> "Stream":
        number = self.h2.get_next_available_stream_id()
        fields = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
        fields += [(name.replace("_", "-"), value) for name, value in headers.items()]
        stream = self.streams[number] = Stream(number, slow)
        self.h2.send_headers(number, fields, end_stream=ends)
        self.flush()
        return stream

    async def send(self, stream, body, *, ends=True) -> None:
        """A body, as the windows let it out; no more of it once it has its answer."""
        while body and not stream.is_over:
            size = min(self.h2.local_flow_control_window(stream.number), self.h2.max_outbound_frame_size, len(body))
            if size <= 0:
                self._opened.clear()
                await self._opened.wait()
                continue
            self.h2.send_data(stream.number, body[:size], end_stream=ends and size == len(body))
            body = body[size:]
            self.flush()

    async def ask(self, method, path, body=b"", **headers) -> Answer:
        if not body:
            return await self.begin(method, path, **headers).answer()
        headers = {"content_type": "application/json", "content_length": str(len(body))} | headers
        stream = self.begin(method, path, ends=False, **headers)
        await self.send(stream, body)
        return await stream.answer()


class Stream:
    def __init__(self, number, slow) -> None:
        self.number = number
        self.is_slow = slow
        self.is_over = False
        self.reset: int | None = None
        self.head: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self.pieces: asyncio.Queue[bytes | None] = asyncio.Queue()

    def end(self, how) -> None:
        if not self.is_over:
            self.is_over = True
            self.pieces.put_nowait(how)

    async def answer(self) -> Answer:
        async with asyncio.timeout(20):
            headers = dict(await self.head)
            body = b"".join([piece async for piece in self])
        return Answer(int(headers.pop(":status")), headers, body)

    async def __aiter__(self):
        while piece := await self.piece():
            yield piece

    async def line(self) -> bytes:
        """The next pieces, to the end of a line."""
        line = await self.piece()
        while not line.endswith(b"\n"):
            line += await self.piece()
        return line

    async def piece(self) -> bytes:
        """The next one, b"" at the end; raises `ConnectionError` where that is no proper one."""
        async with asyncio.timeout(20):
            piece = await self.pieces.get()
        if piece is None:
            raise ConnectionError(f"the stream broke: {self.reset}")
        return piece


async def http2(world, pair=None, *, anonymous=False, window=None) -> Client:
    context = world.context(None if anonymous else pair or world.credentials.admin)
    context.set_alpn_protocols(["h2", "http/1.1"])
    _, client = await asyncio.get_running_loop().create_connection(
        lambda: Client(window), "127.0.0.1", world.port, ssl=context
    )
    assert client.transport.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
    world.wires.append(client)
    return client


def body(name="m", **options):
    return json.dumps(config_map(name, **options)).encode()


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


# -- the same as over HTTP/1.1


@pytest.mark.parametrize(
    ("offered", "spoken"), [(["h2"], "h2"), (["http/1.1"], "http/1.1"), (["h2", "http/1.1"], "h2")]
)
@over_https
async def test_what_is_spoken(world, offered, spoken):
    context = world.context(world.credentials.admin)
    context.set_alpn_protocols(offered)
    _, writer = await asyncio.open_connection("127.0.0.1", world.port, ssl=context)
    assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == spoken
    writer.transport.abort()


# Method, path, headers, body, and what the answer's body says.
ASKED = [
    ("GET", "/version", {}, b"", "gitVersion"),
    ("GET", "/nothing", {}, b"", "could not find the requested resource"),
    ("POST", f"{MAPS}?fieldManager=x", {}, body("other"), '"name":"other"'),
    ("POST", MAPS, {}, b"{", "json parse error"),
    ("POST", MAPS, {}, body(extra="x")[:-1] + b', "bogus": 1}', '"name":"m"'),
    ("GET", f"{DEFAULT}/config%6Daps/m", {}, b"", '"name":"m"'),
    ("GET", f"{MAPS}/%ff%fe", {}, b"", "not found"),
    ("GET", f"{MAPS}?labelSelector=a%3Db&labelSelector=", {}, b"", '"items":[]'),
    ("GET", "/?" + "&a=b" * 200, {}, b"", "the query cannot be read"),
    ("GET", MAPS, {"accept": "text/html"}, b"", "only the following media types"),
    ("GET", MAPS, {"impersonate_user": "nobody"}, b"", 'User \\"nobody\\" cannot list'),
    ("GET", f"{DEFAULT}/pods/p/exec?command=ls", {}, b"", "not found"),
    ("DELETE", f"{MAPS}/m", {}, b"", '"status":"Success"'),
    ("OPTIONS", "/version", {}, b"", ""),
]


@over_https
async def test_answers_are_those_of_http_1(world):
    """But for what differs with each request."""
    old, new = await world.connect(), await http2(world)
    for method, path, headers, sent, said in ASKED:
        told = headers | {"audit_id": "mine"}
        dry = "" if method == "GET" else ("&" if "?" in path else "?") + "dryRun=All"
        answers = []
        for wire in (old, new):
            if method == "DELETE":
                await new.ask("POST", MAPS, body())
            answers.append(await wire.ask(method, path + dry, sent, **told))
        first, second = (varying_removed(answer) for answer in answers)
        assert first == second
        assert said in answers[1].body.decode()
        if method == "POST" and answers[1].status == 201:
            assert (await new.ask(method, path, sent)).status == 201


def varying_removed(answer):
    document = json.loads(answer.body) if answer.body.startswith(b"{") else answer.body
    if isinstance(document, dict):
        for name in ("uid", "creationTimestamp", "resourceVersion", "managedFields"):
            document.get("metadata", {}).pop(name, None)
        document.get("details", {}).pop("uid", None)
    headers = {name: value for name, value in answer.headers.items() if name not in ("content-length", "connection")}
    return answer.status, headers, document


@pytest.mark.parametrize(
    ("who", "authorization", "status"),
    [("", "", 401), ("", "Bearer wrong", 401), ("", "Bearer TOKEN", 200), ("admin", "", 200), ("eve", "", 403)],
)
@over_https
async def test_who_gets_in(world, who, authorization, status):
    authority = Authority(world.directory / "pki", RealClock().now())
    pair = authority.client("eve", User("eve", frozenset({"developers"}))) if who == "eve" else None
    client = await http2(world, pair, anonymous=not who)
    headers = {"authorization": authorization.replace("TOKEN", world.credentials.token)} if authorization else {}
    assert (await client.ask("GET", "/api/v1/pods", **headers)).status == status


@over_https
async def test_who_asks_is_in_the_audit_log(world):
    events = logged(world)
    client, stranger = await http2(world), await http2(world, anonymous=True)
    answers = [await client.ask("POST", MAPS, body()), await stranger.ask("GET", MAPS)]
    assert [event["auditID"] for event in events()] == [answer.headers["audit-id"] for answer in answers]
    assert [event["responseStatus"]["code"] for event in events()] == [201, 401]


# -- many at once


@over_https
async def test_many_requests_on_one_connection(world):
    """As many as are allowed are worked on at once, and one that waits keeps none of the others waiting."""
    client = await http2(world)
    world.journal.gate.clear()
    slow = asyncio.create_task(client.ask("POST", MAPS, body()))
    await until(lambda: client.streams)
    assert {answer.status for answer in await asyncio.gather(*[client.ask("GET", "/version") for _ in range(200)])} == {
        200
    }
    world.journal.gate.set()
    assert (await slow).status == 201


@over_https
async def test_many_watches_on_one_connection(world):
    client = await http2(world)
    watches = [client.begin("GET", f"{MAPS}?watch=1&resourceVersion={world.plane.store.revision}") for _ in range(200)]
    assert {(await watch.head)[":status"] for watch in watches} == {"200"}
    assert (await client.ask("POST", MAPS, body())).status == 201
    for watch in watches:
        assert json.loads(await watch.line())["object"]["metadata"]["name"] == "m"


@over_https
async def test_a_watch_ends_with_its_stream(world):
    client = await http2(world)
    watch = client.begin("GET", f"{MAPS}?watch=1")
    await watch.head
    assert len(world.plane.server._watcher._open) == 1
    client.h2.reset_stream(watch.number, ErrorCodes.CANCEL)
    client.flush()
    await until(lambda: not world.plane.server._watcher._open)
    assert (await client.ask("GET", "/version")).status == 200


@over_https
async def test_a_watch_ends_with_its_connection(world):
    client = await http2(world)
    watch = client.begin("GET", f"{MAPS}?watch=1")
    await watch.head
    client.transport.abort()
    await until(lambda: not world.plane.server._watcher._open)
    await until(lambda: not len(world.front._connection_limit))


# -- bodies and answers that are large


@over_https
async def test_large_bodies_and_large_answers(world):
    client = await http2(world)
    names = [f"m{number}" for number in range(12)]
    answers = await asyncio.gather(*[client.ask("POST", MAPS, body(name, data={"a": "x" * 900_000})) for name in names])
    assert {answer.status for answer in answers} == {201}
    lists = await asyncio.gather(*[client.ask("GET", MAPS) for _ in range(3)])
    assert [[item["metadata"]["name"] for item in answer.json["items"]] for answer in lists] == [sorted(names)] * 3
    chunked = client.begin("POST", MAPS, ends=False, content_type="application/json")  # of no known length
    await client.send(chunked, body("late", data={"a": "x" * 100_000}))
    assert (await chunked.answer()).status == 201


@pytest.mark.parametrize("size", [10, 1000])
@pytest.mark.parametrize("padding", [None, 100])
@pytest.mark.parametrize("trailers", [[], [("x-sum", "1")]])
@over_https
async def test_a_body_that_comes_with_its_headers(world, size, padding, trailers):
    """Of no length that is told before, and all of it at once."""
    client, sent = await http2(world), body()
    number = client.h2.get_next_available_stream_id()
    stream = client.streams[number] = Stream(number, slow=False)
    fields = [(":method", "POST"), (":scheme", "https"), (":authority", "x"), (":path", MAPS)]
    client.h2.send_headers(number, [*fields, ("content-type", "application/json")])
    for first in range(0, len(sent), size):
        ends = first + size >= len(sent) and not trailers
        client.h2.send_data(number, sent[first : first + size], end_stream=ends, pad_length=padding)
    if trailers:
        client.h2.send_headers(number, trailers, end_stream=True)
    client.flush()
    assert (await stream.answer()).status == 201


@pytest.mark.parametrize(
    ("length", "who", "status"), [(3_000_000, "eve", 403), (4_000_000, "admin", 413), (None, "admin", 413)]
)
@over_https
async def test_a_body_that_is_not_wanted(world, length, who, status):
    """Its answer comes before its end, and the connection goes on."""
    authority = Authority(world.directory / "pki", RealClock().now())
    client = await http2(world, authority.client("eve", User("eve", frozenset({"x"}))) if who == "eve" else None)
    headers = {} if length is None else {"content_length": str(length)}
    stream = client.begin("POST", MAPS, ends=False, **headers)
    sending = asyncio.create_task(client.send(stream, bytes(length or 4_000_000)))
    assert (await stream.answer()).status == status
    sending.cancel()
    with suppress(asyncio.CancelledError):
        await sending
    await until(lambda: stream.reset is not None)
    assert stream.reset == ErrorCodes.NO_ERROR
    assert (await client.ask("GET", "/version")).status in (200, 403)


def test_slow_bodies_are_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(incoming, "BODY_SECONDS", 0.2)

    @over_https
    async def run(world):
        client = await http2(world)
        stream = client.begin("POST", MAPS, ends=False, content_length="10")
        await client.send(stream, b"{", ends=False)
        assert (await stream.answer()).status == 408
        assert (await client.ask("GET", "/version")).status == 200

    run(tmp_path)


def test_answers_are_not_waited_for_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(application, "REQUEST_SECONDS", 0.2)

    @over_https
    async def run(world):
        client = await http2(world)
        world.journal.gate.clear()
        assert (await client.ask("POST", MAPS, body())).status == 504
        world.journal.gate.set()

    run(tmp_path)


# -- clients that are slow, or worse


def test_a_stream_of_which_nothing_is_taken_is_cut_off(tmp_path, monkeypatch):
    """And no other one of its connection."""
    monkeypatch.setattr(connection, "STALLED_SECONDS", 0.4)

    @over_https
    async def run(world):
        client = await http2(world)
        client.h2.increment_flow_control_window(1 << 20)  # of all streams; each has 64 KiB
        for number in range(4):
            assert (await client.ask("POST", MAPS, body(f"m{number}", data={"a": "x" * 500_000}))).status == 201
        stuck = client.begin(
            "GET", f"{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", slow=True
        )
        watch = client.begin("GET", f"{MAPS}?watch=1&resourceVersion={world.plane.store.revision}")
        await watch.head
        await until(lambda: stuck.reset is not None)
        assert stuck.reset == ErrorCodes.CANCEL
        assert (await client.ask("POST", MAPS, body("new"))).status == 201
        assert b'"new"' in await watch.line()
        await until(lambda: world.front._shared.unsent.total == 0)

    run(tmp_path)


def test_what_is_not_taken_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(listener, "MAX_UNSENT_BYTES", 3 << 20)

    @over_https
    async def run(world):
        other, client = await http2(world), await http2(world)
        for number in range(4):
            assert (await other.ask("POST", MAPS, body(f"m{number}", data={"a": "x" * 500_000}))).status == 201
        stuck = [client.begin("GET", MAPS, slow=True) for _ in range(4)]
        await until(lambda: any(stream.reset is not None for stream in stuck))
        assert world.front._shared.unsent.total <= 3 << 20
        assert stuck[0].reset == ErrorCodes.CANCEL  # behind for longest
        assert (await other.ask("GET", "/version")).status == 200
        client.transport.abort()
        await until(lambda: world.front._shared.unsent.total == 0)

    run(tmp_path)


def test_a_connection_from_which_nothing_is_taken_is_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "STALLED_SECONDS", 0.4)

    @over_https
    async def run(world):
        client, other = await http2(world, window=1 << 30), await http2(world)
        client.h2.increment_flow_control_window(1 << 30)
        for number in range(20):
            assert (await other.ask("POST", MAPS, body(f"m{number}", data={"a": "x" * 500_000}))).status == 201
        client.transport.pause_reading()
        client.begin("GET", f"{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
        await until(lambda: len(world.front._shared.connections) == 1)
        assert (await other.ask("GET", "/version")).status == 200

    run(tmp_path)


def test_requests_that_are_taken_back_at_once(tmp_path, monkeypatch):
    """CVE-2023-44487: the connection ends, and others notice nothing."""
    monkeypatch.setattr(bounds, "BURST", 500.0)

    @over_https
    async def run(world):
        client, other = await http2(world), await http2(world)
        for _ in range(1_000):
            number = client.h2.get_next_available_stream_id()
            client.streams[number] = Stream(number, slow=False)
            client.h2.send_headers(
                number, [(":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", "/")]
            )
            client.h2.reset_stream(number)
        client.flush()
        async with asyncio.timeout(20):
            await client.ended.wait()
        assert (await other.ask("GET", "/version")).status == 200
        await until(lambda: not world.front._shared.tasks)

    run(tmp_path)


def test_headers_that_do_not_end_are_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "HEADER_SECONDS", 0.2)

    @over_https
    async def run(world):
        client = await http2(world)
        assert (await client.ask("GET", "/version")).status == 200
        number = client.h2.get_next_available_stream_id()
        client.transport.write(bytes([0, 0, 0, 1, 1, 0, 0, 0, number]))  # HEADERS, to be continued
        async with asyncio.timeout(20):
            await client.ended.wait()

    run(tmp_path)


@over_https
async def test_what_is_no_http_2(world):
    context = world.context(world.credentials.admin)
    context.set_alpn_protocols(["h2"])
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port, ssl=context)
    wire = Wire(reader, writer)
    world.wires.append(wire)
    wire.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    assert await wire.is_closed()


@pytest.mark.parametrize("begun", [b"", b"PRI * HTTP/2.0", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"])
def test_who_asks_for_nothing_is_not_waited_for(tmp_path, monkeypatch, begun):
    monkeypatch.setattr("muster.cluster.apiserver.front.acceptor.ENTER_SECONDS", 0.5)

    @over_https
    async def run(world):
        context = world.context(world.credentials.admin)
        context.set_alpn_protocols(["h2"])
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port, ssl=context)
        wire = Wire(reader, writer)
        world.wires.append(wire)
        wire.send(begun)
        assert await wire.is_closed()
        await until(lambda: not len(world.front._connection_limit))

    run(tmp_path)


def test_who_has_nothing_more_to_ask_is_told_to_go(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "KEEP_ALIVE_SECONDS", 0.2)

    @over_https
    async def run(world):
        client = await http2(world)
        assert (await client.ask("GET", "/version")).status == 200
        async with asyncio.timeout(20):
            await client.ended.wait()
        assert client.left.error_code == ErrorCodes.NO_ERROR

    run(tmp_path)


@over_https
async def test_more_streams_than_are_allowed(world):
    client = await http2(world)
    assert (await client.ask("GET", "/version")).status == 200
    assert client.h2.remote_settings.max_concurrent_streams == bounds.MAX_STREAMS
    assert client.h2.remote_settings.max_header_list_size == bounds.MAX_HEADER_BYTES


# -- the end


@over_https
async def test_a_graceful_end(world):
    client, idle = await http2(world), await http2(world)
    assert (await idle.ask("GET", "/healthz")).status == 200
    watch = client.begin("GET", f"{MAPS}?watch=1")
    await watch.head
    world.journal.gate.clear()
    world.journal.waiting.clear()
    writing = asyncio.create_task(client.ask("POST", MAPS, body()))
    await world.journal.waiting.wait()
    stop = asyncio.create_task(world.front.stop(10))
    assert await watch.piece() == b""  # a proper end, not a broken stream
    async with asyncio.timeout(20):
        await idle.ended.wait()
    assert idle.left.error_code == ErrorCodes.NO_ERROR
    with pytest.raises((OSError, ssl.SSLError)):
        await http2(world)
    world.journal.gate.set()
    assert (await writing).status == 201
    await stop
    async with asyncio.timeout(20):
        await client.ended.wait()
    assert client.left.error_code == ErrorCodes.NO_ERROR


@over_https
async def test_an_answer_that_waits_for_windows_goes_out_whole_at_the_end(world):
    client = await http2(world)
    assert (await client.ask("POST", MAPS, body(data={"a": "x" * 900_000}))).status == 201
    slow = client.begin("GET", f"{MAPS}/m", slow=True)
    await slow.head
    await until(lambda: world.front._shared.unsent.total)
    stop = asyncio.create_task(world.front.stop(600))
    await until(lambda: client.left is not None)
    taken = b""
    async for piece in slow:
        taken += piece
        client.h2.acknowledge_received_data(len(piece), slow.number)
        client.flush()
        await asyncio.sleep(0)
    assert json.loads(taken)["data"] == {"a": "x" * 900_000}
    async with asyncio.timeout(20):
        await stop


@pytest.mark.parametrize("path", ["/healthz", f"{MAPS}?watch=1"])
@over_https
async def test_who_is_not_there_does_not_hold_up_the_end(world, monkeypatch, path):
    """And has no answer under way that has an end."""
    monkeypatch.setattr(listener, "SETTLED_SECONDS", 0.0)
    monkeypatch.setattr(acceptor, "CLOSE_SECONDS", 600.0)
    absent = await http2(world)
    assert (await absent.begin("GET", path).head)[":status"] == "200"
    absent.transport.pause_reading()
    async with asyncio.timeout(20):
        await world.front.stop(600)


@over_https
async def test_a_followed_log_ends_with_the_server(world):
    class Node:
        async def logs(self, _pod, _options):
            yield b"one\n"
            await asyncio.Event().wait()

    world.plane.nodes["n"] = Node()
    client = await http2(world)
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}
    assert (await client.ask("POST", f"{DEFAULT}/pods", json.dumps(pod).encode())).status == 201
    log = client.begin("GET", f"{DEFAULT}/pods/p/log?follow=true")
    assert (await log.head)["content-type"] == "text/plain"
    assert await log.piece() == b"one\n"
    await world.front.stop(1)
    async with asyncio.timeout(20):
        await client.ended.wait()
