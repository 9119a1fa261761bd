"""Conversations with pods over the HTTPS front: WebSockets on a real socket, a program of ours at the end."""

import asyncio
import base64
import json
import socket
from contextlib import asynccontextmanager

import pytest
from tests.system.apiserver.harness import MAPS, PODS, config_map, pod
from tests.system.apiserver.test_https_front import over_https
from tests.system.apiserver.test_https_front_http2 import http2
from tests.unit.cluster.apiserver.pods.tunnels.spdy_client import Client, data
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.protocol import Protocol, Side

from muster.api.status import bad_request, internal_error
from muster.cluster.apiserver.pods.tunnels.negotiation import NO_SPDY

LIMIT = 20
SUCCESS = {"metadata": {}, "status": "Success"}


class Echo:
    """Says what it hears, and at the end of that, its size; what it is asked for decides how it ends."""

    def __init__(self, options):
        self.options = options
        self.heard: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.size = None

    async def output(self):
        while (said := await self.heard.get()) is not None:
            yield 1, said
        yield 2, f"{self.size}".encode()

    async def write(self, data):
        await self.heard.put(data)
        if data == b"end":
            await self.end_input()

    async def end_input(self):
        self.heard.put_nowait(None)

    async def resize(self, columns, rows):
        self.size = (columns, rows)

    async def wait_for_end(self):
        if self.options.command == ("fail",):
            raise internal_error("it cannot be run")
        return len(self.options.command) - 1


class Node:
    """Runs echoes; ports answer with what they get, in capitals."""

    def __init__(self):
        self.running = 0
        self.changed = asyncio.Event()

    def exec(self, pod, options):
        @asynccontextmanager
        async def opening():
            self.count(1)
            try:
                yield Echo(options)
            finally:
                self.count(-1)

        return opening

    def attach(self, pod, options):
        return self.exec(pod, options)

    def count(self, change):
        self.running += change
        self.changed.set()

    async def comes_to(self, running):
        async with asyncio.timeout(LIMIT):
            while self.running != running:
                self.changed.clear()
                await self.changed.wait()

    def dial(self, pod):
        async def dial(port):
            if port == 9:
                raise OSError("nobody is there")

            async def serve(reader, writer):
                while data := await reader.read(65536):
                    writer.write(data.upper())
                writer.close()

            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            try:
                connection = socket.socket()
                connection.setblocking(False)
                await asyncio.get_running_loop().sock_connect(connection, server.sockets[0].getsockname())
                return connection
            finally:
                server.close()

        return dial


async def noded(world):
    """The world's one node, on which the pod `p` runs."""
    node = world.plane.nodes["n"] = Node()
    wire = await world.connect()
    assert (await wire.ask("POST", PODS, json.dumps(pod(node="n")).encode())).status == 201
    return node


def talking(world, path, *protocols, pair=None):
    url = f"wss://localhost:{world.port}{PODS}/p/{path}"
    context = world.context(pair or world.credentials.admin)
    return connect(url, ssl=context, subprotocols=protocols or None, compression=None, open_timeout=LIMIT)


EXEC = "exec?stdin=1&stdout=1&stderr=1&command=echo"


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io"])
@over_https
async def test_a_command_on_a_websocket(world, protocol):
    node = await noded(world)
    async with talking(world, EXEC, protocol, "other") as talk:
        assert talk.subprotocol == protocol
        assert await talk.recv() == b"\1"
        await talk.send(b"\0hello")
        assert await talk.recv() == b"\1hello"
        await talk.send(b"\xff\0" if protocol.startswith("v5") else b"\0end")
        said = [message async for message in talk]
    if not protocol.startswith("v5"):
        assert said.pop(0) == b"\1end"
    assert said.pop(0) == b"\2None"
    if protocol.startswith("v"):
        outcome = said.pop(0)
        assert (outcome[:1], json.loads(outcome[1:])) == (b"\3", SUCCESS)
    assert said == []
    assert talk.close_code == 1000
    assert node.running == 0


@over_https
async def test_a_command_in_base64(world):
    await noded(world)
    async with talking(world, EXEC, "v4.base64.channel.k8s.io") as talk:
        assert await talk.recv() == "1"
        await talk.send("0" + base64.b64encode(b"end").decode())
        said = [message async for message in talk]
    assert said[0] == "1" + base64.b64encode(b"end").decode()
    assert json.loads(base64.b64decode(said[2][1:])) == SUCCESS


