"""Remote commands over SPDY: what clients may do with the streams that they open."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from tests.unit.cluster.apiserver.pods.tunnels.spdy_client import Client, data

from muster.cluster.apiserver.pods.tunnels.command import over_streams
from muster.cluster.apiserver.pods.tunnels.lines import EARLY_BYTES
from muster.cluster.apiserver.pods.tunnels.wire import WireError
from muster.cluster.nodeconnection import ERROR, STDERR, STDIN, STDOUT
from muster.runtime.clock import run_virtual

CHANNELS = frozenset({STDIN, STDOUT, STDERR, ERROR})


class Wire:
    """What a client sends, piece by piece; then it waits."""

    def __init__(self, pieces):
        self.pieces = list(pieces)
        self.sent = b""

    async def receive(self):
        if not self.pieces:
            await asyncio.Event().wait()
        return self.pieces.pop(0)

    async def send(self, data):
        self.sent += data

    async def close(self):
        pass


class Echo:
    """A program that says what it has read, once there is no more."""

    def __init__(self):
        self.read = b""
        self.over = asyncio.Event()

    async def output(self):
        await self.over.wait()
        yield STDOUT, b"read " + self.read

    async def write(self, data):
        self.read += data

    async def end_input(self):
        self.over.set()

    async def ended(self):
        return 0


@asynccontextmanager
async def echo():
    yield Echo()


def converse(pieces):
    wire = Wire(pieces)
    asyncio.run(asyncio.wait_for(over_streams(True, CHANNELS, echo, wire), 10))
    return wire.sent


def opened(*, ended=()):
    client = Client()
    for number, name in enumerate(("error", "stdin", "stdout", "stderr")):
        yield client.open(2 * number + 1, ("streamtype", name), last=name in ended)


def test_to_end_a_stream_that_one_only_reads_ends_nothing_else():
    ends = [data(1, b"", last=True), data(5, b"", last=True)]
    assert b"read all" in converse([*opened(), *ends, data(3, b"all", last=True)])


def test_a_stream_may_be_opened_with_nothing_to_say():
    assert b"read " in converse(opened(ended=("stdin",)))


def test_who_writes_and_opens_no_more_streams_is_cut_off():
    first, second, *_ = opened()
    with pytest.raises(WireError, match="does not open the streams"):
        converse([first, second, *[data(3, b"x" * 65536)] * (EARLY_BYTES // 65536 + 1)])


def test_who_goes_while_nobody_reads_his_input_is_noticed():
    class Deaf(Echo):
        async def write(self, data):
            await asyncio.Event().wait()

    @asynccontextmanager
    async def deaf():
        yield Deaf()

    class Gone(Wire):
        async def send(self, data):
            if not self.pieces:
                raise WireError("the client has gone")

    with pytest.raises(WireError, match="has gone"):
        run_virtual(over_streams(True, CHANNELS, deaf, Gone([*opened(), data(3, b"x")])))
