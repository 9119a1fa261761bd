"""Decide which roles may start: by their dependencies, or in the order of the startup policy."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from muster.api.jobset import JobSet, ReplicatedJob, ReplicatedJobStatus, names
from muster.jobs.jobset.status import has_started
from muster.jobs.jobset.terms import is_in_order, is_suspended


class Startup(Struct, frozen=True):
    """The roles whose Jobs may be created and run now.

    waits: whether the startup order waits for a role.
    """

    roles: tuple[ReplicatedJob, ...]
    waits: bool = False


def find_startable_roles(jobset: JobSet, records: Sequence[ReplicatedJobStatus]) -> Startup:
    """Return which roles may start now, by the counts in the status.

    records: the counts of each role's Jobs. A suspended JobSet gets all its Jobs except Jobs that depend on others. Of
    an in-order JobSet that is not suspended, only the first role that has not started yet may start; none once all
    roles have started.
    """
    by_name = {record.name: record for record in records}
    roles = {role.name: role for role in jobset.spec.replicated_jobs}
    ready = tuple(role for role in roles.values() if may_start(role, roles, by_name))
    if not is_in_order(jobset) or is_suspended(jobset):
        return Startup(ready)
    for role in ready:
        if not has_started(by_name[role.name], role.replicas):
            return Startup((role,), waits=True)
    return Startup(())


def may_start(
    role: ReplicatedJob, roles: Mapping[str, ReplicatedJob], records: Mapping[str, ReplicatedJobStatus]
) -> bool:
    """Return whether all roles on which a role depends have reached the state that it requires."""
    for needed in role.depends_on:
        record = records.get(needed.name)
        if record is None:
            return False
        replicas = roles[needed.name].replicas
        if needed.status == names.COMPLETE and record.succeeded != replicas:
            return False
        if needed.status == names.READY and not has_started(record, replicas):
            return False
    return True
