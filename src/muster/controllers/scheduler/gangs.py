"""Gangs as the scheduler keeps them: which pods belong together, how many there should be, and what is half done.

The pods of a Job are a gang, and so are pods that say that they are one group (KEP-976).
"""

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct, field

from muster.api.batch import INDEXED, Job
from muster.api.core import Pod
from muster.api.elastic import GANG_ANNOTATION as GANG_ANNOTATION  # noqa: PLC0414  (the scheduler has it from here)
from muster.api.indexes import Indexes
from muster.api.kueue.names import POD_GROUP_FAST_ADMISSION
from muster.api.managed.pods import group_name, group_size
from muster.api.meta import ObjectMeta
from muster.api.pods import job_reference
from muster.jobs.job.census import completion_index
from muster.jobs.job.sizing import wanted_active
from muster.jobs.job.terms import Terms

BINDING_ANNOTATION = "muster.dev/binding-since"

# Less than any priority that a pod can have.
LOWEST_PRIORITY = -(2**31) - 1


class Gang(Struct):
    """The unfinished pods of one gang, by UID. Its priority is the highest that one of them ever had."""

    unbound: dict[str, Pod] = field(default_factory=dict)
    bound: dict[str, Pod] = field(default_factory=dict)
    priority: int = LOWEST_PRIORITY

    @property
    def pods(self) -> list[Pod]:
        """All of them."""
        return [*self.bound.values(), *self.unbound.values()]


def gang_key(pod: Pod) -> str:
    """`namespace/job/uid`, `namespace/group/pods`, or `namespace/uid` for a pod that stands alone."""
    meta = pod.metadata
    if (owner := job_reference(pod)) is not None:
        return f"{meta.namespace}/{owner.name}/{owner.uid}"
    if size_of_group(pod):
        return f"{meta.namespace}/{group_name(meta)}/pods"
    return f"{meta.namespace}/{meta.uid}"


def size_of_group(pod: Pod) -> int:
    """How many pods are to be bound together with it; 0 if it is of no group, or of one that may start bit by bit."""
    meta = pod.metadata
    fast, gang = meta.annotations.get(POD_GROUP_FAST_ADMISSION), meta.annotations.get(GANG_ANNOTATION)
    return group_size(meta) if group_name(meta) and fast != "true" and gang != "false" else 0


def group_keys(pod: Pod) -> Iterable[str]:
    """The key of its gang, if that is a group of pods."""
    return [gang_key(pod)] if size_of_group(pod) and not has_job(pod) else []


def has_job(pod: Pod) -> bool:
    """Whether it belongs to a Job."""
    return job_reference(pod) is not None


def starts_together(job: Job) -> bool:
    """Whether its pods are bound together or not at all, which is so unless it says otherwise."""
    return job.metadata.annotations.get(GANG_ANNOTATION) != "false"


def wanted_pods(job: Job) -> int:
    """How many pods the Job wants to run side by side, by what its status says is done."""
    return wanted_active(Terms.of(job), active=0, succeeded=job.status.succeeded + len(failed_indexes(job)))


def failed_indexes(job: Job) -> Indexes:
    """The indexes that have failed for good."""
    return Indexes.parse(job.status.failed_indexes or "", job.spec.completions or 0)


def in_range(job: Job, pods: Iterable[Pod]) -> list[Pod]:
    """Without those of an Indexed Job that it has no place for any more since it was scaled down."""
    if job.spec.completion_mode != INDEXED or job.spec.completions is None:
        return list(pods)
    size = job.spec.completions
    return [pod for pod in pods if completion_index(pod) < size]


def created(meta: ObjectMeta) -> datetime:
    """When the server made the object."""
    assert meta.creation_timestamp is not None, "the server stamps every object"
    return meta.creation_timestamp


def by_age(pods: Iterable[Pod]) -> list[Pod]:
    """The oldest first."""
    return sorted(pods, key=lambda pod: (created(pod.metadata), pod.metadata.name))


def made_by(pod: Pod, moment: datetime) -> bool:
    """Whether it existed then; to the second, which is all that the server stamps."""
    return created(pod.metadata) <= moment


def binding_since(job: Job) -> datetime | None:
    """When a scheduler last began to bind the whole gang, if it needed several writes."""
    try:
        since = datetime.fromisoformat(job.metadata.annotations.get(BINDING_ANNOTATION, ""))
    except ValueError:  # absent, or somebody else wrote there: no intent of ours
        return None
    return since if since.tzinfo else None


def is_marked(pod: Pod) -> bool:
    """Whether it has been told that it cannot be placed."""
    return any(c.type == "PodScheduled" and c.reason == "Unschedulable" for c in pod.status.conditions)
