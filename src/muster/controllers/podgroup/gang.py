"""The gang of a PodGroup: its minimum starts together, of pods of any owner; what is above it, one by one. Pure."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from muster.api.core import Pod
from muster.api.kinds import Kind
from muster.api.podgroups.names import TASK_SPEC_ANNOTATION
from muster.api.pods import is_finished
from muster.controllers.gangs import PATIENCE_SECONDS, Due, GangSource, Members, Turn, by_age, one_by_one
from muster.gang.quorum import Quorum
from muster.gang.topology import TopologyConstraint
from muster.jobs.podgroup.readiness import Tally, still_needed
from muster.jobs.podgroup.record import KINDS, NATIVE, PodGroup, read
from muster.jobs.podgroup.reference import By, reference_of


class PodGroups(GangSource[Any]):
    """PodGroups of every dialect. A pod that names one is in no other gang.

    native: Kubernetes' own, too; else what pods say of them means nothing, as it does there while the feature is off.
    """

    counts_others = True
    optional = True

    def __init__(self, *, native: bool = False) -> None:
        self._kinds = tuple(kind for kind in KINDS if native or kind != NATIVE)
        self._ways = tuple(by for by in By if native or by is not By.FIELD)

    @property
    def kinds(self) -> tuple[Kind[Any], ...]:
        """All dialects; of one name, the first."""
        return self._kinds

    def key(self, pod: Pod) -> str:
        """`namespace/group/way`: a name means a group of those kinds that are named in that way."""
        reference = reference_of(pod, self._ways)
        if reference is None:
            return ""
        meta = pod.metadata
        if reference.problem:
            return f"{meta.namespace}/{meta.name}/refused-{meta.uid}"
        return f"{meta.namespace}/{reference.name}/{reference.by}"

    def key_of(self, carrier: Any) -> str:
        """`namespace/group/way`."""
        group = read(carrier)
        return f"{group.namespace}/{group.name}/{group.by}"

    def needs(self, carrier: Any, pods: Collection[Pod]) -> tuple[Quorum, ...]:
        """Its minimum, and that of each task."""
        group = read(carrier)
        tasks = [
            _quorum((pod for pod in pods if pod.metadata.annotations.get(TASK_SPEC_ANNOTATION) == task), least)
            for task, least in sorted(group.roles.items())
        ]
        return (_quorum(pods, group.min_members), *tasks)

    def patience(self, carrier: Any) -> float:
        """As long as its pods may wait for each other."""
        return float(read(carrier).schedule_timeout_seconds or PATIENCE_SECONDS)

    def due(self, carrier: Any | None, members: Members) -> Due:
        """Enough of the pods together; what is there beyond them, or comes later, one by one."""
        reference = reference_of(members.first, self._ways)
        assert reference is not None, "pods without one have no key here"
        if reference.problem:
            return Due(lacking=reference.problem)
        if carrier is None:
            return Due(lacking=f'PodGroup "{reference.name}" not found')
        return _due(read(carrier), members)


def _due(group: PodGroup, members: Members) -> Due:
    if group.failed:
        return Due(lacking=f'PodGroup "{group.name}" has failed: {group.failed}')
    waiting = tuple(pod for pod in members.others if _waits(pod))
    tally = Tally(len(members.bound), len(members.unbound) + len(waiting), len(members.succeeded))
    needed = still_needed(group.min_members, tally)
    if needed is None or needed > len(members.unbound):
        return Due(lacking=_too_few(group, tally, waiting))
    quorums = [_quorum(members.unbound, needed)] if needed else []
    for task, least in sorted(group.roles.items()):
        of_task = _of_task(members, task)
        lacking = still_needed(least, of_task.tally)
        if lacking is None or lacking > len(of_task.unbound):
            there = of_task.tally.allocated + of_task.tally.pending + of_task.tally.succeeded
            needs = f'PodGroup "{group.name}" needs {_pods(least)} of task "{task}"'
            return Due(lacking=f"{needs}: {_are_there(there)}")
        if lacking:
            quorums.append(_quorum(of_task.unbound, lacking))
    if not quorums:
        return one_by_one(members.unbound, surplus=bool(group.min_members), topology=_topology(group))
    turn = Turn(tuple(by_age(members.unbound)), tuple(quorums), _topology(group), repairs=bool(members.bound))
    return Due((turn,))


def _waits(pod: Pod) -> bool:
    """Whether it could still get a node: from another scheduler, or once its gates are gone."""
    return not is_finished(pod) and pod.metadata.deletion_timestamp is None and not pod.spec.node_name


def _too_few(group: PodGroup, tally: Tally, waiting: Sequence[Pod]) -> str:
    there = tally.allocated + tally.pending + tally.succeeded
    gated = sum(bool(pod.spec.scheduling_gates) for pod in waiting)
    more = [f"{gated} of them gated"] if gated else []
    if others := len(waiting) - gated:
        more.append(f"{others} waiting for another scheduler")
    return f'PodGroup "{group.name}" needs {_pods(group.min_members)}: {", ".join([_are_there(there), *more])}'


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"


def _are_there(number: int) -> str:
    return "1 is there" if number == 1 else f"{number} are there"


def _quorum(pods: Iterable[Pod], least: int) -> Quorum:
    return Quorum(frozenset(pod.metadata.uid for pod in pods), least)


class _Task(Members, frozen=True):
    """The pods of one task."""

    @property
    def tally(self) -> Tally:
        """Their number."""
        pending = len(self.unbound) + sum(_waits(pod) for pod in self.others)
        return Tally(len(self.bound), pending, len(self.succeeded))


def _of_task(members: Members, task: str) -> _Task:
    def of_task(pods: Iterable[Pod]) -> tuple[Pod, ...]:
        return tuple(pod for pod in pods if pod.metadata.annotations.get(TASK_SPEC_ANNOTATION) == task)

    return _Task(of_task(members.unbound), of_task(members.bound), of_task(members.others))


def _topology(group: PodGroup) -> TopologyConstraint | None:
    level = group.required_topology or group.preferred_topology
    if not level:
        return None
    return TopologyConstraint((level,), required=group.required_topology, preferred=group.preferred_topology)
