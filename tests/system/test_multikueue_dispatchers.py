"""Which clusters are asked for a job, as upstream's dispatchers choose them; and jobs that can go to none."""

import asyncio

from msgspec.structs import replace
from tests.system.federation import Federation, federated

from muster.api.batch import JOB
from muster.api.config import EMBEDDED
from muster.api.config.types import INCREMENTAL, IncrementalDispatcher
from muster.api.core import EVENT
from muster.api.kueue import CLUSTER_QUEUE, WORKLOAD

ONE_BY_ONE = replace(
    EMBEDDED.multi_kueue,
    dispatcher_name=INCREMENTAL,
    incremental_dispatcher_config=IncrementalDispatcher(step_size=1),
)
MINE = replace(EMBEDDED.multi_kueue, dispatcher_name="example.com/mine")


@federated(configuration=replace(EMBEDDED, multi_kueue=ONE_BY_ONE))
async def test_the_incremental_dispatcher_asks_one_more_after_each_round(f: Federation) -> None:
    await f.queues(a=1, b=4)
    await f.job("j", 2)
    await f.settle(280)
    assert (await f.where(), await f.clones()) == ({}, ["a"])
    await f.settle(60)
    assert (await f.where(), await f.clones()) == ({"b": 2}, ["b"])


@federated(configuration=replace(EMBEDDED, multi_kueue=MINE))
async def test_a_dispatcher_of_another_program_names_the_clusters(f: Federation) -> None:
    await f.queues()
    await f.job("j", 2)
    await f.settle(600)
    assert await f.clones() == []
    name = (await f.here.workload()).metadata.name
    chosen = {"status": {"nominatedClusterNames": ["b"]}}
    await f.here.client.patch(WORKLOAD, name, chosen, "default", subresource="status")
    await f.settle()
    assert await f.where() == {"b": 2}


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
async def test_a_job_that_was_there_before_its_queue_had_the_check_goes_nowhere_and_is_told_why(f: Federation) -> None:
    await f.here.queue(1)
    for worker in f.workers.values():
        await worker.queue(4)
    await f.job("j", 2)
    quota = [{"name": "cpu", "nominalQuota": 4}]
    spec = {
        "admissionChecksStrategy": {"admissionChecks": [{"name": "multikueue"}]},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": quota}]}],
    }
    await f.here.client.patch(CLUSTER_QUEUE, "cq", {"spec": spec})
    await f.settle(60)
    assert (await f.where(), await f.clones()) == ({}, [])
    assert not (await f.here.workload()).spec.active
    expected = 'The owner is not managed by Kueue: Expecting spec.managedBy to be "kueue.x-k8s.io/multikueue"'
    assert expected in {event.message for event in (await f.here.client.list(EVENT, "default")).items}
