"""The webhooks on the wire: what a decision asks for is read, and what no server sends is refused."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.unit.webhooks.test_decisions import DECISIONS, QUEUE, WORLD, job, queue, review

from muster.api.batch import JOB
from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE
from muster.operator.endpoints import serve_handlers
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.manager import Manager
from muster.runtime.ids import Random
from muster.runtime.transport import Request, Response, TransportError
from muster.webhooks.serving import LARGEST_REVIEW, Reader, make_handlers

Json = dict[str, Any]


async def read(kind: Kind[Any], namespace: str, name: str) -> Any:
    found = WORLD.get((kind.resource, namespace, name))
    return kind.typed(found) if found is not None else None


class Remembering:
    """A server that has nothing; paths: what was asked for."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def request(self, request: Request) -> Response:
        self.paths.append(request.path)
        return Response(404, b"{}")

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise AssertionError(request.path)

    async def close(self) -> None:
        pass


async def cut(kind: Kind[Any], namespace: str, name: str) -> Any:
    raise TransportError("the connection is cut")


@asynccontextmanager
async def served(read: Any = read) -> AsyncIterator[aiohttp.ClientSession]:
    async with (
        serve_handlers("127.0.0.1:0", make_handlers(DECISIONS, read), None, "POST") as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        yield session


async def posted(session: aiohttp.ClientSession, path: str, body: Any) -> tuple[int, str]:
    async with session.post(path, data=body) as answer:
        return answer.status, await answer.text()


def asked(path: str, body: Any, read: Any = read) -> tuple[int, str]:
    async def ask() -> tuple[int, str]:
        async with served(read) as session:
            return await posted(session, path, body)

    return asyncio.run(ask())


def test_what_a_decision_asks_for_is_read() -> None:
    status, text = asked("/mutate", review(job({QUEUE: "lq"}), namespace="far"))
    assert status == 200
    paths = [one["path"] for one in msgspec.json.decode(b64decode(msgspec.json.decode(text)["response"]["patch"]))]
    assert paths == ["/spec/suspend", "/spec/managedBy"], "a queue, its ClusterQueue and a check were read"


def test_where_that_cannot_be_read_there_is_no_answer() -> None:
    """Then the server goes by the failure policy of the rule."""
    refused = (500, "what it depends on cannot be read")  # not in the words of the server
    assert asked("/mutate", review(job({QUEUE: "lq"})), cut) == refused
    assert asked("/validate", review(queue("f")), cut)[0] == 200, "a queue depends on nothing"


async def silent(kind: Kind[Any], namespace: str, name: str) -> Any:
    await asyncio.Event().wait()


def test_a_review_waits_no_longer_than_the_server_does() -> None:
    async def ask() -> tuple[int, str]:
        handlers = make_handlers(DECISIONS, silent, limit_seconds=0.01)
        async with (
            serve_handlers("127.0.0.1:0", handlers, None, "POST") as port,
            aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
        ):
            return await posted(session, "/mutate", review(job({QUEUE: "lq"})))

    assert asyncio.run(ask()) == (500, "what it depends on cannot be read in time")


async def too_much() -> AsyncIterator[bytes]:
    """More than any limit, and it does not say how much."""
    for _ in range(LARGEST_REVIEW // 2**16 + 1):
        yield b" " * 2**16


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/mutate", b"", 400),
        ("/validate", b"[" * 100_000, 400),
        ("/convert", b"{}", 400),
        ("/validate", too_much, 413),
        ("/elsewhere", b"", 404),
    ],
)
def test_what_no_server_sends_is_refused(path: str, body: Any, status: int) -> None:
    assert asked(path, body() if callable(body) else body)[0] == status


@pytest.mark.parametrize(
    ("kind", "namespace", "name"),
    [
        (JOB, "default", ""),
        (JOB, "", "j"),
        (JOB, "default", "../../secrets/x"),
        (JOB, "default/jobs/x?a=b#", "j"),
        (JOB, "../..", "j"),
        (JOB, "default", "a b"),
        (LOCAL_QUEUE, "", "lq"),
        (CLUSTER_QUEUE, "", "../namespaces/default/localqueues/lq"),
        (CLUSTER_QUEUE, "", ""),
    ],
)
def test_nothing_is_read_but_by_a_proper_name(kind: Kind[Any], namespace: str, name: str) -> None:
    transport = Remembering()
    manager = Manager(Client(transport), VirtualClock(), Random(1))
    assert run_virtual(Reader(manager).read(kind, namespace, name)) is None
    assert transport.paths == []


def test_until_all_queues_are_known_one_is_asked_for() -> None:
    """A list may have to wait for what is converted here."""
    transport = Remembering()
    manager = Manager(Client(transport), VirtualClock(), Random(1))
    assert run_virtual(Reader(manager).read(LOCAL_QUEUE, "default", "lq")) is None
    assert transport.paths == ["/apis/kueue.x-k8s.io/v1beta2/namespaces/default/localqueues/lq"]


def test_few_that_are_long_are_read_at_a_time_and_short_ones_pass_them() -> None:
    async def body() -> None:
        waiting, go = asyncio.Semaphore(0), asyncio.Event()

        async def slow(kind: Kind[Any], namespace: str, name: str) -> Any:
            if kind == LOCAL_QUEUE:
                waiting.release()
                await go.wait()
            return await read(kind, namespace, name)

        async with served(slow) as session, asyncio.timeout(60):
            long = review(job({QUEUE: "lq"})) + b" " * 2**18
            asked = [asyncio.create_task(posted(session, "/mutate", long)) for _ in range(6)]
            for _ in range(4):
                await waiting.acquire()
            assert (await posted(session, "/mutate", review(queue("f"))))[0] == 200
            assert (await posted(session, "/convert", b"{}" + b" " * 2**18))[0] == 400
            assert waiting.locked(), "no fifth one is at it"
            go.set()
            assert [status for status, _ in await asyncio.gather(*asked)] == [200] * 6

    asyncio.run(body())


def test_reviews_are_posted() -> None:
    async def ask() -> int:
        async with served() as session, session.get("/mutate") as answer:
            return answer.status

    assert asyncio.run(ask()) == 405
