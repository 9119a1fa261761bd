"""The HTTPS front on a real socket: who gets in, limits, streams, and a graceful end."""

import asyncio
import gzip
import json
import ssl
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.system.apiserver.harness import DEFAULT, MAPS, config_map, with_parameters

from muster.cluster.apiserver import decode
from muster.cluster.apiserver.access.audit import Audit
from muster.cluster.apiserver.access.audit_policy import parse
from muster.cluster.apiserver.front import acceptor, application, connectionlimit, incoming, listener
from muster.cluster.apiserver.front.http1 import connection as http1
from muster.cluster.apiserver.front.https import HttpsFront
from muster.cluster.apiserver.front.listener import AddressTaken
from muster.cluster.apiserver.identity.certificates import Authority, Pair
from muster.cluster.apiserver.identity.credentials import Credentials
from muster.cluster.apiserver.identity.users import User
from muster.cluster.controlplane import ControlPlane, control_plane
from muster.cluster.store import MemoryJournal
from muster.runtime.clock import RealClock
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random


class GatedJournal(MemoryJournal):
    """Commits when the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = asyncio.Event()

    async def append(self, records: Any) -> None:
        self.waiting.set()
        await self.gate.wait()
        await super().append(records)


@dataclass
class World:
    plane: ControlPlane
    journal: GatedJournal
    credentials: Credentials
    front: HttpsFront
    port: int
    directory: Path
    wires: list["Wire"]

    def context(self, pair: Pair | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.credentials.authority_pem.decode())
        if pair is not None:
            context.load_cert_chain(pair.file)
        return context

    async def connect(self, pair: Pair | None = None, *, anonymous: bool = False) -> "Wire":
        pair = None if anonymous else pair or self.credentials.admin
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context(pair), limit=1 << 24)
        self.wires.append(Wire(reader, writer))
        return self.wires[-1]


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        self.request(method, path, body, **headers)
        return await self.answer()

    def request(self, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        fields = {"host": "localhost"} | {name.replace("_", "-"): value for name, value in headers.items()}
        if body:
            fields |= {"content-length": str(len(body)), "content-type": "application/json"}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.send(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = [line.split(": ", 1) for line in lines[1:] if line]
        return int(lines[0].split()[1]), dict(pairs)

    async def answer(self) -> Answer:
        async with asyncio.timeout(20):
            status, headers = await self.head()
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Answer(status, headers, body)

    async def chunk(self) -> bytes:
        """The next piece of a stream, b"" at its end."""
        async with asyncio.timeout(20):
            size = int(await self.reader.readline(), 16)
            return (await self.reader.readexactly(size + 2))[:-2]

    async def chunks(self) -> AsyncIterator[bytes]:
        """All pieces to the end."""
        while piece := await self.chunk():
            yield piece

    async def is_closed(self) -> bool:
        """Whether the server closes the connection before long."""
        async with asyncio.timeout(20):
            try:
                while await self.reader.read(1 << 16):
                    pass
            except (ConnectionError, ssl.SSLError):
                pass
        return True

    async def close(self) -> None:
        with suppress(AttributeError):  # Python 3.11.2 loses what it would abort if both ends closed the connection
            self.writer.transport.abort()
        with suppress(ConnectionError, ssl.SSLError):
            await self.writer.wait_closed()


@asynccontextmanager
async def served(directory: Path):
    clock, ids = RealClock(), Ids()
    journal = GatedJournal()
    credentials = Credentials.load(directory / "pki", clock.now(), ids)
    async with control_plane(journal, ExternalInputs(clock, ids, Random()), trust=lambda: credentials.trust) as plane:
        authenticator = credentials.authenticator(plane.access.tokens.user)
        front = HttpsFront(plane.server, authenticator, credentials.server_context())
        port = await front.start("127.0.0.1", 0)
        try:
            world = World(plane, journal, credentials, front, port, directory, [])
            yield world
        finally:
            journal.gate.set()
            for wire in world.wires:
                await wire.close()
            await front.stop(1)


def over_https(test):
    """Run a test that takes a `World` first, on a real loop."""

    def run(tmp_path, **parameters):
        async def body():
            async with served(tmp_path) as world:
                await test(world, **parameters)

        asyncio.run(body())

    return with_parameters(run, test, "tmp_path")


# -- who gets in


@pytest.mark.parametrize(
    ("certificate", "authorization", "status"),
    [
        (None, "", 401),
        (None, "Bearer wrong", 401),
        (None, "Bearer ", 401),
        (None, "Bearer é", 401),
        (None, "Basic TOKEN", 401),
        (None, "Bearer TOKENx", 401),
        (None, "Bearer TOKEN", 200),
        (None, "bearer  TOKEN", 200),
        ("admin", "", 200),
        ("admin", "Bearer wrong", 200),
        ("other", "", 403),
        ("other", "Bearer TOKEN", 403),
    ],
)
@over_https
async def test_who_gets_in(world, certificate, authorization, status):
    pair = world.credentials.admin
    if certificate == "other":
        authority = Authority(world.directory / "pki", RealClock().now())
        pair = authority.client("other", User("eve", frozenset({"system:authenticated", "developers"})))
    wire = await world.connect(pair, anonymous=certificate is None)
    headers = {"authorization": authorization.replace("TOKEN", world.credentials.token)} if authorization else {}
    for path in ("/api/v1/pods", "/version", "/healthz", "/nothing"):
        answer = await wire.ask("GET", path, **headers)
        # Who is anybody may see which server it is, and whether it is well.
        is_public = status == 403 and path in ("/version", "/healthz")
        assert answer.status == (404 if (status, path) == (200, "/nothing") else 200 if is_public else status)
        if status == 401:
            assert (answer.json["reason"], answer.headers["www-authenticate"]) == ("Unauthorized", "Bearer")
    if status == 403:
        assert (
            (await wire.ask("GET", "/api/v1/pods", **headers))
            .json["message"]
            .startswith('pods is forbidden: User "eve" cannot list resource "pods"')
        )
    await wire.close()


@pytest.mark.parametrize("stranger", ["another authority", "the server's own"])
@over_https
async def test_certificates_that_are_not_for_clients(world, stranger):
    pair = world.credentials.server
    if stranger == "another authority":
        pair = Credentials.load(world.directory / "elsewhere", RealClock().now(), Ids()).admin
    with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):  # noqa: PT012  (TLS 1.3 says so with the first read)
        wire = await world.connect(pair)
        wire.request("GET", "/version")
        await wire.reader.readexactly(1)
        raise AssertionError("it was let in")


@over_https
async def test_nobody_acts_as_somebody_else(world):
    """A request to be less than one is is not taken for one's own."""
    wire = await world.connect(world.credentials.admin)
    answer = await wire.ask("GET", "/api/v1/pods", impersonate_user="nobody")
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden")
    assert answer.json["message"].startswith('pods is forbidden: User "nobody" cannot list resource "pods"')
    await wire.close()


