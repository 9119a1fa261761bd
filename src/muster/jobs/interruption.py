"""Decide which pods the platform ended. Such a pod is *interrupted*, and is no failure of its job.

`interruption_of` decides for one pod, from its conditions alone. Kubernetes marks a pod that it is about to end with
the condition `DisruptionTarget` (kubernetes KEP-3329), whose reason names the component that ends the pod. Muster's own
components set the same condition. A pod that a user deletes, or that ends by itself, has no such condition: it has
failed.

All code that counts failures asks this module:

- `jobs/job`: `backoffLimit`, `backoffLimitPerIndex`, `maxFailedIndexes`, the back-off delay, `status.failed` and the
  reason of a Job's end, all through `pod_failure_policy.judge`;
- `jobs/job/decide`: a Job of a JobSet whose pods start together ends for the reason `INTERRUPTED`;
- `jobs/jobset/failure`: such a Job restarts its JobSet, and `maxRestarts` does not count that restart;
- `jobs/job/decide`, `jobs/jobset/decide`: suspending a Job or JobSet whose pods ran, as by a hold or a preemption of
  quota, is one interruption;
- `jobs/podgroup/policy`: `maxRestarts` and the back-off of scheduler KEP-34's groups;
- `jobs/volcano`: policies and `maxRetry` of Volcano's Jobs;
- `insight`: the output of `why` and `history`, and the report of a job's end.

A pod that the engine deletes to restart its gang (`make_withdrawal_patch`) is neither an interruption nor a failure.

The exit codes of an interrupted pod's containers say nothing about its job, because the containers were stopped.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from muster.api.batch import UNTRACK
from muster.api.conditions import ConditionLike, find
from muster.api.core import Pod
from muster.api.kueue.names import DEACTIVATED_MESSAGE
from muster.api.meta import ObjectMeta
from muster.api.ours.interruptions import (
    PREEMPTED_ANNOTATION,
    STOPPED_ANNOTATION,
    SUSPENDED_ANNOTATION,
    WITHDRAWN_ANNOTATION,
)
from muster.api.pods import (
    FORGOTTEN_MESSAGE,
    SHUTDOWN_MESSAGE,
    ended_with_cluster,
    find_condition,
    is_deleting,
    is_finished,
)

DISRUPTION_TARGET: Final = "DisruptionTarget"
# Kueue's reasons: for pods whose node is lost permanently, and for pods of workloads that lose their quota.
_BY_QUEUES: Final = ("TerminatedByKueue", "TerminationTarget")

# The reason of a Job's end that does not count towards its JobSet's `maxRestarts`.
INTERRUPTED: Final = "Interrupted"
# The condition of a Job or JobSet that records how often it was interrupted, and the last interruption.
INTERRUPTIONS: Final = "muster.dev/Interrupted"

PREEMPTED: Final = "PreemptionByScheduler"
EVICTED: Final = "EvictionByEvictionAPI"
TAINTED: Final = "DeletionByTaintManager"
NODE_GONE: Final = "DeletionByPodGC"
NODE_DOWN: Final = "TerminationByKubelet"
SUSPENDED: Final = "Suspended"

# The meaning of each reason, as a phrase that follows a pod's name.
_MEANINGS: Final = {
    PREEMPTED: "was preempted on {node}",
    EVICTED: "was evicted from {node}",
    TAINTED: "was evicted from {node}, which is tainted",
    NODE_GONE: "was lost with {node}",
    NODE_DOWN: "ended with {node}, which went down",
}
# The meanings of messages with the reason `NODE_DOWN` that differ from the meaning of the reason itself.
_MEANINGS_OF_NODES: Final = {
    SHUTDOWN_MESSAGE: "ended with {node}, which was shut down",
    FORGOTTEN_MESSAGE: "had already ended on {node}, though the server recorded it as running: "
    "a backup was restored, or its end was never written",
}
# The message of Kubernetes' taint manager; Muster's message also names the taint, and says whether the node is lost.
_DUE_TO_TAINT = r"Taint manager: (?:deleting due to NoExecute taint ?(\S*)|node \S+ is (unreachable))"
# A message that adds nothing to the meaning of its reason.
_SAID_ALREADY = r"PodGC: node (\S+ )?no longer exists"
_PREEMPTED_BY = "Preempted by "  # the scheduler's text on the pod and in its Event
HELD: Final = "it was held"
ENDED_WITH_CLUSTER: Final = "ended with the whole cluster, which was stopped"

_COUNT = r"([0-9]{1,9}) interruptions?(?: \(([0-9]{1,9}) by suspension\))?, the last: "


class CountingCondition(ConditionLike, Protocol):
    """A condition of a Job or a JobSet whose message counts interruptions."""

    @property
    def message(self) -> str:
        """The message of the condition."""
        ...


class Interruption(Struct, frozen=True):
    """The way in which the platform ended a pod.

    reason: the reason of the pod's condition `DisruptionTarget`.
    message: a phrase that follows the pod's name: `was evicted from node-0`.
    """

    reason: str
    message: str


def interruption_of(pod: Pod) -> Interruption | None:
    """Return how the platform ended a pod.

    Return None for a pod that runs, has succeeded, failed by itself, or is being deleted for another reason, such as
    by a user.
    """
    if pod.status.phase == "Succeeded" or not (pod.status.phase == "Failed" or is_deleting(pod)):
        return None
    if ended_with_cluster(pod):
        return Interruption(NODE_DOWN, ENDED_WITH_CLUSTER)
    if pod.metadata.annotations.get(SUSPENDED_ANNOTATION) == pod.metadata.uid and is_deleting(pod):
        return Interruption(SUSPENDED, "ended as its job was suspended")
    marks = (find_condition(pod, type) for type in (DISRUPTION_TARGET, *_BY_QUEUES))
    target = next((condition for condition in marks if condition is not None and condition.status == "True"), None)
    if target is None:
        return None
    by = pod.metadata.annotations.get(PREEMPTED_ANNOTATION, "")
    reason = PREEMPTED if by else target.reason  # the scheduler preempts by the Eviction API, which sets its own reason
    node = f"node {pod.spec.node_name}" if pod.spec.node_name else "its node"
    if by.startswith(_PREEMPTED_BY):
        return Interruption(reason, f"was {by[0].lower()}{by[1:]}")
    if reason == NODE_DOWN and target.message in _MEANINGS_OF_NODES:
        return Interruption(reason, _MEANINGS_OF_NODES[target.message].format(node=node))
    meaning = _MEANINGS.get(reason, "was ended on {node}").format(node=node)
    detail = by or ("" if reason == EVICTED else _add_to_meaning(target.message))
    return Interruption(reason, f"{meaning}: {detail}" if detail else meaning)


def _add_to_meaning(message: str) -> str:
    """Return the part of a condition's message that its reason does not say, such as the taint; "" if there is none."""
    tainted = re.fullmatch(_DUE_TO_TAINT, message)
    if tainted is not None:
        return tainted[1] or tainted[2] or ""
    return "" if re.fullmatch(_SAID_ALREADY, message) else message


