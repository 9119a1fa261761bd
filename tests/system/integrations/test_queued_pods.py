"""Plain pods and groups of pods in queues, in virtual time."""

import asyncio
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from tests.system.plane import World, under, virtual
from tests.system.queueing.queueing_world import admitted, flavor, get, is_, queue, why, workload

from muster.actions.jobs.cancelling import cancel
from muster.actions.jobs.lookup import explain_missing_job
from muster.actions.jobs.podgroups import find_pods, follow_pods
from muster.api.batch import JOB, Job
from muster.api.core import EVENT, POD, Pod
from muster.api.groups.scheduling import PRIORITY_CLASS, PriorityClass
from muster.api.kueue import (
    ADMISSION_CHECK,
    WORKLOAD,
    WORKLOAD_PRIORITY_CLASS,
    AdmissionCheck,
    WorkloadPriorityClass,
)
from muster.api.kueue.names import (
    ADMISSION_GATE,
    MANAGED_FINALIZER,
    MANAGED_LABEL,
    MULTI_KUEUE_ORIGIN_LABEL,
    POD_GROUP_FAST_ADMISSION,
    POD_GROUP_NAME_LABEL,
    POD_GROUP_TOTAL_COUNT,
    POD_SET_LABEL,
    PREBUILT_WORKLOAD_NAME_LABEL,
    PRIORITY_CLASS_LABEL,
    QUEUE_NAME_LABEL,
    RETRIABLE_IN_GROUP,
    ROLE_HASH,
    TOPOLOGY_GATE,
)
from muster.api.managed.pods import is_held
from muster.api.pods import is_deleting
from muster.api.status import ApiError
from muster.insight.jobs.state import Ending
from muster.insight.jobs.unqueued import find_unqueued_groups
from muster.insight.reader.jobs.job import investigate
from muster.insight.reader.jobs.rows import job_rows
from muster.insight.why import describe_levels
from muster.runtime.ids import Random
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

NOW = "2026-01-01T00:00:00Z"


async def pod(
    world: World,
    name: str,
    queue: str = "team",
    *,
    group: str = "",
    size: int = 0,
    cpu: str = "1",
    annotations: Any = None,
    labels: Any = None,
    **spec: Any,
) -> Pod:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    labels = {QUEUE_NAME_LABEL: queue} | ({POD_GROUP_NAME_LABEL: group} if group else {}) | (labels or {})
    marks = {POD_GROUP_TOTAL_COUNT: str(size)} if size else {}
    document = {
        "metadata": {"name": name, "labels": labels, "annotations": marks | (annotations or {})},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }
    return await world.client.create(POD, msgspec.convert(document, Pod), "default")


# What Kueue's webhook hashes of such a pod, once the API server's own plugins have completed it.
KUEUES_HASH = sha256(
    b'{"spec":{"affinity":null,"containers":[{"ports":null,"resources":{"requests":{"cpu":"1"}}}],"initContainers":null,'
    b'"nodeSelector":null,"overhead":null,"priority":0,"resourceClaims":null,"runtimeClassName":null,"tolerations":['
    b'{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},'
    b'{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],'
    b'"topologySpreadConstraints":null}}'
).hexdigest()[:8]
LOST = [f"node.kubernetes.io/{why}" for why in ("not-ready", "unreachable")]


async def group_of(world: World, name: str, size: int, **more: Any) -> None:
    for number in range(size):
        await pod(world, f"{name}-{number}", group=name, size=size, **more)


async def names(world: World, *, held: bool | None = None) -> list[str]:
    """The pods that are not going."""
    return [
        one.metadata.name
        for one in await world.pods()
        if not is_deleting(one) and (held is None or is_held(one) == held)
    ]


async def see(world: World, name: str) -> Pod:
    return await world.client.get(POD, name, "default")


async def play(world: World, name: str, phase: str) -> None:
    """Play the node: a pod runs and is ready, or has ended."""
    ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
    patch = {"status": {"phase": phase, "conditions": [ready]}}
    await world.client.patch(POD, name, patch, "default", type=STRATEGIC_MERGE_PATCH, subresource="status")


async def ended(world: World, name: str) -> None:
    """Play the node: a pod that was deleted has ended."""
    await play(world, name, "Failed")
    await world.client.delete(POD, name, "default", grace_period_seconds=0)


async def evict(world: World, name: str) -> None:
    """Nobody wants the workload to run any more."""
    await world.client.patch(WORKLOAD, name, {"spec": {"active": False}}, "default")


async def told(world: World) -> set[tuple[str, str]]:
    return {(one.involved_object.name, one.reason) for one in (await world.client.list(EVENT, "default")).items}