def logged(world):
    """Let the server keep an audit log; the events, as they come."""
    lines: list[bytes] = []
    around, policy = (
        world.plane.inputs,
        parse(
            '{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": '
            '[{"level": "Metadata", "omitStages": ["RequestReceived"]}]}'
        ),
    )
    world.plane.server.audit = Audit(policy, lines.append, world.plane.access.rbac.decide, around.clock, around.ids)
    return lambda: [json.loads(line) for line in lines]


@over_https
async def test_every_answer_says_where_it_is_in_the_audit_log(world):
    events = logged(world)
    wire, stranger = await world.connect(), await world.connect(anonymous=True)
    answers = [
        await wire.ask("GET", MAPS, audit_id="mine"),
        await wire.ask("GET", f"{MAPS}/none", audit_id="m" * 100),
        await wire.ask("GET", "/version"),
        await stranger.ask("GET", MAPS, user_agent="stray"),
    ]
    assert [event["auditID"] for event in events()] == [answer.headers["audit-id"] for answer in answers]
    assert [answer.headers["audit-id"] for answer in answers[:2]] == ["mine", "m" * 64]
    refused = events()[-1]
    assert (refused["stage"], refused["verb"], refused["user"], refused["userAgent"]) == (
        "ResponseStarted", "list", {}, "stray"
    )  # fmt: skip
    assert (refused["responseStatus"]["code"], refused["objectRef"]["resource"]) == (401, "configmaps")


