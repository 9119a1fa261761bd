"""Define the gang of a PodGroup: as many pods as its minimum start together, further pods one by one. Pure.

The pods may have any owners.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from muster.api.core import Pod
from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta
from muster.api.podgroups.names import TASK_SPEC_ANNOTATION
from muster.api.pods import is_finished
from muster.controllers.gangs import (
    PATIENCE_SECONDS,
    DueTurns,
    GangSource,
    Members,
    Turn,
    by_age,
    one_by_one,
    read_recorded_size,
)
from muster.controllers.intents import find_unfinished_start
from muster.gang.demands import Demand
from muster.gang.quorum import Quorum, find_fewest
from muster.gang.topology import TopologyConstraint
from muster.jobs.podgroup.readiness import PodCounts, still_needed
from muster.jobs.podgroup.record import KINDS, NATIVE, PodGroup, read
from muster.jobs.podgroup.reference import By, reference_of
from muster.runtime.objects import meta_of


class PodGroups(GangSource[Any]):
    """The gangs of PodGroups of every dialect. A pod that names a PodGroup is in no other gang.

    native: whether Kubernetes' own PodGroups count. If not, pods that name one have no gang, as in upstream while the
    feature is off.
    """

    counts_others = True
    optional = True

    def __init__(self, *, native: bool = False) -> None:
        self._kinds = tuple(kind for kind in KINDS if native or kind != NATIVE)
        self._ways = tuple(by for by in By if native or by is not By.FIELD)

    @property
    def kinds(self) -> tuple[Kind[Any], ...]:
        """The PodGroup kinds of the enabled dialects.

        If several PodGroups match a pod's reference, the PodGroup whose kind is listed first counts.
        """
        return self._kinds

    def key(self, pod: Pod) -> str:
        """Return the key of the pod's gang: `namespace/group/way`; "" if the pod names no PodGroup.

        `way` is the way in which the pod names its group, which determines the kinds of the group. A pod that names
        several groups gets a key of its own.
        """
        reference = reference_of(pod, self._ways)
        if reference is None:
            return ""
        meta = pod.metadata
        if reference.problem:
            return f"{meta.namespace}/{meta.name}/refused-{meta.uid}"
        return f"{meta.namespace}/{reference.name}/{reference.by}"

    def key_of(self, carrier: Any) -> str:
        """Return the key of the PodGroup's gang: `namespace/group/way`."""
        group = read(carrier)
        return f"{group.namespace}/{group.name}/{group.by}"

    def needs(self, carrier: Any, pods: Collection[Pod]) -> tuple[Quorum, ...]:
        """Return the quorums that a running PodGroup needs to continue: its minimum, and the minimum of each task."""
        group = read(carrier)
        tasks = [
            _make_quorum((pod for pod in pods if pod.metadata.annotations.get(TASK_SPEC_ANNOTATION) == task), least)
            for task, least in sorted(group.roles.items())
        ]
        return (_make_quorum(pods, group.min_members), *tasks)

    def patience(self, carrier: Any) -> float:
        """Return for how many seconds the pods of a partly bound group may wait for the others."""
        return float(read(carrier).schedule_timeout_seconds or PATIENCE_SECONDS)

    def due(self, carrier: Any | None, members: Members) -> DueTurns:
        """Return the turns (sets of pods to place): enough pods for the minimum together, then further pods singly."""
        reference = reference_of(members.first, self._ways)
        assert reference is not None, "pods without one have no key here"
        if reference.problem:
            return DueTurns(lacking=reference.problem)
        if carrier is None:
            return DueTurns(lacking=f'PodGroup "{reference.name}" not found')
        return _find_due(read(carrier), members, started=_has_started(meta_of(carrier), members))


def _has_started(carrier: ObjectMeta, members: Members) -> bool:
    """Return whether all pods of the group's start were bound. After an interrupted start, some are still unbound."""
    return read_recorded_size(carrier) is not None and not find_unfinished_start(
        carrier, members.bound, members.unbound
    )


