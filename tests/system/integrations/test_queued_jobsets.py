"""JobSets that wait in queues: each is one workload, runs whole or not at all, and its quota is always right."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import pytest
from tests.system.integrations.queued_jobs import Queued, story
from tests.system.plane import World
from tests.system.plane import running as plane_of
from tests.system.queueing.queueing_world import local_queue

from muster.api.batch import JOB, Job
from muster.api.core import NODE, POD, Pod, PodSchedulingGate
from muster.api.jobset import JOB_SET, JobSet, names
from muster.api.kueue import WORKLOAD, Workload
from muster.api.kueue.names import ELASTIC_JOB, POD_SET_LABEL, QUEUE_NAME_LABEL
from muster.api.status import ApiError
from muster.controllers.engine import Part
from muster.jobs.job.quota import GATE
from muster.runtime.clock import run_virtual

CPU = {"name": "c", "image": "none", "command": ["x"], "resources": {"requests": {"cpu": "1"}}}


def role(name: str, replicas: int = 1, pods: int = 1, **more: Any) -> dict[str, Any]:
    """A replicated job of pods with one CPU each; `job` and `pod`: what else its Jobs and their pods say."""
    job, pod, spec = more.pop("job", {}), more.pop("pod", {}), more.pop("spec", {})
    pod, job = ({"metadata": one} if one else {} for one in (pod, job))
    template = pod | {"spec": {"restartPolicy": "Never", "containers": [CPU]}}
    sizes = {"parallelism": pods, "completions": pods, "backoffLimit": 0}
    return {
        "name": name,
        "replicas": replicas,
        "template": job | {"spec": sizes | spec | {"template": template}},
        **more,
    }


async def jobset(q: Queued, name: str, *roles: dict[str, Any], queue: str = "cq", **more: Any) -> JobSet:
    metadata = {"name": name, "labels": {QUEUE_NAME_LABEL: queue} if queue else {}, **more.pop("metadata", {})}
    document = {"metadata": metadata, "spec": {"replicatedJobs": roles, **more}}
    made = await q.client.create(JOB_SET, msgspec.convert(document, JobSet), "default")
    await q.world.settle()
    return made


async def see(q: Queued, name: str) -> JobSet:
    return await q.client.get(JOB_SET, name, "default")


async def jobs(q: Queued, name: str) -> list[Job]:
    return (await q.client.list(JOB, "default", labels=f"{names.JOBSET_NAME}={name}")).items


async def running(q: Queued, name: str) -> int:
    """Pods that have a node and have not ended."""
    pods = (await q.client.list(POD, "default", labels=f"{names.JOBSET_NAME}={name}")).items
    return sum(bool(pod.spec.node_name) and pod.status.phase in ("Pending", "Running") for pod in pods)


async def held(q: Queued, name: str) -> dict[str, int]:
    """For how many pods of each role it holds quota."""
    status = (await q.workload(name)).status
    back = {one.name: one.count for one in status.reclaimable_pods}
    assigned = status.admission.pod_set_assignments if status.admission is not None else ()
    return {one.name: (one.count or 0) - back.get(one.name, 0) for one in assigned}


async def end(q: Queued, name: str, phase: str = "Succeeded", *, of: str = "", first: bool = False) -> None:
    """Play the pods of a role: they end."""
    selector = f"{names.JOBSET_NAME}={name}" + (f",{names.REPLICATED_JOB_NAME}={of}" if of else "")
    pods = (await q.client.list(POD, "default", labels=selector)).items
    live = [pod for pod in pods if pod.status.phase in ("Pending", "Running")]
    for pod in live[:1] if first else live:
        await q.client.patch(POD, pod.metadata.name, {"status": {"phase": phase}}, "default", subresource="status")
    await q.world.settle()


TWO = (role("workers", 2, 1), role("driver"))


@story
async def test_two_that_do_not_fit_together_one_runs_whole_and_the_other_waits_whole(q: Queued) -> None:
    await q.queue(cpu=4)
    await jobset(q, "first", *TWO)
    await jobset(q, "second", *TWO)
    assert await running(q, "first") == 3
    assert await running(q, "second") == 0
    assert await held(q, "first") == {"workers": 2, "driver": 1}
    assert [podset.name for podset in (await q.workload("second")).spec.pod_sets] == ["workers", "driver"]
    assert len(await q.workloads()) == 2, "child Jobs have none"
    started = await see(q, "first")
    for one in started.spec.replicated_jobs:
        template = one.template.spec.template
        assert template.spec.node_selector == {"zone": "a"}
        assert template.metadata.labels[POD_SET_LABEL] == one.name
    await end(q, "first")
    assert (await q.state("first"))["Finished"] == "True Succeeded"
    assert await running(q, "second") == 3


@story
async def test_in_a_namespace_with_the_queue_default_it_waits_whole_and_writes_nothing(q: Queued) -> None:
    await q.queue(cpu=2)
    await local_queue(q.world, "default", "cq")
    made = await jobset(q, "big", *TWO, queue="")
    assert made.spec.suspend
    assert made.metadata.labels[QUEUE_NAME_LABEL] == "default"
    assert all(one.spec.suspend for one in await jobs(q, "big"))
    assert all(QUEUE_NAME_LABEL not in one.metadata.labels for one in await jobs(q, "big"))
    assert len(await q.workloads()) == 1
    before = q.world.plane.store.revision
    await q.world.settle(3600)
    assert q.world.plane.store.revision == before


@story
async def test_one_that_another_controller_manages_is_never_touched_and_neither_are_its_jobs(q: Queued) -> None:
    await q.queue()
    made = await jobset(q, "theirs", role("a"), managedBy="example.com/foo")
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "theirs", "controller": True}
    child = {
        "metadata": {"name": "theirs-a-0", "ownerReferences": [owner | {"uid": made.metadata.uid}]},
        "spec": role("a")["template"]["spec"],
    }
    await q.client.create(JOB, msgspec.convert(child, Job), "default")
    await q.world.settle(60)
    assert (await see(q, "theirs")).spec.suspend is None
    assert not (await q.client.get(JOB, "theirs-a-0", "default")).spec.suspend
    assert (await q.client.list(WORKLOAD, "default")).items == []


@story
async def test_a_queue_in_the_templates_means_nothing(q: Queued) -> None:
    await q.queue(cpu=1)
    label = {"labels": {QUEUE_NAME_LABEL: "cq"}}
    await jobset(q, "free", role("a", 2, job=label), queue="")
    await jobset(q, "queued", role("a", 1, job=label))
    assert await running(q, "free") == 2
    assert await running(q, "queued") == 1
    assert [one.metadata.owner_references[0].kind for one in await q.workloads()] == ["JobSet"]


@story
async def test_one_that_is_preempted_stops_whole_and_comes_back_as_it_was(q: Queued) -> None:
    await q.queue(cpu=4)
    made = await jobset(q, "j", *TWO)
    await q.evict("j")
    await q.world.settle()
    assert await held(q, "j") == {"workers": 2, "driver": 1}, "it was admitted again"
    workload = await q.workload("j")
    await q.client.patch(WORKLOAD, workload.metadata.name, {"spec": {"active": False}}, "default")
    await q.world.settle()
    stopped = await see(q, "j")
    assert stopped.spec.suspend
    assert await running(q, "j") == 0
    assert await held(q, "j") == {}
    templates = [[one.template for one in them.spec.replicated_jobs] for them in (made, stopped)]
    assert templates[0] == templates[1], "nothing is left of what was injected"
    await q.client.patch(WORKLOAD, workload.metadata.name, {"spec": {"active": True}}, "default")
    await q.world.settle()
    assert await running(q, "j") == 3


@story
async def test_quota_is_held_until_the_last_pod_has_ended(q: Queued) -> None:
    await q.queue(cpu=3)
    await q.world.node("deaf", cpu="4")
    await q.client.patch(NODE, "deaf", {"metadata": {"labels": {"zone": "a", "is": "deaf"}}})
    far = role("far", 3)
    far["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"is": "deaf"}
    await jobset(q, "j", far)
    await jobset(q, "next", role("a", 3))
    workload = await q.workload("j")
    await q.client.patch(WORKLOAD, workload.metadata.name, {"spec": {"active": False}}, "default")
    pods = (await q.client.list(POD, "default", labels=f"{names.REPLICATED_JOB_NAME}=far")).items
    for pod in pods:
        await q.world.settle(120)
        assert await held(q, "j") == {"far": 3}, "a pod is still there, whose node does not answer"
        assert [record.active for record in (await see(q, "j")).status.replicated_jobs_status] == [0]
        assert await running(q, "next") == 0
        await q.client.delete_object(POD, pod, grace_period_seconds=0)
    await q.world.settle(120)
    assert await held(q, "j") == {}
    assert await running(q, "next") == 3


@pytest.mark.parametrize(("phase", "end"), [("Failed", "True Failed"), ("Succeeded", "True Succeeded")])
def test_one_that_ends_holds_its_quota_until_the_rest_of_its_pods_has_ended(phase: str, end: str) -> None:
    story(partial(_one_that_ends, phase=phase, result=end))()


async def _one_that_ends(q: Queued, *, phase: str, result: str) -> None:
    await q.queue(cpu=3)
    await q.world.node("deaf", cpu="4")
    await q.client.patch(NODE, "deaf", {"metadata": {"labels": {"zone": "a", "is": "deaf"}}})
    far = role("far", 2)
    far["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"is": "deaf"}
    first = {"operator": "Any", "targetReplicatedJobs": ["near"]}
    await jobset(q, "j", far, role("near"), successPolicy=first)
    await jobset(q, "next", role("a", 3))
    await end(q, "j", phase, of="near")
    pods = (await q.client.list(POD, "default", labels=f"{names.REPLICATED_JOB_NAME}=far")).items
    for pod in pods:
        await q.world.settle(120)
        assert "Finished" not in await q.state("j"), "a pod is still there, whose node does not answer"
        assert await running(q, "next") == 0
        await q.client.delete_object(POD, pod, grace_period_seconds=0)
    await q.world.settle(120)
    assert (await q.state("j"))["Finished"] == result
    assert await running(q, "next") == 3


@story
async def test_a_restart_keeps_the_reservation_and_gives_nothing_back_that_it_may_need(q: Queued) -> None:
    await q.queue(cpu=3)
    await jobset(q, "j", *TWO, failurePolicy={"maxRestarts": 1})
    await jobset(q, "next", role("a"))
    await end(q, "j", of="driver")
    assert await held(q, "j") == {"workers": 2, "driver": 1}, "a restart would need it"
    await end(q, "j", "Failed", of="workers", first=True)
    await q.world.settle(60)
    assert (await see(q, "j")).status.restarts == 1
    assert await running(q, "j") == 3
    assert await running(q, "next") == 0
    assert await held(q, "j") == {"workers": 2, "driver": 1}
    await end(q, "j", of="driver")
    assert await held(q, "j") == {"workers": 2, "driver": 0}, "there is no more restart"
    assert await running(q, "next") == 1
    await end(q, "j", "Failed", of="workers", first=True)
    assert (await q.state("j"))["Finished"] == "True Failed"


@story
async def test_jobs_that_have_succeeded_give_their_quota_back(q: Queued) -> None:
    await q.queue(cpu=3)
    await jobset(q, "j", *TWO)
    await jobset(q, "next", role("a"))
    await end(q, "j", of="driver")
    assert await held(q, "j") == {"workers": 2, "driver": 0}
    assert await running(q, "next") == 1


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("by_ttl", [False, True])
def test_a_job_that_succeeded_and_is_deleted_runs_again_only_with_quota(fixed: bool, by_ttl: bool) -> None:
    story(partial(_a_job_that_runs_again, fixed=fixed, by_ttl=by_ttl))()


async def _a_job_that_runs_again(q: Queued, *, fixed: bool, by_ttl: bool) -> None:
    await q.queue(cpu=3)
    annotations = {"annotations": {ELASTIC_JOB: "false"}} if fixed else {}
    driver = role("driver", spec={"ttlSecondsAfterFinished": 20} if by_ttl else {})
    await jobset(q, "j", role("workers", 2), driver, metadata=annotations)
    await jobset(q, "next", role("a"))
    first = await q.workload("j")
    await end(q, "j", of="driver")
    assert (await running(q, "j"), await running(q, "next")) == (2, 1)
    if not by_ttl:
        await q.client.delete(JOB, "j-driver-0", "default")
    await q.world.elapse(30)
    assert (await running(q, "j"), await running(q, "next")) == (0, 1), "its quota was given away"
    assert await held(q, "j") == {}, "it queues again whole"
    assert (await q.workload("j")).metadata.uid != first.metadata.uid
    await end(q, "next")
    assert await running(q, "j") == 3
    assert await held(q, "j") == {"workers": 2, "driver": 1}


@story
async def test_one_that_grew_runs_on_no_quota_that_it_has_given_back(q: Queued) -> None:
    await q.queue(cpu=4)
    await jobset(q, "j", role("workers", 3))
    await end(q, "j", first=True)
    await jobset(q, "next", role("a", 2))
    assert (await running(q, "j"), await running(q, "next")) == (2, 2)
    await resize(q, "j", 4)
    assert (await running(q, "j"), await running(q, "next")) == (2, 2)
    await end(q, "next")
    assert await running(q, "j") == 3


@story
async def test_deletion_of_its_workload_stops_it_and_it_queues_again(q: Queued) -> None:
    await q.queue(cpu=3)
    await jobset(q, "j", *TWO)
    first = await q.workload("j")
    await q.client.delete(WORKLOAD, first.metadata.name, "default")
    await q.world.settle(60)
    second = await q.workload("j")
    assert second.metadata.uid != first.metadata.uid
    assert await running(q, "j") == 3


async def resize(q: Queued, name: str, replicas: int, *, old: JobSet | None = None) -> None:
    edit = [{"op": "replace", "path": "/spec/replicatedJobs/0/replicas", "value": replicas}]
    await q.client.edit_object(JOB_SET, old or await see(q, name), edit)
    await q.world.settle(5)


@story
async def test_its_size_changes_while_it_waits(q: Queued) -> None:
    await q.queue(cpu=4)
    await jobset(q, "runs", *TWO)
    await jobset(q, "waits", *TWO)
    await resize(q, "waits", 3)
    assert [podset.count for podset in (await q.workload("waits")).spec.pod_sets] == [3, 1]
    await end(q, "runs")
    assert await running(q, "waits") == 4


@story
async def test_while_it_runs_quota_follows_its_size(q: Queued) -> None:
    await q.queue(cpu=6)
    await jobset(q, "j", *TWO)
    first = (await q.workload("j")).metadata.uid
    before = {pod.metadata.uid for pod in (await q.client.list(POD, "default")).items}
    await resize(q, "j", 3)
    assert (await held(q, "j"), await running(q, "j")) == ({"workers": 3, "driver": 1}, 4)
    await resize(q, "j", 7)
    assert (await held(q, "j"), await running(q, "j")) == ({"workers": 3, "driver": 1}, 4), "there is no quota for 8"
    await jobset(q, "next", *TWO)
    assert await running(q, "next") == 0
    await resize(q, "j", 1)
    assert (await held(q, "j"), await running(q, "j")) == ({"workers": 1, "driver": 1}, 2)
    assert await running(q, "next") == 3
    await resize(q, "j", 3)
    assert await running(q, "j") == 2
    await end(q, "next")
    assert (await held(q, "j"), await running(q, "j")) == ({"workers": 3, "driver": 1}, 4)
    assert (await q.workload("j")).metadata.uid == first
    kept = {pod.metadata.uid for pod in (await q.client.list(POD, "default")).items}
    assert len(before & kept) == 2, "those of the first worker and of the driver ran all the while"
    await end(q, "j")
    assert (await q.state("j"))["Finished"] == "True Succeeded"


@story
async def test_one_that_is_of_fixed_size_cannot_change_while_it_runs(q: Queued) -> None:
    await q.queue(cpu=4)
    label, fixed = {QUEUE_NAME_LABEL: "cq"}, {"kueue.x-k8s.io/elastic-job": "false"}
    await jobset(q, "j", *TWO, metadata={"labels": label, "annotations": fixed})
    with pytest.raises(ApiError, match="the number of pods cannot change while the JobSet runs with quota"):
        await resize(q, "j", 1)


@story
async def test_a_role_without_replicas_asks_for_nothing(q: Queued) -> None:
    await q.queue(cpu=2)
    await jobset(q, "j", role("workers", 2), role("none", 0))
    assert await held(q, "j") == {"workers": 2, "none": 0}
    assert await running(q, "j") == 2
    await end(q, "j")
    assert (await q.state("j"))["Finished"] == "True Succeeded"


@story
async def test_one_that_runs_before_it_is_admitted_is_stopped(q: Queued) -> None:
    await q.queue(cpu=2)
    await jobset(q, "big", *TWO)
    await q.client.patch(JOB_SET, "big", {"spec": {"suspend": False}}, "default")
    await q.world.settle(60)
    assert (await see(q, "big")).spec.suspend
    assert await running(q, "big") == 0


@pytest.mark.parametrize(
    ("started", "owned", "waits"),
    [
        pytest.param(True, False, True, id="it was started with quota"),
        pytest.param(False, False, False, id="it may be of a namespace that is not managed"),
        pytest.param(True, True, False, id="its owner has the quota"),
    ],
)
def test_a_pod_that_comes_when_there_is_no_workload(started: bool, owned: bool, waits: bool) -> None:
    async def scenario() -> None:
        async with plane_of(controllers=False) as plane:
            q = Queued(World(plane))
            above = {"apiVersion": "a/v1", "kind": "Above", "name": "x", "uid": "u", "controller": True}
            meta = {"labels": {QUEUE_NAME_LABEL: "cq"}, "ownerReferences": [above] if owned else []}
            made = await jobset(q, "j", *TWO, metadata=meta)
            labels = {names.JOBSET_NAME: "j", names.JOBSET_UID: made.metadata.uid, names.REPLICATED_JOB_NAME: "workers"}
            labels |= {POD_SET_LABEL: "workers"} if started else {}
            document = {"metadata": {"name": "late", "labels": labels}, "spec": {"containers": [CPU]}}
            pod = await q.client.create(POD, msgspec.convert(document, Pod), "default")
            assert [gate.name for gate in pod.spec.scheduling_gates] == ([GATE] if waits else [])

    run_virtual(scenario())


def without_collector(test: Callable[[Queued], Awaitable[None]]) -> None:
    """Play a test under the engine alone: what depends on an object that is gone stays."""

    async def scenario() -> None:
        async with plane_of(parts=tuple(Part)) as plane:
            await test(Queued(World(plane)))

    run_virtual(scenario())


def test_a_gated_pod_of_another_namespace_takes_no_place() -> None:
    async def body(q: Queued) -> None:
        await q.queue(cpu=4)
        await jobset(q, "j", *TWO)
        pods = (await q.client.list(POD, "default")).items
        worker = next(pod for pod in pods if pod.metadata.labels[names.REPLICATED_JOB_NAME] == "workers")
        gates = (PodSchedulingGate(name=GATE),)
        gated = msgspec.structs.replace(worker, spec=msgspec.structs.replace(worker.spec, scheduling_gates=gates))
        await q.world.copy_elsewhere(gated)
        await resize(q, "j", 3)
        pods = (await q.client.list(POD, "default")).items
        assert (len(pods), [pod.metadata.name for pod in pods if pod.spec.scheduling_gates]) == (4, [])
        assert (await q.client.get(POD, "stranger", "other")).spec.scheduling_gates == gates

    without_collector(body)


def test_jobs_whose_jobset_is_gone_are_left_to_the_collector(caplog: pytest.LogCaptureFixture) -> None:
    async def test(q: Queued) -> None:
        await q.queue(cpu=3)
        await jobset(q, "j", *TWO)
        await q.client.delete(JOB_SET, "j", "default")
        await q.world.settle()
        before = await jobs(q, "j")
        for job in before:
            await q.client.patch(JOB, job.metadata.name, {"metadata": {"annotations": {"seen": "again"}}}, "default")
        await q.world.elapse(600)
        assert [job.metadata.uid for job in await jobs(q, "j")] == [job.metadata.uid for job in before]

    without_collector(test)
    assert [record.getMessage() for record in caplog.records if "job-queueing" in record.getMessage()] == []


def test_a_job_whose_jobset_is_not_seen_yet_is_looked_at_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(q: Queued) -> None:
        seen = q.world.plane.manager.informer(JOB_SET)
        with monkeypatch.context() as stale:
            stale.setattr(seen, "get", lambda key: None)
            made = await jobset(q, "j", *TWO, queue="none")
            owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "j", "uid": made.metadata.uid}
            await q.job("child", metadata={"ownerReferences": [owner | {"controller": True}]}, queue="")
            assert not (await q.now("child")).spec.suspend
        await q.world.settle()
        assert (await q.now("child")).spec.suspend

    without_collector(test)
    assert [record.getMessage() for record in caplog.records if "job-queueing" in record.getMessage()] == []


@story
async def test_roles_that_wait_for_others_hold_their_quota_and_do_not_keep_it_from_being_ready(q: Queued) -> None:
    await q.queue(cpu=3)
    after: Sequence[dict[str, str]] = [{"name": "prep", "status": "Complete"}]
    await jobset(q, "j", role("prep"), role("train", 1, 2, dependsOn=after))
    assert await running(q, "j") == 1
    assert await held(q, "j") == {"prep": 1, "train": 2}
    assert (await q.state("j"))["PodsReady"] == "True Started"
    await end(q, "j", of="prep")
    assert await running(q, "j") == 2
    await end(q, "j")
    assert (await q.state("j"))["Finished"] == "True Succeeded"


@story
async def test_a_prebuilt_workload_is_its_own(q: Queued) -> None:
    await q.queue(cpu=3)
    label = {"labels": {QUEUE_NAME_LABEL: "cq", "kueue.x-k8s.io/prebuilt-workload-name": "built"}}
    await jobset(q, "j", *TWO, metadata=label)
    assert await running(q, "j") == 0
    template = {"spec": {"restartPolicy": "Never", "containers": [CPU]}}
    podsets = [{"name": "workers", "count": 2, "template": template}, {"name": "driver", "template": template}]
    document = {"metadata": {"name": "built"}, "spec": {"queueName": "cq", "podSets": podsets}}
    await q.client.create(WORKLOAD, msgspec.convert(document, Workload), "default")
    await q.world.settle()
    assert [one.metadata.name for one in await q.workloads()] == ["built"]
    assert await running(q, "j") == 3


@story
async def test_its_manifest_can_be_applied_again_while_it_runs(q: Queued) -> None:
    """It has nothing of what was injected, and lists are sent whole."""
    await q.queue(cpu=3)
    manifest = [role("workers", 2, pod={"labels": {"mine": "x"}}), role("driver")]
    await jobset(q, "j", *manifest)
    before = await see(q, "j")
    after = await q.client.patch(JOB_SET, "j", {"spec": {"replicatedJobs": manifest}}, "default")
    assert after.spec == before.spec
    other = [role("workers", 2, pod={"labels": {"mine": "y"}}), role("driver")]
    with pytest.raises(ApiError, match="field is immutable"):
        await q.client.patch(JOB_SET, "j", {"spec": {"replicatedJobs": other}}, "default")


@story
async def test_what_was_decided_on_an_older_one_is_not_written(q: Queued) -> None:
    await q.queue(cpu=3)
    made = await jobset(q, "j", *TWO)
    with pytest.raises(ApiError) as old:
        await resize(q, "j", 1, old=made)
    assert (old.value.code, old.value.reason) == (409, "Conflict")
    assert (await see(q, "j")).spec.replicated_jobs[0].replicas == 2


@story
async def test_one_that_starts_in_order_and_is_taken_back_with_part_of_it_done_goes_on_where_it_was(q: Queued) -> None:
    await q.queue(cpu=2)
    roles = (role("a", spec={"completions": 3, "completionMode": "Indexed"}), role("b"))
    await jobset(q, "j", *roles, startupPolicy={"startupPolicyOrder": "InOrder"})
    await end(q, "j", of="a")
    for active in (False, True):
        workload = (await q.workload("j")).metadata.name
        await q.client.patch(WORKLOAD, workload, {"spec": {"active": active}}, "default")
        await q.world.settle(30)
    assert await running(q, "j") == 2, "a counts as ready by what has succeeded of it"
    await end(q, "j")
    await end(q, "j")
    assert (await q.state("j"))["Finished"] == "True Succeeded"
