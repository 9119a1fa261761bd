"""PodGroups as people see them: how each does, of how many pods, and why it waits. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, to_builtins

from muster.api.conditions import find
from muster.api.core import Event, Pod
from muster.api.podgroups.kep import PodGroupPolicy
from muster.insight.text import age
from muster.jobs.podgroup.census import Census, count
from muster.jobs.podgroup.record import PodGroup, read
from muster.jobs.podgroup.reference import By, Reference, reference_of
from muster.jobs.podgroup.standing import Stage, standing

_WORDS = {
    Stage.EMPTY: "Empty",
    Stage.WAITING: "Waiting",
    Stage.READY: "Ready",
    Stage.BROKEN: "Broken",
    Stage.DONE: "Done",
}
MISSING = "Missing"  # pods name a group that there is not
FAILED = "Failed"  # its policy gave it up
HIDDEN = "Hidden"  # another group of the name has the pods


class View(Struct, frozen=True):
    """A group, or the name of one that there is not, and its pods.

    group: None if there is none.
    state, reason: how it does, and what keeps it; "" if nothing does.
    """

    namespace: str
    name: str
    group: PodGroup | None
    pods: tuple[Pod, ...]
    census: Census
    state: str
    reason: str


def views(groups: Sequence[Any], pods: Iterable[Pod], ways: Sequence[By]) -> list[View]:
    """All groups in the order of their names, and those that pods name in vain.

    groups: objects of the kinds, those that go first first. ways: those in which pods can name one.
    """
    members = defaultdict[tuple[str, str, By], list[Pod]](list)
    for pod in pods:
        reference = reference_of(pod, ways)
        if reference is not None and not reference.problem:
            members[_key(pod, reference)].append(pod)
    found, seen = [], dict[tuple[str, str, By], PodGroup]()
    for obj in groups:
        group = read(obj)
        key = group.namespace, group.name, group.by
        found.append(_hidden(group, seen[key]) if key in seen else _seen(group, members.pop(key, [])))
        seen.setdefault(key, group)
    found += [_missing(namespace, name, pods) for (namespace, name, _), pods in members.items() if _live(pods)]
    return sorted(found, key=lambda view: (view.namespace, view.name))


def _key(pod: Pod, reference: Reference) -> tuple[str, str, By]:
    return pod.metadata.namespace, reference.name, reference.by


def _seen(group: PodGroup, pods: Sequence[Pod]) -> View:
    now = standing(group, count(pods))
    state, reason = (FAILED, group.failed) if group.failed else (_WORDS[now.stage], now.message)
    return View(group.namespace, group.name, group, tuple(pods), now.census, state, reason)


def _hidden(group: PodGroup, first: PodGroup) -> View:
    reason = f"its pods are those of the PodGroup of the same name of {first.kind.group}"
    return View(group.namespace, group.name, group, (), Census(), HIDDEN, reason)


def _missing(namespace: str, name: str, pods: Sequence[Pod]) -> View:
    return View(
        namespace, name, None, tuple(pods), count(pods), MISSING, f"{len(pods)} pods name it, and it is not there"
    )


def _live(pods: Iterable[Pod]) -> bool:
    census = count(pods)
    return bool(census.pending or census.admitted)


def row(view: View, now: datetime) -> dict[str, Any]:
    """One line about a group, also for programs."""
    group, census = view.group, view.census
    return {
        "namespace": view.namespace,
        "name": view.name,
        "kind": group.kind.api_version if group is not None else "",
        "state": view.state,
        "minimum": group.min_members if group is not None else None,
        "pods": census.members,
        "bound": census.admitted,
        "running": census.running,
        "succeeded": census.succeeded,
        "failed": census.failed,
        "age": age(group.meta.creation_timestamp, now) if group is not None else "",
        "reason": view.reason,
    }


def detailed(view: View, events: Iterable[Event], now: datetime) -> dict[str, Any]:
    """All about a group: what it asks, its pods and what was said of it."""
    return row(view, now) | {
        "asks": _asked(view.group) if view.group is not None else {},
        "members": [_member(pod) for pod in sorted(view.pods, key=lambda pod: pod.metadata.name)],
        "events": [
            {
                "age": age(event.last_timestamp or event.event_time, now),
                "reason": event.reason,
                "message": event.message,
            }
            for event in events
        ],
    }


def _asked(group: PodGroup) -> dict[str, str]:
    """What a group asks for, beyond its minimum, in words."""
    asked = {
        "tasks": ", ".join(f"{task}: {least}" for task, least in sorted(group.roles.items())),
        "queue": group.queue,
        "priority": group.priority_class,
        "quota set aside": _amounts(group.total_resources),
        "at least": _amounts(group.min_resources),
        "topology": group.required_topology and f"in one {group.required_topology}",
        "topology wish": group.preferred_topology and f"in one {group.preferred_topology}",
        "below minimum": _policy(group.policy) if group.policy is not None else "",
    }
    return {word: value for word, value in asked.items() if value}


def _amounts(resources: Any) -> str:
    return ", ".join(f"{resource} {quantity}" for resource, quantity in sorted(to_builtins(resources).items()))


def _policy(policy: PodGroupPolicy) -> str:
    limits = []
    if policy.max_restarts is not None:
        limits.append(f"at most {policy.max_restarts} restarts")
    if policy.backoff_seconds is not None:
        limits.append(f"after {policy.backoff_seconds}s")
    return ", ".join([policy.on_below_min, *limits])


def _member(pod: Pod) -> dict[str, str]:
    scheduled = find(pod.status.conditions, "PodScheduled")
    told = scheduled.message if scheduled is not None and scheduled.status == "False" else ""
    gone = pod.metadata.deletion_timestamp is not None
    return {
        "name": pod.metadata.name,
        "phase": "Terminating" if gone else pod.status.phase,
        "node": pod.spec.node_name,
        "reason": pod.status.reason or told,
    }