def describe_suspension(job: ObjectMeta) -> str:
    """Return a sentence about why a Job or JobSet was suspended while its pods ran.

    job: the metadata of the Job or JobSet.
    """
    why = job.annotations.get(STOPPED_ANNOTATION, "")
    if why == DEACTIVATED_MESSAGE:  # by `muster hold`; the engine's own reasons to deactivate follow the message
        return HELD
    return f"it was stopped by its queue: {why}" if why else "it was suspended"


def add_interruptions(
    conditions: Sequence[CountingCondition], number: int, last: str, *, by_suspension: bool = False
) -> str:
    """Return the message of the condition `INTERRUPTIONS` after `number` further interruptions.

    conditions: the current conditions, with the count so far.
    last: a sentence about the last interruption.
    by_suspension: whether a suspension of the job caused the new interruptions.
    """
    count = count_interruptions(conditions) + number
    suspensions = count_suspensions(conditions) + (number if by_suspension else 0)
    of_them = f" ({suspensions} by suspension)" if suspensions else ""
    return f"{count} interruption{'' if count == 1 else 's'}{of_them}, the last: {last}"


def count_interruptions(conditions: Sequence[CountingCondition]) -> int:
    """Return how many interruptions the conditions of a Job or JobSet record."""
    return _read_count(conditions)[0]


def count_suspensions(conditions: Sequence[CountingCondition]) -> int:
    """Return how many of the recorded interruptions were suspensions, which keep the Jobs of a JobSet."""
    return _read_count(conditions)[1]


def last_interruption(conditions: Sequence[CountingCondition]) -> str:
    """Return the recorded message of the last interruption; "" if there was none."""
    return _read_count(conditions)[2]


def _read_count(conditions: Sequence[CountingCondition]) -> tuple[int, int, str]:
    condition = find(conditions, INTERRUPTIONS)
    counted = re.match(_COUNT, condition.message) if condition is not None else None
    if counted is None:
        return 0, 0, ""
    return int(counted[1]), int(counted[2] or 0), counted.string[counted.end() :]


def is_leaving(pod: Pod) -> bool:
    """Return whether the scheduler has chosen a running pod as a preemption victim and the pod is not deleted yet."""
    return PREEMPTED_ANNOTATION in pod.metadata.annotations and not is_deleting(pod) and not is_finished(pod)


def is_interrupted(pod: Pod) -> bool:
    """Return whether the platform ended a pod."""
    return interruption_of(pod) is not None


def make_withdrawal_patch(pod: Pod) -> dict[str, Any]:
    """Return the strategic merge patch to apply to a pod before the pod is deleted to restart its gang.

    The patch marks the pod, which tells Muster's Job controller not to count it, and removes the tracking finalizer.
    Other Job controllers count only pods with that finalizer.
    """
    return UNTRACK | {"annotations": {WITHDRAWN_ANNOTATION: pod.metadata.uid}}


def is_withdrawn(pod: Pod) -> bool:
    """Return whether a pod is being deleted to restart its gang, which is neither failure nor interruption."""
    return is_deleting(pod) and pod.metadata.annotations.get(WITHDRAWN_ANNOTATION) == pod.metadata.uid
