"""A connection of HTTP/1.1 in virtual time: which requests the application sees, and what the client is told."""

import asyncio
from typing import Any

import pytest

from muster.cluster.apiserver.front.asgi import EXTENSION
from muster.cluster.apiserver.front.connectionlimit import ConnectionLimit, ConnectionSlot
from muster.cluster.apiserver.front.http1.connection import MAX_PIPELINED, Connection
from muster.cluster.apiserver.front.http1.exchange import UNREAD_BYTES
from muster.cluster.apiserver.front.shared import HEADER_SECONDS, KEEP_ALIVE_SECONDS, MAX_HEADER_BYTES, Shared
from muster.cluster.apiserver.front.unsent import Unsent
from muster.runtime.clock import run_virtual

FIRST_HEADERS_SECONDS = 5.0
GET = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n"
BAD = b"HTTP/1.1 400 Bad Request"


class Transport(asyncio.Transport):
    """Keeps what is written, and knows whether it is read from."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: Connection
        self.written = b""
        self.is_closed = False
        self.is_read = True
        self.tls: object | None = None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.tls if name == "ssl_object" else super().get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """It takes all."""

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def write(self, data: Any) -> None:
        self.written += data

    def abort(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    close = abort


class Server:
    """The application: it reads each body to its end, and answers with what `answers` has for the path."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, bytes, bytes]] = []
        self.answers: dict[str, list[bytes]] = {}
        self.headers: list[tuple[bytes, bytes]] = []
        self.gates: dict[str, asyncio.Event] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path, body, is_over = scope["path"], b"", False
        if path in self.gates:
            await self.gates[path].wait()
        names = {name for name, _ in scope["headers"]}
        while not is_over and names & {b"content-length", b"transfer-encoding"}:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, is_over = body + message["body"], not message["more_body"]
        self.seen.append((scope["method"], path, scope["query_string"], body))
        await send({"type": "http.response.start", "status": 200, "headers": self.headers})
        for piece in self.answers.get(path, [path.encode()]):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class Client:
    def __init__(self, app: Any) -> None:
        loop = asyncio.get_running_loop()
        self.problems: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, problem: self.problems.append(problem))
        self.transport = Transport()
        shared = Shared(ConnectionLimit(10), Unsent(1 << 30), set(), set(), asyncio.Event())
        self.connection = Connection(
            app, shared, ConnectionSlot(lambda: None, loop.time()), loop.time() + FIRST_HEADERS_SECONDS
        )
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)

    async def say(self, *said: bytes) -> bytes:
        """Send the pieces one after the other; what is told since."""
        before = len(self.transport.written)
        for data in said:
            if not self.transport.is_closed:
                self.connection.data_received(data)
            for _ in range(20):  # for what has to be done
                await asyncio.sleep(0)
        return self.transport.written[before:]

    def close_its_side(self) -> None:
        """Send no more."""
        if not self.connection.eof_received():
            self.transport.abort()


def talking(test):
    """Run a test with a server and a client of it."""

    def run(**parameters):
        async def body():
            server = Server()
            client = Client(server)
            await test(server, client, **parameters)
            client.transport.abort()
            await asyncio.sleep(0)
            assert client.problems == []

        run_virtual(body())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def ok(body: bytes = b"", *headers: bytes) -> bytes:
    head = b"\r\n".join([b"HTTP/1.1 200 OK", *headers, b"transfer-encoding: chunked", b"", b""])
    return head + chunked(*([body] if body else []))


# -- what is read


