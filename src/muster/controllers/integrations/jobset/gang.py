"""Define the gang of a JobSet that requests one gang: all pods of all its Jobs, stage by stage. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from muster.api.batch import JOB, comes_in_waves, pods_at_once
from muster.api.conditions import is_true
from muster.api.core import Pod
from muster.api.jobset import JOB_SET, JobSet, ReplicatedJob, names
from muster.api.kinds import Kind
from muster.api.meta import controller_of
from muster.api.ours.elastic import GANG_ANNOTATION
from muster.api.pods import is_deleting
from muster.controllers.gangs import DueTurns, GangSource, Members, Turn, by_age, one_by_one, owner_uid, wave_of
from muster.controllers.integrations.job.gang import failed_indexes
from muster.gang.demands import Demand
from muster.jobs.jobset.gang import WHOLE, find_stages
from muster.jobs.jobset.size import pods_of_job
from muster.runtime.objects import key_of, meta_of


class _Job(Struct):
    """The state of the pods of one Job.

    has_run: whether the Job has run before. Then missing pods may never be created, for example because an index has
    failed.
    done: how many pods the Job does not create again, because they have succeeded or their indexes have failed.
    """

    unbound: list[Pod] = field(default_factory=list)
    bound: int = 0
    has_run: bool = False
    done: int = 0

    def is_there(self, role: ReplicatedJob) -> bool:
        """Return whether all pods of the Job exist or existed."""
        return self.has_run or len(self.unbound) >= pods_at_once(role.template.spec, self.done)


class JobSetGangs(GangSource[JobSet]):
    """The gangs of JobSets whose pods have the gang annotation.

    The pods of other JobSets are in the gangs of their Jobs. The number of succeeded pods is read from the Jobs,
    because the status of a JobSet counts only Jobs.
    """

    kinds: tuple[Kind[Any], ...] = (JOB_SET,)
    optional = True
    counts_others = True

    def key(self, pod: Pod) -> str:
        """Return the key of the pod's gang: `namespace/jobset/uid`; "" if its JobSet does not request one gang."""
        if pod.metadata.annotations.get(GANG_ANNOTATION) != WHOLE:
            return ""
        owner, labels = controller_of(pod.metadata), pod.metadata.labels
        if owner is None or not JOB.is_of(owner):
            return ""
        name, uid = labels.get(names.JOBSET_NAME, ""), labels.get(names.JOBSET_UID, "")
        return f"{pod.metadata.namespace}/{name}/{uid}" if name and uid else ""

    def key_of(self, carrier: JobSet) -> str:
        """Return the key of the JobSet's gang: `namespace/jobset/uid`."""
        return f"{key_of(carrier)}/{meta_of(carrier).uid}"

    def members(self, carrier: JobSet, pods: Iterable[Pod]) -> list[Pod]:
        """Return the pods of the newest attempt of the JobSet."""
        pods = list(pods)
        newest = _find_newest_attempt(carrier, pods)
        return [pod for pod in pods if _attempt(pod) >= newest]

    def due(self, carrier: JobSet | None, members: Members) -> DueTurns:
        """Return the turns (sets of pods to place): the pods of a stage together, when its Jobs have created all."""
        if carrier is None:
            return DueTurns()
        jobs = _collect_jobs(members, _find_newest_attempt(carrier, members.unbound))
        turns: list[Turn] = []
        seen: set[str] = set()
        for role, stage in find_stages(carrier).items():
            if role not in seen:
                seen.update(one.name for one in stage)
                turns += _list_turns(carrier, stage, jobs)
        turns.sort(key=lambda turn: not turn.repairs)  # before turns of a next wave of an earlier stage
        without_role = [pod for pod in members.unbound if _get_role(pod) not in seen]
        return DueTurns((*turns, *one_by_one(without_role).turns))


def _list_turns(jobset: JobSet, stage: Sequence[ReplicatedJob], jobs: dict[str, dict[str, _Job]]) -> Iterator[Turn]:
    """Yield the turns of one stage; none if no pod is to be placed, or if pods are not created yet.

    Lost pods of a running stage are replaced Job by Job. The next waves of a Job do not wait for other pods.
    """
    known = {role.name: jobs.get(role.name, {}) for role in stage}
    runs = any(job.bound for jobs_of_role in known.values() for job in jobs_of_role.values())
    if not runs and not all(_is_complete(jobset, role, known[role.name]) for role in stage):
        return
    together: list[Pod] = []
    waves: list[Pod] = []
    for role in stage:
        for job in known[role.name].values():
            if job.is_there(role):
                (waves if job.has_run and comes_in_waves(role.template.spec) else together).extend(job.unbound)
    if together:
        yield Turn(tuple(by_age(together)), demand=Demand.REPAIR if runs else Demand.START)
    yield from wave_of(waves)


def _is_complete(jobset: JobSet, role: ReplicatedJob, jobs: dict[str, _Job]) -> bool:
    """Return whether all pods of a role that should run at once exist. Pods of succeeded Jobs may be deleted."""
    if not all(job.is_there(role) for job in jobs.values()):
        return False
    ended = sum(not job.unbound and not job.bound for job in jobs.values())
    return role.replicas - len(jobs) <= max(0, _count_succeeded(jobset, role) - ended) or not pods_of_job(role)


def _count_succeeded(jobset: JobSet, role: ReplicatedJob) -> int:
    """Return how many Jobs of the role have succeeded; 0 during a restart.

    During a restart, the status may still count Jobs of the previous attempt.
    """
    status = jobset.status
    if is_true(status.conditions, names.RESTARTING):
        return 0
    return next((record.succeeded for record in status.replicated_jobs_status if record.name == role.name), 0)


def _collect_jobs(members: Members, attempt: int) -> dict[str, dict[str, _Job]]:
    """Return the Jobs that have pods of this attempt, by role and Job index. Pods being deleted do not count."""
    jobs_by_role: dict[str, dict[str, _Job]] = {}
    done = {job.metadata.uid: job.status.succeeded + len(failed_indexes(job)) for job in members.jobs}

    def of(pods: Iterable[Pod]) -> Iterable[tuple[Pod, _Job]]:
        for pod in pods:
            if _attempt(pod) >= attempt and not is_deleting(pod):
                roles = jobs_by_role.setdefault(_get_role(pod), {})
                yield pod, roles.setdefault(pod.metadata.labels.get(names.JOB_INDEX, ""), _Job())

    for pod, job in of(members.unbound):
        job.unbound.append(pod)
        job.done = done.get(owner_uid(pod), 0)
    for _, job in of(members.bound):
        job.bound += 1
        job.has_run = True
    for pod, job in of(members.others):
        job.has_run |= bool(pod.spec.node_name)
    return jobs_by_role


def _get_role(pod: Pod) -> str:
    return pod.metadata.labels.get(names.REPLICATED_JOB_NAME, "")


def _find_newest_attempt(jobset: JobSet, pods: Iterable[Pod]) -> int:
    """Return the attempt of the newest pods. The JobSet in the cache may be older than its pods.

    Suspensions do not count as attempts here. JobSet's own controller, which may run the JobSet now, does not count
    them in the labels of pods.
    """
    return max([jobset.status.restarts, *map(_attempt, pods)])


def _attempt(pod: Pod) -> int:
    text = pod.metadata.labels.get(names.RESTART_ATTEMPT, "")
    return int(text) if text.isascii() and text.isdigit() else 0
