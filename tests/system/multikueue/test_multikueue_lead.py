"""A cluster that shows room is asked before the others: what it spares, and what becomes of jobs if it admits none."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from tests.system.multikueue.federation import Federation, federated

from muster.api.batch import JOB
from muster.api.kueue import CLUSTER_QUEUE
from muster.runtime.transport import Request, Response, Transport


@dataclass(frozen=True, slots=True)
class QueuesBehind:
    """A way to a server whose watches of ClusterQueues say nothing after their list."""

    transport: Transport

    async def request(self, request: Request) -> Response:
        return await self.transport.request(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self.transport.stream(request) as chunks:
            yield self._silent() if request.path.endswith("/clusterqueues") else chunks

    async def _silent(self) -> AsyncIterator[bytes]:
        await asyncio.sleep(10_000)
        yield b""

    async def close(self) -> None:
        await self.transport.close()


async def more(f: Federation, cluster: str, cpus: int = 4) -> None:
    """The quota of a worker changes."""
    groups = (await f.workers[cluster].client.get(CLUSTER_QUEUE, "cq")).spec.resource_groups
    quota = {"name": "cpu", "nominalQuota": cpus}
    changed = [{"coveredResources": ["cpu"], "flavors": [{"name": groups[0].flavors[0].name, "resources": [quota]}]}]
    await f.workers[cluster].client.patch(CLUSTER_QUEUE, "cq", {"spec": {"resourceGroups": changed}})


@federated()
async def test_the_cluster_with_room_alone_gets_a_clone(f: Federation) -> None:
    await f.queues(a=1, b=4)
    asked: list[str] = []
    f.lines["a"].spoil = lambda request: asked.append(request.method)
    for name in ("j", "k"):
        await f.job(name, 2)
    await f.settle()
    assert (await f.where("j"), await f.where("k")) == ({"b": 2}, {"b": 2})
    assert (await f.here.workload("j")).status.cluster_name == "b"
    assert asked == []
    await f.job("l", 1)
    await f.job("m", 2)  # there is room for it in neither
    await f.settle()
    assert (await f.where("l"), await f.clones("m")) == ({"a": 1}, ["a", "b"])


@federated()
async def test_of_many_jobs_at_once_each_counts_those_before_it(f: Federation) -> None:
    await f.queues(a=4, b=4)
    names = [f"j{number}" for number in range(4)]
    await asyncio.gather(*(f.job(name, 2) for name in names))
    await f.settle()
    assert sorted([tuple(await f.where(name)) for name in names]) == [("a",), ("a",), ("b",), ("b",)]


@federated()
async def test_a_cluster_that_shows_room_and_admits_nothing_delays_jobs_by_their_head_start(f: Federation) -> None:
    await f.queues(a=4, b=4)
    await f.workers["a"].world.plane.manager.stop()  # its engine is dead, and its server answers
    names = [f"j{number}" for number in range(4)]
    await asyncio.gather(*(f.job(name, 1) for name in names))
    await f.settle(2)
    assert {} in [await f.where(name) for name in names], "one of them has its head start in the dead one"
    await f.settle(20)
    assert [await f.where(name) for name in names] == [{"b": 1}] * 4
    for name in names:
        await f.here.client.delete(JOB, name, "default")
    await f.settle(20)
    await asyncio.gather(*(f.job(name, 1) for name in names))
    await f.settle(2)
    assert [await f.where(name) for name in names] == [{"b": 1}] * 4, "it has lost its manager's trust for a while"


@federated()
async def test_nobody_waits_for_a_cluster_that_answers_nothing_longer_than_its_head_start(f: Federation) -> None:
    await f.queues(a=4, b=4)
    f.lines["a"].mute()
    names = [f"j{number}" for number in range(4)]
    await asyncio.gather(*(f.job(name, 1) for name in names))
    await f.settle(20)
    assert [await f.where(name) for name in names] == [{"b": 1}] * 4
    f.lines["a"].mend()
    await f.settle(300)
    assert [await f.where(name) for name in names] == [{"b": 1}] * 4
    assert [await f.clones(name) for name in names] == [["b"]] * 4, "what came late is taken back"


@federated()
async def test_a_cluster_that_is_lost_in_its_head_start_delays_nobody_and_is_cleared_once_it_is_back(
    f: Federation,
) -> None:
    await f.queues(a=4, b=1)
    await f.workers["a"].world.plane.manager.stop()
    await f.job("j", 1)
    await f.job("k", 2)  # only the dead one has room for it
    await f.settle(1)
    assert "a" in await f.clones("k")
    f.lines["a"].cut()
    await f.settle(2)
    assert (await f.where("j"), await f.where("k")) == ({"b": 1}, {})
    await more(f, "b")
    await f.settle(2)
    assert await f.where("k") == {"b": 2}
    f.lines["a"].mend()
    await f.settle(60)
    assert (await f.clones("j"), await f.clones("k")) == (["b"], ["b"])


@federated()
async def test_a_manager_that_begins_anew_knows_no_head_start_and_asks_all(f: Federation) -> None:
    await f.queues(a=8, b=0)
    await f.workers["a"].world.plane.manager.stop()
    names = [f"j{number}" for number in range(4)]
    await asyncio.gather(*(f.job(name, 1) for name in names))
    await f.settle(2)
    assert [await f.clones(name) for name in names] == [["a"]] * 4
    await more(f, "b")
    await f.stop()
    await f.begin(3)
    assert [await f.where(name) for name in names] == [{"b": 1}] * 4


@federated()
async def test_a_cluster_whose_room_is_gone_says_so_at_once_and_another_has_the_job(f: Federation) -> None:
    await f.queues(a=4, b=1)
    for line in f.lines.values():
        line.server = QueuesBehind(line.server)
        line.break_streams()
    await f.settle()
    await more(f, "a", 1)
    await more(f, "b", 4)
    asked: list[str] = []

    def note(name: str, request: Request) -> None:
        if request.method == "POST" and request.path.endswith("/workloads"):
            asked.append(name)

    for name, line in f.lines.items():
        line.spoil = partial(note, name)
    await f.job("j", 2)
    await f.settle(3)
    assert await f.where() == {"b": 2}
    assert asked == ["a", "b"], "the one that only seemed to have room was asked first"