@over_https
async def test_who_does_not_wait_for_the_answer_is_in_the_audit_log(world):
    events = logged(world)
    wire = await world.connect()
    world.journal.gate.clear()
    answer = await wire.ask("POST", f"{MAPS}?timeout=10ms", json.dumps(config_map()).encode())
    assert answer.status == 504
    world.journal.gate.set()
    (event,) = events()
    assert (event["stage"], event["verb"], event["responseStatus"]["code"]) == ("ResponseComplete", "create", 504)


@over_https
async def test_what_comes_after_the_body_is_no_header(world):
    wire = await world.connect()
    body = json.dumps(config_map()).encode()
    head = f"POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    wire.send(head.encode() + b"%x\r\n%s\r\n0\r\nimpersonate-user: nobody\r\n\r\n" % (len(body), body))
    assert (await wire.answer()).status == 201
    assert (await wire.ask("GET", MAPS, impersonate_user="nobody")).status == 403


@over_https
async def test_a_refused_write_is_read_if_it_is_short(world):
    wire = await world.connect(anonymous=True)
    for _ in range(2):
        answer = await wire.ask("POST", MAPS, b"x" * 100)
        assert (answer.status, answer.headers.get("connection")) == (401, None)


@pytest.mark.parametrize("kept_waiting", [b"", b"expect: 100-continue\r\n"])
def test_a_refused_write_is_not_waited_for(tmp_path, monkeypatch, kept_waiting):
    monkeypatch.setattr(incoming, "SKIP_SECONDS", 0.2)

    @over_https
    async def body(world):
        wire = await world.connect(anonymous=True)
        wire.send(b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n%b\r\n" % (MAPS.encode(), kept_waiting))
        answer = await wire.answer()
        assert (answer.status, answer.headers["connection"]) == (401, "close")
        assert await wire.is_closed()

    body(tmp_path)


@pytest.mark.parametrize(("length", "who", "status"), [(3_000_000, "eve", 403), (4_000_000, "admin", 413)])
@over_https
async def test_who_sends_before_it_reads_gets_its_refusal(world, length, who, status):
    """The answer is there while the body is still on its way, and is not lost when the connection is closed."""
    authority = Authority(world.directory / "pki", RealClock().now())
    pair = authority.client("eve", User("eve", frozenset({"x"}))) if who == "eve" else None
    wire = await world.connect(pair)
    wire.send(f"POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n".encode())
    for _ in range(0, length, 100_000):
        wire.send(b"x" * 100_000)
        await wire.writer.drain()
        await asyncio.sleep(0.01)
    answer = await wire.answer()
    assert (answer.status, answer.headers["connection"]) == (status, "close")
    assert await wire.is_closed()


@over_https
async def test_who_may_not_takes_no_seat_and_no_room(world):
    """Whatever else it says: what the headers say is enough to refuse it."""
    authority = Authority(world.directory / "pki", RealClock().now())
    eve = authority.client("eve", User("eve", frozenset({"x"})))
    flow = world.front.flow
    wires = [await world.connect(eve) for _ in range(5)]
    for wire in wires:
        wire.send(f"POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n{{".encode())
    assert {(await wire.answer()).status for wire in wires} == {403}
    assert (flow.seats.lent, flow.room.lent) == (0, 0)


@over_https
async def test_a_body_that_is_still_coming_takes_room_and_no_seat(world):
    flow = world.front.flow
    wire = await world.connect()
    body = json.dumps(config_map("m", {"a": "x" * 200_000})).encode()
    head = f"POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    wire.send(head.encode() + body[:-1])
    async with asyncio.timeout(20):
        while not flow.room.lent:
            await asyncio.sleep(0.01)
    assert (flow.seats.lent, flow.room.lent) == (0, 1 + len(body) // 65536)
    wire.send(body[-1:])
    assert (await wire.answer()).status == 201
    assert (flow.seats.lent, flow.room.lent) == (0, 0)


@over_https
async def test_rights_that_went_while_the_body_came(world):
    authority = Authority(world.directory / "pki", RealClock().now())
    eve = await world.connect(authority.client("eve", User("eve", frozenset({"x"}))))
    admin = await world.connect()
    rbac = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    assert (await admin.ask("POST", rbac, json.dumps(binding).encode())).status == 201
    body = json.dumps(config_map()).encode()
    head = f"POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    eve.send(head.encode() + body[:-1])
    async with asyncio.timeout(20):
        while not world.front.flow.room.lent:
            await asyncio.sleep(0.01)
    assert (await admin.ask("DELETE", f"{rbac}/b")).status == 200
    eve.send(body[-1:])
    assert (await eve.answer()).status == 403


@over_https
async def test_what_is_refused_unread_is_in_the_audit_log(world):
    events = logged(world)
    wire = await world.connect()
    wire.send(f"POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: 3145729\r\n\r\n".encode())
    assert (await wire.answer()).status == 413
    (event,) = events()
    assert (event["verb"], event["objectRef"]["resource"]) == ("create", "configmaps")
    assert (event["user"]["username"], event["responseStatus"]["code"]) == ("kubernetes-admin", 413)


# -- requests


@over_https
async def test_one_connection_many_requests(world):
    wire = await world.connect()
    created = await wire.ask(
        "POST", f"{MAPS}?fieldManager=x", json.dumps(config_map(extra="x") | {"bogus": 1}).encode()
    )
    assert (created.status, created.headers["content-type"]) == (201, "application/json")
    assert r"unknown field \"bogus\"" in created.headers["warning"]
    assert (await wire.ask("GET", f"{DEFAULT}/config%6Daps/m")).status == 200
    assert (await wire.ask("GET", f"{MAPS}?labelSelector=a%3Db&labelSelector=")).json["items"] == []
    assert (await wire.ask("GET", f"{MAPS}/%2e%2e%2fpods")).status == 404
    assert (await wire.ask("GET", f"{MAPS}/%00")).status == 404
    assert (await wire.ask("GET", f"{MAPS}/%ff%fe")).status == 404
    wire.request("GET", f"{MAPS}/m")
    wire.request("GET", f"{MAPS}/none")  # before the first is answered
    assert [(await wire.answer()).status, (await wire.answer()).status] == [200, 404]
    assert (await wire.ask("DELETE", f"{MAPS}/m")).status == 200
    await wire.close()


@over_https
async def test_documents_that_have_not_changed(world):
    wire = await world.connect()
    first = await wire.ask("GET", "/openapi/v3")
    again = await wire.ask("GET", "/openapi/v3", if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    await wire.close()


@over_https
async def test_big_lists_are_compressed_for_who_asks(world):
    wire = await world.connect()
    for n in range(20):
        body = json.dumps(config_map(f"m{n}", data={"a": "x" * 20_000})).encode()
        assert (await wire.ask("POST", MAPS, body)).status == 201
    plain = await wire.ask("GET", MAPS)
    packed = await wire.ask("GET", MAPS, accept_encoding="gzip, deflate")
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert len(packed.body) < len(plain.body) / 10
    assert gzip.decompress(packed.body) == plain.body
    small = await wire.ask("GET", f"{MAPS}/m1", accept_encoding="gzip")
    assert "content-encoding" not in small.headers
    await wire.close()


def big_map(count: int, *more: str) -> bytes:
    """A ConfigMap in YAML, of which some keys may be given again."""
    lines = ["apiVersion: v1", "kind: ConfigMap", "metadata: {name: m}", "data:"]
    return "\n".join([*lines, *(f'  k{n}: "1"' for n in range(count)), *more, ""]).encode()


BIG = [
    ("application/yaml", big_map(20_000), 201, ""),
    ("application/yaml", big_map(20_000, "  k7: x"), 400, 'line 20005: key \\"k7\\" already set in map'),
    ("application/yaml", big_map(20_000, "  k7: *none"), 400, "unknown anchor"),
    ("application/json", json.dumps(config_map("m", {f"k{n}": "1" for n in range(20_000)})).encode(), 201, ""),
    (
        "application/json",
        b'{"kind":"ConfigMap","kind":"x","data":{"a":"%b"}}' % (b"x" * 200_000),
        400,
        "unknown conversion",
    ),
    ("application/json", b"{" + b" " * 200_000, 400, "json parse error"),
    ("application/json", b'{"x":' * 100_000 + b"1" + b"}" * 100_000, 400, "exceeded max depth"),
    ("application/nonsense", b" " * 200_000, 415, "unknown format"),
]


@pytest.mark.parametrize(("type_", "body", "status", "said"), BIG)
@over_https
async def test_big_bodies_are_read_beside_the_loop(world, type_, body, status, said):
    """And are answered as any other."""
    by: set[bool] = set()
    read = decode._read

    def noted(*arguments, **options):
        by.add(threading.current_thread() is threading.main_thread())
        return read(*arguments, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(decode, "_read", noted)
        wire = await world.connect()
        head = f"POST {MAPS}?fieldValidation=Strict HTTP/1.1\r\nhost: x\r\ncontent-type: {type_}\r\n"
        wire.send(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        answer = await wire.answer()
    assert answer.status == status
    assert said in answer.body.decode()
    assert by <= {False}


# -- limits


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: 3145729\r\n\r\n" % MAPS.encode(), 413),
        (b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999999999\r\n\r\n" % MAPS.encode(), 413),
        (
            b"POST %b HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" % MAPS.encode()
            + (b"100000\r\n" + b"x" * 0x100000 + b"\r\n") * 4,
            413,
        ),
        (b"GET /?" + b"x" * 40_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", 400),
        (b"GET /?" + b"&a=b" * 200 + b" HTTP/1.1\r\nhost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: " + b"b" * 400_000, 400),
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 20_000, 400),
        (b"\x16\x03\x01nonsense\r\n\r\n", 400),
        (b"GET /\x00 HTTP/1.1\r\nhost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n", 400),
    ],
)
@over_https
async def test_what_is_too_much(world, sent, status):
    wire = await world.connect()
    wire.send(sent)
    found, _headers = await wire.head()
    assert found == status
    wire = await world.connect()
    assert (await wire.ask("GET", "/healthz")).status == 200
    await wire.close()


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: x\r\n", b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET"]
)
def test_slow_headers_are_not_waited_for(tmp_path, monkeypatch, sent):
    monkeypatch.setattr(http1, "HEADER_SECONDS", 0.2)
    monkeypatch.setattr(acceptor, "ENTER_SECONDS", 1.0)

    @over_https
    async def body(world):
        wire = await world.connect()
        wire.send(sent)
        assert await wire.is_closed()
        assert len(world.front._connection_limit) == 0

    body(tmp_path)


class Trickle:
    """A client below TLS: it says a little at a time, and hears nothing."""

    def __init__(self, port):
        self.port = port

    async def until_closed(self, said):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(said)
            with suppress(ConnectionError):
                while await reader.read(1 << 16):
                    pass
        finally:
            writer.transport.abort()


# A TLS record that says that more is to come, and does not; a client that speaks no TLS; one that says nothing.
@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"])
def test_slow_handshakes_are_not_waited_for(tmp_path, monkeypatch, said):
    monkeypatch.setattr(acceptor, "ENTER_SECONDS", 0.5)

    @over_https
    async def body(world):
        async with asyncio.timeout(20):
            await Trickle(world.port).until_closed(said)
            while len(world.front._connection_limit):
                await asyncio.sleep(0.01)
        assert (await (await world.connect()).ask("GET", "/healthz")).status == 200

    body(tmp_path)


def test_trickled_headers_gain_no_time(tmp_path, monkeypatch):
    """From the connection to the end of the headers there is one time, however often something comes."""
    monkeypatch.setattr(acceptor, "ENTER_SECONDS", 1.0)

    @over_https
    async def body(world):
        wire = await world.connect()
        wire.send(b"GET /healthz HTTP/1.1\r\n")
        with suppress(ConnectionError, ssl.SSLError):
            async with asyncio.timeout(20):
                while not wire.reader.at_eof():
                    wire.send(b"a: b\r\n")
                    await wire.writer.drain()
                    await asyncio.sleep(0.05)
        assert await wire.is_closed()

    body(tmp_path)


def test_the_idle_give_way(tmp_path, monkeypatch):
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 6)
    monkeypatch.setattr(connectionlimit, "LEAVING_AT_ONCE", 1)

    @over_https
    async def body(world):
        authority = Authority(world.directory / "pki", RealClock().now())
        pair = authority.client("eve", User("eve", frozenset({"system:masters"})))
        mine = await world.connect()
        assert (await mine.ask("GET", "/healthz")).status == 200
        watching = await world.connect(pair)
        watching.request("GET", f"{MAPS}?watch=1")
        assert (await watching.head())[0] == 200
        theirs = [await world.connect(pair) for _ in range(4)]
        for wire in theirs:
            assert (await wire.ask("GET", "/version")).status == 200
        late = await world.connect()
        assert (await late.ask("GET", "/healthz")).status == 200
        assert await theirs[0].is_closed()  # idle for longest, of who has most
        assert (await theirs[1].ask("GET", "/version")).status == 200
        assert (await mine.ask("GET", "/healthz")).status == 200
        assert len(world.front._connection_limit) == 6

    body(tmp_path)


def test_many_who_come_at_once_wait_their_turn(tmp_path, monkeypatch):
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 8)
    monkeypatch.setattr(connectionlimit, "PATIENCE_SECONDS", 60.0)

    @over_https
    async def body(world):
        async def visit():
            wire = await world.connect()
            status = (await wire.ask("GET", "/healthz")).status
            wire.writer.transport.abort()
            return status

        assert await asyncio.gather(*(visit() for _ in range(100))) == [200] * 100

    body(tmp_path)


