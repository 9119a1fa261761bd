"""The messages of WebSockets."""

import asyncio

import pytest
from tests.unit.cluster.apiserver.pods.tunnels.test_wire import Carrier
from websockets.frames import Frame, Opcode
from websockets.protocol import CLOSED, CLOSING, OPEN, Protocol, Side

from muster.cluster.apiserver.pods.tunnels.websocket import WebSocketWire
from muster.cluster.apiserver.pods.tunnels.wire import RawWire, WireError


def client():
    return Protocol(Side.CLIENT, state=OPEN)


def bytes_of(protocol):
    return b"".join(protocol.data_to_send())


def run(test):
    """The test with a carrier, a raw wire on it, and a WebSocket on that."""
    carrier = Carrier()
    raw = RawWire(carrier)
    asyncio.run(asyncio.wait_for(test(carrier, raw, WebSocketWire(raw)), 10))


def test_messages_both_ways():
    async def test(carrier, raw, wire):
        peer = client()
        peer.send_ping(b"are you there")
        peer.send_binary(b"one")
        peer.send_binary(b"")
        peer.send_text(b"tw", fin=False)
        peer.send_continuation(b"o", fin=True)
        for byte in bytes_of(peer):
            raw.feed(bytes((byte,)))
        assert [await wire.receive(), await wire.receive()] == [b"one", b"two"]
        await wire.send(b"three")
        peer.receive_data(carrier.written)
        pong, three = peer.events_received()
        assert (pong.opcode, bytes(pong.data)) == (Opcode.PONG, b"are you there")
        assert (three.opcode, bytes(three.data)) == (Opcode.BINARY, b"three")

    run(test)


def test_the_client_says_good_bye():
    async def test(carrier, raw, wire):
        peer = client()
        peer.send_binary(b"last")
        peer.send_close(1000)
        raw.feed(bytes_of(peer))
        assert [await wire.receive(), await wire.receive()] == [b"last", b""]
        with pytest.raises(WireError):
            await wire.send(b"too late")
        peer.receive_data(carrier.written)
        assert peer.close_rcvd.code == 1000

    run(test)


def test_we_say_good_bye():
    async def test(carrier, raw, wire):
        closing = asyncio.create_task(wire.close())
        await asyncio.sleep(0)
        peer = client()
        peer.receive_data(carrier.written)
        assert peer.state in (CLOSING, CLOSED)
        raw.feed(bytes_of(peer))
        await closing

    run(test)


def test_who_breaks_the_protocol_is_cut_off():
    async def test(carrier, raw, wire):
        raw.feed(Frame(Opcode.BINARY, b"not masked").serialize(mask=False))
        with pytest.raises(WireError, match="incorrect masking"):
            await wire.receive()

    run(test)
