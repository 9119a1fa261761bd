"""What a manager sends, in a worker cluster: a clone of a Workload first, its job later. The test plays the manager."""

from copy import deepcopy
from typing import Any

import msgspec
from tests.system.integrations.queued_jobs import Queued, story
from tests.system.integrations.test_queued_jobs import RUN_TIME, STOP_TIME
from tests.system.integrations.test_queued_jobsets import role, running, see

from muster.api.batch import JOB
from muster.api.core import POD
from muster.api.defaults.job import default_job, generate_selector
from muster.api.jobset import JOB_SET
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD, Workload
from muster.api.kueue.names import MULTI_KUEUE_ORIGIN_LABEL, QUEUE_NAME_LABEL
from muster.controllers.integrations.table import INTEGRATIONS
from muster.multicluster.dispatch.clone import make_clone
from muster.multicluster.mirrors.table import mirror_of
from muster.queueing.workload.eviction import evict

ORIGIN = "here"
CONTAINER = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
PODS = {"restartPolicy": "Never", "containers": [CONTAINER]}


def document(template: Any = None, **spec: Any) -> Any:
    """A Job as the manager's server has it."""
    uid = "0000-1111"
    job = {
        "metadata": {"name": "j", "namespace": "default", "uid": uid, "labels": {QUEUE_NAME_LABEL: "cq"}},
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "completionMode": "Indexed",
            "managedBy": "kueue.x-k8s.io/multikueue",
            "suspend": True,
            "template": {"spec": PODS} | (template or {}),
            **spec,
        },
    }
    job = deepcopy(job)  # what is filled in is no other test's
    default_job(job)
    generate_selector(job, uid)
    return job


def jobset_document(*roles: Any) -> Any:
    meta = {"name": "js", "namespace": "default", "uid": "0000-2222", "labels": {QUEUE_NAME_LABEL: "cq"}}
    return {"metadata": meta, "spec": {"replicatedJobs": roles, "suspend": True}}


