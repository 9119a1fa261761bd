"""One queue in front of two clusters where not all goes well: what is missing there, comes back, or is changed here."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.system.multikueue.federation import Federation, federated
from tests.system.queueing.queueing_world import workload

from muster.api.batch import JOB, Job
from muster.api.conditions import is_true
from muster.api.config import EMBEDDED
from muster.api.core import EVENT, NAMESPACE, POD, Namespace
from muster.api.kueue import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    WORKLOAD,
    WORKLOAD_PRIORITY_CLASS,
    LocalQueue,
    WorkloadPriorityClass,
)
from muster.api.managed.dispatch import describe_barred
from muster.api.ours.simulated import RUN_TIME
from muster.cluster.store import Key, Put
from muster.runtime.transport import Request, Response, Transport

pytestmark = pytest.mark.slow

# A lost cluster is given up at once.
IMPATIENT = replace(EMBEDDED, multi_kueue=replace(EMBEDDED.multi_kueue, worker_lost_timeout=0))


async def job_there(f: Federation, cluster: str, name: str = "j") -> str:
    """The uid of the job in a worker."""
    return (await f.workers[cluster].now(name)).metadata.uid


async def home_of(f: Federation, name: str = "j") -> str:
    (found,) = await f.where(name)
    return found


async def classes(f: Federation) -> None:
    for name, value in (("low", 1), ("high", 100)):
        document = {"metadata": {"name": name}, "value": value}
        await f.here.client.create(WORKLOAD_PRIORITY_CLASS, msgspec.convert(document, WorkloadPriorityClass))


# What the manager hears late.


@federated()
async def test_no_status_of_a_job_is_written_again_while_the_managers_watch_is_late(f: Federation) -> None:
    await f.queues()
    f.dispatch.wire.lags = {"jobs": 5.0}
    await f.job(seconds=30)
    for number in range(60):
        meta = (await f.here.workload()).metadata
        await f.here.client.patch(WORKLOAD, meta.name, {"metadata": {"labels": {"look": f"{number}"}}}, "default")
        await f.settle(1)
    await f.settle(60)
    statuses = [one.body for one in f.dispatch.wire.writes if one.path.endswith("/jobs/j/status")]
    assert len(statuses) >= 2
    assert len(set(statuses)) == len(statuses)
    assert (await f.here.state())["Finished"] == "True Succeeded"


# What is missing in a worker.


async def without_queue(f: Federation) -> None:
    await f.workers["a"].client.delete(LOCAL_QUEUE, "cq", "default")


async def without_room(f: Federation) -> None:
    quota = {"nominalQuota": 1, "name": "cpu"}
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [quota]}]}]
    await f.workers["a"].client.patch(CLUSTER_QUEUE, "cq", {"spec": {"resourceGroups": groups}})


async def with_a_stopped_queue(f: Federation) -> None:
    await f.workers["a"].client.patch(CLUSTER_QUEUE, "cq", {"spec": {"stopPolicy": "Hold"}})


@pytest.mark.parametrize("lack", [without_queue, without_room, with_a_stopped_queue])
def test_a_worker_that_does_not_admit_it_is_passed_over(lack: Callable[[Federation], Awaitable[None]]) -> None:
    @federated()
    async def body(f: Federation) -> None:
        await f.queues()
        await lack(f)
        await f.job("j", 2)
        await f.settle(60)
        assert await f.where() == {"b": 2}
        assert await f.clones() == ["b"]

    body()


@federated()
async def test_a_worker_without_the_namespace_is_passed_over_and_users_read_why(f: Federation) -> None:
    await f.queues()
    for q in (f.here, f.workers["b"]):
        await q.client.create(NAMESPACE, msgspec.convert({"metadata": {"name": "team"}}, Namespace))
        queue = {"metadata": {"name": "cq"}, "spec": {"clusterQueue": "cq"}}
        await q.client.create(LOCAL_QUEUE, msgspec.convert(queue, LocalQueue), "team")
    await f.here.job("x", 2)
    made = msgspec.to_builtins((await f.here.now("x")).spec.template.spec)
    metadata = {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "cq"}}
    document: dict[str, Any] = {"metadata": metadata, "spec": {"template": {"spec": made}}}
    await f.here.client.create(JOB, msgspec.convert(document, Job), "team")
    await f.settle(60)
    assert {pod.status.phase for pod in (await f.workers["b"].client.list(POD, "team")).items} == {"Running"}
    document |= {"metadata": metadata | {"name": "k"}, "spec": document["spec"] | {"parallelism": 4, "completions": 4}}
    await f.here.client.create(JOB, msgspec.convert(document, Job), "team")  # "b" has no room, so all are asked
    await f.settle(60)
    events = (await f.here.client.list(EVENT, "team")).items
    assert [event.count for event in events if event.message == 'Worker cluster "a": namespaces "team" not found'] == [
        1
    ]


@federated()
async def test_a_workload_of_another_maker_keeps_the_job_out_of_a_cluster_until_it_goes(f: Federation) -> None:
    await f.queues(b=0)
    await f.stop()
    await f.job("j", 2)
    name, asked = (await f.here.workload()).metadata.name, 0
    await workload(f.workers["a"].world, name, "none")

    def count(request: Request) -> None:
        nonlocal asked
        asked += request.method == "POST" and request.path.endswith("/workloads")

    f.lines["a"].spoil = count
    await f.begin()
    await f.settle(100)
    assert (await f.check(), asked) == (f"Pending: {describe_barred(['a'])}", 1)
    await f.workers["a"].client.delete(WORKLOAD, name, "default")
    await f.settle(100)
    assert await f.where() == {"a": 2}


# How it ends.


@pytest.mark.parametrize(
    ("exit_code", "spec", "condition", "reason"),
    [
        (0, {}, "Complete", "Succeeded"),
        (1, {"backoffLimit": 0}, "Failed", "Failed"),
        (1, {"backoffLimit": 3}, "Failed", "Failed"),
    ],
    ids=["it succeeds", "it fails", "it fails again and again"],
)
def test_it_ends_here_as_it_ended_there(exit_code: int, spec: Any, condition: str, reason: str) -> None:
    @federated()
    async def body(f: Federation) -> None:
        await f.queues()
        annotations = {RUN_TIME: "20s", "muster.dev/exit-code": str(exit_code)}
        await f.here.job("j", 2, template={"metadata": {"annotations": annotations}}, **spec)
        seen = 0
        for _ in range(60):
            await f.settle(5)
            job = await f.here.now()
            assert (job.status.failed or 0) >= seen, "what is shown never goes back"
            seen = job.status.failed or 0
        job = await f.here.now()
        assert is_true(job.status.conditions, condition)
        assert (await f.here.state())["Finished"] == f"True {reason}"
        there = await f.workers[(await f.here.workload()).status.cluster_name or ""].now()
        assert (job.status.failed, job.status.succeeded) == (there.status.failed, there.status.succeeded)

    body()


@dataclass(frozen=True, slots=True)
class JobsBehind:
    """A way to a server whose watches of Jobs are late, but for the first so many pieces of each."""

    transport: Transport
    seconds: float
    prompt: int = 0

    async def request(self, request: Request) -> Response:
        return await self.transport.request(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self.transport.stream(request) as chunks:
            yield self._late(chunks) if request.path.endswith("/jobs") else chunks

    async def _late(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        number = 0
        async for chunk in chunks:
            if number >= self.prompt:
                await asyncio.sleep(self.seconds)
            yield chunk
            number += 1

    async def close(self) -> None:
        await self.transport.close()


async def with_late_watches_of_jobs(f: Federation, prompt: int = 0) -> None:
    await f.queues()
    for line in f.lines.values():
        line.server = JobsBehind(line.server, 100.0, prompt)
        line.break_streams()
    await f.settle()


@pytest.mark.parametrize("prompt", [0, 1, 2])
def test_it_ends_here_even_if_the_watch_of_jobs_is_behind(prompt: int) -> None:
    """Nothing of the job there is seen, or its creation alone, or that it was resumed, too."""

    @federated()
    async def body(f: Federation) -> None:
        await with_late_watches_of_jobs(f, prompt)
        reads: list[str] = []
        for line in f.lines.values():
            line.spoil = lambda request: reads.append(request.path) if request.method == "GET" else None
        await f.job(workers=2, seconds=1.0)
        await f.settle(30)
        assert any("/workloads/" in path for path in reads), "it leaves its home as that says that it has ended"
        for seconds in (30, 500):
            await f.settle(seconds)
            assert is_true((await f.here.now()).status.conditions, "Complete")
            assert (await f.here.state())["Finished"] == "True Succeeded"

    body()


@federated()
async def test_it_ends_here_if_the_watch_of_jobs_is_behind_and_the_job_is_gone(f: Federation) -> None:
    await with_late_watches_of_jobs(f)
    await f.job(workers=2)
    await f.settle(20)
    worker = f.workers[await home_of(f)]
    name, client = (await f.here.workload()).metadata.name, worker.client
    times = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    ended = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "m"} | times
    conditions = [*msgspec.to_builtins((await worker.workload()).status.conditions), ended]
    await client.patch(WORKLOAD, name, {"status": {"conditions": conditions}}, "default", subresource="status")
    await client.delete(JOB, "j", "default", propagation="Orphan")
    await f.settle(30)
    assert (await f.here.state())["Finished"] == "True Succeeded"


# What comes back.


@federated()
async def test_a_worker_that_comes_and_goes_all_the_time_goes_on_with_its_job(f: Federation) -> None:
    await f.queues()
    await f.job("j", 2, seconds=900)
    await f.settle()
    home = await home_of(f)
    uid = await job_there(f, home)
    for _ in range(20):  # with the last pause between tries, within workerLostTimeout
        f.lines[home].cut()
        await f.settle(20)
        f.lines[home].mend()
        await f.settle(5)
        assert await f.where() == {home: 2}
    assert await job_there(f, home) == uid
    await f.settle(400)
    assert is_true((await f.here.now()).status.conditions, "Complete")


@pytest.mark.parametrize("lost", ["job", "clone", "both"])
def test_a_worker_that_is_back_with_an_older_store_runs_it_once(lost: str) -> None:
    @federated()
    async def body(f: Federation) -> None:
        await f.queues()
        await f.job("j", 2, seconds=300)
        await f.settle()
        home = await home_of(f)
        f.lines[home].cut()
        q = f.workers[home]
        if lost in ("job", "both"):
            await q.client.delete(JOB, "j", "default")
            await f.settle()
        if lost in ("clone", "both"):
            for workload in await q.workloads():
                await q.client.patch(WORKLOAD, workload.metadata.name, {"metadata": {"finalizers": None}}, "default")
                if await q.client.find(WORKLOAD, workload.metadata.name, "default") is not None:
                    await q.client.delete(WORKLOAD, workload.metadata.name, "default")
        await f.settle(30)
        f.lines[home].mend()
        for _ in range(60):
            await f.settle()
            assert len(await f.where()) <= 1
        assert is_true((await f.here.now()).status.conditions, "Complete")

    body()


@federated()
async def test_a_cluster_that_is_back_runs_nothing_beyond_the_quota_here(f: Federation) -> None:
    await f.queues(cpu=2)
    await classes(f)
    await f.job("j", 2, labels={"kueue.x-k8s.io/priority-class": "low"})
    await f.settle()
    home = await home_of(f)
    f.lines[home].cut()
    await f.settle(600)
    await f.job("k", 2, labels={"kueue.x-k8s.io/priority-class": "high"})
    await f.settle(600)
    f.lines[home].mend()
    await f.settle(200)
    (other,) = set(f.workers) - {home}
    assert (await f.where("k"), await f.where("j")) == ({other: 2}, {})
    assert not is_true((await f.here.workload("j")).status.conditions, "QuotaReserved")


# What is changed here.


@federated()
async def test_another_priority_goes_through_and_moves_nothing(f: Federation) -> None:
    await f.queues()
    await classes(f)
    await f.job("j", 2, labels={"kueue.x-k8s.io/priority-class": "low"})
    await f.settle()
    home = await home_of(f)
    uid = await job_there(f, home)
    await f.here.change("j", metadata={"labels": {"kueue.x-k8s.io/priority-class": "high"}})
    await f.settle(30)
    (there,) = await f.workers[home].workloads()
    assert there.spec.priority == 100
    assert (await f.where(), await job_there(f, home)) == ({home: 2}, uid)


@federated()
async def test_a_workload_that_is_stopped_here_stops_there_and_runs_again_when_it_may(f: Federation) -> None:
    await f.queues()
    await f.job("j", 2)
    await f.settle()
    name = (await f.here.workload()).metadata.name
    await f.here.client.patch(WORKLOAD, name, {"spec": {"active": False}}, "default")
    await f.settle(60)
    assert (await f.where(), await f.clones()) == ({}, [])
    assert not is_true((await f.here.workload()).status.conditions, "QuotaReserved")
    await f.here.client.patch(WORKLOAD, name, {"spec": {"active": True}}, "default")
    await f.settle(60)
    assert list((await f.where()).values()) == [2]


@pytest.mark.parametrize("away", [False, True], ids=["its cluster is there", "its cluster is away"])
def test_a_job_that_is_deleted_and_made_again_under_its_name_runs_once(away: bool) -> None:
    @federated()
    async def body(f: Federation) -> None:
        await f.queues()
        await f.job("j", 2)
        await f.settle()
        home = await home_of(f)
        uid = await job_there(f, home)
        if away:
            f.lines[home].cut()
        await f.here.client.delete(JOB, "j", "default")
        await f.job("j", 3)
        f.lines[home].mend()
        await f.settle(200)
        again = await home_of(f)
        assert await f.where() == {again: 3}
        assert await job_there(f, again) != uid
        assert await f.clones() == [again]

    body()


# The manager begins anew with less than it had.


async def stored(f: Federation) -> list[tuple[Key, dict[str, Any]]]:
    """The job and its workload as the manager's store has them."""
    store, meta = f.here.world.plane.store, (await f.here.workload()).metadata
    keys = Key(JOB.resource, "default", "j"), Key(WORKLOAD.resource, "default", meta.name)
    found = [(key, store.latest(key)) for key in keys]
    return [(key, msgspec.json.decode(value.body)) for key, value in found if value is not None]


