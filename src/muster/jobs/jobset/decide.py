"""The JobSet algorithm: decide from a JobSet and its Jobs what to create, change, delete and write.

`decide` is a pure function of the observed state, which must include the shell's own earlier writes. The rules and
their order are those of JobSet's own controller.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from muster.api.batch import Job
from muster.api.conditions import is_true
from muster.api.config.types import GroupScheduling
from muster.api.core import Pod
from muster.api.jobset import JOB_SET, JobSet, ReplicatedJob, names
from muster.api.jobset.naming import job_name
from muster.jobs.interruption import describe_suspension
from muster.jobs.jobset import failure
from muster.jobs.jobset.census import Census, Member
from muster.jobs.jobset.children import Children
from muster.jobs.jobset.claims import headless_service, volume_claims
from muster.jobs.jobset.conditions import StatusRecord
from muster.jobs.jobset.inplace import NO_PODS, RestartCounts, in_place
from muster.jobs.jobset.ordering import find_startable_roles
from muster.jobs.jobset.plan import JobSetPlan
from muster.jobs.jobset.slices import take_slice
from muster.jobs.jobset.start.barrier import DEFAULT
from muster.jobs.jobset.start.decide import NOTHING_SEEN, StartedPods, decide_start
from muster.jobs.jobset.start.group import begin_next_epoch, is_target, is_used
from muster.jobs.jobset.status import all_ready, roles_status
from muster.jobs.jobset.success import has_succeeded
from muster.jobs.jobset.suspend import list_suspension_changes
from muster.jobs.jobset.terms import finish, is_in_order, is_suspended, restart_strategy
from muster.jobs.jobset.ttl import find_expiry

NONE_REFUSED: Mapping[str, int] = {}


def decide(
    jobset: JobSet,
    jobs: Sequence[Job],
    *,
    now: datetime,
    group: StartedPods = NOTHING_SEEN,
    start: GroupScheduling = DEFAULT,
    pods: RestartCounts = NO_PODS,
    refused: Mapping[str, int] = NONE_REFUSED,
    disturbed: Sequence[Pod] = (),
) -> JobSetPlan:
    """Return what to do about the JobSet now.

    jobs: the Jobs that the JobSet controls.
    group: which pods of the group that starts together have started.
    start: the settings for how pods wait for each other.
    pods: how often pods restarted in place.
    refused: how many times in a row the server refused to write a Job, by its name.
    disturbed: the pods of the JobSet if a Job has failed, otherwise empty.
    """
    if jobset.metadata.deletion_timestamp is not None:
        return JobSetPlan(jobset.status)
    return _Decision.of(jobset, jobs, now, group, start, pods, refused).plan(disturbed)


class _Missing(Struct, frozen=True):
    """A Job to create."""

    name: str
    role: ReplicatedJob
    index: int


class _Decision(Struct, frozen=True):
    """The counted state of a JobSet, from which `plan` makes the decision."""

    jobset: JobSet
    census: Census
    record: StatusRecord
    now: datetime
    group: StartedPods
    start: GroupScheduling
    pods: RestartCounts
    refused: Mapping[str, int]

    @classmethod
    def of(
        cls,
        jobset: JobSet,
        jobs: Sequence[Job],
        now: datetime,
        group: StartedPods,
        start: GroupScheduling,
        pods: RestartCounts,
        refused: Mapping[str, int],
    ) -> "_Decision":
        census = Census.of(jobset, jobs)
        status = replace(jobset.status, replicated_jobs_status=roles_status(jobset, census))
        return cls(jobset, census, StatusRecord(status, now.replace(microsecond=0)), now, group, start, pods, refused)

    def plan(self, disturbed: Sequence[Pod]) -> JobSetPlan:
        jobset, census, record = self.jobset, self.census, self.record
        if finish(jobset) is not None:
            return self._plan_after_end()
        plan = self._delete_members(JobSetPlan(record.status), (*census.previous, *census.surplus))
        if not is_suspended(jobset) and all_ready(jobset, record.status.replicated_jobs_status):
            record = record.all_ready()
        in_place, succeeded = restart_strategy(jobset) == names.IN_PLACE_RESTART, has_succeeded(jobset, census)
        interruption = failure.find_interruption(jobset, census, disturbed, in_place=in_place)
        if interruption is not None and not succeeded:
            return _apply_record(plan, failure.restart_interrupted(jobset, record, *interruption))
        if interruption is None and census.failed:
            return _apply_record(plan, failure.apply(jobset, record, census.failed))
        if succeeded:
            return _apply_record(plan, record.mark_completed())
        return self._plan_running(plan, record)

    def _plan_after_end(self) -> JobSetPlan:
        """Return the plan of an ended JobSet.

        Ended Jobs are kept and other Jobs deleted. The JobSet itself is deleted once its TTL is over.
        """
        jobset, census = self.jobset, self.census
        at = find_expiry(jobset)
        plan = JobSetPlan(
            self.record.status,
            wake_at=at if at is not None and at > self.now else None,
            expired=at is not None and at <= self.now,
        )
        return self._delete_members(plan, (*census.active, *census.previous, *census.surplus))

    def _plan_running(self, plan: JobSetPlan, record: StatusRecord) -> JobSetPlan:
        """Add to a plan the work for a JobSet that continues: Jobs to change and create, their Service and claims.

        record: the status so far, with its events.
        """
        jobset, owner = self.jobset, JOB_SET.refer_to_controller(self.jobset.metadata)
        if is_suspended(jobset) and is_used(jobset):
            return replace(plan, status=replace(record.status, group_scheduling=begin_next_epoch(jobset)))
        present = [member.job for member in (*self.census.active, *self.census.successful)]
        group = decide_start(jobset, present, self.group, record.now)
        record = record.add_start_plan(group)
        children = Children(jobset, self.start)
        start = find_startable_roles(jobset, record.status.replicated_jobs_status)
        may_run = [role for role in start.roles if self.group.kept or not is_target(jobset.spec, role.name)]
        changing = list_suspension_changes(jobset, children, self.census.active, {role.name for role in may_run})
        change, unchanged = take_slice(changing, attrgetter("job.metadata.name"), self.refused)
        if is_suspended(jobset):
            # Quota is held until the last Job is suspended.
            record = self._record_suspension(record) if unchanged.is_empty else record
        else:
            if is_in_order(jobset):
                record = record.starting_in_order() if start.waits else record.started_in_order()
            # Also with startup in order: pods of the first role use quota before the last role starts.
            record = record.mark_resumed()
        record = in_place(jobset, record, self.pods)
        missing, unmade = take_slice(self._list_missing(may_run), attrgetter("name"), self.refused)
        return replace(
            _apply_record(plan, record),
            service=headless_service(jobset, owner),
            claims=tuple(volume_claims(jobset, owner)),
            change=change,
            create=tuple(children.job(each.role, each.index) for each in missing),
            wake_at=group.wake_at,
            more=plan.more or unchanged.has_new or unmade.has_new,
            start=group,
        )

    def _record_suspension(self, record: StatusRecord) -> StatusRecord:
        """Return the record with the suspension. If pods ran, the suspension counts as an interruption."""
        jobset = self.jobset
        if not is_true(jobset.status.conditions, names.SUSPENDED) and self._has_run():
            record = record.add_interruption(describe_suspension(jobset.metadata), by_suspension=True)
        return record.mark_suspended()

    def _has_run(self) -> bool:
        """Return whether pods ran when the JobSet was suspended. Its Jobs may have stopped since the last decision."""
        before = self.jobset.status.replicated_jobs_status
        return any(role.ready for role in before) or any(member.job.status.ready for member in self.census.active)

    def _list_missing(self, roles: Sequence[ReplicatedJob]) -> Iterator[_Missing]:
        """Yield the Jobs to create.

        A name can be reused only when its old Job is gone; some Jobs wait until all old Jobs are gone.
        """
        if self.census.previous and restart_strategy(self.jobset) == names.BLOCKING_RECREATE:
            return
        existing_names = self.census.names
        for role in roles:
            for index in range(role.replicas):
                name = job_name(self.jobset, role.name, index)
                if name not in existing_names:
                    yield _Missing(name, role, index)

    def _delete_members(self, plan: JobSetPlan, members: Sequence[Member]) -> JobSetPlan:
        """Return the plan with these Jobs deleted, too."""
        going = (member.job for member in members if not member.deleting)
        delete, rest = take_slice(going, attrgetter("metadata.name"), self.refused)
        return replace(plan, delete=delete, more=rest.has_new)


def _apply_record(plan: JobSetPlan, record: StatusRecord) -> JobSetPlan:
    return replace(plan, status=record.status, notes=record.notes)
