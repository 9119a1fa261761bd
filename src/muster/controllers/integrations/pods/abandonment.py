"""Decide when a pod group whose ended pods are not replaced releases its quota. Pure.

Kueue lets such a group hold its quota until a user creates replacement pods or deletes the group, unless
`waitForPodsReady.recoveryTimeout` is set. If that is off, the scheduler's `recoveryTimeout` applies, and evicts a group
without a running pod. The group's Workload then waits outside the queue, with the condition
`WaitingForReplacementPods`, and queues again when all pods exist.
"""

from datetime import datetime, timedelta

from muster.api.conditions import find_true, is_true
from muster.api.core import Pod
from muster.api.kueue import WorkloadStatus
from muster.api.kueue.names import (
    EVICTED,
    PODS_READY_TIMEOUT,
    QUOTA_RESERVED,
    WAIT_FOR_RECOVERY,
    WAITING_FOR_REPLACEMENT_PODS,
)
from muster.api.pods import find_condition, is_deleting, is_finished
from muster.controllers.integrations.pods.groups import PodGroup, PodGroups
from muster.queueing.conditions import find_last_change
from muster.queueing.moments import shift_moment
from muster.queueing.workload.eviction import evict

_SEE = PodGroups()


def gives_back_at(group: PodGroup, status: WorkloadStatus, timeout: timedelta) -> datetime | None:
    """Return when a group loses its quota unless its pods are replaced by then; None otherwise.

    The timeout starts at the last pod's end or, if later, when the condition became true.

    status: the status of the group's Workload, with a current condition `WaitingForReplacementPods`.
    timeout: the longest time without a running pod; 0 for no limit.
    """
    waiting = find_true(status.conditions, WAITING_FOR_REPLACEMENT_PODS)
    holds = is_true(status.conditions, QUOTA_RESERVED) and not is_true(status.conditions, EVICTED)
    if not timeout or waiting is None or not holds or group.is_serving or _goes_on(group):
        return None
    return shift_moment(max(find_last_change(waiting, group.now), _find_last_end(group)), timeout)


def give_back_quota(status: WorkloadStatus, number: int, timeout: timedelta, now: datetime) -> WorkloadStatus:
    """Return the status of the Workload of a group that is evicted because its pods were not replaced.

    number: how many pods are missing.
    timeout: for how long the group was without a running pod.
    """
    pods = "1 pod that ended was" if number == 1 else f"{number} pods that ended were"
    limit = f"{timeout.total_seconds():g}s"
    message = f"No pod of the group runs, and {pods} not replaced within {limit}"
    return evict(status, PODS_READY_TIMEOUT, message, now, WAIT_FOR_RECOVERY)


def _goes_on(group: PodGroup) -> bool:
    """Return whether a pod of the group runs or may still start."""
    return not _SEE.is_suspended(group) or _SEE.is_active(group) or any(map(_is_pending, group.pods))


def _is_pending(pod: Pod) -> bool:
    return not is_finished(pod) and not is_deleting(pod)


def _find_last_end(group: PodGroup) -> datetime:
    """Return when the last pod of the group ended, by the status of the pods, but at most `group.now`."""
    conditions = (find_condition(pod, "ContainersReady") for pod in group.members)
    moments = [one.last_transition_time for one in conditions if one is not None and one.last_transition_time]
    moments += [pod.metadata.deletion_timestamp for pod in group.members if pod.metadata.deletion_timestamp]
    return min(max(moments, default=datetime.min.replace(tzinfo=group.now.tzinfo)), group.now)
