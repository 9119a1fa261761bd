"""Jobs and their Workloads, from submission to the end, on a whole control plane in virtual time."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.system.integrations.queued_jobs import Queued, configured, story
from tests.system.plane import looks
from tests.system.queueing import queueing_world

from muster.api.batch import JOB, Job
from muster.api.conditions import is_true
from muster.api.core import NAMESPACE, POD
from muster.api.groups.scheduling import PRIORITY_CLASS, PriorityClass
from muster.api.kueue import (
    ADMISSION_CHECK,
    LOCAL_QUEUE,
    WORKLOAD,
    WORKLOAD_PRIORITY_CLASS,
    AdmissionCheck,
    Workload,
    WorkloadPriorityClass,
    WorkloadStatus,
)
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.status import ApiError
from muster.cluster.store import Key, Put
from muster.insight.reader.jobs.job import investigate
from muster.insight.reader.jobs.rows import job_rows
from muster.insight.why import describe_levels
from muster.queueing.jobframework.names import workload_name
from muster.runtime.tasks import cancel

QUEUE = "kueue.x-k8s.io/queue-name"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
MINIMUM = "kueue.x-k8s.io/job-min-parallelism"
TOGETHER = "kueue.x-k8s.io/job-completions-equal-parallelism"
STOP_TIME = {"metadata": {"annotations": {"muster.dev/stop-time": "30s"}}}
RUN_TIME = {"metadata": {"annotations": {"muster.dev/run-time": "20s"}}}


async def wpc(q: Queued, name: str, value: int) -> None:
    document = {"metadata": {"name": name}, "value": value}
    await q.client.create(WORKLOAD_PRIORITY_CLASS, msgspec.convert(document, WorkloadPriorityClass))
    await q.world.settle()


# From submission to start.


@story
async def test_pitfall_38_a_job_gets_a_workload_of_exactly_that_name(q):
    await q.queue(cpu=1)
    job = await q.job()
    workload = await q.workload()
    meta = workload.metadata
    assert job.spec.suspend
    assert meta.name == workload_name("Job", "batch", "j", job.metadata.uid)
    assert meta.labels == {"kueue.x-k8s.io/job-uid": job.metadata.uid}
    assert meta.finalizers == ("kueue.x-k8s.io/resource-in-use",)
    (owner,) = meta.owner_references
    assert (owner.api_version, owner.kind, owner.name, owner.uid) == ("batch/v1", "Job", "j", job.metadata.uid)
    assert owner.controller
    assert owner.block_owner_deletion
    (podset,) = workload.spec.pod_sets
    assert (podset.name, podset.count, workload.spec.queue_name, workload.spec.priority) == ("main", 2, "cq", 0)
    assert (await q.now()).spec.suspend, "two CPUs are asked for and there is quota for one"
    assert await q.told() == [f"CreatedWorkload: Created Workload: default/{meta.name}"]


@story
async def test_readiness_is_reported_with_the_admission_in_one_write(q):
    await q.queue()
    states = {}  # by resource version: the conditions

    async def follow():
        async with q.client.watch(WORKLOAD, "default") as events:
            async for event in events:
                if (workload := event.object) is not None:
                    conditions = {one.type: one.status for one in workload.status.conditions}
                    states[workload.metadata.resource_version] = conditions

    following = asyncio.create_task(follow())
    await q.job(workers=1, template=RUN_TIME)
    await q.world.settle(60)
    await cancel([following])
    admitted = [one for one in states.values() if one.get("Admitted") == "True" and "Finished" not in one]
    assert [one["PodsReady"] for one in admitted] == ["False", "True"]


@story
async def test_once_admitted_it_starts_with_what_its_flavors_ask_for(q):
    await queueing_world.flavor(
        q.world, "f", nodeLabels={"zone": "a"}, tolerations=[{"key": "spot", "operator": "Exists"}]
    )
    await queueing_world.queue(q.world, "cq", 4, flavor="f")
    await q.job(template={"metadata": {"labels": {"mine": "x"}}})
    template = (await q.now()).spec.template
    labels = {key: value for key, value in template.metadata.labels.items() if key.startswith("kueue") or key == "mine"}
    assert labels == {
        "mine": "x",
        "kueue.x-k8s.io/podset": "main",
        "kueue.x-k8s.io/cluster-queue-name": "cq",
        "kueue.x-k8s.io/local-queue-name": "cq",
    }
    assert template.spec.node_selector == {"zone": "a"}
    assert [one.key for one in template.spec.tolerations] == ["spot"]
    assert await q.running() == [0, 1]
    assert await q.state() == {
        "QuotaReserved": "True QuotaReserved",
        "Admitted": "True Admitted",
        "PodsReady": "True Started",
    }
    assert (await q.told())[1:] == ["Started: Admitted by clusterQueue cq"]


@story
async def test_when_it_has_ended_its_workload_is_finished_and_the_quota_is_the_next_ones(q):
    await q.queue(cpu=2)
    await q.job("a", template=RUN_TIME)
    await q.job("b")
    assert await q.running("b") == []
    await q.world.elapse(30)
    workload = await q.workload("a")
    assert (await q.state("a"))["Finished"] == "True Succeeded"
    assert workload.metadata.finalizers == ()
    assert f"FinishedWorkload: Workload 'default/{workload.metadata.name}' is declared finished" in await q.told("a")
    assert await q.running("b") == [0, 1]


@story
async def test_one_that_fails_is_finished_too(q):
    await q.queue()
    annotations = {"muster.dev/run-time": "5s", "muster.dev/exit-code": "1"}
    await q.job(template={"metadata": {"annotations": annotations}}, backoffLimit=0)
    await q.world.elapse(20)
    assert (await q.state())["Finished"] == "True Failed"


# Eviction.


@story
async def test_pitfall_8_quota_is_given_back_only_when_the_pods_are_gone(q):
    await q.queue(cpu=2)
    await q.job(template=STOP_TIME)
    await q.evict()
    await q.world.settle(10)
    assert (await q.now()).spec.suspend
    assert await q.held() == 2, "its pods are still ending"
    assert not await q.template_is_clean()
    await q.client.patch(LOCAL_QUEUE, "cq", {"spec": {"stopPolicy": "Hold"}}, "default")  # or it starts at once
    await q.world.elapse(30)
    assert await q.world.pods() == []
    assert await q.held() == 0
    assert await q.template_is_clean()
    state = await q.state()
    assert state["Evicted"] == "True Preempted"
    assert state["Requeued"] == "True Preempted"
    assert state["Admitted"] == "False NoReservation"
    assert "Stopped: go" in await q.told()


@story
async def test_pitfall_39_after_an_eviction_it_starts_again_as_if_for_the_first_time(q):
    await q.queue(cpu=2)
    await q.job()
    before = await q.now()
    await q.evict()
    await q.world.settle(30)
    assert await q.running() == [0, 1]
    assert (await q.now()).spec == before.spec
    assert (await q.state())["Evicted"] == "False QuotaReserved"


@story
async def test_somebody_who_resumes_it_before_its_time_is_told_no(q):
    await q.queue(cpu=1)
    await q.job()
    await q.change(spec={"suspend": False})
    assert (await q.now()).spec.suspend
    assert "Stopped: Not admitted by cluster queue" in await q.told()
    assert await q.world.pods() == []


@story
async def test_somebody_who_suspends_it_sees_it_go_on(q):
    await q.queue()
    await q.job()
    await q.change(spec={"suspend": True})
    await q.world.settle(10)
    assert await q.running() == [0, 1]


# Changes.


@story
async def test_pitfall_37_a_job_that_is_changed_while_it_waits_keeps_its_workload(q):
    await q.queue(cpu=1)
    await q.job()
    before = (await q.workload()).metadata.uid
    await q.change(spec={"parallelism": 1, "completions": 1})
    workload = await q.workload()
    assert workload.metadata.uid == before
    assert workload.spec.pod_sets[0].count == 1
    assert await q.running() == [0], "it fits now"
    name = f"default/{workload.metadata.name}"
    assert f"UpdatedWorkload: Updated not matching Workload for suspended job: {name}" in await q.told()


@pytest.mark.parametrize("size", [1, 3])
def test_a_running_gang_that_is_scaled_keeps_its_workload_and_who_stays_runs_on(size):
    @story
    async def body(q):
        await q.queue()
        await q.job()
        workload, pods = await q.workload(), {pod.metadata.uid for pod in await q.world.pods()}
        await q.change(spec={"parallelism": size, "completions": size})
        await q.world.settle(10)
        now = {pod.metadata.uid for pod in await q.world.pods()}
        assert len(now & pods) == min(size, 2)
        assert (await q.held(), await q.running()) == (size, list(range(size)))
        assert (await q.workload()).metadata.uid == workload.metadata.uid
        assert not any(line.startswith("Stopped") for line in await q.told())

    body()


@story
async def test_pitfall_37_a_running_job_that_is_changed_gets_another_workload(q):
    await q.queue()
    await q.job(metadata={"annotations": {"kueue.x-k8s.io/elastic-job": "false"}})
    before = await q.workload()
    await q.change(spec={"parallelism": 3, "completions": 3})
    await q.world.settle(10)
    after = await q.workload()
    assert after.metadata.uid != before.metadata.uid
    assert (await q.held(), await q.running()) == (3, [0, 1, 2])
    told = await q.told()
    assert "Stopped: No matching Workload; restoring pod templates according to existent Workload" in told
    assert f"DeletedWorkload: Deleted not matching Workload: default/{before.metadata.name}" in told


@story
async def test_pitfall_36_where_it_may_run_can_be_changed_while_it_waits(q):
    await q.queue(cpu=1)
    await q.job()
    uid = (await q.workload()).metadata.uid
    await q.change(spec={"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}})
    workload = await q.workload()
    assert (workload.metadata.uid, workload.spec.pod_sets[0].template.spec.node_selector) == (uid, {"disk": "ssd"})
    assert (await q.now()).spec.template.spec.node_selector == {"disk": "ssd"}


@story
async def test_it_can_go_to_another_queue_while_it_waits(q):
    await q.queue(cpu=1)
    await queueing_world.queue(q.world, "other", 4, flavor="f")
    await q.job()
    await q.change(metadata={"labels": {QUEUE: "other"}})
    assert (await q.workload()).spec.queue_name == "other"
    assert await q.running() == [0, 1]


@story
async def test_a_job_that_leaves_its_queue_takes_its_workload_along(q):
    await q.queue(cpu=1)
    await q.job()
    await q.change(metadata={"labels": {QUEUE: None}})
    assert await q.workloads() == []
    assert (await q.now()).spec.suspend


@story
async def test_a_deleted_job_leaves_nothing(q):
    await q.queue()
    await q.job()
    await q.client.delete(JOB, "j", "default", propagation="Foreground")
    await q.world.settle(30)
    assert (await q.workloads(), await q.world.pods()) == ([], [])


@story
async def test_a_job_made_anew_under_the_same_name_gets_a_workload_of_its_own(q):
    await q.queue(cpu=1)
    await q.job()
    old = (await q.workload()).metadata.name
    await q.client.delete(JOB, "j", "default")
    await q.job()
    assert (await q.workload()).metadata.name != old


@story
async def test_a_deleted_workload_is_made_anew_once_the_pods_are_gone(q):
    await q.queue(cpu=2)
    await q.job(template=STOP_TIME)
    before = await q.workload()
    await q.client.delete(WORKLOAD, before.metadata.name, "default")
    await q.world.settle(10)
    assert (await q.workload()).metadata.uid == before.metadata.uid, "its quota is held while pods are ending"
    await q.world.elapse(40)
    assert (await q.workload()).metadata.uid != before.metadata.uid
    assert await q.running() == [0, 1]
    assert "Stopped: Workload is deleted" in await q.told()


# Labels and annotations.


@story
async def test_its_longest_time_is_its_workloads(q):
    await q.queue()
    await q.job(labels={"kueue.x-k8s.io/max-exec-time-seconds": "10"})
    assert (await q.workload()).spec.maximum_execution_time_seconds == 10
    await q.world.elapse(20)
    assert (await q.now()).spec.suspend
    assert not (await q.workload()).spec.active
    assert await q.held() == 0


@story
async def test_parameters_of_provisioning_requests_are_its_workloads_too(q):
    await q.queue(cpu=1)
    await q.job(metadata={"annotations": {"provreq.kueue.x-k8s.io/a": "b", "else": "c"}})
    annotations = (await q.workload()).metadata.annotations
    asked = {key: value for key, value in annotations.items() if not key.startswith("muster.dev/")}
    assert asked == {"provreq.kueue.x-k8s.io/a": "b", "kueue.x-k8s.io/elastic-job": "true"}


@story
async def test_a_change_of_a_priority_class_is_followed_by_its_workloads(q):
    await wpc(q, "high", 100)
    await q.queue(cpu=2)
    label = {"kueue.x-k8s.io/priority-class": "high"}
    await q.job("runs", labels=label)
    await q.job("waits", labels=label)
    await q.job("other")
    await q.client.patch(WORKLOAD_PRIORITY_CLASS, "high", {"value": 7})
    await q.world.settle()
    assert [(await q.workload(name)).spec.priority for name in ("runs", "waits", "other")] == [7, 7, 0]
    await q.client.delete(WORKLOAD_PRIORITY_CLASS, "high")
    await q.world.settle()
    assert (await q.workload("runs")).spec.priority == 7
    await wpc(q, "high", 9)
    await q.world.settle()
    assert [(await q.workload(name)).spec.priority for name in ("runs", "waits", "other")] == [9, 9, 0]


@story
async def test_conditions_say_for_which_generation_they_were_found(q):
    await q.queue()
    await q.job()
    await q.client.patch(WORKLOAD, (await q.workload()).metadata.name, {"spec": {"active": False}}, "default")
    await q.world.settle(20)
    workload = await q.workload()
    found = {one.type: one.observed_generation for one in workload.status.conditions}
    assert workload.metadata.generation == 2
    assert {found[type_] for type_ in ("Evicted", "QuotaReserved", "Admitted", "Requeued")} == {2}, found


@story
async def test_a_job_that_another_controller_manages_is_never_touched(q):
    await q.queue()
    await q.job(managedBy="example.com/jobs")
    job = await q.now()
    assert (job.spec.suspend, job.spec.template.spec.node_selector) == (False, {})
    assert (await q.client.list(WORKLOAD, "default")).items == []


@story
async def test_a_priority_class_of_workloads_comes_before_that_of_the_pods(q):
    await wpc(q, "high", 100)
    pods = {"metadata": {"name": "pods"}, "value": 7}
    await q.client.create(PRIORITY_CLASS, msgspec.convert(pods, PriorityClass))
    await q.queue(cpu=1)
    template = {"spec": {"priorityClassName": "pods"}}
    await q.job("both", labels={"kueue.x-k8s.io/priority-class": "high"}, template=template)
    await q.job("one", template=template)
    await q.job("none")
    found = {}
    for name in ("both", "one", "none"):
        spec = (await q.workload(name)).spec
        ref = spec.priority_class_ref
        found[name] = (spec.priority, (ref.group, ref.kind, ref.name) if ref else None)
    assert found == {
        "both": (100, ("kueue.x-k8s.io", "WorkloadPriorityClass", "high")),
        "one": (7, ("scheduling.k8s.io", "PriorityClass", "pods")),
        "none": (0, None),
    }


@story
async def test_a_class_that_does_not_exist_is_said_and_waited_for(q):
    await q.queue()
    await q.job(labels={"kueue.x-k8s.io/priority-class": "late"})
    assert await q.workloads() == []
    assert await q.told() == ['WorkloadPriorityClassNotFound: WorkloadPriorityClass "late" not found']
    (row,) = await job_rows(q.client, "default", q.world.clock.now(), print)
    assert row["reason"] == 'its queue cannot take it in: WorkloadPriorityClass "late" not found'
    await wpc(q, "late", 5)
    assert (await q.workload()).spec.priority == 5
    assert await q.running() == [0, 1]


@story
async def test_another_class_is_followed_while_it_runs(q):
    await wpc(q, "low", 1)
    await wpc(q, "high", 2)
    await q.queue()
    await q.job(labels={"kueue.x-k8s.io/priority-class": "low"})
    await q.change(metadata={"labels": {"kueue.x-k8s.io/priority-class": "high"}})
    assert (await q.workload()).spec.priority == 2
    assert await q.running() == [0, 1]


@story
async def test_gates_that_are_taken_from_the_job_are_taken_from_its_workload(q):
    await q.queue()
    await q.job(metadata={"annotations": {"kueue.x-k8s.io/admission-gated-by": "example.com/a"}})
    assert await q.running() == []
    await q.change(metadata={"annotations": {"kueue.x-k8s.io/admission-gated-by": None}})
    assert await q.running() == [0, 1]


# Partial admission, and pods that are done.


@pytest.mark.parametrize(("annotations", "completions"), [({MINIMUM: "2"}, 6), ({MINIMUM: "2", TOGETHER: "true"}, 3)])
def test_one_that_may_start_smaller_does_and_gets_its_size_back(annotations, completions):
    @story
    async def body(q):
        await q.queue(cpu=3)
        await q.job(workers=6, metadata={"annotations": annotations})
        job = await q.now()
        assert (job.spec.parallelism, job.spec.completions) == (3, completions)
        assert await q.held() == 3
        assert len(await q.running()) == 3
        await q.client.patch(LOCAL_QUEUE, "cq", {"spec": {"stopPolicy": "Hold"}}, "default")
        uid = (await q.workload()).metadata.uid
        await q.evict()
        await q.world.settle(30)
        job = await q.now()
        assert (job.spec.parallelism, job.spec.completions) == (6, 6)
        assert (await q.workload()).metadata.uid == uid

    body()


@story
async def test_pods_that_are_done_give_their_quota_back(q):
    await q.queue(cpu=4)
    await q.job("a", workers=4)
    await q.job("b", workers=2)
    assert await q.running("b") == []
    for pod in (await q.world.pods("a"))[:2]:
        await q.world.finish(pod)
    await q.world.settle(30)
    (reclaimable,) = (await q.workload("a")).status.reclaimable_pods
    assert (reclaimable.name, reclaimable.count) == ("main", 2)
    assert await q.running("b") == [0, 1]


@story
async def test_a_job_that_succeeds_gives_all_its_quota_back_by_one_write(q):
    await q.queue(cpu=4)
    await q.job("a", workers=4)
    statuses: list[WorkloadStatus] = []

    def note(workload: Workload | None) -> None:
        statuses.extend([] if workload is None else [workload.status])  # a bookmark has none

    async def follow() -> None:
        async with q.client.watch(WORKLOAD, "default") as events:
            async for event in events:
                note(event.object)

    following = asyncio.create_task(follow())
    await q.world.settle()
    statuses.clear()
    await asyncio.gather(*map(q.world.finish, await q.world.pods("a")))
    await q.world.settle(30)
    await cancel([following])
    ends = [(is_true(one.conditions, "Finished"), one.reclaimable_pods) for one in statuses]
    assert ends == [(True, ())] * 2  # then its finalizer goes


# Prebuilt Workloads.


async def prebuilt(q: Queued, job: Job, count: int = 2) -> None:
    """Make a Workload for the pods of a Job, as the server has completed them."""
    podset = {"name": "main", "count": count, "template": msgspec.to_builtins(job.spec.template)}
    document = {"metadata": {"name": "made", "namespace": "default"}, "spec": {"queueName": "cq", "podSets": [podset]}}
    await q.client.create(WORKLOAD, msgspec.convert(document, Workload))
    await q.world.settle()


@story
async def test_a_prebuilt_workload_becomes_the_jobs(q):
    await q.queue()
    job = await q.job(labels={PREBUILT: "made"})
    assert (await q.workloads(), job.spec.suspend) == ([], True)
    await prebuilt(q, job)
    workload = await q.workload()
    assert workload.metadata.name == "made"
    assert workload.metadata.labels["kueue.x-k8s.io/job-uid"] == job.metadata.uid
    assert await q.running() == [0, 1]


@story
async def test_a_prebuilt_workload_that_is_different_is_finished(q):
    await q.queue()
    await prebuilt(q, await q.job(labels={PREBUILT: "made"}), count=3)
    workload = await q.workload()
    finished = next(one for one in workload.status.conditions if one.type == "Finished")
    assert (finished.reason, finished.message) == (
        "OutOfSync",
        "The prebuilt workload is out of sync with its user job",
    )
    assert (await q.now()).spec.suspend


@story
async def test_the_workload_of_another_job_is_left_alone(q):
    await q.queue()
    await prebuilt(q, await q.job("first", labels={PREBUILT: "made"}))
    before = await q.workload("first")
    await q.job("second", labels={PREBUILT: "made"})
    assert await q.workloads() == [before]
    assert (await q.running("first"), await q.running("second")) == ([0, 1], [])


@story
async def test_jobs_of_another_api_are_somebody_elses(q):
    """Their Workloads are not taken for those of a Job that is gone."""
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "x", "controller": True}
    meta = {"ownerReferences": [owner], "finalizers": ["kueue.x-k8s.io/resource-in-use"]}
    await q.queue(cpu=1)
    before = await queueing_world.workload(q.world, "made", "cq", cpu=2, metadata=meta)
    await q.job()
    after = await queueing_world.get(q.world, "made")
    assert after.metadata.finalizers == before.metadata.finalizers


# Jobs of jobs.


async def child(q: Queued, parent: Job, **spec: Any) -> Job:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": parent.metadata.name, "uid": parent.metadata.uid}
    metadata = {"ownerReferences": [owner | {"controller": True}]}
    return await q.job("child", metadata=metadata, **spec)


@story
async def test_pitfall_42_a_child_has_no_workload_and_waits_for_its_parent(q):
    await q.queue(cpu=1)
    parent = await q.job()
    await child(q, parent)
    assert [one.metadata.owner_references[0].name for one in await q.workloads()] == ["j"]
    assert (await q.now("child")).spec.suspend
    assert await q.told("child") == ["Suspended: Kueue managed child job suspended"]


@story
async def test_pitfall_42_a_child_runs_with_its_parent_and_stops_with_it(q):
    await q.queue()
    parent = await q.job()
    await child(q, parent)
    assert await q.running("child") == [0, 1]
    await q.client.patch(LOCAL_QUEUE, "cq", {"spec": {"stopPolicy": "HoldAndDrain"}}, "default")
    await q.world.settle(30)
    assert (await q.now("child")).spec.suspend
    assert await q.world.pods() == []
    assert len(await q.workloads()) == 1


@story
async def test_more_than_ten_levels_are_a_mistake(q):
    await q.queue()
    above = await q.job("j0", workers=1)
    for number in range(1, 12):
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": above.metadata.name, "uid": above.metadata.uid}
        metadata = {"ownerReferences": [owner | {"controller": True}], "labels": {}}
        above = await q.job(f"j{number}", workers=1, metadata=metadata, suspend=True)
    text = "Terminated search for Kueue-managed Job because ancestor depth exceeded limit of 10"
    assert await q.told("j11") == [f"JobNestingTooDeep: {text}"]
    assert await q.told("j10") == []


# Namespaces.


@story
async def test_pitfall_43_in_a_namespace_that_is_not_managed_a_job_runs_as_it_is(q):
    await q.queue()
    document = {
        "metadata": {"name": "j", "labels": {QUEUE: "cq"}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}},
    }
    await q.client.create(JOB, msgspec.convert(document, Job), "kube-system")
    await q.world.settle()
    job = await q.client.get(JOB, "j", "kube-system")
    assert (bool(job.spec.suspend), job.status.active) == (False, 1)
    assert (await q.client.list(WORKLOAD)).items == []


# Admission checks.


CHECK = {"admissionChecks": [{"name": "check"}]}


async def answer(q: Queued, *, state: str = "Ready", **update: Any) -> None:
    """Play the controller of the check."""
    workload = await q.workload()
    (check,) = msgspec.to_builtins(workload.status.admission_checks)
    now = q.world.clock.now().replace(microsecond=0).isoformat()
    said = {"state": state, "lastTransitionTime": now, "podSetUpdates": [{"name": "main", **update}]}
    patch = {"status": {"admissionChecks": [check | said]}}
    await q.client.patch(WORKLOAD, workload.metadata.name, patch, "default", subresource="status")
    await q.world.settle()


async def create_check(q: Queued) -> None:
    document = {"metadata": {"name": "check"}, "spec": {"controllerName": "example.com/c"}}
    await q.client.create(ADMISSION_CHECK, msgspec.convert(document, AdmissionCheck))
    active = {
        "type": "Active",
        "status": "True",
        "reason": "Active",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await q.client.patch(ADMISSION_CHECK, "check", {"status": {"conditions": [active]}}, subresource="status")


async def with_check(q: Queued) -> None:
    await create_check(q)
    await q.queue(admissionChecksStrategy=CHECK)


@story
async def test_what_admission_checks_ask_for_is_injected_and_taken_away(q):
    await with_check(q)
    await q.job()
    assert await q.running() == []
    await answer(q, labels={"l": "1"}, annotations={"a": "2"}, nodeSelector={"zone": "a"})
    job = await q.now()
    assert (job.spec.template.metadata.labels["l"], job.spec.template.metadata.annotations["a"]) == ("1", "2")
    await q.client.patch(LOCAL_QUEUE, "cq", {"spec": {"stopPolicy": "HoldAndDrain"}}, "default")
    await q.world.settle(30)
    job = await q.now()
    assert "l" not in job.spec.template.metadata.labels
    assert "a" not in job.spec.template.metadata.annotations


@story
async def test_pitfall_45_checks_that_contradict_the_pods_end_the_workload(q):
    await with_check(q)
    await q.job(template={"spec": {"nodeSelector": {"provisioning": "spot"}}})
    await answer(q, nodeSelector={"provisioning": "on-demand"})
    finished = next(one for one in (await q.workload()).status.conditions if one.type == "Finished")
    assert finished.reason == "FailedToStart"
    assert "conflict for key=provisioning, value1=spot, value2=on-demand" in finished.message
    assert (await q.now()).spec.suspend


# Settings.


@configured("integrations: {frameworks: [batch/job], labelKeysToCopy: [team]}")
async def test_labels_are_copied_where_the_settings_say_so(q):
    await q.queue(cpu=1)
    await q.job(labels={"team": "a", "else": "b"})
    labels = (await q.workload()).metadata.labels
    assert {key for key in labels if "/" not in key} == {"team"}


@configured("manageJobsWithoutQueueName: true")
async def test_jobs_without_a_queue_wait_for_one(q):
    await q.queue()
    await q.job(queue="")
    assert ((await q.now()).spec.suspend, (await q.workload()).spec.queue_name) == (True, "")
    await q.change(metadata={"labels": {QUEUE: "cq"}})
    assert await q.running() == [0, 1]


@configured("waitForPodsReady: {timeoutSeconds: 10, blockAdmission: false}")
async def test_kep_349_the_timeout_counts_from_the_start_of_the_job(q):
    await q.queue()
    await q.job(template={"metadata": {"annotations": {"muster.dev/start-time": "60s"}}})
    job, workload = await q.now(), await q.workload()
    assert workload.metadata.annotations["muster.dev/job-start"] == f"{job.status.start_time:%Y-%m-%dT%H:%M:%SZ}"
    await q.world.elapse(10)
    assert (await q.now()).spec.suspend
    assert (await q.state())["Evicted"] == "True PodsReadyTimeout"


@configured("featureGates: {DisableWaitForPodsReady: true}")
async def test_nothing_is_said_about_pods_that_nobody_waits_for(q):
    await q.queue()
    await q.job()
    assert await q.running() == [0, 1]
    assert "PodsReady" not in await q.state()


ONE_TRY = """
waitForPodsReady: {timeout: 10s, requeuingStrategy: {backoffLimitCount: 0}}
objectRetentionPolicies: {workloads: {afterDeactivatedByKueue: 30s}}
"""


@configured(ONE_TRY)
async def test_a_job_that_was_given_up_goes_after_a_while(q):
    await q.queue()
    await q.job(template={"metadata": {"annotations": {"muster.dev/start-time": "60s"}}})
    await q.world.elapse(20)
    assert (await q.state())["Evicted"] == "True DeactivatedDueToRequeuingLimitExceeded"
    assert (await q.now()).spec.suspend
    await q.world.elapse(30)
    assert (await q.client.list(JOB, "default")).items == []
    assert await q.workloads() == []
    assert "Deleted: Deleted job: deactivation retention period expired" in await q.told()


# Quiet.


@story
async def test_who_has_nothing_to_do_writes_nothing(q):
    await q.queue(cpu=2)
    await q.job("runs")
    await q.job("waits")
    await q.world.settle(60)
    before = (await q.client.list(POD)).metadata.resource_version
    await q.world.settle(600)
    objects = [
        *await q.workloads(),
        await q.now("runs"),
        await q.now("waits"),
        await q.client.get(NAMESPACE, "default"),
    ]
    assert max(int(one.metadata.resource_version) for one in objects) <= int(before)


@story
async def test_a_job_that_breaks_a_rule_is_refused(q):
    await q.queue()
    with pytest.raises(ApiError, match="should be greater than 0"):
        await q.job(labels={"kueue.x-k8s.io/max-exec-time-seconds": "0"})


async def _stored_under_other_rules(q, labels):
    """The Job has labels that would be refused now."""
    key, store = Key(JOB.resource, "default", "j"), q.world.plane.store
    document = msgspec.json.decode(store.latest(key).body)
    document["metadata"]["labels"] = labels

    def encode(revision):
        document["metadata"]["resourceVersion"] = str(revision)
        return msgspec.json.encode(document)

    await store.write(Put(key, encode))


@story
async def test_a_job_whose_workload_the_server_does_not_take_says_so_once(q):
    await q.queue()
    await q.job(queue="", suspend=True)
    await _stored_under_other_rules(q, {QUEUE_NAME_LABEL: "cq", "kueue.x-k8s.io/max-exec-time-seconds": "99999999999"})
    await q.world.settle()
    before = looks(q.world.plane, "batch/job-queueing")
    await q.world.settle(3600)
    assert looks(q.world.plane, "batch/job-queueing") == before > 0
    reason, _, why = (await q.told())[0].partition(": ")
    assert (reason, why.split()[-1], len(await q.told())) == (
        "ErrWorkloadCompose",
        "spec.maximumExecutionTimeSeconds",
        1,
    )
    (row,) = await job_rows(q.client, "default", q.world.clock.now(), print)
    assert (row["state"], row["reason"]) == ("Queued", f"its queue cannot take it in: {why}")
    facts = await investigate(q.client, "default", "j", q.world.clock.now())
    assert facts is not None
    assert describe_levels(facts)[0].details == (row["reason"],)
    await q.change(metadata={"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "60"}})
    assert await q.running() == [0, 1]


@story
async def test_a_selector_that_became_empty_is_not_kept(q):
    await q.queue()
    await q.job(queue="", suspend=True, template={"spec": {"nodeSelector": {"a": "b"}}})
    await q.change(spec={"template": {"spec": {"nodeSelector": {"a": None}}}})
    assert "nodeSelector" not in await _stored_spec(q)
    await q.change(spec={"template": {"spec": {"nodeSelector": {}}}})
    assert "nodeSelector" not in await _stored_spec(q)


async def _stored_spec(q):
    body = q.world.plane.store.latest(Key(JOB.resource, "default", "j")).body
    return msgspec.json.decode(body)["spec"]["template"]["spec"]
