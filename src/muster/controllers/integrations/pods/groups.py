"""Decide which pods of a group, or which single pod, count for their Workload, and observe them. Pure.

A group is complete when it has as many pods as their annotation requests. Before it holds quota, any pods count, if
there are enough. After that, each role has a fixed number of places: another pod of the role may replace a failed one.
A pod that is created when all places are taken is rejected.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from muster.api.conditions import find, find_true, is_true
from muster.api.core import Pod, PodTemplateSpec
from muster.api.kueue import MAIN_POD_SET, PodSet, ReclaimablePod, Workload, WorkloadStatus
from muster.api.kueue.names import (
    EVICTED,
    FINISHED,
    MANAGED_FINALIZER,
    POD_GROUP_FAST_ADMISSION,
    POD_GROUP_POD_INDEX_LABEL,
    POD_GROUP_SERVING,
    POD_GROUP_TOTAL_COUNT,
    PODS_READY,
    QUEUE_NAME_LABEL,
    QUOTA_RESERVED,
    WAITING_FOR_REPLACEMENT_PODS,
)
from muster.api.managed.pods import group_size, is_held, is_unretriable, role_of
from muster.api.managed.topology import topology_request
from muster.api.meta import ObjectMeta
from muster.api.pods import find_condition, is_deleting, is_finished, is_ready
from muster.queueing.conditions import put
from muster.queueing.jobframework.observedjob import End

# The maximum number of different pods in one Workload (upstream).
MAX_ROLES = 18

# The condition of a pod that the engine is ending.
TERMINATION_TARGET = "TerminationTarget"


class PodGroup(msgspec.Struct, frozen=True):
    """The pods of one Workload, the oldest first.

    name: the name of the group; "" for a single pod.
    members: all pods, at least one.
    pods: the pods that have a place in the group.
    podsets: the requests of these pods.
    now: the time of the observation. Pods that should have ended before it no longer delay the group.
    """

    name: str
    members: tuple[Pod, ...]
    pods: tuple[Pod, ...]
    podsets: tuple[PodSet, ...]
    now: datetime

    @property
    def first(self) -> Pod:
        """The first pod. Its metadata represents the whole group."""
        return self.pods[0] if self.pods else self.members[0]

    @property
    def metadata(self) -> ObjectMeta:
        """The metadata of the first pod, with the labels and annotations for queueing."""
        return self.first.metadata

    @property
    def size(self) -> int:
        """The desired number of pods."""
        return group_size(self.metadata) if self.name else 1

    @property
    def is_serving(self) -> bool:
        """Whether the group runs until it is deleted, so that succeeded pods are replaced, too."""
        return bool(self.name) and self.metadata.annotations.get(POD_GROUP_SERVING) == "true"


class GroupMembership(msgspec.Struct, frozen=True):
    """The pods of a group: pods that have a place in it, and other pods.

    excess: the pods that have no place in the group.
    released: the pods whose finalizer is removed, because their end need not be observed any more.
    absent: the number of missing pods.
    complaint: why no Workload can be made of the pods; "" if one can.
    """

    group: PodGroup
    excess: tuple[Pod, ...] = ()
    released: tuple[Pod, ...] = ()
    absent: int = 0
    complaint: str = ""


def membership_of(name: str, pods: Iterable[Pod], workload: Workload | None, now: datetime) -> GroupMembership:
    """Return which pods of a group have a place in it, and which do not. Raises `QuantityError`.

    workload: the group's Workload, if it exists.
    """
    members = tuple(sorted(pods, key=_make_age_key))
    holds = workload is not None and is_true(workload.status.conditions, QUOTA_RESERVED)
    over = workload is not None and is_true(workload.status.conditions, FINISHED)
    if not name:
        podsets = (
            workload.spec.pod_sets if workload is not None and holds else (_make_podset(MAIN_POD_SET, members[0], 1),)
        )
        membership = GroupMembership(
            PodGroup(name, members, members, podsets, now), released=tuple(filter(is_deleting, members))
        )
    elif workload is None or not (holds or over or _find_complaint(name, members)):
        membership = _make_membership(name, members, workload, now)
    else:
        membership = _divide_by_role(name, members, workload, now)
    if workload is not None and workload.metadata.deletion_timestamp is not None:
        return replace(membership, released=members)
    if over:  # these pods wait for another Workload
        return replace(membership, excess=(), released=tuple(p for p in members if is_deleting(p) or not is_held(p)))
    return replace(membership, released=members) if name and _is_given_up(members, now) else membership


def _find_complaint(name: str, members: Sequence[Pod]) -> str:
    """Return why the pods cannot be one group; "" if they can."""
    first, *others = counting = [pod for pod in members if pod.status.phase != "Failed"] or list(members)
    meta, queue, size = first.metadata, _get_queue(first), group_size(first.metadata)
    for other in others:
        pair = f"pods '{meta.name}' and '{other.metadata.name}' has different"
        if _get_queue(other) != queue:
            return f"{pair} queue names: {queue}!={_get_queue(other)}"
        if group_size(other.metadata) != size:
            return f"{pair} '{POD_GROUP_TOTAL_COUNT}' values: {size}!={group_size(other.metadata)}"
    if sum(map(_may_run, counting)) < (1 if _is_admitted_early(first) else size):
        return f"'{name}' group has fewer runnable pods than expected"
    return "" if size else f"failed to extract '{POD_GROUP_TOTAL_COUNT}' annotation"


def _make_membership(name: str, members: tuple[Pod, ...], workload: Workload | None, now: datetime) -> GroupMembership:
    """Return the membership of a group without quota. The first pods have a place, up to the desired number."""
    complaint, able = _find_complaint(name, members), sorted(filter(_may_run, members), key=_rank_for_place)
    size = group_size(members[0].metadata) if not complaint else len(able)
    kept = sorted(able[:size], key=_make_age_key)
    podsets = _make_podsets(kept)
    if kept and _is_admitted_early(kept[0]):
        podsets = (_make_podset(role_of(kept[0]), kept[0], group_size(kept[0].metadata)),)
    if workload is not None and _map_counts(podsets) == _map_counts(workload.spec.pod_sets):
        podsets = workload.spec.pod_sets
    if len(podsets) > MAX_ROLES:
        complaint = f"pod group can't include more than {MAX_ROLES} roles"
    group = PodGroup(name, members, tuple(kept), podsets, now)
    gone = tuple(pod for pod in members if not _may_run(pod))
    return GroupMembership(group, tuple(able[size:]), gone, complaint=complaint)


def _divide_by_role(name: str, members: tuple[Pod, ...], workload: Workload, now: datetime) -> GroupMembership:
    """Return the membership of a group with quota, or with missing pods. Each role has a fixed number of places."""
    kept: list[Pod] = []
    excess: list[Pod] = []
    released: list[Pod] = []
    absent, strangers = 0, list(members)
    for podset in workload.spec.pod_sets:
        role = [pod for pod in strangers if role_of(pod) == podset.name]
        strangers = [pod for pod in strangers if role_of(pod) != podset.name]
        able = sorted(filter(_may_run, role), key=_rank_for_place)
        lost = sorted((pod for pod in role if not _may_run(pod)), key=lambda pod: _rank_lost(pod, now))
        kept += able[: podset.count]
        excess += able[podset.count :]
        # The pod that was lost first was replaced first; a pod without a replacement keeps its place.
        released += lost[: max(0, len(able) + len(lost) - podset.count)]
        if _is_admitted_early(members[0]):
            absent += 1 if podset.count and not able else 0
        else:
            absent += max(0, podset.count - len(able))
    able = sorted(filter(_may_run, strangers), key=_rank_for_place)
    excess += able[max(0, sum(podset.count for podset in workload.spec.pod_sets) - len(kept)) :]
    released += [pod for pod in strangers if not _may_run(pod)]
    group = PodGroup(name, members, tuple(sorted(kept, key=_make_age_key)), workload.spec.pod_sets, now)
    return GroupMembership(group, tuple(excess), tuple(released), absent)


def _is_given_up(members: Sequence[Pod], now: datetime) -> bool:
    """Return whether another client deleted all pods of the group, and none occupies a node any more."""
    return all(is_deleting(pod) and not was_told(pod) and not _occupies(pod, now) for pod in members)


# Observation.


class PodGroups:
    """The `Observable` for groups of pods."""

    def podsets(self, job: PodGroup) -> tuple[PodSet, ...]:
        """Return one podset for each role of the group."""
        return job.podsets

    def is_suspended(self, job: PodGroup) -> bool:
        """Return whether no pod of the group may run: each has ended, is being deleted, or is gated by the queue."""
        return all(
            is_finished(pod) or is_deleting(pod) or (is_held(pod) and not runs_elsewhere(pod)) for pod in job.members
        )

    def lacks_injection(self, job: PodGroup) -> bool:  # noqa: ARG002  (an integration's)
        """Return False: a group creates no pods, and running pods stay."""
        return False

    def is_active(self, job: PodGroup) -> bool:
        """Return whether some pod occupies its node, here or in another cluster."""
        return any(_occupies(pod, job.now) or runs_elsewhere(pod) for pod in job.members)

    def is_ready(self, job: PodGroup) -> bool:
        """Return whether all pods exist and are ready.

        A pod that has succeeded counts, unless it is to be replaced.
        """
        ready = all(is_ready(pod) or (_has_succeeded(pod) and not job.is_serving) for pod in job.pods)
        return ready and len(job.pods) >= job.size

    def end(self, job: PodGroup) -> End | None:
        """Return how the group ended; None if it has not. A group that serves never ends.

        A group has ended when all its pods have succeeded, or when none may run and a pod forbids replacements. A
        single pod ends with its phase.
        """
        if job.is_serving:
            return None
        if not job.name:
            status = job.first.status
            return End(status.phase == "Succeeded", status.message) if is_finished(job.first) else None
        succeeded = sum(map(_has_succeeded, job.members))
        goes_on = any(_may_run(pod) and not is_finished(pod) for pod in job.members)
        final = not goes_on and any(is_unretriable(pod.metadata) for pod in job.members)
        if succeeded < job.size and not final:
            return None
        return End(succeeded >= job.size, f"Pods succeeded: {succeeded}/{job.size}.")

    def reclaimable(self, job: PodGroup) -> tuple[ReclaimablePod, ...]:
        """Return how many pods of each role have succeeded, because their quota is free.

        The result is empty for a single pod and for a serving group.
        """
        if not job.name or job.is_serving:
            return ()
        done = Counter(role_of(pod) for pod in job.pods if _has_succeeded(pod))
        return tuple(ReclaimablePod(name=role, count=count) for role, count in sorted(done.items()))

    def started_at(self, job: PodGroup) -> datetime | None:
        """Return when the first pod was started; None if no pod was."""
        return min((pod.status.start_time for pod in job.pods if pod.status.start_time is not None), default=None)

    def priority_class(self, job: PodGroup) -> str:
        """Return the PriorityClass that the pods name."""
        return job.first.spec.priority_class_name


def occupied_until(group: PodGroup) -> datetime | None:
    """Return when the first deleted pod on a node becomes long overdue, and counts as lost; None without such a pod."""
    ending = (pod for pod in group.members if is_deleting(pod) and _occupies(pod, group.now))
    return min(map(_find_overdue_time, ending), default=None)


def runs_elsewhere(pod: Pod) -> bool:
    """Return whether the pod stays gated here and mirrors a pod in another cluster (MultiKueue)."""
    return is_held(pod) and pod.status.phase == "Running"


def was_told(pod: Pod) -> bool:
    """Return whether the engine has marked the pod for termination (condition TerminationTarget)."""
    condition = find_condition(pod, TERMINATION_TARGET)
    return condition is not None and condition.status == "True"


def with_replacements(status: WorkloadStatus, absent: int, now: datetime) -> WorkloadStatus:
    """Return the status with the condition that says whether pods must be replaced.

    Return the same object if nothing changes.
    """
    conditions, type = status.conditions, WAITING_FOR_REPLACEMENT_PODS
    if absent and (evicted := find_true(conditions, EVICTED)) is not None:
        conditions = put(conditions, type, True, evicted.reason, evicted.message, now)
    elif absent and not is_true(conditions, type):
        conditions = put(conditions, type, True, "PodsFailed", "Some Failed pods need replacement", now)
    elif not absent and find(conditions, type) is not None:
        conditions = put(conditions, type, False, PODS_READY, "No pods need replacement", now)
    return status if conditions is status.conditions else msgspec.structs.replace(status, conditions=conditions)


# Pods.


def _get_queue(pod: Pod) -> str:
    return pod.metadata.labels.get(QUEUE_NAME_LABEL, "")


def _is_admitted_early(pod: Pod) -> bool:
    """Return whether the pod's annotation requests quota for the group before all of its pods exist.

    All pods of such a group are alike.
    """
    return pod.metadata.annotations.get(POD_GROUP_FAST_ADMISSION) == "true"


def _has_succeeded(pod: Pod) -> bool:
    """Return whether the pod has succeeded, even if the engine was terminating it at that time."""
    return pod.status.phase == "Succeeded"


def _may_run(pod: Pod) -> bool:
    """Return whether the pod runs, may run later, or has succeeded.

    A pod that was deleted before it was bound never runs.
    """
    if is_finished(pod):
        return _has_succeeded(pod)
    return bool(pod.spec.node_name) or not is_deleting(pod)


def _occupies(pod: Pod, now: datetime) -> bool:
    """Return whether the pod is on a node and has not ended.

    A pod that is long overdue counts as lost with its node.
    """
    if not pod.spec.node_name or is_finished(pod):
        return False
    return not is_deleting(pod) or now <= _find_overdue_time(pod)


def _find_overdue_time(pod: Pod) -> datetime:
    """Return when the pod is long overdue: after twice its grace period (upstream)."""
    meta = pod.metadata
    assert meta.deletion_timestamp is not None, "only asked of pods that end"
    return meta.deletion_timestamp + timedelta(seconds=meta.deletion_grace_period_seconds or 0)


def _make_podsets(pods: Sequence[Pod]) -> tuple[PodSet, ...]:
    roles: dict[str, list[Pod]] = {}
    for pod in pods:
        roles.setdefault(role_of(pod), []).append(pod)
    return tuple(_make_podset(role, alike[0], len(alike)) for role, alike in sorted(roles.items()))


def describe_alike_pods(pod: Pod) -> PodSet:
    """Return the podset of a group whose pods are all like this one; of a single pod if its annotations name no group.

    Raises `QuantityError`.
    """
    count = group_size(pod.metadata)
    return _make_podset(role_of(pod) if count else MAIN_POD_SET, pod, count or 1)


def _make_podset(name: str, pod: Pod, count: int) -> PodSet:
    request = topology_request(pod.metadata.annotations, POD_GROUP_POD_INDEX_LABEL)
    return PodSet(name=name, template=PodTemplateSpec(spec=pod.spec), count=count, topology_request=request)


def _map_counts(podsets: Iterable[PodSet]) -> dict[str, int]:
    return {podset.name: podset.count for podset in podsets}


def _make_age_key(pod: Pod) -> tuple[object, ...]:
    return pod.metadata.creation_timestamp, pod.metadata.name


def _rank_for_place(pod: Pod) -> tuple[object, ...]:
    """Return the sort key that puts first the pods that get places in a group.

    Pods that still have the finalizer come first, then started pods, then older pods.
    """
    return MANAGED_FINALIZER not in pod.metadata.finalizers, is_held(pod), *_make_age_key(pod)


def _rank_lost(pod: Pod, now: datetime) -> tuple[object, ...]:
    """Return the sort key that puts first the pods that lose their places to replacements.

    Pods without the finalizer come first, then the pods that were lost first.
    """
    moments = [pod.metadata.deletion_timestamp] if pod.metadata.deletion_timestamp is not None else []
    condition = find_condition(pod, "ContainersReady")
    if condition is not None and condition.status == "False" and condition.last_transition_time is not None:
        moments.append(condition.last_transition_time)
    return MANAGED_FINALIZER in pod.metadata.finalizers, min(moments, default=now), *_make_age_key(pod)
