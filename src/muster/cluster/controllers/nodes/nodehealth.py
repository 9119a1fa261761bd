"""Decide when a node is lost, and which conditions and taints it then gets. Pure.

The rules follow upstream's node lifecycle controller (pkg/controller/nodelifecycle), with two differences:

- a node that has never had a Lease is never lost, unless an agent of Muster has registered it, which must have a Lease;
- NoExecute taints are written at once, and not for one node in ten seconds, because a gang's nodes are lost together.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast

from msgspec.structs import replace

from muster.api.conditions import find
from muster.api.core import Node, Taint
from muster.api.groups.coordination import Lease
from muster.api.nodes import NO_EXECUTE, NO_SCHEDULE, NOT_READY, UNREACHABLE
from muster.api.ours.embedded import NODE_KIND_LABEL, SERVER_MACHINE

Readiness: TypeAlias = Literal["True", "False", "Unknown"]

# A node terminates its own pods when its Lease and their toleration have expired. The server waits a quarter longer.
_MARGIN = 1.25
_LOST = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_OURS = (NOT_READY, UNREACHABLE)


def compute_patience(grace_seconds: float, lease: Lease) -> float:
    """Return for how many seconds a node may miss renewals before it is lost.

    The result is the grace period, or one and a quarter times the duration of the node's Lease if that is longer.
    """
    return max(grace_seconds, (lease.spec.lease_duration_seconds or 0) * _MARGIN)


def owes_lease(node: Node) -> bool:
    """Return whether an agent that renews a Lease has registered the node.

    The server's own nodes live as long as the server. Nodes that users create need no Lease.
    """
    labels = node.metadata.labels
    return NODE_KIND_LABEL in labels and SERVER_MACHINE not in labels


def read_readiness(node: Node) -> Readiness:
    """Return the status of the node's condition Ready; `Unknown` for a node without one."""
    ready = find(node.status.conditions, "Ready")
    return cast("Readiness", ready.status) if ready is not None else "Unknown"


def lost_conditions(node: Node, now: datetime) -> list[dict[str, Any]]:
    """Return the conditions to write for a lost node; [] if it has them already."""
    moment, written = now.replace(microsecond=0), []
    for type in _LOST:
        known = find(node.status.conditions, type)
        if known is None:
            reason, message = "NodeStatusNeverUpdated", "Kubelet never posted node status."
        elif known.status != "Unknown":
            reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
        else:
            continue
        condition = {"type": type, "status": "Unknown", "reason": reason, "message": message}
        written.append(condition | {"lastTransitionTime": moment})
    return written


def wanted_taints(node: Node, *, evicts: bool, now: datetime) -> tuple[Taint, ...]:
    """Return the taints that the node should have: the taints by other writers, and Muster's taints by its readiness.

    evicts: whether pods must leave a node that is not ready.
    """
    key = {"False": NOT_READY, "Unknown": UNREACHABLE}.get(read_readiness(node), "")
    effects = (NO_SCHEDULE, NO_EXECUTE) if evicts else (NO_SCHEDULE,)
    wanted = [Taint(key=key, effect=effect) for effect in effects] if key else []
    remaining = [taint for taint in node.spec.taints if taint.key not in _OURS or _remove_time(taint) in wanted]
    present = [_remove_time(taint) for taint in remaining]
    moment = now.replace(microsecond=0)
    added = (replace(taint, time_added=moment) for taint in wanted if taint not in present)
    return (*remaining, *added)


def no_execute(taints: Sequence[Taint]) -> tuple[Taint, ...]:
    """Return the NoExecute taints, which evict pods, without the times when they were added."""
    return tuple(_remove_time(taint) for taint in taints if taint.effect == NO_EXECUTE)


def _remove_time(taint: Taint) -> Taint:
    return replace(taint, time_added=None)
