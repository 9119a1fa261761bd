"""Tests of a job and its Workload, situation by situation; most are those of upstream's job_controller_test."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from muster.api import kueue
from muster.api.core import PodTemplateSpec
from muster.api.kueue import names
from muster.api.managed.dispatch import HOME_ANNOTATION, REFUSED_ANNOTATION
from muster.api.meta import Condition, ObjectMeta, OwnerReference
from muster.queueing.jobframework.observedjob import End, ObservedJob
from muster.queueing.jobframework.pairing import PairingPlan, PairingRules, decide

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
THEN = NOW - timedelta(minutes=10)

MARKED = {names.POD_SET_LABEL: "main"}


def podset(count=10, *, least=None, cpu="1", labels=None, **spec):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": labels or {}}, "spec": {"containers": [container], **spec}}
    return kueue.PodSet(count=count, min_count=least, template=msgspec.convert(template, PodTemplateSpec))


def job(
    count=10, *, runs=False, active=None, ready=False, least=None, podsets=None, ended=0, wpc=None, pc=None, **facts
):
    shape = {key: facts.pop(key) for key in ("cpu", "labels", "nodeSelector", "tolerations") if key in facts}
    reclaimable = (kueue.ReclaimablePod(name="main", count=ended),) if ended else ()
    return ObservedJob(
        suspended=not runs,
        active=runs if active is None else active,
        ready=ready,
        podsets=podsets or (podset(count, least=least, **shape),),
        reclaimable=reclaimable,
        priority_class=priority_ref(wpc, pc),
        **{"queue": "lq", **facts},
    )


def priority_ref(own, of_pods=None):
    if own:
        return kueue.PriorityClassRef(group="kueue.x-k8s.io", kind="WorkloadPriorityClass", name=own)
    if of_pods:
        return kueue.PriorityClassRef(group="scheduling.k8s.io", kind="PriorityClass", name=of_pods)
    return None


def conditions(text):
    """Parse conditions such as `QuotaReserved Admitted Evicted=Preempted !PodsReady=WaitForStart`."""
    result = []
    for word in text.split():
        type_, _, reason = word.lstrip("!").partition("=")
        status = "False" if word.startswith("!") else "True"
        message = f"because of {reason or type_}"
        result.append(
            Condition(type=type_, status=status, reason=reason or type_, message=message, last_transition_time=THEN)
        )
    return tuple(result)


def workload(
    state="",
    count=10,
    *,
    name="wl",
    granted=None,
    least=None,
    reclaimable=0,
    wpc=None,
    pc=None,
    priority=0,
    queue="lq",
    longest=None,
    annotations=None,
    deleting=False,
    active=True,
    **shape,
):
    reserved = "QuotaReserved" in state.split()
    pods = count if granted is None else granted
    assigned = kueue.PodSetAssignment(name="main", flavors={"cpu": "f"}, resource_usage={"cpu": str(pods)}, count=pods)
    return kueue.Workload(
        metadata=ObjectMeta(
            name=name,
            namespace="ns",
            annotations=annotations or {},
            deletion_timestamp=THEN if deleting else None,
            finalizers=(names.RESOURCE_IN_USE_FINALIZER,),
            owner_references=(OwnerReference(kind="Job", name="job", uid="uid", controller=True),),
        ),
        spec=kueue.WorkloadSpec(
            pod_sets=(podset(count, least=least, **shape),),
            queue_name=queue,
            priority_class_ref=priority_ref(wpc, pc),
            priority=priority,
            maximum_execution_time_seconds=longest,
            active=active,
        ),
        status=kueue.WorkloadStatus(
            conditions=conditions(state),
            admission=kueue.Admission(cluster_queue="cq", pod_set_assignments=(assigned,)) if reserved else None,
            reclaimable_pods=(kueue.ReclaimablePod(name="main", count=reclaimable),) if reclaimable else (),
        ),
    )


def summarize(plan: PairingPlan):
    """Summarize a plan in few words."""
    changes: dict[str, Any] = {}
    if plan.stop is not None:
        changes["stop"] = plan.stop
    if plan.restore is not None:
        changes["restore"] = plan.restore.metadata.name
    if plan.delete:
        changes["delete"] = [one.metadata.name for one in plan.delete]
    if plan.replaced:
        changes["replaced"] = [one.metadata.name for one, _ in plan.replaced]
    for flag in ("remove_finalizer", "create", "start", "end_job", "lacks_priority"):
        if getattr(plan, flag):
            changes[flag] = True
    if plan.annotations:
        changes["annotations"] = dict(plan.annotations)
    if plan.wake_at is not None:
        changes["wake"] = plan.wake_at - NOW
    if plan.update is not None:
        changes |= spec_changes(plan.workload.spec, plan.update)
    if plan.status is not None:
        changes |= status_changes(plan.workload.status, plan.status)
    return changes


def spec_changes(old, new):
    changes: dict[str, Any] = {}
    for field in old.__struct_fields__:
        before, now = getattr(old, field), getattr(new, field)
        if before != now:
            changes[field] = now
    if "pod_sets" in changes:
        changes["pod_sets"] = [one.count for one in new.pod_sets]
    if "priority_class_ref" in changes:
        changes["priority_class_ref"] = new.priority_class_ref.name if new.priority_class_ref else None
    return changes


def status_changes(old, new):
    was = {one.type: one for one in old.conditions}
    changes: dict[str, Any] = {
        one.type: f"{one.status} {one.reason}" for one in new.conditions if was.get(one.type) != one
    }
    if old.reclaimable_pods != new.reclaimable_pods:
        changes["reclaimable"] = sum(one.count for one in new.reclaimable_pods)
    if old.admission != new.admission:
        given = new.admission.pod_set_assignments[0] if new.admission else None
        changes["granted"] = (given.count, given.resource_usage) if given else None
    return changes


READY_OFF = PairingRules(watched=lambda _: False)
HOUR = PairingRules(watched=lambda _: False, kept_deactivated=timedelta(hours=1))
NONE = PairingRules(watched=lambda _: False, kept_deactivated=timedelta())

ADMITTED = "QuotaReserved Admitted"
RELEASED = {"QuotaReserved": "False PendingEvaluation", "Admitted": "False NoReservation", "granted": None}
TOLERATION = {"key": "k", "operator": "Exists"}

# By name: the rules, the job, its Workloads, and what is done about them.
CASES = {
    # No Workload.
    "a suspended job gets one": (READY_OFF, job(), [], {"create": True}),
    "a running job without one stops first": (
        READY_OFF,
        job(runs=True),
        [],
        {"stop": "Missing Workload; unable to restore pod templates"},
    ),
    "a job that is still stopping gets none yet": (READY_OFF, job(active=True), [], {}),
    "a completed job gets none": (READY_OFF, job(end=End(True, "done")), [], {}),
    "without its priority class none is made": (
        READY_OFF,
        job(wpc="gone", priority=None),
        [],
        {"lacks_priority": True},
    ),
    # Workloads that do not match.
    "pitfall-37 one without quota is changed in place": (READY_OFF, job(), [workload(count=5)], {"pod_sets": [10]}),
    "pitfall-37 one with quota goes": (READY_OFF, job(), [workload(ADMITTED, 5)], {"delete": ["wl"]}),
    "pitfall-37 one with quota goes only once the job has stopped": (
        READY_OFF,
        job(runs=True),
        [workload(ADMITTED, 5)],
        {"stop": "No matching Workload; restoring pod templates according to existent Workload"},
    ),
    "nor while its pods are ending": (READY_OFF, job(active=True), [workload(ADMITTED, 5)], {}),
    "then the templates are restored before it goes": (
        READY_OFF,
        job(labels=MARKED),
        [workload(ADMITTED, 5)],
        {"restore": "wl", "delete": ["wl"]},
    ),
    "with several that do not match nothing can be restored": (
        READY_OFF,
        job(runs=True),
        [workload(ADMITTED, 5), workload(ADMITTED, 6, name="other")],
        {"stop": "Missing Workload; unable to restore pod templates"},
    ),
    "a second one goes": (
        READY_OFF,
        job(),
        [workload(), workload(count=5, name="other")],
        {"delete": ["other"]},
    ),
    "the first that matches stays": (
        READY_OFF,
        job(runs=True, ready=True),
        [workload(count=5, name="other"), workload(ADMITTED)],
        {"delete": ["other"]},
    ),
    "another longest time, without quota": (
        READY_OFF,
        job(maximum_execution_time_seconds=20),
        [workload(longest=10)],
        {"maximum_execution_time_seconds": 20},
    ),
    "another longest time, with quota": (
        READY_OFF,
        job(maximum_execution_time_seconds=20),
        [workload("QuotaReserved", longest=10)],
        {"delete": ["wl"]},
    ),
    # What comparison sees and does not see.
    "pitfall-36 tolerations that change while it waits are taken over": (
        READY_OFF,
        job(tolerations=[TOLERATION]),
        [workload()],
        {"pod_sets": [10]},
    ),
    "pitfall-36 so are node selectors": (READY_OFF, job(nodeSelector={"a": "b"}), [workload()], {"pod_sets": [10]}),
    "pitfall-36 once it holds quota node selectors do not matter": (
        READY_OFF,
        job(nodeSelector={"a": "b"}),
        [workload("QuotaReserved")],
        {},
    ),
    "pitfall-36 once it is admitted tolerations do not matter": (
        READY_OFF,
        job(tolerations=[TOLERATION]),
        [workload(ADMITTED)],
        {"start": True},
    ),
    "pitfall-36 what an admission injected makes no new Workload": (
        READY_OFF,
        job(runs=True, labels=MARKED, nodeSelector={"zone": "a"}, tolerations=[TOLERATION]),
        [workload(ADMITTED)],
        {},
    ),
    "what was injected is never taken for the job's own": (
        READY_OFF,
        job(labels=MARKED, nodeSelector={"zone": "a"}),
        [workload()],
        {"restore": "wl"},
    ),
    "the same amount in other words": (READY_OFF, job(cpu="1000m"), [workload(cpu="1")], {}),
    # Waiting.
    "it waits": (READY_OFF, job(), [workload("!QuotaReserved=Pending")], {}),
    "it went to another queue": (READY_OFF, job(queue="new"), [workload()], {"queue_name": "new"}),
    "it went to another queue while admission checks were pending": (
        READY_OFF,
        job(queue="new"),
        [workload("QuotaReserved")],
        {"delete": ["wl"]},
    ),
    "once admitted the queue stays": (READY_OFF, job(queue="new"), [workload(ADMITTED)], {"start": True}),
    "it is resumed before its time": (
        READY_OFF,
        job(runs=True),
        [workload("!QuotaReserved=Pending")],
        {"stop": "Not admitted by cluster queue"},
    ),
    "pitfall-44 with quota but not all checks it must not run": (
        READY_OFF,
        job(runs=True),
        [workload("QuotaReserved")],
        {"stop": "Not admitted by cluster queue"},
    ),
    "pitfall-44 nor is it started": (READY_OFF, job(), [workload("QuotaReserved")], {}),
    "another program let it run without what its admission injects: it stops, to start where it has quota": (
        READY_OFF,
        job(runs=True, lacks_injection=True),
        [workload(ADMITTED)],
        {"stop": "The job was resumed before it was admitted; it restarts on the nodes it was admitted to"},
    ),
    # Priority.
    "another class while it waits": (
        READY_OFF,
        job(wpc="high", priority=200),
        [workload(wpc="low", priority=100)],
        {"priority_class_ref": "high", "priority": 200},
    ),
    "another class while it runs": (
        READY_OFF,
        job(wpc="high", priority=200, runs=True),
        [workload(ADMITTED, wpc="low", priority=100)],
        {"priority_class_ref": "high", "priority": 200},
    ),
    "a class cannot come while quota is held": (
        READY_OFF,
        job(wpc="high", priority=200, runs=True),
        [workload(ADMITTED)],
        {},
    ),
    "a class comes while it waits": (
        READY_OFF,
        job(wpc="high", priority=200),
        [workload()],
        {"priority_class_ref": "high", "priority": 200},
    ),
    "a class goes while it waits": (
        READY_OFF,
        job(),
        [workload(wpc="low", priority=100)],
        {"priority_class_ref": None, "priority": 0},
    ),
    "the same class is not read again": (
        READY_OFF,
        job(wpc="high", priority=200),
        [workload(wpc="high", priority=7)],
        {},
    ),
    "a PriorityClass of pods is left alone": (
        READY_OFF,
        job(wpc="high", priority=200),
        [workload(pc="pods", priority=100)],
        {},
    ),
    "another class that does not exist": (
        READY_OFF,
        job(wpc="gone", priority=None),
        [workload(wpc="low", priority=100)],
        {"lacks_priority": True},
    ),
    "its class has gone: it runs on": (
        READY_OFF,
        job(wpc="gone", priority=None, runs=True),
        [workload(ADMITTED, wpc="gone", priority=100)],
        {},
    ),
    "its class has gone: it can still be evicted": (
        READY_OFF,
        job(wpc="gone", priority=None, runs=True),
        [workload(f"{ADMITTED} Evicted=Preempted", wpc="gone", priority=100)],
        {"stop": "because of Preempted"},
    ),
    # Annotations.
    "a gate that the job lost": (
        READY_OFF,
        job(),
        [workload(annotations={names.ADMISSION_GATED_BY: "a.io/b"})],
        {"annotations": {names.ADMISSION_GATED_BY: None}},
    ),
    "one gate of two": (
        READY_OFF,
        job(annotations={names.ADMISSION_GATED_BY: "a.io/b"}),
        [workload(annotations={names.ADMISSION_GATED_BY: "a.io/b,a.io/c"})],
        {"annotations": {names.ADMISSION_GATED_BY: "a.io/b"}},
    ),
    # Running.
    "admitted: it starts": (READY_OFF, job(), [workload(ADMITTED)], {"start": True}),
    "it runs": (READY_OFF, job(runs=True), [workload(ADMITTED)], {}),
    "somebody suspended it: it starts again": (
        READY_OFF,
        job(labels=MARKED),
        [workload(ADMITTED)],
        {"start": True},
    ),
    # Partial admission.
    "fewer were admitted: it starts": (
        READY_OFF,
        job(least=5),
        [workload(ADMITTED, granted=8, least=5)],
        {"start": True},
    ),
    "fewer were admitted: it runs in that size": (
        READY_OFF,
        job(8, least=5, runs=True),
        [workload(ADMITTED, granted=8, least=5)],
        {},
    ),
    "fewer were admitted: it may not run in another": (
        READY_OFF,
        job(10, least=5, runs=True),
        [workload(ADMITTED, granted=8, least=5)],
        {"stop": "No matching Workload; restoring pod templates according to existent Workload"},
    ),
    "fewer were admitted: evicted in that size it is still its Workload": (
        READY_OFF,
        job(8, least=5, labels=MARKED),
        [workload(f"{ADMITTED} Evicted=Preempted", granted=8, least=5)],
        {"restore": "wl", **RELEASED, "Requeued": "True Preempted"},
    ),
    # Pods that have ended.
    "pods that have ended give back": (READY_OFF, job(runs=True, ended=3), [workload(ADMITTED)], {"reclaimable": 3}),
    "pitfall-40 while quota is held that is not asked for again": (
        READY_OFF,
        job(runs=True, ended=1),
        [workload(ADMITTED, reclaimable=3)],
        {},
    ),
    "the rest of a job that has ended still runs": (
        READY_OFF,
        job(runs=True, end=End(False, "m"), composed=True),
        [workload(ADMITTED)],
        {},
    ),
    "it has stopped": (
        READY_OFF,
        job(runs=True, active=False, end=End(False, "m"), composed=True),
        [workload(ADMITTED)],
        {"Finished": "True Failed"},
    ),
    "pods that run again whose quota was given away: it stops": (
        READY_OFF,
        job(runs=True, ended=1, composed=True),
        [workload(ADMITTED, reclaimable=3)],
        {"stop": "Pods run again that had succeeded and given back their quota; the whole job queues again"},
    ),
    "elastic ones too": (
        READY_OFF,
        job(12, runs=True, elastic=True, composed=True),
        [workload(ADMITTED, reclaimable=3)],
        {"stop": "Pods run again that had succeeded and given back their quota; the whole job queues again"},
    ),
    "it queues anew once it has stopped": (
        READY_OFF,
        job(composed=True),
        [workload(ADMITTED, reclaimable=3)],
        {"delete": ["wl"]},
    ),
    "and gives back as usual where it is evicted anyway": (
        READY_OFF,
        job(ended=1, composed=True),
        [workload(f"{ADMITTED} Evicted=Preempted", reclaimable=3)],
        {**RELEASED, "Requeued": "True Preempted", "reclaimable": 1},
    ),
    "one that shrinks has fewer that have ended": (
        READY_OFF,
        job(6, ended=1, runs=True, elastic=True, composed=True),
        [workload(ADMITTED, reclaimable=3)],
        {"pod_sets": [6], "granted": (6, {"cpu": "6"}), "reclaimable": 1},
    ),
    "an elastic job does not ask back what it gave either": (
        READY_OFF,
        job(runs=True, ended=1, elastic=True),
        [workload(ADMITTED, reclaimable=3)],
        {},
    ),
    "pitfall-40 fewer that have ended do not stand in the way of an eviction": (
        READY_OFF,
        job(ended=1),
        [workload(f"{ADMITTED} Evicted=Preempted", reclaimable=3)],
        {**RELEASED, "Requeued": "True Preempted", "reclaimable": 1},
    ),
    "pitfall-40 without quota it is as the job says": (
        READY_OFF,
        job(ended=1),
        [workload(reclaimable=3)],
        {"reclaimable": 1},
    ),
    "never more than there are": (READY_OFF, job(runs=True, ended=12), [workload(ADMITTED)], {"reclaimable": 10}),
    "what was left out by partial admission has nothing to do either": (
        READY_OFF,
        job(8, least=5, runs=True, ended=2),
        [workload(ADMITTED, granted=8, least=5)],
        {"reclaimable": 4},
    ),
    # PodsReady.
    "nobody waits for its pods yet": (PairingRules(), job(), [workload("QuotaReserved")], {}),
    "it is known to wait for its start": (
        PairingRules(),
        job(runs=True),
        [workload(ADMITTED)],
        {"PodsReady": "False WaitForStart"},
    ),
    "its pods are ready": (
        PairingRules(),
        job(runs=True, ready=True),
        [workload(f"{ADMITTED} !PodsReady=WaitForStart")],
        {"PodsReady": "True Started"},
    ),
    "its pods are ready, first look": (
        PairingRules(),
        job(runs=True, ready=True),
        [workload(ADMITTED)],
        {"PodsReady": "True Started"},
    ),
    "a pod has failed": (
        PairingRules(),
        job(runs=True),
        [workload(f"{ADMITTED} PodsReady=Started")],
        {"PodsReady": "False WaitForRecovery"},
    ),
    "it is ready again": (
        PairingRules(),
        job(runs=True, ready=True),
        [workload(f"{ADMITTED} !PodsReady=WaitForRecovery")],
        {"PodsReady": "True Recovered"},
    ),
    "it waits for its start again": (
        PairingRules(),
        job(),
        [workload("!QuotaReserved=Pending !Admitted=NoReservation PodsReady=Recovered")],
        {"PodsReady": "False WaitForStart"},
    ),
    # Eviction.
    "evicted: it stops": (
        READY_OFF,
        job(runs=True),
        [workload(f"{ADMITTED} Evicted=PodsReadyTimeout")],
        {"stop": "because of PodsReadyTimeout"},
    ),
    "evicted: nothing is given back while pods are ending": (
        READY_OFF,
        job(active=True),
        [workload(f"{ADMITTED} Evicted=PodsReadyTimeout")],
        {},
    ),
    **{
        f"evicted by {reason}: it is given back once all is quiet": (
            READY_OFF,
            job(labels=MARKED),
            [workload(f"{ADMITTED} Evicted={reason}")],
            {"restore": "wl", **RELEASED, "Requeued": f"{requeued} {reason}"},
        )
        for reason, requeued in {
            "PodsReadyTimeout": False,
            "AdmissionCheck": False,
            "ClusterQueueStopped": False,
            "LocalQueueStopped": False,
            "Preempted": True,
            "NodeFailures": True,
        }.items()
    },
    "evicted, and its job may still run in another cluster": (
        READY_OFF,
        job(),
        [workload(f"{ADMITTED} Evicted=Preempted", annotations={HOME_ANNOTATION: "a"})],
        {},
    ),
    "evicted by a person who deactivated it": (
        READY_OFF,
        job(),
        [workload(f"{ADMITTED} Evicted=Deactivated", active=False)],
        {**RELEASED, "QuotaReserved": "False Deactivated", "Requeued": "False Deactivated"},
    ),
    "evicted and given back: restored where that was cut": (
        READY_OFF,
        job(labels=MARKED, nodeSelector={"zone": "a"}),
        [workload("!QuotaReserved=Pending Evicted=Preempted")],
        {"restore": "wl"},
    ),
    "evicted and given back: changes are taken over": (
        READY_OFF,
        job(4, queue="new"),
        [workload("!QuotaReserved=Pending Evicted=Preempted")],
        {"pod_sets": [4], "queue_name": "new"},
    ),
    "evicted, then admitted again": (
        READY_OFF,
        job(),
        [workload(f"{ADMITTED} !Evicted=QuotaReserved")],
        {"start": True},
    ),
    # Retention of what was deactivated.
    "deactivated by a person: kept": (
        NONE,
        job(),
        [workload("!QuotaReserved=Pending Evicted=Deactivated", active=False)],
        {},
    ),
    "active again: kept": (
        NONE,
        job(),
        [workload("!QuotaReserved=Pending Evicted=DeactivatedDueToRequeuingLimitExceeded")],
        {},
    ),
    "deactivated by us: it goes": (
        NONE,
        job(),
        [workload("!QuotaReserved=Pending Evicted=DeactivatedDueToRequeuingLimitExceeded", active=False)],
        {"end_job": True},
    ),
    "deactivated by us: not yet": (
        HOUR,
        job(),
        [workload("!QuotaReserved=Pending Evicted=DeactivatedDueToRequeuingLimitExceeded", active=False)],
        {"wake": timedelta(minutes=50)},
    ),
    "deactivated by us: for ever": (
        READY_OFF,
        job(),
        [workload("!QuotaReserved=Pending Evicted=DeactivatedDueToRequeuingLimitExceeded", active=False)],
        {},
    ),
    # The end.
    "it has succeeded": (
        READY_OFF,
        job(runs=True, end=End(True, "all done")),
        [workload(ADMITTED)],
        {"Finished": "True Succeeded"},
    ),
    "it has failed": (
        READY_OFF,
        job(runs=True, end=End(False, "too often")),
        [workload(ADMITTED)],
        {"Finished": "True Failed"},
    ),
    "it has ended in another size": (
        READY_OFF,
        job(4, runs=True, end=End(True, "")),
        [workload(ADMITTED)],
        {"Finished": "True Succeeded"},
    ),
    "its Workload is finished: nothing holds it any more": (
        READY_OFF,
        job(runs=True, end=End(True, "")),
        [workload(f"{ADMITTED} Finished=Succeeded")],
        {"remove_finalizer": True},
    ),
    "its Workload is finished, but it is not": (
        READY_OFF,
        job(runs=True),
        [workload(f"{ADMITTED} Finished=OutOfSync")],
        {"remove_finalizer": True, "stop": "Workload is finished"},
    ),
    # Somebody deletes the Workload.
    "deleted Workload: the job stops": (
        READY_OFF,
        job(runs=True),
        [workload(ADMITTED, deleting=True)],
        {"stop": "Workload is deleted"},
    ),
    "deleted Workload: its quota is held while pods are ending": (
        READY_OFF,
        job(active=True),
        [workload(ADMITTED, deleting=True)],
        {},
    ),
    "deleted Workload: it is kept while its job may still run in another cluster": (
        READY_OFF,
        job(),
        [workload(ADMITTED, deleting=True, annotations={HOME_ANNOTATION: "a"})],
        {},
    ),
    "deleted Workload: then it goes": (
        READY_OFF,
        job(labels=MARKED),
        [workload(ADMITTED, deleting=True)],
        {"restore": "wl", "remove_finalizer": True},
    ),
    "deleted Workload: it goes with a job that ended, though its controller never said that it was suspended": (
        READY_OFF,
        job(active=True, end=End(True, "all done")),
        [workload(ADMITTED, deleting=True)],
        {"remove_finalizer": True},
    ),
    # Prebuilt Workloads.
    "prebuilt and missing": (READY_OFF, job(runs=True, prebuilt=True), [], {"stop": "missing workload"}),
    "prebuilt and missing, suspended": (READY_OFF, job(prebuilt=True), [], {}),
    "prebuilt and admitted": (READY_OFF, job(prebuilt=True), [workload(ADMITTED)], {"start": True}),
    "prebuilt and different": (
        READY_OFF,
        job(prebuilt=True),
        [workload(count=1)],
        {"Finished": "True OutOfSync"},
    ),
    "prebuilt and different, running": (
        READY_OFF,
        job(prebuilt=True, runs=True),
        [workload(count=1)],
        {"stop": "missing workload", "Finished": "True OutOfSync"},
    ),
    "prebuilt: it follows the queue and nothing else": (
        READY_OFF,
        job(prebuilt=True, queue="new", wpc="high", priority=5, nodeSelector={"a": "b"}),
        [workload(annotations={names.ADMISSION_GATED_BY: "a.io/b"})],
        {"queue_name": "new"},
    ),
    # Elastic jobs.
    "pitfall-40 E53 an elastic job shrinks: so does what it holds": (
        READY_OFF,
        job(6, runs=True, elastic=True),
        [workload(ADMITTED)],
        {"pod_sets": [6], "granted": (6, {"cpu": "6"})},
    ),
    "pitfall-40 E53 with it what has ended in the part that is gone": (
        READY_OFF,
        job(6, runs=True, elastic=True, ended=1),
        [workload(ADMITTED, reclaimable=5)],
        {"pod_sets": [6], "granted": (6, {"cpu": "6"}), "reclaimable": 1},
    ),
    "an elastic job grows: it asks for more and runs on": (
        READY_OFF,
        job(12, runs=True, elastic=True),
        [workload(ADMITTED)],
        {"pod_sets": [12]},
    ),
    "an elastic job grows and shrinks back": (
        READY_OFF,
        job(10, runs=True, elastic=True),
        [workload(ADMITTED, 12, granted=10)],
        {"pod_sets": [10]},
    ),
    "an elastic job that was refused its size where it runs asks for another one": (
        READY_OFF,
        job(11, runs=True, elastic=True),
        [workload(ADMITTED, 12, granted=10, annotations={REFUSED_ANNOTATION: "12"})],
        {"pod_sets": [11], "annotations": {REFUSED_ANNOTATION: None}},
    ),
    "an elastic job that was refused its size where it runs asks for no other": (
        READY_OFF,
        job(12, runs=True, elastic=True),
        [workload(ADMITTED, 12, granted=10, annotations={REFUSED_ANNOTATION: "12"})],
        {},
    ),
    "an elastic job that waits is changed in place": (
        READY_OFF,
        job(6, elastic=True),
        [workload("!QuotaReserved=Pending")],
        {"pod_sets": [6]},
    ),
    "an elastic job with other containers is another one": (
        READY_OFF,
        job(6, cpu="2", runs=True, elastic=True),
        [workload(ADMITTED)],
        {"stop": "No matching Workload; restoring pod templates according to existent Workload"},
    ),
    "an elastic job is evicted like any other": (
        READY_OFF,
        job(12, labels=MARKED, elastic=True),
        [workload(f"{ADMITTED} Evicted=Preempted", 12, granted=10)],
        {"restore": "wl", **RELEASED, "Requeued": "True Preempted"},
    ),
}


@pytest.mark.parametrize(("rules", "facts", "workloads", "done"), CASES.values(), ids=CASES)
def test_what_is_done(rules, facts, workloads, done):
    assert summarize(decide(facts, workloads, NOW, rules)) == done


@pytest.mark.parametrize(("rules", "facts", "workloads", "done"), CASES.values(), ids=CASES)
def test_what_was_told_is_not_told_again(rules, facts, workloads, done):
    """Nothing is left to write once spec and status are written."""
    plan = decide(facts, workloads, NOW, rules)
    if plan.workload is None:
        return
    annotations = {
        key: text for key, text in {**plan.workload.metadata.annotations, **plan.annotations}.items() if text
    }
    written = msgspec.structs.replace(
        plan.workload,
        metadata=msgspec.structs.replace(plan.workload.metadata, annotations=annotations),
        spec=plan.update or plan.workload.spec,
        status=plan.status or plan.workload.status,
    )
    again = decide(facts, [written], NOW, rules)
    assert again.status is None
    assert not again.annotations
    # An evicted Workload takes over changes as soon as it has given back.
    assert again.update is None or (plan.update is None and plan.status is not None)


GIVES_BACK = (
    "pitfall-37 one with quota goes",
    "evicted by Preempted: it is given back once all is quiet",
    "deleted Workload: then it goes",
    "pitfall-40 E53 an elastic job shrinks: so does what it holds",
)
KEEPS = (
    "it runs",
    "its Workload is finished: nothing holds it any more",
    "an elastic job grows: it asks for more and runs on",
)


@pytest.mark.parametrize("name", [*GIVES_BACK, *KEEPS])
def test_pitfall_8_it_says_when_quota_becomes_free(name):
    rules, facts, workloads, _ = CASES[name]
    assert decide(facts, workloads, NOW, rules).gives_back is (name in GIVES_BACK)


ADMITTED = "QuotaReserved Admitted"
SLICE = {names.WORKLOAD_SLICE_REPLACEMENT_FOR: "ns/old"}


@pytest.mark.parametrize(
    ("job_", "workloads", "plan"),
    [
        pytest.param(
            job(3, runs=True, elastic=True),
            [workload(ADMITTED, 1, name="old"), workload(ADMITTED, 3, name="new", annotations=SLICE)],
            {"replaced": ["old"]},
            id="replaced",
        ),
        pytest.param(
            job(3, runs=True, elastic=True),
            [workload(ADMITTED, 3, granted=1, name="old"), workload(count=3, name="new", annotations=SLICE)],
            {},
            id="it waits while the other lacks quota",
        ),
        pytest.param(
            job(3, runs=True, elastic=True),
            [workload(ADMITTED, 3, name="old"), workload(count=3, name="new", annotations=SLICE)],
            {"delete": ["new"]},
            id="needless",
        ),
        pytest.param(
            job(3, elastic=True, end=End(True, "done")),
            [workload(ADMITTED, 3, granted=1, name="old"), workload(count=3, name="new", annotations=SLICE)],
            {"delete": ["new"], "Finished": "True Succeeded"},
            id="the job has ended",
        ),
        pytest.param(
            job(3, runs=True, elastic=True),
            [workload("QuotaReserved !Admitted", 3, name="new", annotations=SLICE)],
            {},
            id="it waits for its checks, and what ran runs on",
        ),
        pytest.param(
            job(3, runs=True, elastic=True),
            [workload("QuotaReserved !Admitted", 3, name="first")],
            {"stop": "Not admitted by cluster queue"},
            id="no slice",
        ),
    ],
)
def test_slices(job_, workloads, plan):
    assert summarize(decide(job_, workloads, NOW, PairingRules(watched=lambda _: False))) == plan