@over_https
async def test_how_a_command_ends(world):
    await noded(world)
    for command, reason in (("a&command=b", "NonZeroExitCode"), ("fail", "InternalError")):
        path = f"exec?stdin=1&stdout=1&stderr=1&tty=1&command={command}"
        async with talking(world, path, "v5.channel.k8s.io") as talk:
            await talk.send(b'\4{"Width":80,"Height":24}\n')
            await talk.send(b"\xff\0")
            said = [message async for message in talk]
        assert said[0] == b"\1"
        assert json.loads(said[-1][1:])["reason"] == reason


@over_https
async def test_a_program_ends_with_its_client(world):
    node = await noded(world)
    async with talking(world, EXEC, "v5.channel.k8s.io") as talk:
        await node.comes_to(1)
        assert await talk.recv() == b"\1"
    await node.comes_to(0)
    talk = await talking(world, EXEC, "v5.channel.k8s.io")
    await node.comes_to(1)
    talk.transport.abort()
    await node.comes_to(0)


@over_https
async def test_a_conversation_ends_with_the_server(world):
    node = await noded(world)
    async with talking(world, EXEC, "v5.channel.k8s.io") as talk:
        await node.comes_to(1)
        await world.front.stop(1)
        with pytest.raises(ConnectionClosed):
            await read_on(talk)
    await node.comes_to(0)


async def read_on(talk):
    while True:
        await talk.recv()


@pytest.mark.parametrize("said", [b"\1not for clients", b"\xff", b"\4no size"])
@over_https
async def test_who_breaks_the_rules_is_cut_off(world, said):
    node = await noded(world)
    async with talking(world, f"{EXEC}&tty=1", "v5.channel.k8s.io") as talk:
        await node.comes_to(1)
        await talk.send(said)
        with pytest.raises(ConnectionClosed):
            await read_on(talk)
    await node.comes_to(0)


@asynccontextmanager
async def forwarding(world):
    """A connection of kubectl's; the client library takes no subprotocol of this name."""
    wire = await world.connect()
    handshake = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": base64.b64encode(bytes(16)).decode(),
        "sec-websocket-protocol": "SPDY/3.1+portforward.k8s.io",
    }
    wire.request("GET", f"{PODS}/p/portforward", **handshake)
    status, headers = await wire.head()
    assert (status, headers["sec-websocket-protocol"]) == (101, "SPDY/3.1+portforward.k8s.io")
    yield Forwarding(wire)
    await wire.close()


class Forwarding:
    """Streams of SPDY in a WebSocket, as kubectl forwards ports."""

    def __init__(self, wire):
        self.client = Client()
        self._wire = wire
        self._talk = Protocol(Side.CLIENT)
        self._heard = b""

    def say(self, said):
        for start in range(0, len(said), 30):  # messages are no frames
            self._talk.send_binary(said[start : start + 30])
        self._wire.send(b"".join(self._talk.data_to_send()))

    def opened(self, first, port):
        """The two streams of a connection."""
        pairs = ("port", port), ("requestid", port)
        errors = self.client.open(first, ("streamtype", "error"), *pairs, last=True)
        return errors + self.client.open(first + 2, ("streamtype", "data"), *pairs)

    async def frames(self, enough):
        """The frames that come, until they are enough."""
        frames: list[bytes] = []
        while not enough(frames):
            async with asyncio.timeout(LIMIT):
                self._talk.receive_data(await self._wire.reader.read(4096))
                self._heard += b"".join(bytes(frame.data) for frame in self._talk.events_received())
            while len(self._heard) >= 8 and len(self._heard) >= (end := 8 + int.from_bytes(self._heard[5:8], "big")):
                frames.append(self._heard[:end])
                self._heard = self._heard[end:]
        return frames


@over_https
async def test_ports(world):
    await noded(world)
    async with forwarding(world) as ports:
        ports.say(ports.opened(1, "80") + ports.opened(5, "9"))
        ports.say(data(3, b"hello") + data(3, b"", last=True))
        for stream, pairs in ((9, [("port", "none"), ("requestid", "3")]), (11, [("port", "80")])):
            ports.say(ports.client.open(stream, ("streamtype", "data"), *pairs))
        frames = await ports.frames(lambda found: sum(bool(frame[4] & 1) for frame in found) == 4 and len(found) > 11)
    assert sorted(frame for frame in frames if not frame[0] & 0x80) == sorted(
        [data(3, b"HELLO"), data(5, b"nobody is there"), *(data(stream, b"", last=True) for stream in (1, 3, 5, 7))]
    )
    assert [frame[3] for frame in frames if frame[0] & 0x80] == [2, 2, 2, 2, 3, 3], "four replies, and two resets"


