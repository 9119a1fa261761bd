"""The dispatcher that asks the cluster first in which a job would start soonest."""

import asyncio

from msgspec.structs import replace
from tests.system.multikueue.federation import Federation, federated
from tests.system.workers.worker_world import status

from muster.api.config import EMBEDDED
from muster.api.config.types import EARLIEST_START
from muster.api.kueue import LOCAL_QUEUE
from muster.runtime.transport import Request

CONFIGURATION = replace(EMBEDDED, multi_kueue=replace(EMBEDDED.multi_kueue, dispatcher_name=EARLIEST_START))
EARLIEST = {"configuration": CONFIGURATION}


async def limited(f: Federation, name: str, seconds: int) -> str:
    """A job that fills a cluster, and is ended after so long; the cluster where it runs."""
    await f.job(name, 4, labels={"kueue.x-k8s.io/max-exec-time-seconds": str(seconds)})
    await f.settle()
    (home,) = await f.where(name)
    return home


@federated(**EARLIEST)
async def test_the_one_with_room_is_asked_and_no_other(f: Federation) -> None:
    await f.queues(a=4, b=4)
    await f.workers["a"].job("local", 3)
    await f.job("j", 2)
    await f.settle()
    assert (await f.where("j"), await f.clones("j")) == ({"b": 2}, ["b"])


@federated(**EARLIEST)
async def test_of_those_without_room_the_one_whose_work_ends_first_is_asked(f: Federation) -> None:
    await f.queues(a=4, b=4)
    assert [await limited(f, "x", 5000), await limited(f, "y", 200)] == ["a", "b"]
    await f.job("j", 2)
    await f.settle()
    assert (await f.where("j"), await f.clones("j")) == ({}, ["b"])
    await f.settle(250)
    assert (await f.where("j"), await f.clones("j")) == ({"b": 2}, ["b"])


@federated(**EARLIEST)
async def test_of_those_without_room_the_one_with_the_shorter_queue_is_asked(f: Federation) -> None:
    await f.queues(a=4, b=4)
    for name in ("x", "y"):
        await f.job(name, 4)
    for name, waits in (("u", "a"), ("v", "b"), ("w", "a")):
        await f.job(name, 2)
        await f.settle()
        assert await f.clones(name) == [waits]


@federated(**EARLIEST)
async def test_one_that_does_not_show_its_queues_comes_last(f: Federation) -> None:
    f.lines["a"].spoil = lambda request: status(403, "Forbidden") if request.path.endswith("/localqueues") else None
    await f.restart()
    await f.queues(a=4, b=4)
    await f.workers["b"].job("local", 4)
    await f.job("j", 2)
    await f.settle()
    assert (await f.where("j"), await f.clones("j")) == ({}, ["b"])
    await f.settle(310)
    assert await f.where("j") == {"a": 2}, "it is asked all the same"


@federated(**EARLIEST)
async def test_a_wrong_estimate_costs_a_round(f: Federation) -> None:
    await f.queues(a=4, b=4)
    await f.workers["a"].client.patch(LOCAL_QUEUE, "cq", {"spec": {"stopPolicy": "Hold"}}, "default")
    await f.job("j", 2)
    await f.settle(250)
    assert (await f.where("j"), await f.clones("j")) == ({}, ["a"])
    await f.settle(60)
    assert (await f.where("j"), await f.clones("j")) == ({"b": 2}, ["b"])


@federated(**EARLIEST)
async def test_of_jobs_that_come_at_once_each_sees_those_before_it(f: Federation) -> None:
    await f.queues(a=4, b=4)
    names = [f"j{i}" for i in range(4)]
    await asyncio.gather(*(f.job(name, 2) for name in names))
    await f.settle(60)
    assert sorted([tuple(await f.where(name)) for name in names]) == [("a",), ("a",), ("b",), ("b",)]


@federated("a", **EARLIEST)
async def test_a_worker_is_asked_for_its_queues_once_however_many_jobs_there_are(f: Federation) -> None:
    asked: list[str] = []

    def listen(request: Request) -> None:
        if "queues" in request.path:
            asked.append(request.path.rpartition("/")[2])

    f.lines["a"].spoil = listen
    await f.restart()
    await f.queues(a=10)
    await asyncio.gather(*(f.job(f"j{i}", 1) for i in range(10)))
    await f.settle()
    assert [len(await f.where(f"j{i}")) for i in range(10)] == [1] * 10
    assert sorted(asked) == ["clusterqueues"] * 2 + ["localqueues"] * 2, "a list and a watch of each"
