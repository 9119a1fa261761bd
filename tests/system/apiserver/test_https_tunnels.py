"""Conversations with pods over the HTTPS front: WebSockets and SPDY on a real socket, a program of ours at the end."""

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

from muster.api.status import internal_error

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

    async def ended(self):
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


async def spdy(world, path, *protocols):
    wire = await world.connect()
    wire.request("POST", f"{PODS}/p/{path}", connection="Upgrade", upgrade="SPDY/3.1",
                 x_stream_protocol_version=", ".join(protocols))  # fmt: skip
    status, headers = await wire.head()
    assert (status, headers["upgrade"]) == (101, "SPDY/3.1")
    return wire, headers.get("x-stream-protocol-version", "")


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
async def test_a_command_over_spdy(world):
    await noded(world)
    wire, protocol = await spdy(world, EXEC, "v4.channel.k8s.io", "v3.channel.k8s.io")
    assert protocol == "v4.channel.k8s.io"
    client = Client()
    names = ("error", "stdin", "stdout", "stderr")
    wire.send(b"".join(client.open(2 * turn + 1, ("streamtype", name)) for turn, name in enumerate(names)))
    wire.send(data(3, b"hello", last=True))
    frames = await read_frames(wire)
    assert [frame for frame in frames if not frame[0] & 0x80] == [
        data(5, b"hello"),
        data(7, b"None"),
        data(5, b"", last=True),
        data(7, b"", last=True),
        data(1, json.dumps(SUCCESS, separators=(",", ":")).encode(), last=True),
    ]


async def read_frames(wire, enough=lambda frames: False):
    """The frames that come, to the end or until they are enough."""
    frames: list[bytes] = []
    while not enough(frames):
        try:
            head = await wire.reader.readexactly(8)
        except asyncio.IncompleteReadError:
            break
        frames.append(head + await wire.reader.readexactly(int.from_bytes(head[5:], "big")))
    return frames


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
    wire, _ = await spdy(world, EXEC)
    await wire.close()
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


@over_https
async def test_ports_over_spdy(world):
    await noded(world)
    wire, _ = await spdy(world, "portforward", "portforward.k8s.io")
    client = Client()
    for first, port in ((1, "80"), (5, "9")):
        pairs = ("port", port), ("requestid", port)
        wire.send(client.open(first, ("streamtype", "error"), *pairs, last=True))
        wire.send(client.open(first + 2, ("streamtype", "data"), *pairs))
    wire.send(data(3, b"hello"))
    wire.send(data(3, b"", last=True))
    wire.send(client.open(9, ("streamtype", "data"), ("port", "none")))
    frames = await read_frames(wire, lambda found: sum(bool(frame[4] & 1) for frame in found) == 4 and len(found) > 10)
    assert sorted(frame for frame in frames if not frame[0] & 0x80) == sorted(
        [data(3, b"HELLO"), data(5, b"nobody is there"), *(data(stream, b"", last=True) for stream in (1, 3, 5, 7))]
    )
    assert [frame[3] for frame in frames if frame[0] & 0x80] == [2, 2, 2, 2, 3], "four replies, and a reset"


@over_https
async def test_ports_over_spdy_in_a_websocket(world):
    await noded(world)
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
    talk, client = Protocol(Side.CLIENT), Client()
    pairs = ("port", "80"), ("requestid", "0")
    said = client.open(1, ("streamtype", "error"), *pairs) + client.open(3, ("streamtype", "data"), *pairs)
    said += data(3, b"hello", last=True)
    for start in range(0, len(said), 30):  # messages are no frames
        talk.send_binary(said[start : start + 30])
    wire.send(b"".join(talk.data_to_send()))
    heard = b""
    while data(1, b"", last=True) not in heard:
        talk.receive_data(await asyncio.wait_for(wire.reader.read(4096), LIMIT))
        heard += b"".join(bytes(frame.data) for frame in talk.events_received())
    assert data(3, b"HELLO") + data(3, b"", last=True) in heard


@over_https
async def test_conversations_beside_http_2(world):
    """A client that offers both asks for a conversation over HTTP/1.1, and goes on with all else on a stream."""
    node = await noded(world)
    client = await http2(world)
    watches = [client.begin("GET", f"{MAPS}?watch=1&resourceVersion={world.plane.store.revision}") for _ in range(20)]
    assert {(await watch.head)[":status"] for watch in watches} == {"200"}
    wire, _ = await spdy(world, "portforward", "portforward.k8s.io")
    port, pairs = Client(), (("port", "80"), ("requestid", "0"))
    wire.send(port.open(1, ("streamtype", "error"), *pairs, last=True) + port.open(3, ("streamtype", "data"), *pairs))
    async with talking(world, EXEC, "v5.channel.k8s.io") as talk:
        assert await talk.recv() == b"\1"
        for number in range(5):
            text = b"hello %d" % number
            created = asyncio.create_task(client.ask("POST", MAPS, json.dumps(config_map(f"m{number}")).encode()))
            await talk.send(b"\0" + text)
            wire.send(data(3, text))
            assert await talk.recv() == b"\1" + text
            await read_frames(wire, lambda found, text=text: data(3, text.upper()) in found)
            assert (await created).status == 201
            names = {json.loads(await watch.line())["object"]["metadata"]["name"] for watch in watches}
            assert names == {f"m{number}"}
    wire.send(data(3, b"", last=True))
    await read_frames(wire, lambda found: data(3, b"", last=True) in found)
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
