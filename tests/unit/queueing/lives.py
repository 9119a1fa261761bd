"""Build workloads and their surroundings from the short form of `cases/lifecycle.yaml`, which explains its words."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from muster.api.config import WaitForPodsReady
from muster.api.config.types import RequeuingStrategy
from muster.api.kueue import (
    Admission,
    AdmissionCheckState,
    PodSet,
    PodSetAssignment,
    PodSetUpdate,
    PreemptionGateState,
    RequeueState,
    SchedulingStats,
    Workload,
    WorkloadSchedulingStatsEviction,
    WorkloadSpec,
    WorkloadStatus,
)
from muster.api.kueue.names import JOB_UID_LABEL, MULTI_KUEUE_ORIGIN_LABEL, RESOURCE_IN_USE_FINALIZER
from muster.api.meta import Condition, ObjectMeta, OwnerReference
from muster.api.values.durations import SECOND
from muster.queueing.workload.lifecycle import QueueingContext
from muster.queueing.workload.obstacles import QueueState

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
GENERATION = 7

_LINE = re.compile(r"(?P<value>True|False) (?P<reason>\w+)(?: @(?P<at>-?\d+))?(?:: (?P<message>.*))?")
_CHECK = re.compile(
    r"(?P<state>\w+)(?: after=(?P<after>\d+))?(?: tries=(?P<tries>\d+))?(?P<updates> updates)?(?: @(?P<at>-?\d+))?"
    r"(?:: (?P<message>.*))?"
)


def at(seconds: Any) -> datetime:
    return NOW + timedelta(seconds=float(seconds or 0))


def condition(type: str, line: str) -> Condition:
    match = _LINE.fullmatch(line)
    assert match, line
    return Condition(
        type=type,
        status=match["value"],
        reason=match["reason"],
        message=match["message"] or "",
        last_transition_time=at(match["at"]),
    )


def check(name: str, line: str) -> AdmissionCheckState:
    match = _CHECK.fullmatch(line)
    assert match, line
    return AdmissionCheckState(
        name=name,
        state=match["state"],
        message=match["message"] or "",
        last_transition_time=at(match["at"]),
        requeue_after_seconds=int(match["after"]) if match["after"] else None,
        retry_count=int(match["tries"]) if match["tries"] else None,
        pod_set_updates=(PodSetUpdate(name="main", labels={"a": "b"}),) if match["updates"] else (),
    )


def requeue(written: Mapping[str, int] | None) -> RequeueState | None:
    if written is None:
        return None
    return RequeueState(count=written.get("count"), requeue_at=at(written["at"]) if "at" in written else None)


def stats(written: Mapping[str, int]) -> SchedulingStats:
    return SchedulingStats(
        evictions=tuple(
            WorkloadSchedulingStatsEviction(
                reason=name.partition("/")[0], underlying_cause=name.partition("/")[2], count=count
            )
            for name, count in written.items()
        )
    )


def _conditions(written: Mapping[str, Any]) -> tuple[Condition, ...]:
    lines = dict(written.get("conditions", {}))
    for type, key in (("QuotaReserved", "reserved"), ("Admitted", "admitted")):
        if key in written or (type == "QuotaReserved" and "admitted" in written):
            moment = written.get(key, written.get("admitted"))
            lines[type] = f"True {type} @{moment}"
    return tuple(condition(type, line) for type, line in lines.items())


def status(written: Mapping[str, Any]) -> WorkloadStatus:
    holds = "reserved" in written or "admitted" in written
    assignment = PodSetAssignment(
        name="main",
        flavors=dict.fromkeys(["cpu"], written.get("flavor", "f")),
        resource_usage={"cpu": "4"},
        count=4,
        delayed_topology_request=written.get("topology"),
    )
    return WorkloadStatus(
        conditions=_conditions(written),
        admission=Admission(cluster_queue="q", pod_set_assignments=(assignment,)) if holds else None,
        admission_checks=tuple(check(name, line) for name, line in written.get("checks", {}).items()),
        requeue_state=requeue(written.get("requeue")),
        accumulated_past_execution_time_seconds=written.get("past"),
        scheduling_stats=stats(written["stats"]) if "stats" in written else None,
        cluster_name=written.get("cluster"),
        nominated_cluster_names=tuple(written.get("nominated", ())),
        preemption_gates=tuple(
            PreemptionGateState(name=name, position=position, last_transition_time=at(-60))
            for name, position in written.get("gates", {}).items()
        ),
    )


def workload(written: Mapping[str, Any]) -> Workload:
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid="u", controller=True)
    return Workload(
        metadata=ObjectMeta(
            name="w",
            namespace="n",
            uid="w-uid",
            generation=GENERATION,
            creation_timestamp=at(-3600),
            labels=_labels(written),
            annotations=written.get("annotations", {}),
            owner_references=(owner,) if written.get("owned", not written.get("clone")) else (),
            finalizers=(RESOURCE_IN_USE_FINALIZER,) if written.get("finalizer") else (),
            deletion_timestamp=at(-1) if written.get("deleting") else None,
        ),
        spec=WorkloadSpec(
            pod_sets=(PodSet(name="main", count=4),),
            queue_name="lq",
            active=written.get("active", True),
            maximum_execution_time_seconds=written.get("max"),
        ),
        status=status(written),
    )


def _labels(written: Mapping[str, Any]) -> dict[str, str]:
    if written.get("clone"):
        return {MULTI_KUEUE_ORIGIN_LABEL: "o"}
    return {JOB_UID_LABEL: "u"} if written.get("job", True) else {}


def waiting(written: Mapping[str, Any] | None) -> WaitForPodsReady | None:
    if written is None:
        return None
    recovery = written.get("recovery")
    return WaitForPodsReady(
        timeout=written.get("timeout", 300) * SECOND,
        clock=written.get("clock", "Admitted"),
        recovery_timeout=None if recovery is None else recovery * SECOND,
        requeuing_strategy=RequeuingStrategy(
            backoff_limit_count=written.get("limit"),
            backoff_base_seconds=written.get("base", 60),
            backoff_max_seconds=written.get("longest", 3600),
        ),
    )


def _queue(name: str, word: str) -> QueueState:
    if word == "missing":
        return QueueState(name)
    if word == "terminating":
        return QueueState(name, "None", terminating=True)
    assert word in ("open", "Hold", "HoldAndDrain"), word
    return QueueState(name, "None" if word == "open" else word)  # type: ignore[arg-type]


def around(written: Mapping[str, Any]) -> QueueingContext:
    retention = written.get("retention")
    return QueueingContext(
        local=_queue("lq", written.get("local", "open")),
        queue=_queue("q", written.get("queue", "open")),
        checks={name: frozenset(flavors or ()) for name, flavors in written.get("queue_checks", {}).items()},
        waiting=waiting(written.get("wait")),
        kept=None if retention is None else retention * SECOND,
        role=written.get("role", ""),
    )


def expected(given: WorkloadStatus, wanted: Mapping[str, Any]) -> WorkloadStatus:
    """Return the status that a case expects: the given one with the changes of the case."""
    conditions = {one.type: one for one in given.conditions}
    for type, line in wanted.get("conditions", {}).items():
        old = conditions.pop(type, None)
        if line is None:
            continue
        new = msgspec.structs.replace(condition(type, line), observed_generation=GENERATION)
        if old is not None and old.status == new.status:
            new = msgspec.structs.replace(new, last_transition_time=old.last_transition_time)
        conditions[type] = new
    changes: dict[str, Any] = {"conditions": tuple(conditions.values())}
    if "checks" in wanted:
        changes["admission_checks"] = tuple(check(name, line) for name, line in wanted["checks"].items())
    if "requeue" in wanted:
        changes["requeue_state"] = requeue(wanted["requeue"])
    if "past" in wanted:
        changes["accumulated_past_execution_time_seconds"] = wanted["past"]
    if "stats" in wanted:
        changes["scheduling_stats"] = stats(wanted["stats"])
    if wanted.get("released"):
        changes["admission"] = None
    return msgspec.structs.replace(given, **changes)


def in_order(status: WorkloadStatus) -> WorkloadStatus:
    """Return the status with sorted conditions, whose order has no meaning."""
    return msgspec.structs.replace(status, conditions=tuple(sorted(status.conditions, key=lambda one: one.type)))
