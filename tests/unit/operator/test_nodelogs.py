"""The logs that a process node serves: of a caller that has gone, nothing is left open."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
import pytest
from tests.unit.cluster.apiserver.front.http1.test_connection import Client as Listening
from tests.unit.runtime.conftest import ScriptedTransport

from muster.api.core import Container, Pod, PodSpec
from muster.api.meta import ObjectMeta
from muster.cluster.apiserver.identity.users import User
from muster.cluster.nodeconnection import LogOptions, LogSource
from muster.operator.nodelogs import PATH, make_log_handler
from muster.operator.routes import Routes
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual
from muster.runtime.transport import Response

ALLOWED = Response(201, msgspec.json.encode({"status": {"allowed": True}}))
KUBE_APISERVER = User("kube-apiserver")
POD = Pod(metadata=ObjectMeta(name="p", namespace="n"), spec=PodSpec(containers=(Container(name="c"),)))


class Source:
    """Pieces for as long as they are read."""

    def __init__(self) -> None:
        self.is_open = False

    async def logs(self, pod: Pod, options: LogOptions) -> AsyncIterator[bytes]:
        assert (pod.metadata.name, options.container) == ("p", "c")
        self.is_open = True
        try:
            while True:
                yield b"piece\n"
                await asyncio.sleep(0.01)
        finally:
            self.is_open = False


async def logs_of(transport: ScriptedTransport, source: Source, path: str, user: User | None, gone_after: int) -> bytes:
    """What a caller is told that goes once it has so many bytes."""
    pods = cast("Any", {"n/p": POD})
    routes = Routes({PATH: make_log_handler(Client(transport), "box", pods, cast("LogSource", source))})
    client = Listening(routes)
    client.connection.user = user
    told = await client.say(b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % path.encode())
    while len(told) < gone_after:
        await asyncio.sleep(0.1)
        told = client.transport.written
    client.transport.abort()
    await asyncio.sleep(1.0)
    assert client.problems == []
    return told


@pytest.mark.parametrize("gone_after", [0, 1, 10_000])
def test_what_is_read_is_closed_whenever_the_caller_goes(gone_after: int) -> None:
    source = Source()

    async def body() -> None:
        told = await logs_of(ScriptedTransport(ALLOWED), source, f"{PATH}n/p/c", KUBE_APISERVER, gone_after)
        assert told.count(b"piece") * 6 >= gone_after / 2
        assert not source.is_open

    run_virtual(body())


@pytest.mark.parametrize(
    ("path", "user", "status"),
    [
        (f"{PATH}n/p/c", None, b"403"),
        (f"{PATH}n/p", KUBE_APISERVER, b"404"),
        (f"{PATH}n/p/c/d", KUBE_APISERVER, b"404"),
        (f"{PATH}n/q/c", KUBE_APISERVER, b"404"),
        ("/elsewhere", KUBE_APISERVER, b"404"),
    ],
)
def test_what_is_refused(path: str, user: User | None, status: bytes) -> None:
    async def body() -> None:
        told = await logs_of(ScriptedTransport(ALLOWED), Source(), path, user, 0)
        assert told.startswith(b"HTTP/1.1 " + status)

    run_virtual(body())