def test_slow_bodies_are_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(incoming, "BODY_SECONDS", 0.2)

    @over_https
    async def body(world):
        wire = await world.connect()
        wire.send(f"POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{{".encode())
        answer = await wire.answer()
        assert (answer.status, answer.json["reason"]) == (408, "Timeout")
        assert await wire.is_closed()

    body(tmp_path)


def test_answers_are_not_waited_for_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(application, "REQUEST_SECONDS", 0.2)

    @over_https
    async def body(world):
        wire = await world.connect()
        world.journal.gate.clear()
        answer = await wire.ask("POST", MAPS, json.dumps(config_map()).encode())
        assert (answer.status, answer.json["reason"]) == (504, "Timeout")
        world.journal.gate.set()
        await wire.close()

    body(tmp_path)


def test_a_client_that_takes_nothing_is_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr(http1, "STALLED_SECONDS", 0.2)

    @over_https
    async def body(world):
        wire = await world.connect()
        other = await world.connect()
        document = config_map("m", data={"a": "x" * 500_000})
        for n in range(20):
            document["metadata"]["name"] = f"m{n}"
            assert (await other.ask("POST", MAPS, json.dumps(document).encode())).status == 201
        wire.writer.transport.pause_reading()
        wire.request("GET", f"{MAPS}?watch=1")
        async with asyncio.timeout(20):
            while len(world.front._shared.connections) > 1:
                await asyncio.sleep(0.02)
        assert (await other.ask("GET", "/healthz")).status == 200
        wire.writer.transport.abort()
        await other.close()

    body(tmp_path)


