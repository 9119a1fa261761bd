"""The Job algorithm: from a Job and its pods to what must be created, deleted and written.

`decide` is a pure function of what was observed. The shell performs the plan's work on pods; if some of it fails, it
asks again with the `Outcome`, and the same observation gives the status and the finalizers for what did come true.
The observation must include the effects of the shell's own earlier writes, or work would be done twice.

The rules, and the order in which they are tried, are those of the built-in controller of Kubernetes 1.36.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from muster.api.batch import INDEXED, NON_INDEXED, Job, JobStatus
from muster.api.conditions import is_true
from muster.api.core import Pod
from muster.api.notes import Note
from muster.api.pods import restart_count
from muster.jobs.job import conditions, success_policy
from muster.jobs.job.accounting import Tally, record, settled, tally
from muster.jobs.job.backoff import Backoff
from muster.jobs.job.census import Census, Member, ready_count
from muster.jobs.job.conditions import Verdict
from muster.jobs.job.evidence import last_words
from muster.jobs.job.plan import Deletion, JobPlan, Outcome
from muster.jobs.job.pod_failure_policy import fails_job, judge
from muster.jobs.job.sizing import Resize, resize
from muster.jobs.job.terms import Terms, completion_mode


def decide(
    job: Job,
    pods: Sequence[Pod],
    *,
    now: datetime,
    backoff: Backoff | None = None,
    outcome: Outcome | None = None,
) -> JobPlan:
    """What to do about the Job now.

    backoff: the last plan's; None if there was none, then the pods that are still there tell.
    outcome: what came true of this decision's work on pods; None before it was tried: all of it will.
    """
    if conditions.finish(job) is not None:
        return JobPlan(job.status, backoff=backoff)
    if completion_mode(job) not in (INDEXED, NON_INDEXED):
        note = Note("Warning", "UnknownCompletionMode", "Skipped Job sync because completion mode is unknown")
        return JobPlan(job.status, notes=(note,), backoff=backoff)
    return _Decision.of(job, pods, now, backoff).plan(outcome)


class _Decision(Struct, frozen=True):
    """What is known once everything has been counted, before anything is done."""

    job: Job
    terms: Terms
    census: Census
    status: JobStatus  # settled, with its startTime
    tally: Tally
    backoff: Backoff
    verdict: Verdict | None
    resize: Resize
    now: datetime  # whole seconds, as the API keeps it
    wake_at: datetime | None

    @classmethod
    def of(cls, job: Job, pods: Sequence[Pod], now: datetime, backoff: Backoff | None) -> "_Decision":
        terms, census = Terms.of(job), Census.of(pods)
        moment = now.replace(microsecond=0)
        status = _started(settled(job.status, census), terms, moment)
        count = tally(status, terms, census)
        new_backoff = _backoff(backoff, pods, terms, count)
        verdict = conditions.announced(job) or _reached(status, terms, census, count, pods, now)
        wake_at = None
        if verdict is not None:
            change = Resize(delete=census.active)
        elif job.metadata.deletion_timestamp is not None:
            change = Resize()
        else:
            change = resize(terms, census, count, new_backoff, now)
            wake_at = _earliest(change.wake_at, _deadline(status, terms))
            if change.create and is_true(job.status.conditions, conditions.SUSPENDED):
                # It says that it is resumed before it has pods: who suspends it after that waits until they are gone.
                change = replace(change, create=(), more=True)
        return cls(job, terms, census, status, count, new_backoff, verdict, change, moment, wake_at)

    def plan(self, outcome: Outcome | None) -> JobPlan:
        # The pods of a failing Job are counted first and let go afterwards; surplus pods never count.
        untrack = self.verdict is None or self.verdict.success
        delete = tuple(Deletion(member.pod, untrack) for member in self.resize.delete)
        done = outcome or Outcome(len(self.resize.create))
        gone = [member for member in self.resize.delete if member.uid not in done.undeleted]
        active = len(self.census.active) - len(gone) + done.created
        verdict = self.verdict
        if verdict is not None and not verdict.success and active > 0:
            verdict = None  # not before every pod is asked to end; the next decision finds the same reason
        if verdict is None and self.verdict is None and self._is_complete(active):
            verdict = conditions.COMPLETIONS_REACHED
        entry = record(
            self.status,
            self.terms,
            self.census,
            self.tally,
            untracked={member.uid for member in gone} if untrack else set(),
            let_all_go=verdict is not None or self._deleting,
            count_all_failed=verdict is not None and not verdict.success,
        )
        status = msgspec.structs.replace(
            entry.status,
            active=active,
            ready=ready_count(self.census.active) - ready_count(gone),
            terminating=len(self.census.terminating) + len(gone),
        )
        if verdict is not None:
            status, notes = self._ended(status, verdict, last=not entry.release)
        elif self.verdict is None and not self._deleting:
            status, notes = self._suspended_or_not(status)
        else:
            notes = ()
        return JobPlan(
            status,
            self.resize.create,
            delete,
            entry.release,
            self._to_track(),
            notes,
            self.wake_at if verdict is None else None,
            self.backoff,
            self.resize.more or entry.more,
            entry.judged,
        )

    def _to_track(self) -> tuple[Pod, ...]:
        """Pods of which we were killed between taking the finalizer and deleting them, and that may stay after all.

        Left as they are, they would run and never count.
        """
        if self.verdict is not None or self._deleting:
            return ()
        going = {member.uid for member in self.resize.delete}
        return tuple(member.pod for member in self.census.active if not member.tracked and member.uid not in going)

    @property
    def _deleting(self) -> bool:
        return self.job.metadata.deletion_timestamp is not None

    def _is_complete(self, active: int) -> bool:
        if active > 0:
            return False
        if self.terms.completions is None:
            return self.tally.succeeded > 0
        return self.tally.succeeded >= self.terms.completions

    def _ended(self, status: JobStatus, verdict: Verdict, *, last: bool) -> tuple[JobStatus, tuple[Note, ...]]:
        """The announcement, and the end itself once nothing is left to count or to wait for."""
        uncounted = status.uncounted_terminated_pods
        found = status.conditions
        if not is_true(found, verdict.interim):
            found = self._ensure(found, verdict.interim, "True", verdict.reason, verdict.message)[0]
        left = status.active or status.terminating or (uncounted and (uncounted.succeeded or uncounted.failed))
        if left or not last:
            return msgspec.structs.replace(status, conditions=found), ()
        found = self._ensure(found, verdict.terminal, "True", verdict.reason, verdict.message)[0]
        # A suspended Job of no completions ends without ever having started; a clock may have been set back.
        start = status.start_time or self.now
        end = max(start, self.now) if verdict.success else None
        status = msgspec.structs.replace(status, conditions=found, start_time=start, completion_time=end)
        return status, self._farewell(verdict)

    def _farewell(self, verdict: Verdict) -> tuple[Note, ...]:
        if not verdict.success:
            return (Note("Warning", verdict.reason, verdict.message),)
        completed = Note("Normal", "Completed", "Job completed")
        if self.terms.completions is not None and self.tally.succeeded > self.terms.completions:
            text = "Too many succeeded pods running after completion count reached"
            return Note("Warning", "TooManySucceededPods", text), completed
        return (completed,)

    def _suspended_or_not(self, status: JobStatus) -> tuple[JobStatus, tuple[Note, ...]]:
        if self.terms.suspended:
            found, changed = self._ensure(
                status.conditions, conditions.SUSPENDED, "True", "JobSuspended", "Job suspended"
            )
            # The next stretch has its own start, and its own activeDeadlineSeconds.
            status = msgspec.structs.replace(status, conditions=found, start_time=None)
            return status, (Note("Normal", "Suspended", "Job suspended"),) if changed else ()
        found, changed = self._ensure(status.conditions, conditions.SUSPENDED, "False", "JobResumed", "Job resumed")
        status = msgspec.structs.replace(status, conditions=found)
        return status, (Note("Normal", "Resumed", "Job resumed"),) if changed else ()

    def _ensure(
        self, found: conditions.Conditions, type: str, status: str, reason: str, message: str
    ) -> tuple[conditions.Conditions, bool]:
        return conditions.ensure(found, type, status, reason, message, self.now)


# Thirty years: past it no sum of a date and a deadline is a date, and no deadline is that long.
_LONGEST_DEADLINE_SECONDS = 10**9


def _started(status: JobStatus, terms: Terms, now: datetime) -> JobStatus:
    """The status with the start of the current active stretch: suspending clears it, so a resumed Job starts anew."""
    if terms.suspended or status.start_time is not None:
        return status
    return msgspec.structs.replace(status, start_time=now)


def _backoff(last: Backoff | None, pods: Sequence[Pod], terms: Terms, count: Tally) -> Backoff:
    """What is excused makes no replacement wait."""
    if last is not None:
        failed = [pod for pod in count.new_failed if not judge(terms.pod_failure_policy, pod).excused]
        return last.after(count.new_succeeded, failed)
    # A pod that was let go before it was deleted is none of the Job's failures: the Job was suspended, or shrank.
    members = [member for member in map(Member.of, pods) if member.tracked or not member.deleting]
    return Backoff().after(
        (member.pod for member in members if member.succeeded),
        (
            member.pod
            for member in members
            if member.counts_failed(terms.replace_only_failed)
            and not judge(terms.pod_failure_policy, member.pod).excused
        ),
    )


def _reached(
    status: JobStatus, terms: Terms, census: Census, count: Tally, pods: Sequence[Pod], now: datetime
) -> Verdict | None:
    """The first reason to end the Job, apart from having all its completions."""
    if message := fails_job(terms.pod_failure_policy, _failed(pods, terms)):
        return conditions.pod_failure_verdict(message)
    if count.failed > terms.backoff_limit or _restarted_too_often(terms, census):
        return conditions.backoff_limit_verdict(last_words(pods, count.new_failed))
    deadline = _deadline(status, terms)
    if deadline is not None and now >= deadline:
        return conditions.DEADLINE_EXCEEDED
    if count.failed_indexes:
        if terms.max_failed_indexes is not None and len(count.failed_indexes) > terms.max_failed_indexes:
            return conditions.MAX_FAILED_INDEXES_EXCEEDED
        if len(count.failed_indexes) + len(count.completed) >= (terms.completions or 0):
            return conditions.FAILED_INDEXES
    if message := success_policy.match(terms.success_policy, terms.completions or 0, count.completed):
        return conditions.success_policy_verdict(message)
    return None


def _failed(pods: Sequence[Pod], terms: Terms) -> list[Pod]:
    if terms.pod_failure_policy is None:
        return []
    return [pod for pod in pods if Member.of(pod).counts_failed(terms.replace_only_failed)]


def _restarted_too_often(terms: Terms, census: Census) -> bool:
    """Restarts in place count like failures, but `>=` instead of `>` (any restart is over a limit of 0)."""
    if not terms.restarts_in_place:
        return False
    members = (*census.active, *census.terminating)
    restarts = sum(restart_count(member.pod) for member in members if member.pod.status.phase in ("Running", "Pending"))
    return restarts >= max(terms.backoff_limit, 1)


def _deadline(status: JobStatus, terms: Terms) -> datetime | None:
    if terms.active_deadline_seconds is None or status.start_time is None or terms.suspended:
        return None
    return status.start_time + timedelta(seconds=min(terms.active_deadline_seconds, _LONGEST_DEADLINE_SECONDS))


def _earliest(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)