class Manager:
    """Sends a job, in two steps."""

    def __init__(self, q: Queued, kind: Kind[Any] = JOB, job: Any = None) -> None:
        self.q, self.kind, self.job = q, kind, job if job is not None else document()
        self.name = self.job["metadata"]["name"]
        mirror = mirror_of(kind.api_version, kind.kind)
        assert mirror is not None
        self.mirror = mirror

    async def clone(self, name: str = "w", **spec: Any) -> Workload:
        """The clone of its Workload."""
        integration = next(one for one in INTEGRATIONS if one.kind == self.kind)
        podsets = msgspec.to_builtins(integration.podsets(self.kind.typed(self.job)))
        metadata = {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/job-uid": "0000-1111"}}
        given = {"metadata": metadata, "spec": {"queueName": "cq", "podSets": podsets, **spec}}
        made = await self.q.client.create(WORKLOAD, msgspec.convert(make_clone(given, ORIGIN), Workload))
        await self.q.world.settle()
        return made

    async def copy(self, workload: str = "w") -> None:
        """The copy of its job."""
        copy = self.mirror.copy(self.job, workload, ORIGIN)
        await self.q.client.create(self.kind.seen_as(dict), copy, "default")
        await self.q.world.settle()

    async def see(self, name: str = "w") -> Workload:
        return await self.q.client.get(WORKLOAD, name, "default")

    async def conditions(self, name: str = "w") -> dict[str, str]:
        return {one.type: f"{one.status} {one.reason}" for one in (await self.see(name)).status.conditions}

    async def remove(self, name: str = "w") -> None:
        """The job goes, in the foreground, then its Workload."""
        await self.q.client.delete(self.kind, self.name, "default", propagation="Foreground")
        await self.q.world.settle(60)
        assert await self.q.client.find(self.kind, self.name, "default") is None
        if (workload := await self.q.client.find(WORKLOAD, name, "default")) is not None:
            await self.take(workload)

    async def take(self, workload: Workload) -> None:
        """The clone goes, whatever finalizers it has."""
        await self.q.client.patch(WORKLOAD, workload.metadata.name, {"metadata": {"finalizers": None}}, "default")
        if await self.q.client.find(WORKLOAD, workload.metadata.name, "default") is not None:
            await self.q.client.delete(WORKLOAD, workload.metadata.name, "default")
        await self.q.world.settle()
        assert await self.q.workloads() == []


@story
async def test_the_clone_is_admitted_without_a_job_which_then_takes_it_and_starts(q):
    await q.queue()
    manager = Manager(q)
    await manager.clone()
    assert (await manager.conditions())["Admitted"] == "True Admitted"
    assert (await manager.see()).metadata.owner_references == ()
    admission = (await manager.see()).status.admission
    assert admission is not None
    assert [one.count for one in admission.pod_set_assignments] == [2]
    await q.world.settle(120)
    assert (await manager.conditions())["Admitted"] == "True Admitted", "it waits for its job"
    await manager.copy()
    workload = await manager.see()
    (owner,) = workload.metadata.owner_references
    assert (owner.kind, owner.name, owner.controller) == ("Job", "j", True)
    assert workload.metadata.labels[MULTI_KUEUE_ORIGIN_LABEL] == ORIGIN
    assert await q.running() == [0, 1]
    assert len(await q.workloads()) == 1


@story
async def test_one_that_does_not_fit_waits_for_quota_and_the_job_with_it(q):
    await q.queue(cpu=1)
    manager = Manager(q)
    await manager.clone()
    assert (await manager.conditions())["QuotaReserved"] == "False ExceedsMaxQuota"
    await manager.copy()
    assert (await q.now()).spec.suspend
    assert await q.running() == []


@story
async def test_a_job_that_is_not_as_its_clone_never_runs(q):
    await q.queue()
    manager = Manager(q)
    await manager.clone()
    manager.job["spec"] |= {"parallelism": 3, "completions": 3}
    await manager.copy()
    assert (await manager.conditions())["Finished"] == "True OutOfSync"
    assert await q.running() == []
    assert (await q.now()).spec.suspend
    await manager.remove()


@story
async def test_a_job_whose_clone_is_not_there_never_runs(q):
    await q.queue()
    manager = Manager(q)
    await manager.copy()
    assert await q.running() == []
    assert await q.workloads() == []
    await manager.clone()
    assert await q.running() == [0, 1], "until it is"


@story
async def test_when_it_has_ended_so_has_its_clone_and_both_stay(q):
    await q.queue()
    manager = Manager(q, job=document(RUN_TIME, ttlSecondsAfterFinished=0))
    await manager.clone()
    await manager.copy()
    await q.world.settle(120)
    assert (await manager.conditions())["Finished"] == "True Succeeded"
    assert any(one.type == "Complete" for one in (await q.now()).status.conditions)
    await manager.remove()


@story
async def test_evicted_there_it_stops_and_gives_back_its_quota(q):
    await q.queue()
    manager = Manager(q, job=document(STOP_TIME))
    await manager.clone()
    await manager.copy()
    await q.client.patch(WORKLOAD, "w", {"spec": {"active": False}}, "default")
    await q.world.settle(10)
    assert (await manager.conditions())["Evicted"] == "True Deactivated"
    assert (await manager.conditions())["QuotaReserved"] == "True QuotaReserved", "its pods are ending"
    await q.world.settle(40)
    assert (await manager.conditions())["QuotaReserved"].startswith("False")
    job = await q.now()
    assert (job.spec.suspend, job.status.active) == (True, 0)
    await manager.remove()


@story
async def test_a_clone_that_is_evicted_before_its_job_has_come_gives_back_its_quota(q):
    await q.queue()
    manager = Manager(q)
    await manager.clone()
    workload = await manager.see()
    await q.status(workload, evict(workload.status, "Preempted", "go", q.world.clock.now()))
    await q.world.settle()
    assert (await manager.conditions())["Admitted"] == "True Admitted", "it is admitted anew"
    await q.client.patch(WORKLOAD, "w", {"spec": {"active": False}}, "default")
    await q.world.settle()
    assert (await manager.conditions())["QuotaReserved"].startswith("False")
    await manager.copy()
    assert await q.running() == []


@story
async def test_the_job_goes_in_the_foreground_and_then_its_clone(q):
    await q.queue()
    manager = Manager(q, job=document(STOP_TIME))
    await manager.clone()
    await manager.copy()
    assert await q.running() == [0, 1]
    await manager.remove()
    assert (await q.client.list(POD, "default")).items == []
    await manager.clone()
    await manager.copy()
    assert await q.running() == [0, 1], "and may come back"


@story
async def test_a_clone_that_no_job_has_come_for_just_goes(q):
    await q.queue()
    manager = Manager(q)
    await manager.take(await manager.clone())


@story
async def test_a_jobset_takes_its_clone_and_starts_whole(q):
    await q.queue()
    manager = Manager(q, JOB_SET, jobset_document(role("workers", 2), role("driver")))
    await manager.clone()
    assert (await manager.conditions())["Admitted"] == "True Admitted"
    await manager.copy()
    assert await running(q, "js") == 3
    assert (await see(q, "js")).spec.suspend is False
    (owner,) = (await manager.see()).metadata.owner_references
    assert (owner.kind, owner.name) == ("JobSet", "js")
    await manager.remove()
    assert (await q.client.list(POD, "default")).items == []