# -- streams and the end


@over_https
async def test_a_watch(world):
    wire, other = await world.connect(), await world.connect()
    wire.request("GET", f"{MAPS}?watch=1&resourceVersion={world.plane.store.revision}")
    status, headers = await wire.head()
    assert (status, headers["content-type"], headers["transfer-encoding"]) == (200, "application/json", "chunked")
    await other.ask("POST", MAPS, json.dumps(config_map()).encode())
    event = json.loads(await wire.chunk())
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "m")
    await wire.close()
    async with asyncio.timeout(20):
        while world.plane.server._watcher._open:  # it ends with its client, not at the next change
            await asyncio.sleep(0.01)
    await other.close()


@over_https
async def test_what_comes_while_a_watch_rests_goes_out_together(world):
    gate = asyncio.Event()
    world.front._application._pause_watch = gate.wait
    wire, other = await world.connect(), await world.connect()
    wire.request("GET", f"{MAPS}?watch=1&resourceVersion={world.plane.store.revision}")
    await wire.head()
    changes = []
    for name in ("a", "b", "c"):
        assert (await other.ask("POST", MAPS, json.dumps(config_map(name)).encode())).status == 201
        if name == "a":
            changes.append((await wire.chunk()).count(b"\n"))
    gate.set()
    changes.append((await wire.chunk()).count(b"\n"))
    assert changes == [1, 2]


