"""Remote commands on a WebSocket: what clients may do with the channels."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from muster.cluster.apiserver.pods.tunnels.channels import DIALECTS
from muster.cluster.apiserver.pods.tunnels.command import converse
from muster.cluster.apiserver.pods.tunnels.wire import WireError
from muster.cluster.nodeconnection import ERROR, STDERR, STDIN, STDOUT
from muster.runtime.clock import run_virtual

CHANNELS = frozenset({STDIN, STDOUT, STDERR, ERROR})
END = 255


class Wire:
    """What a client sends, message by message; then it waits."""

    def __init__(self, messages):
        self.messages = list(messages)
        self.sent = []

    async def receive(self):
        if not self.messages:
            await asyncio.Event().wait()
        return self.messages.pop(0)

    async def send(self, data):
        self.sent.append(data)

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

    async def wait_for_end(self):
        return 0


def held(wire, program=Echo):
    @asynccontextmanager
    async def opening():
        yield program()

    run_virtual(converse(DIALECTS["v5.channel.k8s.io"], CHANNELS, opening, wire))
    return wire.sent


def test_to_end_a_channel_that_one_only_reads_ends_nothing_else():
    messages = [bytes([END, ERROR]), bytes([END, STDOUT]), b"\0all", bytes([END, STDIN])]
    assert b"\1read all" in held(Wire(messages))


def test_who_goes_while_nobody_reads_his_input_is_noticed():
    class Deaf(Echo):
        async def write(self, data):
            await asyncio.Event().wait()

    class Gone(Wire):
        async def send(self, data):
            if not self.messages:
                raise WireError("the client has gone")

    with pytest.raises(WireError, match="has gone"):
        held(Gone([b"\0x"]), Deaf)
