"""Connections that have left HTTP."""

import asyncio

import pytest

from muster.cluster.apiserver.pods.tunnels.wire import HELD_BYTES, RawWire, WireError


class Carrier:
    """A connection that keeps what is written."""

    def __init__(self):
        self.written = b""
        self.reading = True

    def write(self, data):
        self.written += data

    async def drain(self):
        pass

    def pause(self):
        self.reading = False

    def resume(self):
        self.reading = True


def run(test):
    """The test with a wire on a carrier."""
    carrier = Carrier()
    asyncio.run(asyncio.wait_for(test(carrier, RawWire(carrier)), 10))


def test_the_client_waits_while_nobody_asks():
    async def test(carrier, raw):
        raw.feed(b"x" * HELD_BYTES)
        assert not carrier.reading
        assert len(await raw.receive()) == HELD_BYTES
        assert carrier.reading
        raw.end()
        assert await raw.receive() == b""
        with pytest.raises(WireError):
            await raw.send(b"x")

    run(test)