async def a_team(world: World, cpu: int = 4, **spec: Any) -> None:
    await world.node("n", cpu="16")
    await flavor(world, **spec)
    await queue(world, "team", cpu=cpu)


# Alone.


@virtual
async def test_a_pod_waits_behind_a_gate_until_its_workload_is_admitted(world: World) -> None:
    await pod(world, "one")
    await world.settle()
    waiting = await see(world, "one")
    assert [gate.name for gate in waiting.spec.scheduling_gates] == [ADMISSION_GATE, TOPOLOGY_GATE]
    assert waiting.metadata.labels[MANAGED_LABEL] == "true"
    assert waiting.metadata.finalizers == (MANAGED_FINALIZER,)
    (workload,) = (await world.client.list(WORKLOAD, "default")).items
    assert workload.metadata.name.startswith("pod-one-")
    assert [(podset.name, podset.count) for podset in workload.spec.pod_sets] == [("main", 1)]
    await a_team(world, nodeLabels={"disk": "ssd"}, tolerations=[{"key": "spot", "operator": "Exists"}])
    await world.settle()
    started = await see(world, "one")
    assert not started.spec.scheduling_gates
    assert started.spec.node_selector == {"disk": "ssd"}
    assert [toleration.key for toleration in started.spec.tolerations] == [*LOST, "spot"]
    assert waiting.metadata.annotations[ROLE_HASH] == KUEUES_HASH
    assert started.metadata.labels[POD_SET_LABEL] == "main"
    assert ("one", "Started") in await told(world)


BOTH = [{"name": ADMISSION_GATE}, {"name": TOPOLOGY_GATE}]


@virtual
async def test_pods_with_both_of_kueues_gates_start_where_no_places_are_given(world: World) -> None:
    """Kueue's webhook sets both on every pod that queues, and so do its managers on pods that they send to workers."""
    await a_team(world, cpu=3, nodeLabels={"disk": "ssd"})
    await pod(world, "alone", schedulingGates=BOTH)
    await group_of(world, "g", 2, schedulingGates=BOTH)
    await pod(world, "late", schedulingGates=BOTH)
    await world.settle()
    started = [await see(world, name) for name in ("alone", "g-0", "g-1")]
    assert [one.spec.scheduling_gates for one in started] == [(), (), ()]
    assert [one.spec.node_selector for one in started] == [{"disk": "ssd"}] * 3
    assert [gate.name for gate in (await see(world, "late")).spec.scheduling_gates] == [ADMISSION_GATE, TOPOLOGY_GATE]


@virtual
async def test_gates_of_other_programs_stay(world: World) -> None:
    await a_team(world)
    await pod(world, "one", schedulingGates=[*BOTH, {"name": "example.com/license"}])
    await world.settle()
    assert [gate.name for gate in (await see(world, "one")).spec.scheduling_gates] == ["example.com/license"]


@virtual
async def test_a_pod_that_ends_ends_its_workload_and_is_let_go(world: World) -> None:
    await a_team(world, cpu=1)
    await pod(world, "one")
    await world.settle()
    await pod(world, "two")
    await world.settle()
    assert await names(world, held=True) == ["two"]
    await play(world, "one", "Running")
    await world.settle()
    first, second = sorted((await world.client.list(WORKLOAD, "default")).items, key=lambda one: one.metadata.name)
    assert await is_(world, first.metadata.name, "PodsReady")
    await play(world, "one", "Succeeded")
    await world.settle()
    assert await why(world, first.metadata.name, "Finished") == ("Succeeded", "")
    assert (await see(world, "one")).metadata.finalizers == ()
    assert await names(world, held=True) == []
    assert await admitted(world) == [second.metadata.name]


@virtual
async def test_an_evicted_pod_is_deleted_and_its_quota_is_free_once_it_is_gone(world: World) -> None:
    await a_team(world, cpu=1)
    await pod(world, "one", terminationGracePeriodSeconds=600)
    await world.settle()
    await play(world, "one", "Running")
    await pod(world, "two")
    await world.settle()
    (name,) = await admitted(world)
    await evict(world, name)
    await world.settle()
    ending = await see(world, "one")
    (target,) = [one for one in ending.status.conditions if one.type == "TerminationTarget"]
    assert (target.status, target.reason) == ("True", "WorkloadEvictedDueToDeactivated")
    assert is_deleting(ending)
    assert await names(world, held=True) == ["two"]
    await ended(world, "one")
    await world.settle()
    assert await names(world) == ["two"]
    assert await names(world, held=True) == []