@over_https
async def test_conversations_beside_http_2(world):
    """A client that offers both asks for a conversation over HTTP/1.1, and goes on with all else on a stream."""
    node = await noded(world)
    client = await http2(world)
    watches = [client.begin("GET", f"{MAPS}?watch=1&resourceVersion={world.plane.store.revision}") for _ in range(20)]
    assert {(await watch.head)[":status"] for watch in watches} == {"200"}
    async with talking(world, EXEC, "v5.channel.k8s.io") as talk, forwarding(world) as ports:
        ports.say(ports.opened(1, "80"))
        assert await talk.recv() == b"\1"
        for number in range(5):
            text = b"hello %d" % number
            created = asyncio.create_task(client.ask("POST", MAPS, json.dumps(config_map(f"m{number}")).encode()))
            await talk.send(b"\0" + text)
            ports.say(data(3, text))
            assert await talk.recv() == b"\1" + text
            await ports.frames(lambda found, text=text: data(3, text.upper()) in found)
            assert (await created).status == 201
            names = {json.loads(await watch.line())["object"]["metadata"]["name"] for watch in watches}
            assert names == {f"m{number}"}
        ports.say(data(3, b"", last=True))
        await ports.frames(lambda found: data(3, b"", last=True) in found)
    assert (await client.ask("GET", f"{PODS}/p/{EXEC}")).status == 400
    assert (await client.ask("GET", "/version")).status == 200
    await node.comes_to(0)


@over_https
async def test_much_through_a_port(world):
    await noded(world)
    sent = b"x" * 1_000_000
    async with talking(world, "portforward?ports=80&ports=9", "v4.channel.k8s.io") as talk:
        beginning = [await talk.recv() for _ in range(4)]
        assert beginning == [b"\0P\0", b"\1P\0", b"\2\t\0", b"\3\t\0"]
        writing = asyncio.create_task(write_all(talk, sent))
        came, trouble = 0, b""
        while came < len(sent) or not trouble:
            message = await talk.recv()
            if message[:1] == b"\3":
                trouble = message[1:]
            else:
                assert message[:1] == b"\0"
                came += message.count(b"X")
        await writing
    assert trouble == b"nobody is there"


async def write_all(talk, sent):
    for start in range(0, len(sent), 50_000):
        await talk.send(b"\0" + sent[start : start + 50_000])


class Idle(Node):
    """A node on which nothing runs."""

    def exec(self, pod, options):
        raise bad_request(f"nothing runs: {' '.join(options.command)}")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("exec?stdout=1&command=echo&command=a", "nothing runs: echo a"),
        ("portforward?ports=80&ports=x", "ports are numbers from 1 to 65535: 80,x"),
    ],
)
@over_https
async def test_a_refused_handshake_and_its_plain_request_have_the_same_reason(world, path, message):
    await noded(world)
    world.plane.nodes["n"] = Idle()
    with pytest.raises(InvalidStatus) as refused:
        await talking(world, path, "v5.channel.k8s.io")
    assert json.loads(refused.value.response.body)["message"] == message
    answer = await (await world.connect()).ask("GET", f"{PODS}/p/{path}")
    assert (answer.status, answer.json["message"]) == (400, message)


@over_https
async def test_no_agreement(world):
    await noded(world)
    with pytest.raises(InvalidStatus) as refused:
        await talking(world, EXEC, "v9.channel.k8s.io")
    assert refused.value.response.status_code == 403
    assert b"unable to negotiate protocol" in refused.value.response.body
    with pytest.raises(InvalidStatus) as refused:
        await talking(world, "exec?stdout=1&command=a&container=x", "v5.channel.k8s.io")
    assert refused.value.response.status_code == 400
    wire = await world.connect()
    answer = await wire.ask("GET", f"{PODS}/p/attach?stdout=1")
    assert (answer.status, answer.json["message"]) == (400, "Upgrade request required")
    answer = await (await world.connect()).ask("POST", f"{PODS}/p/{EXEC}", connection="Upgrade", upgrade="SPDY/3.1")
    assert (answer.status, answer.json["message"]) == (400, NO_SPDY)
    answer = await wire.ask("GET", f"{PODS}/p", connection="Upgrade", upgrade="h2c")
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert await wire.is_closed()


@over_https
async def test_who_may_not_is_not_connected(world):
    await noded(world)
    wire = await world.connect(anonymous=True)
    answer = await wire.ask("POST", f"{PODS}/p/{EXEC}", connection="Upgrade", upgrade="SPDY/3.1")
    assert answer.status == 401
    assert await wire.is_closed()