def _find_due(group: PodGroup, members: Members, *, started: bool) -> DueTurns:
    """Return the turns of a group to place now.

    started: whether the whole group ran before, so that replacements are placed as soon as they are created.
    """
    if group.failed:
        return DueTurns(lacking=f'PodGroup "{group.name}" has failed: {group.failed}')
    runs = bool(members.bound)
    waiting = tuple(pod for pod in members.others if _waits(pod))
    tally = PodCounts(len(members.bound), len(members.unbound) + len(waiting), members.count_succeeded())
    needed, there = still_needed(group.min_members, tally), len(members.unbound)
    if needed is None or needed > there:
        if not (runs and started):
            return DueTurns(lacking=_format_missing(group, tally, waiting))
        needed = there
    quorums = [_make_quorum(members.unbound, needed)] if needed else []
    for task, least in sorted(group.roles.items()):
        of_task = _of_task(members, task)
        lacking, there = still_needed(least, of_task.tally), len(of_task.unbound)
        if lacking is None or lacking > there:
            if not (runs and started):
                return DueTurns(lacking=_format_missing_of_task(group, task, least, of_task.tally))
            lacking = there
        if lacking:
            quorums.append(_make_quorum(of_task.unbound, lacking))
    if runs:
        return _find_joining(group, members, quorums)
    if not quorums:
        return one_by_one(members.unbound, surplus=bool(group.min_members), topology=find_topology(group))
    return DueTurns((Turn(tuple(by_age(members.unbound)), tuple(quorums), find_topology(group)),))


def _find_joining(group: PodGroup, members: Members, quorums: Sequence[Quorum]) -> DueTurns:
    """Return the turns for pods that join a running group: first the needed pods together, then the others singly."""
    pods, topology = by_age(members.unbound), find_topology(group)
    needed = find_fewest([pod.metadata.uid for pod in pods], quorums)
    repair = tuple(pod for pod in pods if pod.metadata.uid in needed)
    more = [pod for pod in pods if pod.metadata.uid not in needed]
    growth = one_by_one(more, surplus=bool(group.min_members), topology=topology, demand=Demand.GROWTH).turns
    return DueTurns((Turn(repair, topology=topology, demand=Demand.REPAIR), *growth) if repair else growth)


def _format_missing_of_task(group: PodGroup, task: str, least: int, tally: PodCounts) -> str:
    needs = f'PodGroup "{group.name}" needs {_format_count(least)} of task "{task}"'
    return f"{needs}: {_are_there(tally.allocated + tally.pending + tally.succeeded)}"


def _waits(pod: Pod) -> bool:
    """Return whether the pod could still get a node: from another scheduler, or when its gates are removed."""
    return not is_finished(pod) and pod.metadata.deletion_timestamp is None and not pod.spec.node_name


def _format_missing(group: PodGroup, tally: PodCounts, waiting: Sequence[Pod]) -> str:
    there = tally.allocated + tally.pending + tally.succeeded
    gated = sum(bool(pod.spec.scheduling_gates) for pod in waiting)
    more = [f"{gated} of them gated"] if gated else []
    if others := len(waiting) - gated:
        more.append(f"{others} waiting for another scheduler")
    return f'PodGroup "{group.name}" needs {_format_count(group.min_members)}: {", ".join([_are_there(there), *more])}'


def _format_count(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"


def _are_there(number: int) -> str:
    return "1 is there" if number == 1 else f"{number} are there"


def _make_quorum(pods: Iterable[Pod], least: int) -> Quorum:
    return Quorum(frozenset(pod.metadata.uid for pod in pods), least)


class _Task(Members, frozen=True):
    """The pods of one task of a group."""

    @property
    def tally(self) -> PodCounts:
        """How many pods of the task are bound, may still get a node, and have succeeded."""
        pending = len(self.unbound) + sum(_waits(pod) for pod in self.others)
        return PodCounts(len(self.bound), pending, self.count_succeeded())


def _of_task(members: Members, task: str) -> _Task:
    def is_of_task(meta: ObjectMeta) -> bool:
        return meta.annotations.get(TASK_SPEC_ANNOTATION) == task

    def of_task(pods: Iterable[Pod]) -> tuple[Pod, ...]:
        return tuple(pod for pod in pods if is_of_task(pod.metadata))

    jobs = tuple(job for job in members.jobs if is_of_task(job.spec.template.metadata))
    return _Task(of_task(members.unbound), of_task(members.bound), of_task(members.others), jobs)


def find_topology(group: PodGroup) -> TopologyConstraint | None:
    """Return how close to each other the pods of a group must be; None if the group requests no topology."""
    level = group.required_topology or group.preferred_topology
    if not level:
        return None
    return TopologyConstraint((level,), required=group.required_topology, preferred=group.preferred_topology)
