"""The JobSet algorithm: from a JobSet and its Jobs to what must be created, changed, deleted and written.

`decide` is a pure function of what was observed, and the observation must include the effects of the shell's own
earlier writes. The rules, and the order in which they are tried, are those of JobSet's own controller.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from muster.api.batch import Job
from muster.api.config.types import GroupScheduling
from muster.api.jobset import JobSet, ReplicatedJob, names
from muster.api.jobset.naming import job_name
from muster.jobs.jobset import failure
from muster.jobs.jobset.census import Census, Member
from muster.jobs.jobset.children import Children, owner_reference
from muster.jobs.jobset.claims import headless_service, volume_claims
from muster.jobs.jobset.conditions import Record
from muster.jobs.jobset.inplace import NO_PODS, InPlaceStanding, in_place
from muster.jobs.jobset.ordering import startup
from muster.jobs.jobset.plan import JobSetPlan
from muster.jobs.jobset.start.barrier import DEFAULT
from muster.jobs.jobset.start.decide import NOTHING_SEEN, GroupStanding, decide_start
from muster.jobs.jobset.start.group import is_target, is_used, renewed
from muster.jobs.jobset.status import all_ready, roles_status
from muster.jobs.jobset.success import has_succeeded
from muster.jobs.jobset.suspend import changes
from muster.jobs.jobset.terms import finish, is_in_order, is_suspended, restart_strategy
from muster.jobs.jobset.ttl import expiry

# Jobs created, and Jobs deleted, by one decision: what happens in between is not seen before they are.
MAX_JOBS = 500


def decide(
    jobset: JobSet,
    jobs: Sequence[Job],
    *,
    now: datetime,
    group: GroupStanding = NOTHING_SEEN,
    start: GroupScheduling = DEFAULT,
    pods: InPlaceStanding = NO_PODS,
) -> JobSetPlan:
    """What to do about the JobSet now.

    jobs: those that it controls. group: which pods have started of its group. start: how they wait for each other.
    pods: how often they were started again in place.
    """
    if jobset.metadata.deletion_timestamp is not None:
        return JobSetPlan(jobset.status)
    return _Decision.of(jobset, jobs, now, group, start, pods).plan()


class _Decision(Struct, frozen=True):
    """What is known once everything has been counted, before anything is done."""

    jobset: JobSet
    census: Census
    record: Record
    now: datetime
    group: GroupStanding
    start: GroupScheduling
    pods: InPlaceStanding

    @classmethod
    def of(
        cls,
        jobset: JobSet,
        jobs: Sequence[Job],
        now: datetime,
        group: GroupStanding,
        start: GroupScheduling,
        pods: InPlaceStanding,
    ) -> "_Decision":
        census = Census.of(jobset, jobs)
        status = replace(jobset.status, replicated_jobs_status=roles_status(jobset, census))
        return cls(jobset, census, Record(status, now.replace(microsecond=0)), now, group, start, pods)

    def plan(self) -> JobSetPlan:
        jobset, census, record = self.jobset, self.census, self.record
        if finish(jobset) is not None:
            return self._ended()
        plan = _without(JobSetPlan(record.status), (*census.previous, *census.surplus))
        if not is_suspended(jobset) and all_ready(jobset, record.status.replicated_jobs_status):
            record = record.all_ready()
        if census.failed:
            return _with(plan, failure.apply(jobset, record, census.failed))
        if has_succeeded(jobset, census):
            return _with(plan, record.completed())
        return self._running(plan, record)

    def _ended(self) -> JobSetPlan:
        """Jobs that have ended are kept, and those that have not go; in the end the JobSet goes with all of them."""
        jobset, census = self.jobset, self.census
        at = expiry(jobset)
        plan = JobSetPlan(
            self.record.status,
            wake_at=at if at is not None and at > self.now else None,
            expired=at is not None and at <= self.now,
        )
        return _without(plan, (*census.active, *census.previous, *census.surplus))

    def _running(self, plan: JobSetPlan, record: Record) -> JobSetPlan:
        jobset, owner = self.jobset, owner_reference(self.jobset)
        if is_suspended(jobset) and is_used(jobset):
            return replace(plan, status=replace(record.status, group_scheduling=renewed(jobset)))
        present = [member.job for member in (*self.census.active, *self.census.successful)]
        group = decide_start(jobset, present, self.group, record.now)
        record = record.starting(group)
        children = Children(jobset, self.start)
        start = startup(jobset, record.status.replicated_jobs_status)
        if is_suspended(jobset):
            record = record.suspended()
        else:
            if is_in_order(jobset):
                record = record.starting_in_order() if start.waits else record.started_in_order()
            record = record.resumed()  # in order, too: pods of the first role hold quota before the last one starts
        record = in_place(jobset, record, self.pods)
        may_run = [role for role in start.roles if self.group.kept or not is_target(jobset.spec, role.name)]
        missing = self._missing(may_run)
        create = tuple(children.job(role, index) for role, index in islice(missing, MAX_JOBS))
        return replace(
            _with(plan, record),
            service=headless_service(jobset, owner),
            claims=tuple(volume_claims(jobset, owner)),
            change=tuple(changes(jobset, children, self.census.active, {role.name for role in may_run})),
            create=create,
            wake_at=group.wake_at,
            more=plan.more or next(missing, None) is not None,
            start=group,
        )

    def _missing(self, roles: Sequence[ReplicatedJob]) -> Iterator[tuple[ReplicatedJob, int]]:
        """The Jobs that are not there. A name is taken until its Job is gone; some wait until all old ones are."""
        if self.census.previous and restart_strategy(self.jobset) == names.BLOCKING_RECREATE:
            return
        taken = self.census.names
        for role in roles:
            for index in range(role.replicas):
                if job_name(self.jobset, role.name, index) not in taken:
                    yield role, index


def _with(plan: JobSetPlan, record: Record) -> JobSetPlan:
    return replace(plan, status=record.status, notes=record.notes)


def _without(plan: JobSetPlan, members: Sequence[Member]) -> JobSetPlan:
    """The plan that deletes these, too."""
    going = [member.job for member in members if not member.deleting]
    return replace(plan, delete=tuple(going[:MAX_JOBS]), more=len(going) > MAX_JOBS)