@virtual
async def test_pods_of_queued_jobs_and_pods_without_a_queue_are_left_alone(world: World) -> None:
    await a_team(world)
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}
    free = {"metadata": {"name": "free"}, "spec": spec}
    await world.client.create(POD, msgspec.convert(free, Pod), "default")
    labels = {QUEUE_NAME_LABEL: "team"}
    job = {
        "metadata": {"name": "j", "labels": labels},
        "spec": {"template": {"metadata": {"labels": labels}, "spec": spec}},
    }
    await world.client.create(JOB, msgspec.convert(job, Job), "default")
    await world.settle()
    pods = await world.pods()
    assert len(pods) == 2
    assert not any(is_held(one) or MANAGED_LABEL in one.metadata.labels for one in pods)


# Groups.


@virtual
async def test_a_group_waits_until_it_is_complete_and_is_admitted_whole(world: World) -> None:
    await a_team(world)
    await pod(world, "leader", group="g", size=3, cpu="2")
    await pod(world, "w0", group="g", size=3)
    await world.settle()
    assert (await world.client.list(WORKLOAD, "default")).items == []
    assert ("leader", "ErrWorkloadCompose") in await told(world)
    await pod(world, "w1", group="g", size=3)
    await world.settle()
    workload = await get(world, "g")
    roles = {
        (await see(world, name)).metadata.annotations[ROLE_HASH]: count for name, count in (("leader", 1), ("w0", 2))
    }
    assert {podset.name: podset.count for podset in workload.spec.pod_sets} == roles
    assert {owner.name for owner in workload.metadata.owner_references} == {"leader", "w0", "w1"}
    assert await admitted(world) == ["g"]
    assert await names(world, held=False) == ["leader", "w0", "w1"]
    assert {one.spec.node_name for one in await world.pods()} == {"n"}


@virtual
async def test_a_group_that_is_fast_asks_for_quota_before_it_is_complete(world: World) -> None:
    await a_team(world)
    await pod(world, "p0", group="g", size=3, annotations={POD_GROUP_FAST_ADMISSION: "true"})
    await world.settle()
    assert await admitted(world) == ["g"]
    assert [podset.count for podset in (await get(world, "g")).spec.pod_sets] == [3]


@virtual
async def test_a_group_ends_once_all_have_succeeded_and_gives_back_what_is_done(world: World) -> None:
    await a_team(world, cpu=3)
    await group_of(world, "g", 3)
    await world.settle()
    for name in ("g-0", "g-1", "g-2"):
        await play(world, name, "Running")
    await world.settle()
    assert await is_(world, "g", "PodsReady")
    await play(world, "g-0", "Succeeded")
    await world.settle()
    assert await is_(world, "g", "PodsReady"), "who has succeeded is ready"
    assert [one.count for one in (await get(world, "g")).status.reclaimable_pods] == [1]
    await pod(world, "next")
    await world.settle()
    assert await names(world, held=True) == []
    await play(world, "g-1", "Succeeded")
    await play(world, "g-2", "Succeeded")
    await world.settle()
    assert await why(world, "g", "Finished") == ("Succeeded", "Pods succeeded: 3/3.")
    assert all(not one.metadata.finalizers for one in await world.pods() if one.metadata.name != "next")


@virtual
async def test_a_failed_pod_is_replaced(world: World) -> None:
    await a_team(world)
    await group_of(world, "g", 2)
    await world.settle()
    await play(world, "g-0", "Running")
    await play(world, "g-1", "Failed")
    await world.settle()
    assert await why(world, "g", "WaitingForReplacementPods") == ("PodsFailed", "Some Failed pods need replacement")
    assert (await see(world, "g-1")).metadata.finalizers == (MANAGED_FINALIZER,)
    await pod(world, "again", group="g", size=2)
    await world.settle()
    assert await names(world, held=True) == []
    assert (await see(world, "again")).spec.node_name == "n"
    assert (await see(world, "g-1")).metadata.finalizers == ()
    assert not await is_(world, "g", "WaitingForReplacementPods")
    assert "again" in {owner.name for owner in (await get(world, "g")).metadata.owner_references}
    await play(world, "g-0", "Succeeded")
    await play(world, "again", "Succeeded")
    await world.settle()
    assert await is_(world, "g", "Finished")


@virtual
async def test_a_group_that_nobody_replaces_gives_its_quota_back_as_wait_for_pods_ready_says(world: World) -> None:
    await a_team(world, cpu=2)
    await group_of(world, "g", 2)
    await world.settle()
    for phase in ("Running", "Failed"):
        for name in ("g-0", "g-1"):
            await play(world, name, phase)
        await world.settle()
    await pod(world, "next")
    await world.elapse(1900)
    assert (await why(world, "g", "Evicted"))[0] == "PodsReadyTimeout"
    assert await names(world, held=True) == [], "the next pod has the quota"
    await play(world, "next", "Succeeded")
    await world.elapse(4000)
    assert not (await get(world, "g")).status.admission, "there is nobody to run"


