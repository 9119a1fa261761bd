"""Standard input: whether there is any, and who gets it."""

import asyncio
import os
from contextlib import asynccontextmanager

import pytest

from muster.api.core import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
)
from muster.api.meta import ObjectMeta
from muster.api.status import forbidden
from muster.cli.terminal.stdin import Feeding, can_come, is_there, read
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.transport import TransportError


def pipe(data=b"", *, ended):
    reader, writer = os.pipe()
    os.write(writer, data)
    if ended:
        os.close(writer)
    return reader


def file(tmp_path, data, position=0):
    (tmp_path / "file").write_bytes(data)
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    os.lseek(descriptor, position, os.SEEK_SET)
    return descriptor


@pytest.mark.parametrize(
    ("make", "can", "there"),
    [
        (lambda _: os.open("/dev/null", os.O_RDONLY), False, False),
        (lambda _: os.open("/dev/zero", os.O_RDONLY), True, True),
        (lambda _: os.openpty()[1], False, False),
        (lambda _: pipe(ended=False), True, False),
        (lambda _: pipe(ended=True), False, False),
        (lambda _: pipe(b"x", ended=True), True, True),
        (lambda _: pipe(b"x", ended=False), True, True),
        (lambda path: file(path, b""), False, False),
        (lambda path: file(path, b"ab"), True, True),
        (lambda path: file(path, b"ab", 2), False, False),
    ],
)
def test_there_is_input_or_there_is_none(tmp_path, make, can, there):
    descriptor = make(tmp_path)
    assert (can_come(descriptor), is_there(descriptor)) == (can, there)
    os.close(descriptor)


def test_what_is_read_ends_also_where_nothing_can_be_read(tmp_path):
    async def all_of(descriptor):
        found = []
        while data := await read(descriptor):
            found.append(data)
        os.close(descriptor)
        return b"".join(found)

    assert asyncio.run(all_of(file(tmp_path, b"x" * 200_000))) == b"x" * 200_000
    assert asyncio.run(all_of(os.open("/dev/null", os.O_WRONLY))) == b""
    assert asyncio.run(all_of(os.open(tmp_path, os.O_RDONLY))) == b""


class Pods:
    """Takes the input of pods, and keeps it by their names."""

    def __init__(self):
        self.taken = {}
        self.faults = {}

    @asynccontextmanager
    async def converse(self, request, protocol):
        name = request.path.split("/")[-2]
        assert (protocol, request.query) == ("v5.channel.k8s.io", {"container": "worker", "stdin": "true"})
        if faults := self.faults.get(name):
            raise faults.pop(0)
        self.taken.setdefault(name, b"")
        yield _Pod(self, name)


class _Pod:
    def __init__(self, pods, name):
        self.pods, self.name = pods, name

    async def send(self, message):
        self.pods.taken[self.name] += message[1:] if message[0] == 0 else b"|"
        if len(self.pods.taken[self.name]) > 100:
            raise TransportError("it has gone")

    async def receive(self):
        return b""


def pod(name, state="running"):
    states = {
        "running": ContainerState(running=ContainerStateRunning()),
        "ended": ContainerState(terminated=ContainerStateTerminated()),
        "waiting": ContainerState(),
    }
    return Pod(
        metadata=ObjectMeta(name=name, namespace="ns", uid=name),
        spec=PodSpec(containers=(Container(name="worker"),)),
        status=PodStatus(container_statuses=(ContainerStatus(name="worker", state=states[state]),)),
    )


def play(script, pieces=(b"some ", b"text"), **faults):
    pods, left = Pods(), list(pieces)
    warnings: list[str] = []
    pods.faults = faults

    async def following():
        return left.pop(0) if left else b""

    async def main():
        feeding = Feeding(pods, VirtualClock(), following, warnings.append)
        await script(feeding)
        await asyncio.sleep(10)
        await feeding.close()

    run_virtual(main())
    return pods.taken, warnings


def test_the_first_rank_gets_all_and_the_others_an_end():
    async def script(feeding):
        feeding.observe(pod("a", "waiting"), "0")
        for _ in range(2):
            for name, rank in (("a", "0"), ("b", "1"), ("c", "2")):
                feeding.observe(pod(name), rank)

    assert play(script) == ({"a": b"some text|", "b": b"|", "c": b"|"}, [])


def test_it_is_given_once_which_is_said():
    async def script(feeding):
        feeding.observe(pod("a"), "0")
        await asyncio.sleep(1)
        feeding.observe(pod("again"), "0")

    taken, [warning] = play(script)
    assert taken == {"a": b"some text|", "again": b"|"}
    assert warning == "again has no standard input: its predecessor has read it"


@pytest.mark.parametrize("state", ["running", "ended"])
def test_what_does_not_arrive_is_said_unless_the_program_has_ended(state):
    async def script(feeding):
        feeding.observe(pod("a"), "0")
        await asyncio.sleep(0.1)
        feeding.observe(pod("a", state), "0")

    _, warnings = play(script, [b"x" * 90, b"x" * 90])
    assert warnings == ["the standard input did not reach a, or not all of it did: it has gone"] * (state == "running")


def test_a_connection_that_does_not_come_about_is_tried_again_and_a_refusal_is_not():
    async def script(feeding):
        feeding.observe(pod("a"), "0")
        feeding.observe(pod("b"), "1")

    taken, warnings = play(script, a=[TransportError("no route")] * 3, b=[forbidden("you may not")])
    assert taken == {"a": b"some text|"}
    assert [warning.split(":")[0] for warning in warnings] == [
        "the standard input did not reach b, or not all of it did"
    ]
