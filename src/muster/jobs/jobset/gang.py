"""Which pods of a JobSet are one gang: on request all of them, over its Jobs. Pure.

A JobSet asks by the annotation `muster.dev/gang: "true"`; without it each of its Jobs is a gang of its own. Where a
group starts together (`groupSchedulingConfig`), the pods of the group are the gang. Roles that are not there yet, for
they wait for others, do not count: those that wait for the same are a stage, and go together.
"""

from collections.abc import Mapping

from muster.api.jobset import JobSet, ReplicatedJob
from muster.api.ours.elastic import GANG_ANNOTATION
from muster.jobs.jobset.start.group import is_target, status_of, targets
from muster.jobs.jobset.terms import is_in_order

# On the pods of a JobSet that asks for it.
WHOLE = "true"


def pod_annotations(jobset: JobSet, role: ReplicatedJob) -> dict[str, str]:
    """What the pods of a role get, so that the scheduler knows that they are placed together with those of others."""
    return {GANG_ANNOTATION: WHOLE} if _asks(jobset) and _is_member(jobset, role) else {}


def stages(jobset: JobSet) -> Mapping[str, tuple[ReplicatedJob, ...]]:
    """By role, the members that start at the same time as it."""
    members = [role for role in jobset.spec.replicated_jobs if _is_member(jobset, role)]
    found: dict[object, list[ReplicatedJob]] = {}
    for role in members:
        found.setdefault(_waits_for(jobset, role), []).append(role)
    return {role.name: tuple(stage) for stage in found.values() for role in stage}


def is_one_gang(jobset: JobSet) -> bool:
    """Whether all its pods get nodes at once, or none does: where it asks for it, and where it is one Job."""
    roles = jobset.spec.replicated_jobs
    if _asks(jobset):
        stage = stages(jobset)
        return all(len(stage.get(role.name, ())) == len(roles) for role in roles)
    alone = len(roles) == 1 and roles[0].replicas == 1
    return alone and roles[0].template.metadata.annotations.get(GANG_ANNOTATION) != "false"


def at_once(jobset: JobSet) -> frozenset[str]:
    """The roles whose pods must all have nodes at the same time: those of one gang, or of a group that waits for it."""
    if is_one_gang(jobset):
        return frozenset(role.name for role in jobset.spec.replicated_jobs)
    status = status_of(jobset)
    waits = status.released_epoch < status.epoch
    return frozenset(role.name for role in targets(jobset.spec)) if waits else frozenset()


def _asks(jobset: JobSet) -> bool:
    return jobset.metadata.annotations.get(GANG_ANNOTATION) == WHOLE


def _is_member(jobset: JobSet, role: ReplicatedJob) -> bool:
    return jobset.spec.group_scheduling_config is None or is_target(jobset.spec, role.name)


def _waits_for(jobset: JobSet, role: ReplicatedJob) -> object:
    if is_in_order(jobset):
        return role.name
    return frozenset((needed.name, needed.status) for needed in role.depends_on)