@under("featureGates: {DisableWaitForPodsReady: true}")
async def test_a_group_that_nobody_replaces_gives_its_quota_back_and_queues_again_with_other_pods(world: World) -> None:
    await a_team(world, cpu=2)
    await group_of(world, "g", 2)
    await world.settle()
    for name in ("g-0", "g-1"):
        await play(world, name, "Running")
    await pod(world, "next")
    await world.settle()
    for name in ("g-0", "g-1"):
        await play(world, name, "Failed")
    await world.elapse(200)
    assert "g" in await admitted(world), "replacements may still come"
    await world.elapse(200)
    message = "No pod of the group runs, and 2 pods that ended were not replaced within 300s"
    assert await why(world, "g", "Evicted") == ("PodsReadyTimeout", message)
    assert not (await get(world, "g")).status.admission
    assert await names(world, held=True) == [], "the next pod has the quota"
    await play(world, "next", "Succeeded")
    await world.elapse(1000)
    assert not (await get(world, "g")).status.admission, "there is nobody to run"
    for name in ("h-0", "h-1"):
        await pod(world, name, group="g", size=2)
    await world.settle()
    assert "g" in await admitted(world)
    assert await names(world, held=True) == []


@under("featureGates: {DisableWaitForPodsReady: true}")
async def test_a_group_of_which_a_pod_runs_keeps_its_quota(world: World) -> None:
    await a_team(world, cpu=2)
    await group_of(world, "g", 2)
    await world.settle()
    await play(world, "g-0", "Running")
    await play(world, "g-1", "Failed")
    await world.elapse(1000)
    assert "g" in await admitted(world)


@under("featureGates: {DisableWaitForPodsReady: true}\nmuster: {scheduling: {recoveryTimeout: 0s}}")
async def test_a_group_that_nobody_replaces_keeps_its_quota_where_nothing_times_out(world: World) -> None:
    await a_team(world, cpu=2)
    await group_of(world, "g", 2)
    await world.settle()
    for name in ("g-0", "g-1"):
        await play(world, name, "Failed")
    await world.elapse(1000)
    assert "g" in await admitted(world)


@virtual
async def test_a_group_that_may_not_be_retried_ends_with_its_last_pod(world: World) -> None:
    await a_team(world)
    await group_of(world, "g", 2, annotations={RETRIABLE_IN_GROUP: "false"})
    await world.settle()
    await play(world, "g-0", "Succeeded")
    await play(world, "g-1", "Failed")
    await world.settle()
    assert await why(world, "g", "Finished") == ("Failed", "Pods succeeded: 1/2.")


@virtual
async def test_whoever_comes_too_many_is_turned_away(world: World) -> None:
    await a_team(world)
    await group_of(world, "g", 2)
    await world.settle()
    await pod(world, "late", group="g", size=2)
    await world.settle()
    assert await names(world) == ["g-0", "g-1"]
    assert ("late", "ExcessPodDeleted") in await told(world)


@virtual
async def test_an_evicted_group_is_deleted_and_comes_back_with_other_pods(world: World) -> None:
    await a_team(world, cpu=2)
    await group_of(world, "g", 2)
    await world.settle()
    for name in ("g-0", "g-1"):
        await play(world, name, "Running")
    await pod(world, "next")
    await world.settle()
    await evict(world, "g")
    await world.settle()
    assert await names(world) == ["next"]
    assert await names(world, held=True) == ["next"], "the pods of the group have not ended"
    for name in ("g-0", "g-1"):
        await ended(world, name)
    await world.settle()
    assert await names(world, held=True) == []
    assert len(await world.pods()) == 3, "they stay until others take their places"
    assert await is_(world, "g", "WaitingForReplacementPods")
    await play(world, "next", "Succeeded")
    await world.client.patch(WORKLOAD, "g", {"spec": {"active": True}}, "default")
    await world.settle()
    assert not (await get(world, "g")).status.admission, "there is nobody to run"
    for name in ("h-0", "h-1"):
        await pod(world, name, group="g", size=2)
    await world.settle()
    assert "g" in await admitted(world)
    assert await names(world, held=True) == []
    assert sorted(one.metadata.name for one in await world.pods()) == ["h-0", "h-1", "next"]