REQUESTS = [
    ("a target", (GET, [("GET", "/a", b"", b"")])),
    ("a query", (b"GET /a?b=c?d#e HTTP/1.1\r\nhost: x\r\n\r\n", [("GET", "/a", b"b=c?d", b"")])),
    ("percent", (b"GET /a%2Fb%C3%A9 HTTP/1.1\r\nhost: x\r\n\r\n", [("GET", "/a/bé", b"", b"")])),
    ("a whole URL", (b"GET http://host:1/a?b HTTP/1.1\r\nhost: x\r\n\r\n", [("GET", "/a", b"b", b"")])),
    ("two slashes", (b"GET //host/a HTTP/1.1\r\nhost: x\r\n\r\n", [("GET", "//host/a", b"", b"")])),
    ("a length", (b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nxyz", [("POST", "/a", b"", b"xyz")])),
    (
        "chunks",
        (
            b"POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" + chunked(b"xy", b"z"),
            [("POST", "/a", b"", b"xyz")],
        ),
    ),
]


def test_requests_are_read_however_they_are_cut():
    for title, (sent, seen) in REQUESTS:
        for size in (len(sent), 1, 7):

            @talking
            async def scenario(server, client, sent=sent, size=size, title=title, seen=seen):
                told = await client.say(*(sent[first : first + size] for first in range(0, len(sent), size)))
                assert (title, server.seen) == (title, seen)
                assert told == ok(seen[0][1].encode())
                assert not client.transport.is_closed

            scenario()


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /\xc3\xa9 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"CONNECT host:1 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /a HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"GET /a HTTP/1.1\r\nhost: x\r\ncontent-length: x\r\n\r\n",
        b"GET /a HTTP/1.1\r\n\r\n",
        b"GET /a HTTP/1.1\r\nhost: x\r\nhost: x\r\n\r\n",
        b"GET /a HTTP/1.0\r\nhost: x\r\nhost: y\r\n\r\n",
        b"POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /a HTTP/1.1\r\nhost: x\r\na: " + b"b" * MAX_HEADER_BYTES + b"\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused(sent):
    @talking
    async def scenario(server, client):
        assert (await client.say(sent)).startswith(BAD)
        assert client.transport.is_closed
        assert server.seen == []

    scenario()


@talking
async def test_a_header_that_never_ends_is_refused(server, client):
    piece = b"x" * 10_000
    told = await client.say(b"GET /a HTTP/1.1\r\nhost: x\r\na: ", *[piece] * (MAX_HEADER_BYTES // len(piece) + 1))
    assert told.startswith(BAD)
    assert client.transport.is_closed


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"0\r\na: ", b"x" * 10_000),
        (b"0\r\n", b"a: " + b"x" * 9_000 + b"\r\n"),
        (b"3;a=", b"x" * 10_000),
        (b"1\r\nx\r\n0\r\na", b"x" * 10_000),
    ],
    ids=["a trailer's value", "trailers", "the extension of a chunk", "a trailer's name"],
)
def test_what_never_ends_beside_a_body_is_refused(begin, piece):
    @talking
    async def scenario(server, client):
        head = b"POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        told = await client.say(head + begin, *[piece] * (MAX_HEADER_BYTES // len(piece) + 2))
        assert told.startswith(BAD)
        assert (client.transport.is_closed, server.seen) == (True, [])

    scenario()


@talking
async def test_headers_are_counted_once_however_they_are_cut(server, client):
    request = b"GET /a HTTP/1.1\r\nhost: x\r\n" + b"".join(b"a: %b\r\n" % (b"x" * 15_000) for _ in range(4)) + b"\r\n"
    pieces = [request[first : first + 1_000] for first in range(0, len(request), 1_000)]
    assert await client.say(*pieces, request) == ok(b"/a") * 2


@talking
async def test_bodies_are_not_counted_as_headers(server, client):
    piece = b"x" * UNREAD_BYTES
    head = b"POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    told = await client.say(head, *[b"%x\r\n%b\r\n" % (len(piece), piece)] * 3, b"0\r\na: b\r\n\r\n", GET)
    assert told == ok(b"/a") * 2
    assert server.seen[0] == ("POST", "/a", b"", piece * 3)


@talking
async def test_a_body_that_makes_no_sense_is_refused(server, client):
    head = b"POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    assert (await client.say(head + b"1\r\nx\r\n", b"not a size\r\n")).startswith(BAD)
    assert (client.transport.is_closed, server.seen) == (True, [])


# -- one after the other


@talking
async def test_requests_that_come_together_are_answered_in_their_order(server, client):
    server.gates["/a"] = asyncio.Event()
    assert await client.say(GET + b"GET /b HTTP/1.1\r\nhost: x\r\n\r\n" + b"GET /c HTTP/1.1\r\nhost: x\r\n\r\n") == b""
    assert not client.transport.is_read, "no more are taken until these are answered"
    server.gates["/a"].set()
    assert await client.say(b"") == ok(b"/a") + ok(b"/b") + ok(b"/c")
    assert client.transport.is_read
    assert [path for _, path, _, _ in server.seen] == ["/a", "/b", "/c"]


@talking
async def test_no_more_than_some_requests_wait(server, client):
    """The last one that is taken says so, and the client sends the others again."""
    server.gates["/b"] = asyncio.Event()
    first = b"GET /b HTTP/1.1\r\nhost: x\r\n\r\n"
    assert await client.say(first + GET * (MAX_PIPELINED + 10)) == b""
    server.gates["/b"].set()
    await asyncio.sleep(1)
    assert client.transport.written == (ok(b"/b") + ok(b"/a") * (MAX_PIPELINED - 1) + ok(b"/a", b"connection: close"))
    assert (client.transport.is_closed, len(server.seen)) == (True, MAX_PIPELINED + 1)


@pytest.mark.parametrize("after", [b"nonsense\r\n\r\n", GET, b"GE"])
def test_nothing_is_heard_after_the_last_request(after):
    @talking
    async def scenario(server, client):
        told = await client.say(b"GET /a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" + after, after)
        assert told == ok(b"/a", b"connection: close")
        assert client.transport.is_closed
        assert len(server.seen) == 1

    scenario()


@pytest.mark.parametrize("end", ["a malformed request", "the end of the server"])
def test_headers_that_nobody_reads_do_not_cut_off_an_answer(end):
    @talking
    async def scenario(server, client):
        server.gates["/a"] = asyncio.Event()
        await client.say(GET, b"GET /")
        if end == "a malformed request":
            await client.say(b"\0")
        else:
            client.connection.shutdown()
        await asyncio.sleep(HEADER_SECONDS + 1)
        server.gates["/a"].set()
        assert await client.say(b"") == ok(b"/a", b"connection: close")

    scenario()


@pytest.mark.parametrize(
    "bad", [b"nonsense\r\n\r\n", b"POST /b HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nx"]
)
def test_a_malformed_request_leaves_the_answer_before_it(bad):
    @talking
    async def scenario(server, client):
        server.gates["/a"] = asyncio.Event()
        assert await client.say(GET, bad) == b""
        server.gates["/a"].set()
        assert await client.say(b"") == ok(b"/a", b"connection: close")
        assert (client.transport.is_closed, len(server.seen)) == (True, 1)

    scenario()


def test_a_malformed_body_is_not_answered_within_its_answer():
    """The client would take the refusal for a part of the answer."""

    async def answer(_scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (await receive()).get("more_body"):
            pass

    async def body():
        client = Client(answer)
        told = await client.say(b"POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n", b"x\r\n")
        assert told == ok().removesuffix(b"0\r\n\r\n")
        assert (client.transport.is_closed, client.problems) == (True, [])

    run_virtual(body())


@talking
async def test_a_client_that_closes_its_side_gets_its_answers(server, client):
    server.gates["/a"] = asyncio.Event()
    await client.say(GET + GET, b"GE")
    client.close_its_side()
    await asyncio.sleep(HEADER_SECONDS + 1)
    server.gates["/a"].set()
    assert await client.say(b"") == ok(b"/a") + ok(b"/a", b"connection: close")
    assert client.transport.is_closed


@pytest.mark.parametrize(
    "said", [b"", GET, b"POST /b HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nx"], ids=["silent", "answered", "half"]
)
def test_a_connection_ends_with_its_client_when_no_answer_is_due(said):
    @talking
    async def scenario(server, client):
        server.gates["/b"] = asyncio.Event()
        await client.say(said)
        client.close_its_side()
        assert client.transport.is_closed

    scenario()


@talking
async def test_over_tls_a_connection_ends_with_its_client(server, client):
    server.gates["/a"] = asyncio.Event()
    client.transport.tls = object()
    await client.say(GET)
    client.close_its_side()
    assert client.transport.is_closed


def test_a_stream_ends_with_its_client():
    async def stream(scope, _receive, _send):
        scope["extensions"][EXTENSION].streaming = asyncio.current_task()
        await asyncio.Event().wait()

    async def body():
        client = Client(stream)
        await client.say(GET)
        client.close_its_side()
        assert (client.transport.is_closed, client.problems) == (True, [])

    run_virtual(body())


@talking
async def test_a_client_of_http_1_0_reads_to_the_end(server, client):
    told = await client.say(b"GET /a HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
    assert told == b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n/a"
    assert client.transport.is_closed


# -- what is answered


@talking
async def test_head_has_no_body(server, client):
    server.headers = [(b"content-length", b"2")]
    assert await client.say(b"HEAD /a HTTP/1.1\r\nhost: x\r\n\r\n") == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
    assert not client.transport.is_closed


@talking
async def test_a_stream_goes_out_as_it_comes(server, client):
    server.answers["/a"] = [b"one", b"", b"two"]
    assert (await client.say(GET)).endswith(b"\r\n\r\n" + chunked(b"one", b"two"))


@talking
async def test_a_body_is_asked_for_where_the_client_waits(server, client):
    head = b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\nExpect: 100-Continue\r\n\r\n"
    assert await client.say(head) == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert await client.say(b"xyz") == ok(b"/a")
    assert await client.say(head + b"xyz") == ok(b"/a"), "it has not waited"


@talking
async def test_a_client_of_http_1_0_is_not_asked_for_a_body(server, client):
    head = b"POST /a HTTP/1.0\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\n"
    assert await client.say(head) == b""
    assert await client.say(b"xyz") == b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n/a"


@talking
async def test_no_header_of_an_answer_has_another_in_it(server, client):
    server.headers = [(b"warning", b"x\r\nset-cookie: y")]
    assert b"set-cookie" not in await client.say(GET)
    assert client.transport.written.startswith(b"HTTP/1.1 500")
    assert client.transport.is_closed


@talking
async def test_an_answer_is_no_longer_and_no_shorter_than_it_says(server, client):
    server.headers = [(b"content-length", b"3")]
    assert (await client.say(GET)).endswith(b"content-length: 3\r\n\r\n/a")
    assert client.transport.is_closed, "so that the client sees that it is not whole"


# -- how long, and how much


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ((), FIRST_HEADERS_SECONDS),
        ((b"GET /a HTTP/1.1\r\nhost: x\r\na:",), FIRST_HEADERS_SECONDS),
        ((GET,), KEEP_ALIVE_SECONDS),
        ((GET, b"GET"), HEADER_SECONDS),
        ((GET, b"\r\n"), HEADER_SECONDS),
    ],
)
def test_silent_clients_are_let_go(said, seconds):
    @talking
    async def scenario(server, client):
        await client.say(*said)
        await asyncio.sleep(seconds - 0.1)
        assert not client.transport.is_closed
        await asyncio.sleep(0.2)
        assert client.transport.is_closed

    scenario()


@talking
async def test_a_body_that_is_not_read_makes_the_client_wait(server, client):
    server.gates["/a"] = asyncio.Event()
    await client.say(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n", b"x" * UNREAD_BYTES)
    assert client.transport.is_read
    await client.say(b"x")
    assert not client.transport.is_read
    server.gates["/a"].set()
    await client.say(b"")
    assert client.transport.is_read


async def answer_unread(_scope, _receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x"})


def test_a_body_that_nobody_reads_does_not_stop_the_connection():
    async def body():
        client = Client(answer_unread)
        long = UNREAD_BYTES + 1
        assert await client.say(b"GET /a HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % long + b"x" * long) == ok(
            b"x"
        )
        assert client.transport.is_read
        assert await client.say(GET) == ok(b"x")
        client.transport.abort()
        await asyncio.sleep(0)
        assert client.problems == []

    run_virtual(body())


@pytest.mark.parametrize(("rest", "seconds"), [(b"xy", KEEP_ALIVE_SECONDS), (b"x", HEADER_SECONDS)])
def test_the_rest_of_a_body_has_some_seconds_after_the_answer(rest, seconds):
    async def body():
        client = Client(answer_unread)
        assert await client.say(b"GET /a HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\n") == ok(b"x")
        await client.say(b"x", rest)
        await asyncio.sleep(seconds - 0.1)
        assert not client.transport.is_closing()
        await asyncio.sleep(0.2)
        assert client.transport.is_closed
        assert client.problems == []

    run_virtual(body())


@talking
async def test_a_client_that_is_behind_makes_the_application_wait(server, client):
    server.answers["/a"] = [b"one", b"two"]
    client.connection.pause_writing()
    assert await client.say(GET) == b""
    client.connection.resume_writing()
    assert (await client.say(b"")).endswith(chunked(b"one", b"two"))


@talking
async def test_the_connection_ends_with_the_answer_when_the_server_stops(server, client):
    server.gates["/a"] = asyncio.Event()
    await client.say(GET)
    client.connection.shutdown()
    server.gates["/a"].set()
    assert await client.say(b"") == ok(b"/a", b"connection: close")
    assert client.transport.is_closed


# -- another protocol


def test_what_comes_with_an_upgrade_is_for_the_other_protocol():
    heard = []

    async def upgraded(scope, _receive, _send):
        caller = scope["extensions"][EXTENSION]
        assert caller.is_upgrade
        wire = caller.leave_http([(b"upgrade", b"x")])
        heard.append(await wire.receive())
        heard.append(await wire.receive())
        caller.break_off()

    async def body():
        client = Client(upgraded)
        request = b"GET /a HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"
        assert await client.say(request + b"early", b"late") == (
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n"
        )
        assert heard == [b"early", b"late"]
        assert (client.transport.is_closed, client.problems) == (True, [])

    run_virtual(body())


@talking
async def test_who_asks_for_a_protocol_and_gets_an_answer_has_no_other(server, client):
    """It is not known which protocol it speaks after that."""
    told = await client.say(b"GET /a HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", GET)
    assert told == ok(b"/a", b"connection: close")
    assert (client.transport.is_closed, len(server.seen)) == (True, 1)
