"""Decide which pods of a JobSet form one gang: on request, all pods of all its Jobs. Pure.

A JobSet requests that with the annotation `muster.dev/gang: "true"`. Without the annotation, each of its Jobs is a gang
of its own. If a group starts together (`groupSchedulingConfig`), the pods of the group are the gang. Roles that wait
for other roles are not part of the gang yet: roles that wait for the same condition form a stage, and are placed
together.
"""

from collections.abc import Mapping

from muster.api.jobset import JobSet, ReplicatedJob
from muster.api.ours.elastic import GANG_ANNOTATION
from muster.jobs.jobset.start.group import find_target_roles, is_target, status_of
from muster.jobs.jobset.terms import is_in_order

# The annotation's value on the pods of a JobSet that requests one gang.
WHOLE = "true"


def pod_annotations(jobset: JobSet, role: ReplicatedJob) -> dict[str, str]:
    """Return the annotations that make the scheduler place the pods of a role together with other roles."""
    return {GANG_ANNOTATION: WHOLE} if _is_gang(jobset) and _is_member(jobset, role) else {}


def find_stages(jobset: JobSet) -> Mapping[str, tuple[ReplicatedJob, ...]]:
    """Return, for each role of the gang, the roles that start together with it, including itself."""
    members = [role for role in jobset.spec.replicated_jobs if _is_member(jobset, role)]
    roles_by_stage: dict[object, list[ReplicatedJob]] = {}
    for role in members:
        roles_by_stage.setdefault(_find_dependency(jobset, role), []).append(role)
    return {role.name: tuple(stage) for stage in roles_by_stage.values() for role in stage}


def is_one_gang(jobset: JobSet) -> bool:
    """Return whether all pods of the JobSet are placed together: on request, or if the JobSet has a single Job."""
    roles = jobset.spec.replicated_jobs
    if _is_gang(jobset):
        stage = find_stages(jobset)
        return all(len(stage.get(role.name, ())) == len(roles) for role in roles)
    alone = len(roles) == 1 and roles[0].replicas == 1
    return alone and roles[0].template.metadata.annotations.get(GANG_ANNOTATION) != "false"


def at_once(jobset: JobSet) -> frozenset[str]:
    """Return the names of the replicated jobs whose pods must all have nodes at the same time.

    These are all replicated jobs of one gang, or the replicated jobs of a group that has not started yet.
    """
    if is_one_gang(jobset):
        return frozenset(role.name for role in jobset.spec.replicated_jobs)
    status = status_of(jobset)
    waits = status.released_epoch < status.epoch
    return frozenset(role.name for role in find_target_roles(jobset.spec)) if waits else frozenset()


def _is_gang(jobset: JobSet) -> bool:
    return jobset.metadata.annotations.get(GANG_ANNOTATION) == WHOLE


def _is_member(jobset: JobSet, role: ReplicatedJob) -> bool:
    return jobset.spec.group_scheduling_config is None or is_target(jobset.spec, role.name)


def _find_dependency(jobset: JobSet, role: ReplicatedJob) -> object:
    if is_in_order(jobset):
        return role.name
    return frozenset((needed.name, needed.status) for needed in role.depends_on)