@virtual
async def test_a_success_that_comes_during_an_eviction_is_kept_and_only_the_failed_pod_is_replaced(
    world: World,
) -> None:
    await a_team(world, cpu=2)
    await group_of(world, "g", 2)
    await world.settle()
    for name in ("g-0", "g-1"):
        await play(world, name, "Running")
    await evict(world, "g")
    await world.settle()
    await play(world, "g-0", "Succeeded")
    await ended(world, "g-1")
    await world.settle()
    assert sorted(one.metadata.name for one in await world.pods()) == ["g-0", "g-1"]
    assert await is_(world, "g", "WaitingForReplacementPods")
    await world.client.patch(WORKLOAD, "g", {"spec": {"active": True}}, "default")
    await pod(world, "h", group="g", size=2)
    await world.settle()
    assert sorted(one.metadata.name for one in await world.pods()) == ["g-0", "h"], "the failed one is let go"
    assert "g" in await admitted(world)
    await play(world, "h", "Succeeded")
    await world.settle()
    assert await why(world, "g", "Finished") == ("Succeeded", "Pods succeeded: 2/2.")


@under("integrations: {frameworks: [pod]}")
async def test_pods_of_a_job_wait_themselves_where_jobs_do_not(world: World) -> None:
    """Kueue counts only owners of enabled integrations."""

    await a_team(world, cpu=1)
    labels = {"labels": {QUEUE_NAME_LABEL: "team"}}
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": labels, "spec": {"containers": [container], "restartPolicy": "Never"}}
    job = {
        "metadata": {"name": "j"} | labels,
        "spec": {"parallelism": 2, "completions": 2, "template": template},
    }
    await world.client.create(JOB, msgspec.convert(job, Job), "default")
    await world.settle()
    assert not (await world.client.get(JOB, "j", "default")).spec.suspend
    gated = [bool(one.spec.scheduling_gates) for one in await world.pods()]
    assert sorted(gated) == [False, True], "there is quota for one"


LABELLED = "integrations: {frameworks: [batch/job, pod], labelKeysToCopy: [team, tier]}"


@pytest.mark.parametrize(
    ("labels", "copied"),
    [
        ([{"team": "red"}, {"tier": "1", "other": "x"}], {"team": "red", "tier": "1"}),
        ([{"team": "red"}, {"team": "red"}], {"team": "red"}),
        ([{"team": "red"}, {"team": "blue"}], None),
    ],
    ids=["some here, some there", "the same", "they disagree"],
)
def test_labels_to_copy_are_looked_for_in_every_pod_of_a_group(labels, copied) -> None:
    @under(LABELLED)
    async def scenario(world: World) -> None:
        await a_team(world, cpu=2)
        for number, more in enumerate(labels):
            await pod(world, f"g-{number}", group="g", size=2, labels=more)
        await world.settle()
        found = {one.metadata.name: one for one in (await world.client.list(WORKLOAD, "default")).items}
        if copied is None:
            assert found == {}
            messages = [event.message for event in (await world.client.list(EVENT, "default")).items]
            assert "constructing workload: pods have different label values" in messages
        else:
            assert found["g"].metadata.labels == copied

    scenario()


@virtual
async def test_who_deletes_the_workload_deletes_the_group(world: World) -> None:
    async def are_placed() -> bool:
        return all(one.spec.node_name for one in await world.pods())

    await a_team(world)
    await group_of(world, "g", 2)
    await world.until(are_placed)  # before, nothing keeps them until they have ended
    await world.client.delete(WORKLOAD, "g", "default")
    await world.settle()
    assert await names(world) == []
    for name in ("g-0", "g-1"):
        await ended(world, name)
    await world.settle()
    assert await world.pods() == []
    assert (await world.client.list(WORKLOAD, "default")).items == []


@virtual
async def test_who_deletes_all_pods_deletes_the_workload(world: World) -> None:
    await a_team(world, cpu=1)
    await group_of(world, "g", 2)
    await world.settle()
    assert await names(world, held=True) == ["g-0", "g-1"]
    for name in ("g-0", "g-1"):
        await world.client.delete(POD, name, "default")
    await world.settle()
    assert await world.pods() == []
    assert (await world.client.list(WORKLOAD, "default")).items == []


@virtual
async def test_the_workload_of_another_is_not_taken(world: World) -> None:
    await a_team(world)
    await workload(world, "g", "team")
    await group_of(world, "g", 2)
    await world.settle()
    assert ("g-0", "WorkloadNameConflict") in await told(world)
    assert await names(world, held=True) == ["g-0", "g-1"]
    await world.client.delete(WORKLOAD, "g", "default")
    await world.settle()
    assert await names(world, held=False) == ["g-0", "g-1"]


@virtual
async def test_pods_of_a_group_agree(world: World) -> None:
    await a_team(world)
    await pod(world, "a", group="g", size=2)
    await pod(world, "b", "elsewhere", group="g", size=2)
    await world.settle()
    events = (await world.client.list(EVENT, "default")).items
    assert {one.message for one in events if one.reason == "ErrWorkloadCompose"} == {
        "'g' group has fewer runnable pods than expected",
        "pods 'a' and 'b' has different queue names: team!=elsewhere",
    }


