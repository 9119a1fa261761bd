"""Decide when and how a pod must leave a tainted node. Pure.

A pod is *evicted* from a node that responds: its deletion is requested, and its node terminates it and reports the
result. A lost node does not respond. A pod there is *written off* when it certainly does not run: it is marked as
failed and deleted without its node. Two cases make this certain. A node with the annotation `muster.dev/fenced`
terminates its pods by itself, after it has not reached the server for as long as they tolerate. Or an administrator
marks the node as off, by the taint `node.kubernetes.io/out-of-service`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from muster.api.conditions import is_true
from muster.api.core import Node, Pod, Taint
from muster.api.nodes import NO_EXECUTE, OUT_OF_SERVICE, UNREACHABLE, has_taint, is_ready
from muster.api.ours.embedded import FENCED_ANNOTATION
from muster.api.pods import NODE_NOT_READY, is_deleting, is_finished
from muster.api.values.taints import compute_tolerated_seconds
from muster.cluster.controllers.nodes.nodehealth import read_readiness

# Nodes that fail together are detected one after the other, as their Leases expire: a kubelet renews every 10 s.
GATHER_SECONDS = 10.0
# The minimum age of an evicted pod. Its Job creates another pod at once, which may be bound to the same node.
# Without this pause that would repeat as fast as the server can.
LEAST_STAY_SECONDS = 2.0
_LOST_TAINT = Taint(key=UNREACHABLE, effect=NO_EXECUTE)


@dataclass(frozen=True, slots=True)
class Departure:
    """The time at which a pod leaves its node, and how it leaves.

    due: the time on the monotonic clock.
    final: whether the pod is written off; otherwise its deletion is requested.
    taint: the taint that evicts it, in kubectl's format.
    """

    due: float
    final: bool
    taint: str = field(default="", compare=False)


def plan_departure(pod: Pod, node: Node, since: Mapping[Taint, float], *, is_heard: bool) -> Departure | None:
    """Return when and how the pod leaves the node; None if it stays.

    since: when each NoExecute taint of the node was first seen.
    is_heard: whether the node renews its Lease. If it does, its own time for its pods has started again, whatever its
    conditions still say.
    """
    if is_finished(pod) and (not is_deleting(pod) or pod.metadata.deletion_grace_period_seconds == 0):
        return None  # nothing of the pod is left to end, or only finalizers keep it
    ends = [
        end
        for end in (_find_write_off(pod, node, since, is_heard=is_heard), _find_eviction(pod, since, is_heard=is_heard))
        if end is not None
    ]
    return min(ends, key=lambda end: (end.due, not end.final), default=None)


def _find_write_off(pod: Pod, node: Node, since: Mapping[Taint, float], *, is_heard: bool) -> Departure | None:
    if is_deleting(pod) and not is_ready(node) and has_taint(node, OUT_OF_SERVICE):
        return Departure(0.0, final=True)
    is_lost = not is_heard and read_readiness(node) == "Unknown" and _LOST_TAINT in since
    if not is_lost or node.metadata.annotations.get(FENCED_ANNOTATION) != "true":
        return None
    seconds = compute_tolerated_seconds((_LOST_TAINT,), pod.spec.tolerations)
    return Departure(since[_LOST_TAINT] + seconds, final=True) if seconds is not None else None


def _find_eviction(pod: Pod, since: Mapping[Taint, float], *, is_heard: bool) -> Departure | None:
    if is_deleting(pod):
        return None
    if is_heard:
        since = {taint: at for taint, at in since.items() if taint != _LOST_TAINT}
    tolerated = ((taint, at, compute_tolerated_seconds((taint,), pod.spec.tolerations)) for taint, at in since.items())
    ends = [
        Departure(at + seconds, final=False, taint=_describe_taint(taint))
        for taint, at, seconds in tolerated
        if seconds is not None
    ]
    return min(ends, key=lambda end: end.due, default=None)


def _describe_taint(taint: Taint) -> str:
    """Return a taint as `key=value:effect`, or `key:effect` without a value."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def stay_least(end: Departure, pod: Pod, now: datetime, clock: float) -> Departure:
    """Return the departure; an eviction waits until the pod's age is `LEAST_STAY_SECONDS`.

    clock: the current time on the clock that departures use.
    """
    created = pod.metadata.creation_timestamp
    left = LEAST_STAY_SECONDS - (now - created).total_seconds() if created is not None else 0.0
    return end if end.final or left <= 0 else replace(end, due=max(end.due, clock + left))


def next_round(departures: Iterable[Departure]) -> float | None:
    """Return when to remove the next pods; None if no pod has to leave.

    Pods that are written off soon after the first are removed with it, so that a gang on several lost nodes is removed
    at once. An evicted pod waits for no other pod.
    """
    ordered = sorted(departures, key=lambda one: one.due)
    if not ordered:
        return None
    first = ordered[0]
    if not first.final:
        return first.due
    return max(one.due for one in ordered if one.due <= first.due + GATHER_SECONDS and one.final)


def make_last_status(pod: Pod, end: Departure, now: datetime) -> dict[str, Any]:
    """Return the status to write for a pod before its removal; {} if it is written already or the pod has finished.

    end: when and how the pod leaves.
    """
    status: dict[str, Any] = {}
    if is_finished(pod):
        return status
    node = pod.spec.node_name
    why = f"node {node} is unreachable" if end.final else f"deleting due to NoExecute taint {end.taint}".rstrip()
    if not is_true(pod.status.conditions, "DisruptionTarget"):
        status["conditions"] = [
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByTaintManager",
                "message": f"Taint manager: {why}",
                "lastTransitionTime": now.replace(microsecond=0),
            }
        ]
    if end.final:
        message = f"Node {node} which was running pod {pod.metadata.name} is unresponsive"
        status |= {"phase": "Failed", "reason": "NodeLost", "message": message}
    return status


def not_ready(now: datetime) -> dict[str, Any]:
    """Return the condition to write for a pod on a lost node: not ready, because its node does not respond."""
    condition = {"type": "Ready", "status": "False", "reason": NODE_NOT_READY, "message": "Node is not ready"}
    return condition | {"lastTransitionTime": now.replace(microsecond=0)}