@over_https
async def test_a_watch_warns_as_any_other_answer(world):
    wire = await world.connect()
    wire.request("GET", "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions?watch=1")
    _, headers = await wire.head()
    assert "CustomResourceDefinition is deprecated" in headers["warning"]
    await wire.close()


@over_https
async def test_a_graceful_end(world):
    watching, writing, idle = await world.connect(), await world.connect(), await world.connect()
    assert (await idle.ask("GET", "/healthz")).status == 200
    watching.request("GET", f"{MAPS}?watch=1")
    await watching.head()
    world.journal.gate.clear()
    world.journal.waiting.clear()
    writing.request("POST", MAPS, json.dumps(config_map()).encode())
    await world.journal.waiting.wait()
    stop = asyncio.create_task(world.front.stop(10))
    assert await watching.chunk() == b""  # a proper end, not a broken connection
    assert await idle.is_closed()
    with pytest.raises(OSError):
        await world.connect()
    world.journal.gate.set()
    answer = await writing.answer()
    assert (answer.status, answer.headers["connection"]) == (201, "close")
    await stop
    assert await writing.is_closed()


@over_https
async def test_a_large_answer_goes_out_whole_at_the_end(world):
    """Much of it is still the connection's when the server has nothing more to do with it."""
    slow, other = await world.connect(), await world.connect()
    document = config_map(data={"a": "x" * 900_000})
    for number in range(20):
        document["metadata"]["name"] = f"m{number}"
        assert (await other.ask("POST", MAPS, json.dumps(document).encode())).status == 201
    slow.request("GET", MAPS)
    await slow.head()
    slow.writer.transport.pause_reading()
    stop = asyncio.create_task(world.front.stop(600))
    assert await other.is_closed()
    await asyncio.sleep(1.0)  # what has no end is cut off meanwhile
    slow.writer.transport.resume_reading()
    pieces = [piece async for piece in slow.chunks()]
    assert len(json.loads(b"".join(pieces))["items"]) == 20
    slow.writer.close()
    async with asyncio.timeout(20):
        await stop


