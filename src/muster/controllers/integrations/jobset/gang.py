"""The gang of a JobSet that asks for it: all its pods, over its Jobs, stage by stage. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, field

from muster.api.batch import JOB
from muster.api.conditions import is_true
from muster.api.core import Pod
from muster.api.jobset import JOB_SET, JobSet, ReplicatedJob, names
from muster.api.kinds import Kind
from muster.api.meta import controller_of
from muster.api.ours.elastic import GANG_ANNOTATION
from muster.api.pods import is_deleting
from muster.controllers.gangs import Due, GangSource, Members, Turn, by_age, one_by_one
from muster.jobs.jobset.gang import WHOLE, stages
from muster.jobs.jobset.size import pods_of_job
from muster.runtime.objects import key_of, meta_of


class _Job(Struct):
    """The pods of one Job. placed: whether it ran: what it lacks may never come, as where an index has failed."""

    unbound: list[Pod] = field(default_factory=list)
    bound: int = 0
    placed: bool = False

    def is_there(self, size: int) -> bool:
        """Whether it has all its pods, or had."""
        return self.placed or len(self.unbound) >= size


class JobSetGangs(GangSource[JobSet]):
    """JobSets whose pods say that they go together. The pods of others are in the gangs of their Jobs.

    A JobSet's status tells only which Jobs have succeeded, not which pods: so these are counted.
    """

    kinds: tuple[Kind[Any], ...] = (JOB_SET,)
    optional = True
    counts_others = True

    def key(self, pod: Pod) -> str:
        """`namespace/jobset/uid`."""
        if pod.metadata.annotations.get(GANG_ANNOTATION) != WHOLE:
            return ""
        owner, labels = controller_of(pod.metadata), pod.metadata.labels
        if owner is None or not JOB.is_of(owner):
            return ""
        name, uid = labels.get(names.JOBSET_NAME, ""), labels.get(names.JOBSET_UID, "")
        return f"{pod.metadata.namespace}/{name}/{uid}" if name and uid else ""

    def key_of(self, carrier: JobSet) -> str:
        """`namespace/jobset/uid`."""
        return f"{key_of(carrier)}/{meta_of(carrier).uid}"

    def due(self, carrier: JobSet | None, members: Members) -> Due:
        """Of each stage whose Jobs have all their pods those without a node, together."""
        if carrier is None:
            return Due()
        attempt = max(carrier.status.restarts, *map(_attempt, members.unbound))
        jobs = _jobs(members, attempt)
        turns: list[Turn] = []
        seen: set[str] = set()
        for role, stage in stages(carrier).items():
            if role not in seen:
                seen.update(one.name for one in stage)
                turns += _turn(carrier, stage, jobs)
        strangers = [pod for pod in members.unbound if _role(pod) not in seen]
        return Due((*turns, *one_by_one(strangers).turns))


def _turn(jobset: JobSet, stage: Sequence[ReplicatedJob], jobs: dict[str, dict[str, _Job]]) -> list[Turn]:
    """That of one stage; none if it has nothing to place, or lacks pods. What joins one that runs goes Job by Job."""
    known = {role.name: jobs.get(role.name, {}) for role in stage}
    runs = any(job.bound for found in known.values() for job in found.values())
    if not runs and not all(_is_complete(jobset, role, known[role.name]) for role in stage):
        return []
    there = [job for role in stage for job in known[role.name].values() if job.is_there(pods_of_job(role))]
    unbound = [pod for job in there for pod in job.unbound]
    return [Turn(tuple(by_age(unbound)), repairs=runs)] if unbound else []


def _is_complete(jobset: JobSet, role: ReplicatedJob, jobs: dict[str, _Job]) -> bool:
    """Whether all pods are there that are to run side by side; those of Jobs that have succeeded may be gone."""
    each = pods_of_job(role)
    if not all(job.is_there(each) for job in jobs.values()):
        return False
    ended = sum(not job.unbound and not job.bound for job in jobs.values())
    return role.replicas - len(jobs) <= max(0, _succeeded(jobset, role) - ended) or not each


def _succeeded(jobset: JobSet, role: ReplicatedJob) -> int:
    """How many Jobs of the role have; none while it restarts, for its status may still count those of before."""
    status = jobset.status
    if is_true(status.conditions, names.RESTARTING):
        return 0
    return next((record.succeeded for record in status.replicated_jobs_status if record.name == role.name), 0)


def _jobs(members: Members, attempt: int) -> dict[str, dict[str, _Job]]:
    """By role and index, what of this attempt has pods that are not on their way out."""
    found: dict[str, dict[str, _Job]] = {}

    def of(pods: Iterable[Pod]) -> Iterable[tuple[Pod, _Job]]:
        for pod in pods:
            if _attempt(pod) >= attempt and not is_deleting(pod):
                roles = found.setdefault(_role(pod), {})
                yield pod, roles.setdefault(pod.metadata.labels.get(names.JOB_INDEX, ""), _Job())

    for pod, job in of(members.unbound):
        job.unbound.append(pod)
    for _, job in of(members.bound):
        job.bound += 1
        job.placed = True
    for pod, job in of(members.others):
        job.placed |= bool(pod.spec.node_name)
    return found


def _role(pod: Pod) -> str:
    return pod.metadata.labels.get(names.REPLICATED_JOB_NAME, "")


def _attempt(pod: Pod) -> int:
    text = pod.metadata.labels.get(names.RESTART_ATTEMPT, "")
    return int(text) if text.isascii() and text.isdigit() else 0