@virtual
async def test_idle_pods_write_nothing(world: World) -> None:
    await a_team(world, cpu=3)
    await pod(world, "alone")
    await group_of(world, "runs", 2)
    await group_of(world, "waits", 2)
    await pod(world, "half", group="half", size=2)
    await world.settle(60)
    before = world.plane.store.revision
    await world.settle(900)  # less than pods have to get ready
    assert world.plane.store.revision == before


@virtual
async def test_rules_are_kept(world: World) -> None:
    with pytest.raises(ApiError, match="group total count should be greater than zero"):
        await pod(world, "p", group="g", annotations={POD_GROUP_TOTAL_COUNT: "0"})
    await pod(world, "p", group="g", size=2)
    with pytest.raises(ApiError, match="field is immutable"):
        await world.client.patch(POD, "p", {"metadata": {"labels": {POD_GROUP_NAME_LABEL: "h"}}}, "default")


@virtual
async def test_a_group_of_the_same_name_queues_once_the_old_one_is_gone(world: World) -> None:
    await a_team(world)
    await group_of(world, "g", 2)
    await world.settle()
    for name in ("g-0", "g-1"):
        await play(world, name, "Succeeded")
    await world.settle()
    for name in ("h-0", "h-1"):
        await pod(world, name, group="g", size=2)
    await world.settle()
    assert await names(world, held=True) == ["h-0", "h-1"]
    for name in ("g-0", "g-1"):
        await world.client.delete(POD, name, "default")
    await world.settle()
    assert await names(world, held=False) == ["h-0", "h-1"]
    assert {owner.name for owner in (await get(world, "g")).metadata.owner_references} == {"h-0", "h-1"}


# What pods say.


@virtual
async def test_a_pod_that_moves_to_another_queue_takes_its_workload_along(world: World) -> None:
    await a_team(world)
    await queue(world, "full", cpu=0)
    await pod(world, "one", "full")
    await world.settle()
    assert await names(world, held=True) == ["one"]
    await world.client.patch(POD, "one", {"metadata": {"labels": {QUEUE_NAME_LABEL: "team"}}}, "default")
    await world.settle()
    assert await names(world, held=False) == ["one"]