async def put_back(f: Federation, backup: list[tuple[Key, dict[str, Any]]]) -> None:
    for key, document in backup:

        def encode(revision: int, document: dict[str, Any] = document) -> bytes:
            document["metadata"]["resourceVersion"] = str(revision)
            return msgspec.json.encode(document)

        await f.here.world.plane.store.write(Put(key, encode))


@pytest.mark.parametrize("delay", [0, 5], ids=["at once", "where its cluster is slow to be found"])
def test_a_manager_whose_store_is_that_of_before_finds_the_job_where_it_runs(delay: float) -> None:
    @federated()
    async def body(f: Federation) -> None:
        await f.queues()
        await f.stop()
        await f.job("j", 2)
        backup = await stored(f)
        await f.begin()
        home = await home_of(f)
        uid = await job_there(f, home)
        await f.stop()
        await put_back(f, backup)
        f.lines[home].delay = delay
        await f.begin()
        for _ in range(24):
            await f.settle(5)
            assert await f.where() == {home: 2}
        assert await job_there(f, home) == uid
        assert await f.check() == f'Ready: The workload was admitted on "{home}"'

    body()


@federated(configuration=IMPATIENT)
async def test_a_manager_that_begins_anew_gives_up_no_cluster_that_it_has_not_tried(f: Federation) -> None:
    await f.queues()
    await f.job("j", 2)
    await f.settle()
    home = await home_of(f)
    await f.stop()
    f.lines[home].delay = 5
    await f.begin()
    for _ in range(24):
        await f.settle(5)
        assert await f.where() == {home: 2}
    assert await f.check() == f'Ready: The workload was admitted on "{home}"'


@federated()
async def test_a_job_that_is_made_again_in_an_empty_store_runs_once(f: Federation) -> None:
    await f.queues()
    await f.job("j", 2)
    await f.settle()
    home = await home_of(f)
    uid = await job_there(f, home)
    await f.stop()
    await f.here.client.patch(JOB, "j", {"metadata": {"finalizers": None}}, "default")
    name = (await f.here.workload()).metadata.name
    await f.here.client.delete(JOB, "j", "default")
    await f.here.client.patch(WORKLOAD, name, {"metadata": {"finalizers": None}}, "default")
    await f.settle(5)
    await f.job("j", 2)
    await f.begin()
    for _ in range(40):
        await f.settle(5)
        assert len(await f.where()) <= 1
    assert await job_there(f, await home_of(f)) != uid
    assert list((await f.where()).values()) == [2]
