"""Mirror plain pods, which have no field that names another controller. Pure.

In the manager's cluster the pods keep their scheduling gate permanently and show the status of their copies.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from muster.api.core import POD, Pod, PodCondition, PodStatus
from muster.api.kueue import PodSet
from muster.api.kueue.names import ADMISSION_GATE, TOPOLOGY_GATE
from muster.api.managed.pods import is_held
from muster.api.pods import find_condition, is_finished
from muster.api.validation.pods.pod import validate_status_update
from muster.multicluster.mirrors.framework import Mirror
from muster.runtime.objects import merge_patch

# A worker's queue has stopped the pod, which is not the end of its work.
_TOLD = "TerminationTarget"
_SCHEDULED = "PodScheduled"


class PodMirror(Mirror[Pod]):
    """The rules by which MultiKueue runs plain pods, alone or in groups, in a worker cluster (`Mirror`)."""

    kind = POD

    def is_handed_over(self, job: Pod) -> bool:
        """Return whether the pod still has its gate; a pod with a node runs in the manager's cluster."""
        return is_held(job)

    def pods(self, job: Pod, podsets: Sequence[PodSet]) -> Sequence[Pod]:  # noqa: ARG002  (those have its spec alone)
        """Return the pod itself."""
        return (job,)

    def status(self, local: Pod, remote: Pod) -> dict[str, Any]:
        """Return the merge patch of the local pod's status: the copy's status except the fields of the pod's node.

        The local pod keeps its gate, and autoscalers ignore such pods. If the copy was asked to terminate and has not
        succeeded, its status is not shown; after it has finished, the local pod gets the status of a new pod. If the
        local pod has finished, return {}.
        """
        if self.has_ended(local):
            return {}
        if _was_told_to_end(remote) and remote.status.phase != "Succeeded":
            return _as_made(local) if is_finished(remote) else {}
        return _make_patch(local, _mirror_shown(local, remote.status))

    def make_stop_patch(self, local: Pod, now: datetime) -> dict[str, Any]:  # noqa: ARG002  (it is as if it had never run)
        """Return the patch that gives the local pod the status of a new pod; {} if it has finished."""
        return {} if is_finished(local) else _as_made(local)

    def has_ended(self, local: Pod) -> bool:
        """Return whether the pod has finished or is being deleted."""
        return is_finished(local) or local.metadata.deletion_timestamp is not None

    def has_started(self, remote: Pod) -> bool:
        """Return whether the copy's gate was removed."""
        return not is_held(remote)

    def is_active(self, remote: Pod) -> bool:
        """Return whether the copy has not finished."""
        return not is_finished(remote)

    def is_spent(self, remote: Pod) -> bool:
        """Return whether the copy has finished and is being deleted.

        Its group keeps a failed copy until another pod replaces it.
        """
        return is_finished(remote) and remote.metadata.deletion_timestamp is not None

    def _prepare(self, document: dict[str, Any], podsets: Sequence[PodSet]) -> None:  # noqa: ARG002  (never injected here)
        spec = document["spec"]
        spec.pop("nodeName", None)
        if spec.get("priorityClassName"):  # the worker's PriorityClass of that name sets the priority there
            spec.pop("priority", None)
            spec.pop("preemptionPolicy", None)
        # A worker whose queue assigns topology domains adds its own second gate; another worker might never remove it.
        others = [
            gate for gate in spec.get("schedulingGates", []) if gate["name"] not in (ADMISSION_GATE, TOPOLOGY_GATE)
        ]
        spec["schedulingGates"] = [*others, {"name": ADMISSION_GATE}]


def _mirror_shown(local: Pod, remote: PodStatus) -> PodStatus:
    before = local.status
    conditions = (*_keep_conditions(local), *(one for one in remote.conditions if one.type not in (_SCHEDULED, _TOLD)))
    status = replace(remote, qos_class=before.qos_class, observed_generation=before.observed_generation)
    return replace(status, conditions=conditions)


def _make_patch(local: Pod, status: PodStatus) -> dict[str, Any]:
    """Return the patch that leads to a status.

    A change that is not allowed at once, as from finished to running, takes two. A status that the server would refuse
    for any pod is left out.
    """
    made = replace(local, status=_make_initial_status(local))
    if not validate_status_update(replace(local, status=status), local):
        return merge_patch(status, local.status)
    return {} if validate_status_update(replace(made, status=status), made) else _as_made(local)


def _as_made(local: Pod) -> dict[str, Any]:
    """Return the merge patch that leads to the status of a new pod."""
    return merge_patch(_make_initial_status(local), local.status)


def _make_initial_status(local: Pod) -> PodStatus:
    before, status = local.status, PodStatus(phase="Pending", conditions=_keep_conditions(local))
    return replace(status, qos_class=before.qos_class, observed_generation=before.observed_generation)


def _was_told_to_end(pod: Pod) -> bool:
    condition = find_condition(pod, _TOLD)
    return condition is not None and condition.status == "True"


def _keep_conditions(local: Pod) -> tuple[PodCondition, ...]:
    condition = find_condition(local, _SCHEDULED)
    return (condition,) if condition is not None else ()