@virtual
async def test_a_priority_class_that_is_missing_is_said_and_waited_for(world: World) -> None:
    await a_team(world)
    labels = {QUEUE_NAME_LABEL: "team", PRIORITY_CLASS_LABEL: "high"}
    document = {"metadata": {"name": "one", "labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    await world.client.create(POD, msgspec.convert(document, Pod), "default")
    await world.settle()
    assert ("one", "WorkloadPriorityClassNotFound") in await told(world)
    high = {"metadata": {"name": "high"}, "value": 7}
    await world.client.create(WORKLOAD_PRIORITY_CLASS, msgspec.convert(high, WorkloadPriorityClass))
    await world.settle()
    (name,) = await admitted(world)
    assert (await get(world, name)).spec.priority == 7


@virtual
async def test_what_asks_for_other_nodes_than_it_gets_can_never_start(world: World) -> None:
    await a_team(world, nodeLabels={"disk": "ssd"})
    check = {"metadata": {"name": "check"}, "spec": {"controllerName": "example.com/check"}}
    await world.client.create(ADMISSION_CHECK, msgspec.convert(check, AdmissionCheck))
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": NOW}
    await world.client.patch(ADMISSION_CHECK, "check", {"status": {"conditions": [active]}}, subresource="status")
    checks: Any = {"admissionChecksStrategy": {"admissionChecks": [{"name": "check"}]}}
    await queue(world, "checked", cpu=4, **checks)
    await pod(world, "one", "checked", nodeSelector={"zone": "a"})
    await world.settle()
    (found,) = (await world.client.list(WORKLOAD, "default")).items
    name = found.metadata.name
    update = {"name": "main", "nodeSelector": {"zone": "b"}}
    ready = {"name": "check", "state": "Ready", "message": "", "podSetUpdates": [update], "lastTransitionTime": NOW}
    await world.client.patch(WORKLOAD, name, {"status": {"admissionChecks": [ready]}}, "default", subresource="status")
    await world.settle()
    reason, message = await why(world, name, "Finished")
    assert reason == "FailedToStart"
    assert "conflict for nodeSelector: conflict for key=zone, value1=a, value2=b" in message


@virtual
async def test_a_prebuilt_workload_becomes_the_pods(world: World) -> None:
    await a_team(world)
    marks = {PREBUILT_WORKLOAD_NAME_LABEL: "mine"}
    await pod(world, "one", annotations=marks)
    await world.settle()
    assert (await world.client.list(WORKLOAD, "default")).items == []
    spec = (await see(world, "one")).spec
    podset = {"name": "main", "count": 1, "template": {"spec": msgspec.to_builtins(spec)}}
    await workload(world, "mine", "team", podSets=[podset])
    await world.settle()
    assert [owner.name for owner in (await get(world, "mine")).metadata.owner_references] == ["one"]
    assert await names(world, held=False) == ["one"]


@virtual
async def test_a_prebuilt_workload_becomes_the_groups(world: World) -> None:
    await a_team(world)
    await group_of(world, "g", 2, annotations={PREBUILT_WORKLOAD_NAME_LABEL: "g"})
    await world.settle()
    assert (await world.client.list(WORKLOAD, "default")).items == []
    first = await see(world, "g-0")
    role = first.metadata.annotations[ROLE_HASH]
    podset = {"name": role, "count": 2, "template": {"spec": msgspec.to_builtins(first.spec)}}
    await workload(world, "g", "team", podSets=[podset])
    await world.settle()
    assert {owner.name for owner in (await get(world, "g")).metadata.owner_references} == {"g-0", "g-1"}
    assert await names(world, held=False) == ["g-0", "g-1"]


@virtual
async def test_pods_that_another_clusters_manager_sends_start(world: World) -> None:
    """Kueue's sends each with the gates that its own webhook has set, beside a Workload that is made already."""
    await a_team(world)
    marks = {PREBUILT_WORKLOAD_NAME_LABEL: "sent", MULTI_KUEUE_ORIGIN_LABEL: "multikueue"}
    await group_of(world, "sent", 2, labels=marks, schedulingGates=BOTH)
    role = (await see(world, "sent-0")).metadata.annotations[ROLE_HASH]
    podset = {"name": role, "count": 2, "template": {"spec": msgspec.to_builtins((await see(world, "sent-0")).spec)}}
    await workload(world, "sent", "team", podSets=[podset])
    await world.settle()
    assert [one.spec.scheduling_gates for one in await world.pods()] == [(), ()]


@virtual
async def test_a_group_of_higher_priority_takes_the_place_of_another(world: World) -> None:
    await world.node("n", cpu="16")
    await flavor(world)
    await queue(world, "team", cpu=2, preemption={"withinClusterQueue": "LowerPriority"})
    high = {"metadata": {"name": "high"}, "value": 7}
    await world.client.create(PRIORITY_CLASS, msgspec.convert(high, PriorityClass))
    await group_of(world, "low", 2)
    await world.settle()
    await group_of(world, "high", 2, priorityClassName="high")
    await world.settle()
    assert await names(world) == ["high-0", "high-1"], "pods that do not run yet go with their grace"
    for name in ("low-0", "low-1"):
        await ended(world, name)
    await world.settle()
    assert await names(world, held=False) == ["high-0", "high-1"]
    assert await why(world, "low", "WaitingForReplacementPods") != ("", "")
    assert await admitted(world) == ["high"]


@virtual
async def test_a_pod_or_group_that_has_quota_and_no_node_is_pending_and_says_why(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=4)
    await pod(world, "alone")
    for name in ("first", "second"):
        await pod(world, name, group="g", size=2)
    await world.settle()
    rows = await job_rows(world.client, "default", world.clock.now(), pytest.fail)
    assert [(row["name"], row["state"]) for row in rows] == [("alone", "Pending"), ("g", "Pending")]
    assert all("0/0 nodes are available" in row["reason"] for row in rows)
    found = await investigate(world.client, "default", "alone", world.clock.now())
    assert found is not None
    assert found.state.word == "Pending"


@virtual
async def test_a_group_without_all_its_pods_is_listed_until_it_queues(world: World) -> None:
    await a_team(world)
    await pod(world, "alone")
    await world.settle(10)
    await pod(world, "first", group="g", size=3)
    await world.settle(10)
    await pod(world, "second", group="g", size=3)
    await world.settle(10)

    async def listed() -> list[dict[str, Any]]:
        return await job_rows(world.client, "default", world.clock.now(), pytest.fail)

    rows = await listed()
    assert [(row["name"], row["state"]) for row in rows] == [("alone", "Starting"), ("g", "Pending")]
    why = "its pod group queues once it has 3 pods, and it has 2"
    assert (rows[1]["reason"], rows[1]["ready"], rows[1]["wanted"], rows[1]["queue"]) == (why, 0, 3, "team")
    assert f"there is no job g in namespace default: {why} (" in await explain_missing_job(world.client, "g", "default")
    assert rows[0].keys() == rows[1].keys()
    await pod(world, "third", group="g", size=3)
    await world.settle(10)
    assert [(row["name"], row["state"]) for row in await listed()] == [("alone", "Starting"), ("g", "Starting")]


@virtual
async def test_a_group_that_an_annotation_names_is_listed_and_its_pods_are_named(world: World) -> None:
    await a_team(world)
    for name in ("first", "second"):
        await pod(world, name, size=3, annotations={POD_GROUP_NAME_LABEL: "g"})
    await world.settle(10)
    (row,) = await job_rows(world.client, "default", world.clock.now(), pytest.fail)
    assert (row["name"], row["reason"]) == ("g", "its pod group queues once it has 3 pods, and it has 2")
    (group,) = find_unqueued_groups((await world.client.list(POD, "default")).items, ())
    assert group.selector == "-n default first second"
    assert "kubectl delete pods -n default first second)" in await explain_missing_job(world.client, "g", "default")
    many = msgspec.structs.replace(group, pods=tuple(group.pods) * 6)
    assert many.selector == "-n default" + 5 * " first second" + " ...", "a sentence names a few"


@under("featureGates: {DisableWaitForPodsReady: true}")
async def test_a_group_whose_pods_ended_says_which_how_and_what_to_do(world: World) -> None:
    await a_team(world, cpu=2)
    await group_of(world, "g", 2)
    await world.settle()
    lost = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    for name in ("g-0", "g-1"):
        patch = {"status": {"phase": "Failed", "conditions": [lost]}}
        await world.client.patch(POD, name, patch, "default", type=STRATEGIC_MERGE_PATCH, subresource="status")
    await world.settle()
    said = (
        "each of g-0, g-1 ended with node n, which went down. No controller replaces them: create 2 pods with the same "
        "labels and annotations, or give the group up with: muster cancel g"
    )
    assert await shown(world, "g") == ("Starting", said, ["placement: 0 of 2 pods left", f"placement: {said}"])
    await world.elapse(400)
    state, reason, held = await shown(world, "g")
    assert (state, reason) == ("Queued", said)
    assert held[0].startswith("quota: kept out of queue team, for ")
    assert held[0].endswith(": its pods have ended")
    assert held[1] == f"quota: {said}"


@pytest.mark.parametrize("evicted", [False, True], ids=["holds quota", "evicted"])
def test_a_group_that_nobody_replaces_is_cancelled_with_its_pods(evicted: bool) -> None:
    @under("featureGates: {DisableWaitForPodsReady: true}")
    async def play_it(world: World) -> None:
        await a_team(world, cpu=2)
        await group_of(world, "g", 2)
        await group_of(world, "other", 1)
        await world.settle()
        for name in ("g-0", "g-1"):
            await play(world, name, "Failed")
        await world.elapse(400 if evicted else 10)
        assert await cancel(world.client, "g", "default") == "deleted, with its pods"
        await world.settle()
        assert [one.metadata.name for one in await world.pods()] == ["other-0"]
        assert [one.metadata.name for one in (await world.client.list(WORKLOAD, "default")).items] == ["other"]
        with pytest.raises(ApiError, match="there is no job g"):
            await cancel(world.client, "g", "default")

    play_it()


@pytest.mark.parametrize(("phase", "ending"), [("Succeeded", Ending(0)), ("Failed", Ending(1, "it was deleted"))])
def test_a_group_is_waited_for_by_its_workload(phase: str, ending: Ending) -> None:
    @virtual
    async def play_it(world: World) -> None:
        await a_team(world)
        await group_of(world, "g", 2)
        await world.settle()
        states: list[str] = []
        group = await find_pods(world.client, "default", "g")
        assert group is not None
        follow = follow_pods(world.client, world.clock, Random(), group, lambda state: states.append(state.word))
        async with asyncio.TaskGroup() as tasks:
            follower = tasks.create_task(follow)
            await world.settle()
            for name in ("g-0", "g-1"):
                await play(world, name, phase)
            await world.settle()
            if phase == "Failed":
                assert not follower.done(), "others may come"
                await cancel(world.client, "g", "default")
            assert await follower == ending
        assert states[0] == "Starting"

    play_it()


async def shown(world: World, name: str) -> tuple[str, str, list[str]]:
    """What `ps` and `why` say: the state, the reason, and the level that holds it."""
    (row,) = await job_rows(world.client, "default", world.clock.now(), pytest.fail)
    found = await investigate(world.client, "default", name, world.clock.now())
    assert found is not None
    assert (found.state.word, found.state.reason) == (row["state"], row["reason"])
    level = next(level for level in describe_levels(found) if level.state == "here")
    return row["state"], row["reason"], [f"{level.name}: {text}" for text in (level.text, *level.lines)]
