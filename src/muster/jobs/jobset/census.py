"""Sort a JobSet's Jobs by state.

A Job is identified by its name, and belongs to the JobSet by its controller's UID.
"""

from collections.abc import Iterable
from typing import Self

from msgspec import Struct

from muster.api.batch import Job
from muster.api.jobset import JobSet, ReplicatedJobStatus, names
from muster.jobs.job.conditions import COMPLETE, finish
from muster.jobs.jobset.terms import find_place


class Member(Struct, frozen=True):
    """A Job of a JobSet, with its replicated job (*role*) and its index within the role."""

    job: Job
    role: str
    index: int

    @property
    def deleting(self) -> bool:
        """Whether the Job is being deleted."""
        return self.job.metadata.deletion_timestamp is not None


class Census(Struct, frozen=True):
    """The Jobs of a JobSet, without Jobs whose names the JobSet would not create.

    active, successful, failed: Jobs of the current attempt.
    previous: Jobs of an earlier attempt, or whose attempt is unreadable.
    surplus: Jobs beyond the desired replicas.
    """

    active: tuple[Member, ...] = ()
    successful: tuple[Member, ...] = ()
    failed: tuple[Member, ...] = ()
    previous: tuple[Member, ...] = ()
    surplus: tuple[Member, ...] = ()

    @classmethod
    def of(cls, jobset: JobSet, jobs: Iterable[Job]) -> Self:
        """Return the census of a JobSet's Jobs. Jobs whose names fit no role are left out."""
        roles = {role.name: role for role in jobset.spec.replicated_jobs}
        records = {record.name: record for record in jobset.status.replicated_jobs_status}
        active: list[Member] = []
        successful: list[Member] = []
        failed: list[Member] = []
        previous: list[Member] = []
        surplus: list[Member] = []
        for job in jobs:
            role_and_index = find_place(jobset, roles, job.metadata.name)
            if role_and_index is None:
                continue
            role, index = role_and_index
            member = Member(job, role.name, index)
            if index >= role.replicas:
                surplus.append(member)
            elif _is_previous(job, jobset.status.restarts, job_restarts(records.get(role.name), index)):
                previous.append(member)
            elif (end := finish(job)) is None:
                active.append(member)
            elif end.type == COMPLETE:
                successful.append(member)
            else:
                failed.append(member)
        return cls(tuple(active), tuple(successful), tuple(failed), tuple(previous), tuple(surplus))

    @property
    def names(self) -> frozenset[str]:
        """The names in use, including those of Jobs that are being deleted."""
        groups = (self.active, self.successful, self.failed, self.previous, self.surplus)
        return frozenset(member.job.metadata.name for group in groups for member in group)


def job_restarts(record: ReplicatedJobStatus | None, index: int) -> int:
    """Return how many times the Job with this index was restarted without the other Jobs of its role.

    record: the role's status; None if the JobSet has none for it.
    """
    return record.job_restarts[index] if record is not None and index < len(record.job_restarts) else 0


def _is_previous(job: Job, restarts: int, own_restarts: int) -> bool:
    labels = job.metadata.labels
    attempt = _parse_number(labels.get(names.RESTART_ATTEMPT, ""))
    if attempt is None or attempt < restarts:
        return True
    if names.JOB_RESTART_ATTEMPT not in labels:  # created by a version without restarts of single Jobs
        return False
    own_attempt = _parse_number(labels[names.JOB_RESTART_ATTEMPT])
    return own_attempt is None or own_attempt < own_restarts


def _parse_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None
