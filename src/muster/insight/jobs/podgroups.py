"""PodGroups in the form that users see: the state of each, its number of pods, and why it waits. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, to_builtins

from muster.api.conditions import find
from muster.api.core import Event, Pod
from muster.api.kueue.names import POD_GROUP_NAME_LABEL
from muster.api.podgroups.kep import PodGroupPolicy
from muster.insight.text import format_age
from muster.jobs.podgroup.census import Census, count
from muster.jobs.podgroup.groupstate import Stage, find_state
from muster.jobs.podgroup.record import PodGroup, read
from muster.jobs.podgroup.reference import By, GroupReference, reference_of

_WORDS = {
    Stage.EMPTY: "Empty",
    Stage.WAITING: "Waiting",
    Stage.READY: "Ready",
    Stage.BROKEN: "Broken",
    Stage.DONE: "Done",
}
MISSING = "Missing"  # pods name a group that does not exist
FAILED = "Failed"  # its policy failed it
HIDDEN = "Hidden"  # another group of the same name has the pods


class PodGroupView(Struct, frozen=True):
    """A PodGroup with its pods, a pod group of Kueue that does not queue yet, or a missing group that pods name.

    group: the PodGroup; None if it does not exist.
    state, reason: the group's state and what it waits for; `reason` is "" if it does not wait.
    queues_with: the number of pods with which a pod group of Kueue queues; None for a PodGroup.
    """

    namespace: str
    name: str
    group: PodGroup | None
    pods: tuple[Pod, ...]
    census: Census
    state: str
    reason: str
    queues_with: int | None = None


def view_groups(groups: Sequence[Any], pods: Iterable[Pod], ways: Sequence[By]) -> list[PodGroupView]:
    """Return a view for each PodGroup, and for each name that pods use although no such PodGroup exists.

    groups: PodGroups of all dialects; if two have one name, the first one gets the pods.
    ways: the labels and annotations with which pods can name a group.
    """
    members = defaultdict[tuple[str, str, By], list[Pod]](list)
    for pod in pods:
        reference = reference_of(pod, ways)
        if reference is not None and not reference.problem:
            members[_make_key(pod, reference)].append(pod)
    views, group_of = [], dict[tuple[str, str, By], PodGroup]()
    for obj in groups:
        group = read(obj)
        key = group.namespace, group.name, group.by
        views.append(
            _view_hidden_group(group, group_of[key]) if key in group_of else _view_group(group, members.pop(key, []))
        )
        group_of.setdefault(key, group)
    views += [
        _view_missing_group(namespace, name, pods)
        for (namespace, name, _), pods in members.items()
        if _is_any_live(pods)
    ]
    return views


def view_unqueued_groups(pods: Iterable[Pod], queued: Collection[tuple[str, str]]) -> list[PodGroupView]:
    """Return a view for each pod group of Kueue that lacks a Workload, because too few of its pods exist.

    queued: the namespace and name of each Workload.
    """
    from muster.insight.jobs.unqueued import explain_unqueued, find_unqueued_groups  # importing it is slow

    return [
        PodGroupView(
            group.namespace,
            group.name,
            None,
            group.pods,
            count(group.pods),
            _WORDS[Stage.WAITING],
            explain_unqueued(group),
            queues_with=group.size,
        )
        for group in find_unqueued_groups(pods, queued)
    ]


def _make_key(pod: Pod, reference: GroupReference) -> tuple[str, str, By]:
    return pod.metadata.namespace, reference.name, reference.by


def _view_group(group: PodGroup, pods: Sequence[Pod]) -> PodGroupView:
    now = find_state(group, count(pods))
    state, reason = (FAILED, group.failed) if group.failed else (_WORDS[now.stage], now.message)
    return PodGroupView(group.namespace, group.name, group, tuple(pods), now.census, state, reason)


def _view_hidden_group(group: PodGroup, first: PodGroup) -> PodGroupView:
    reason = f"its pods are those of the PodGroup of the same name of {first.kind.group}"
    return PodGroupView(group.namespace, group.name, group, (), Census(), HIDDEN, reason)


def _view_missing_group(namespace: str, name: str, pods: Sequence[Pod]) -> PodGroupView:
    return PodGroupView(
        namespace, name, None, tuple(pods), count(pods), MISSING, f"{len(pods)} pods name it, and it is not there"
    )


def _is_any_live(pods: Iterable[Pod]) -> bool:
    census = count(pods)
    return bool(census.pending or census.admitted)


def make_row(view: PodGroupView, now: datetime) -> dict[str, Any]:
    """Return the row of a group, for tables and for JSON: its names and state, and the counts of its pods."""
    group, census = view.group, view.census
    return {
        "namespace": view.namespace,
        "name": view.name,
        "kind": _get_kind(view),
        "state": view.state,
        "minimum": group.min_members if group is not None else view.queues_with,
        "pods": census.members,
        "bound": census.admitted,
        "running": census.running,
        "succeeded": census.succeeded,
        "failed": census.failed,
        "age": format_age(created, now) if (created := find_creation(view)) is not None else "",
        "reason": view.reason,
    }


def _get_kind(view: PodGroupView) -> str:
    """Return the API version of a PodGroup, the label of a pod group of Kueue, or "" for a missing group."""
    if view.group is not None:
        return view.group.kind.api_version
    return POD_GROUP_NAME_LABEL if view.queues_with is not None else ""


def find_creation(view: PodGroupView) -> datetime | None:
    """Return when a PodGroup or, without one, its first pod was created; None if that is unknown."""
    if view.group is not None:
        return view.group.meta.creation_timestamp
    times = [pod.metadata.creation_timestamp for pod in view.pods]
    return min((at for at in times if at is not None), default=None)


def make_details(view: PodGroupView, events: Iterable[Event], now: datetime) -> dict[str, Any]:
    """Return all details of a group: its requests, its pods, and its Events."""
    return make_row(view, now) | {
        "asks": _describe_demands(view.group) if view.group is not None else {},
        "members": [_make_member_row(pod) for pod in sorted(view.pods, key=lambda pod: pod.metadata.name)],
        "events": [
            {
                "age": format_age(event.last_timestamp or event.event_time, now),
                "reason": event.reason,
                "message": event.message,
            }
            for event in events
        ],
    }


def _describe_demands(group: PodGroup) -> dict[str, str]:
    """Return as phrases, by topic, the demands of a PodGroup other than its minimum number of pods.

    Topics are its queue, quota, topology and others; a topic without a demand is left out or "".
    """
    demands = {
        "tasks": ", ".join(f"{task}: {least}" for task, least in sorted(group.roles.items())),
        "queue": group.queue,
        "priority": group.priority_class,
        "quota set aside": _format_amounts(group.total_resources),
        "at least": _format_amounts(group.min_resources),
        "topology": group.required_topology and f"in one {group.required_topology}",
        "topology wish": group.preferred_topology and f"in one {group.preferred_topology}",
        "below minimum": _describe_policy(group.policy) if group.policy is not None else "",
    }
    return {word: value for word, value in demands.items() if value}


def _format_amounts(resources: Any) -> str:
    return ", ".join(f"{resource} {quantity}" for resource, quantity in sorted(to_builtins(resources).items()))


def _describe_policy(policy: PodGroupPolicy) -> str:
    limits = []
    if policy.max_restarts is not None:
        limits.append(f"at most {policy.max_restarts} restarts")
    if policy.backoff_seconds is not None:
        limits.append(f"after {policy.backoff_seconds}s")
    return ", ".join([policy.on_below_min, *limits])


def _make_member_row(pod: Pod) -> dict[str, str]:
    scheduled = find(pod.status.conditions, "PodScheduled")
    message = scheduled.message if scheduled is not None and scheduled.status == "False" else ""
    is_terminating = pod.metadata.deletion_timestamp is not None
    return {
        "name": pod.metadata.name,
        "phase": "Terminating" if is_terminating else pod.status.phase,
        "node": pod.spec.node_name,
        "reason": pod.status.reason or message,
    }
