"""Forwarded ports in SPDY streams: which streams of a client are accepted."""

import asyncio

import pytest
from tests.unit.cluster.apiserver.pods.tunnels.spdy_client import Client, control

from muster.cluster.apiserver.pods.tunnels import forward
from muster.cluster.apiserver.pods.tunnels.forward import over_streams
from muster.runtime.clock import run_virtual

REPLY, RESET = 2, 3


class Wire:
    """What a client sends, in one piece for each frame; then it disconnects. `answers` is what it gets."""

    def __init__(self, frames):
        self.frames = list(frames)
        self.answers = []

    async def receive(self):
        await asyncio.sleep(0)
        return self.frames.pop(0) if self.frames else b""

    async def send(self, data):
        self.answers.append((int.from_bytes(data[2:4], "big"), int.from_bytes(data[8:12], "big")))

    async def close(self):
        pass


async def dial(_port):
    await asyncio.Event().wait()


def opening(stream, kind, request):
    return lambda client: client.open(stream, ("streamtype", kind), ("port", "80"), ("requestid", request))


def reset(stream):
    return lambda _: control(RESET, stream.to_bytes(4, "big") + bytes(4))


@pytest.mark.parametrize(
    ("frames", "answers"),
    [
        (  # the last connection gets both streams, and only one more connection is refused
            [opening(1, "error", "a"), opening(3, "data", "a"), opening(5, "error", "b"), opening(7, "data", "b"),
             opening(9, "error", "c")],
            [(REPLY, 1), (REPLY, 3), (REPLY, 5), (REPLY, 7), (RESET, 9)],
        ),
        (
            [opening(1, "error", "a"), opening(3, "error", "b"), opening(5, "error", "c")],
            [(REPLY, 1), (REPLY, 3), (RESET, 5)],
        ),
        (  # a client that resets the first stream of a connection gives its place back
            [opening(1, "error", "a"), reset(1), opening(3, "data", "b"), reset(3), opening(5, "error", "c"),
             opening(7, "data", "c")],
            [(REPLY, 1), (REPLY, 3), (REPLY, 5), (REPLY, 7)],
        ),
        (  # a connection has one stream of each kind
            [opening(1, "data", "a"), opening(3, "data", "a"), opening(5, "error", "a")],
            [(REPLY, 1), (RESET, 3), (REPLY, 5)],
        ),
        ([opening(1, "error", "a"), reset(0), opening(3, "data", "a")], [(REPLY, 1), (REPLY, 3)]),
    ],
)  # fmt: skip
def test_which_streams_are_accepted(monkeypatch, frames, answers):
    monkeypatch.setattr(forward, "MAX_CONNECTIONS", 2)
    client = Client()
    wire = Wire([frame(client) for frame in frames])
    run_virtual(over_streams(dial, wire))
    assert wire.answers == answers