@pytest.mark.parametrize("path", ["/healthz", f"{MAPS}?watch=1"])
@over_https
async def test_who_is_not_there_does_not_hold_up_the_end(world, monkeypatch, path):
    """And has no answer under way that has an end."""
    monkeypatch.setattr(listener, "SETTLED_SECONDS", 0.0)
    monkeypatch.setattr(acceptor, "CLOSE_SECONDS", 600.0)
    absent = await world.connect()
    absent.request("GET", path)
    assert (await absent.head())[0] == 200
    absent.writer.transport.pause_reading()
    async with asyncio.timeout(20):
        await world.front.stop(600)


@over_https
async def test_a_followed_log_ends_with_the_server(world):
    class Node:
        async def logs(self, _pod, _options):
            yield b"one\n"
            await asyncio.Event().wait()

    world.plane.nodes["n"] = Node()
    wire = await world.connect()
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}
    assert (await wire.ask("POST", f"{DEFAULT}/pods", json.dumps(pod).encode())).status == 201
    wire.request("GET", f"{DEFAULT}/pods/p/log?follow=true")
    assert (await wire.head())[1]["content-type"] == "text/plain"
    assert await wire.chunk() == b"one\n"
    await world.front.stop(1)
    assert await wire.is_closed()


@over_https
async def test_a_taken_port(world):
    second = HttpsFront(world.plane.server, world.credentials.authenticator(), world.credentials.server_context())
    with pytest.raises(AddressTaken, match=f"127.0.0.1:{world.port} is taken by another process"):
        await second.start("127.0.0.1", world.port)
