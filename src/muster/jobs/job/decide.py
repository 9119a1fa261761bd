"""The Job algorithm: decide from a Job and its pods what to create, delete and write.

`decide` is a pure function of the observed state. The shell carries out the plan's work on pods. If some of that work
fails, the shell calls `decide` again with the `Outcome`, and the same observation gives the status and finalizers for
the work that succeeded. The observation must include the shell's own earlier writes, or work would be done twice.

The rules and their order are those of the built-in controller of Kubernetes 1.36.
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
from muster.jobs.job.accounting import EndedPods, count_ended_pods, record, settle_counted
from muster.jobs.job.backoff import Backoff
from muster.jobs.job.census import Census, Member, has_run, ready_count
from muster.jobs.job.conditions import Verdict
from muster.jobs.job.evidence import describe_interruption, last_words
from muster.jobs.job.plan import Deletion, JobPlan, Outcome
from muster.jobs.job.pod_failure_policy import fails_job, judge
from muster.jobs.job.sizing import Resize, resize
from muster.jobs.job.terms import JobTerms, completion_mode


def decide(
    job: Job,
    pods: Sequence[Pod],
    *,
    now: datetime,
    backoff: Backoff | None = None,
    outcome: Outcome | None = None,
    closing: bool = False,
) -> JobPlan:
    """Return what to do about the Job now.

    backoff: the back-off of the last plan; None after a restart, when it is rebuilt from the remaining pods.
    outcome: which of this decision's work on pods succeeded. None before the work was tried; the plan then assumes that
    all of it succeeds.
    closing: whether the Job's namespace is being deleted, so that no pod can be created in it.
    """
    if conditions.finish(job) is not None:
        return JobPlan(job.status, backoff=backoff)
    if completion_mode(job) not in (INDEXED, NON_INDEXED):
        note = Note("Warning", "UnknownCompletionMode", "Skipped Job sync because completion mode is unknown")
        return JobPlan(job.status, notes=(note,), backoff=backoff)
    return _Decision.of(job, pods, now, backoff, closing=closing).plan(outcome)


class _Decision(Struct, frozen=True):
    """The counted state of a Job, from which `plan` makes the decision."""

    job: Job
    terms: JobTerms
    census: Census
    status: JobStatus  # settled, with its startTime
    tally: EndedPods
    backoff: Backoff
    verdict: Verdict | None
    resize: Resize
    now: datetime  # whole seconds, as the API keeps it
    wake_at: datetime | None

    @classmethod
    def of(cls, job: Job, pods: Sequence[Pod], now: datetime, backoff: Backoff | None, *, closing: bool) -> "_Decision":
        """Count the ended pods, and decide how the Job ends or how many pods it creates and deletes."""
        terms, census = JobTerms.of(job), Census.of(pods)
        moment = now.replace(microsecond=0)
        status = _set_start(settle_counted(job.status, census), terms, moment)
        count = count_ended_pods(status, terms, census)
        if closing:  # no replacement comes, and the namespace deletes the Job only after all its pods
            count = replace(count, awaiting={})
        new_backoff = _update_backoff(backoff, pods, terms, count)
        verdict = conditions.find_announced_end(job) or _find_verdict(status, terms, census, count, pods, now)
        wake_at = None
        if verdict is not None:
            change = Resize(delete=census.active)
        elif closing or job.metadata.deletion_timestamp is not None:
            change = Resize()
        else:
            change = resize(terms, census, count, new_backoff, now)
            wake_at = _find_earliest(change.wake_at, _compute_deadline(status, terms))
            if change.create and is_true(job.status.conditions, conditions.SUSPENDED):
                # The condition says "resumed" before pods exist, so that a later suspension waits for their end.
                change = replace(change, create=(), more=True)
        return cls(job, terms, census, status, count, new_backoff, verdict, change, moment, wake_at)

    def plan(self, outcome: Outcome | None) -> JobPlan:
        """Return the plan: pods to create and delete, and the status to store.

        outcome: the result of the creations and deletions; None before them, when they are assumed to succeed.
        """
        # The pods of a failing Job are counted before their finalizers go; surplus pods never count.
        untrack = self.verdict is None or self.verdict.success
        delete = tuple(self._plan_deletion(member, untrack=untrack) for member in self.resize.delete)
        done_work = outcome or Outcome(len(self.resize.create))
        deleted = [member for member in self.resize.delete if member.uid not in done_work.undeleted]
        untracked = {one.pod.metadata.uid for one in delete if one.untrack} - done_work.undeleted
        active = len(self.census.active) - len(deleted) + done_work.created
        verdict = self.verdict
        if verdict is None and self._is_complete(active):
            verdict = conditions.COMPLETIONS_REACHED
        # A failure is only announced until every pod is deleted. The pods that caused the failure may be deleted by
        # then.
        ends = verdict is not None and (verdict.success or active <= 0)
        entry = record(
            self.status,
            self.terms,
            self.census,
            self.tally,
            untracked=untracked,
            let_all_go=ends or self._deleting,
            count_all_failed=ends and verdict is not None and not verdict.success,
        )
        status = msgspec.structs.replace(
            entry.status,
            active=active,
            ready=ready_count(self.census.active) - ready_count(deleted),
            terminating=len(self.census.terminating) + len(deleted),
            conditions=conditions.with_interruptions(entry.status.conditions, entry.interrupted, self.now),
        )
        if verdict is not None:
            status, notes = self._write_end(status, verdict, last=not entry.release)
        elif not self._deleting:
            status, notes = self._write_suspension(status)
        else:
            notes = ()
        return JobPlan(
            status,
            self.resize.create,
            delete,
            entry.release,
            self._find_untracked(),
            notes,
            None if ends else self.wake_at,
            self.backoff,
            self.resize.more or entry.more,
            entry.judged,
        )

    def _plan_deletion(self, member: Member, *, untrack: bool) -> Deletion:
        """Return how to delete a pod. A pod of a cancelled index never counts.

        With a back-off limit per index, a pod that a suspension ends is kept until the next pod of the index has copied
        its counts.
        """
        if member.index in self.terms.cancelled:
            return Deletion(member.pod, untrack=True)
        keeps_counts = untrack and self.terms.suspended and self.terms.backoff_limit_per_index is not None
        suspended = keeps_counts and self.verdict is None and has_run(member)
        return Deletion(member.pod, untrack and not suspended, suspended)

    def _find_untracked(self) -> tuple[Pod, ...]:
        """Return the active pods that should stay but lack the tracking finalizer, to add the finalizer again.

        Return () if the Job has ended or is being deleted.

        A controller that was killed between removing the finalizer and deleting the pod leaves such a pod. Without the
        finalizer the pod would run and never count.
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

    def _write_end(self, status: JobStatus, verdict: Verdict, *, last: bool) -> tuple[JobStatus, tuple[Note, ...]]:
        """Return the status with the interim condition of the verdict, and the notes about the Job's end.

        last: whether no later write of this decision follows. If so, and no pod is active, terminating or uncounted,
        the status also has the terminal condition and the time of the end.
        """
        uncounted = status.uncounted_terminated_pods
        new_conditions = status.conditions
        if not is_true(new_conditions, verdict.interim):
            new_conditions = self._ensure_condition(
                new_conditions, verdict.interim, "True", verdict.reason, verdict.message
            )[0]
        has_unfinished = (
            status.active or status.terminating or (uncounted and (uncounted.succeeded or uncounted.failed))
        )
        if has_unfinished or not last:
            return msgspec.structs.replace(status, conditions=new_conditions), ()
        new_conditions = self._ensure_condition(
            new_conditions, verdict.terminal, "True", verdict.reason, verdict.message
        )[0]
        # A suspended Job with 0 completions ends without a start; a clock may have been set back.
        start = status.start_time or self.now
        end = max(start, self.now) if verdict.success else None
        status = msgspec.structs.replace(status, conditions=new_conditions, start_time=start, completion_time=end)
        return status, self._make_end_notes(verdict)

    def _make_end_notes(self, verdict: Verdict) -> tuple[Note, ...]:
        if not verdict.success:
            return (Note("Warning", verdict.reason, verdict.message),)
        completed = Note("Normal", "Completed", "Job completed")
        if self.terms.completions is not None and self.tally.succeeded > self.terms.completions:
            text = "Too many succeeded pods running after completion count reached"
            return Note("Warning", "TooManySucceededPods", text), completed
        return (completed,)

    def _write_suspension(self, status: JobStatus) -> tuple[JobStatus, tuple[Note, ...]]:
        if self.terms.suspended:
            new_conditions = status.conditions
            if not is_true(new_conditions, conditions.SUSPENDED) and not self.terms.is_of_jobset and self._has_run():
                new_conditions = conditions.with_suspension(new_conditions, self.job.metadata, self.now)
            new_conditions, changed = self._ensure_condition(
                new_conditions, conditions.SUSPENDED, "True", "JobSuspended", "Job suspended"
            )
            # The next active period has its own start, and its own activeDeadlineSeconds.
            status = msgspec.structs.replace(status, conditions=new_conditions, start_time=None)
            return status, (Note("Normal", "Suspended", "Job suspended"),) if changed else ()
        new_conditions, changed = self._ensure_condition(
            status.conditions, conditions.SUSPENDED, "False", "JobResumed", "Job resumed"
        )
        status = msgspec.structs.replace(status, conditions=new_conditions)
        return status, (Note("Normal", "Resumed", "Job resumed"),) if changed else ()

    def _has_run(self) -> bool:
        """Return whether pods of the Job ran when the Job was suspended.

        The pods may be gone already. `status.ready` then still counts the pods that ran before.
        """
        return bool(self.job.status.ready) or any(map(has_run, (*self.census.active, *self.census.terminating)))

    def _ensure_condition(
        self, before: conditions.Conditions, type: str, status: str, reason: str, message: str
    ) -> tuple[conditions.Conditions, bool]:
        return conditions.ensure(before, type, status, reason, message, self.now)


# Thirty years, longer than any real deadline; adding more to a date might overflow.
_LONGEST_DEADLINE_SECONDS = 10**9


def _set_start(status: JobStatus, terms: JobTerms, now: datetime) -> JobStatus:
    """Return the status with the start time of the current active period.

    A suspension clears the start time, so a resume sets it again.
    """
    if terms.suspended or status.start_time is not None:
        return status
    return msgspec.structs.replace(status, start_time=now)


def _update_backoff(last: Backoff | None, pods: Sequence[Pod], terms: JobTerms, count: EndedPods) -> Backoff:
    """Return the failures that delay replacements of failed pods, including those since the last decision.

    Failures that the platform caused do not delay replacements.
    """
    if last is not None:
        failed = [pod for pod in count.new_failed if not judge(terms.pod_failure_policy, pod).excused]
        return last.after(count.new_succeeded, failed)
    # A deleted pod without its finalizer is no failure: the Job was suspended, or shrank.
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


def _find_verdict(
    status: JobStatus, terms: JobTerms, census: Census, count: EndedPods, pods: Sequence[Pod], now: datetime
) -> Verdict | None:
    """Return the first reason to end the Job, other than having all its completions; None if there is no reason."""
    if message := fails_job(terms.pod_failure_policy, _list_failed(pods, terms)):
        return conditions.pod_failure_verdict(message)
    satisfied = success_policy.match(terms.success_policy, terms.completions or 0, count.completed)
    needs_more = terms.restarts_whole and not satisfied and not _has_succeeded(terms, count)
    if needs_more and (message := describe_interruption(pods, terms.pod_failure_policy)):
        return conditions.interrupted_verdict(message)
    if count.failed > terms.backoff_limit or _has_restarted_too_often(terms, census):
        return conditions.backoff_limit_verdict(last_words(pods, count.new_failed))
    deadline = _compute_deadline(status, terms)
    if deadline is not None and now >= deadline:
        return conditions.DEADLINE_EXCEEDED
    if count.failed_indexes:
        lost = count.failed_indexes - terms.cancelled
        if terms.max_failed_indexes is not None and len(lost) > terms.max_failed_indexes:
            return conditions.MAX_FAILED_INDEXES_EXCEEDED
        if len(count.failed_indexes) + len(count.completed) >= (terms.completions or 0):
            if lost:
                return conditions.FAILED_INDEXES
            return conditions.OTHERS_CANCELLED if count.completed else conditions.ALL_CANCELLED
    return conditions.success_policy_verdict(satisfied) if satisfied else None


def _has_succeeded(terms: JobTerms, count: EndedPods) -> bool:
    """Return whether the Job has the completions that it needs, so that its remaining pods need not succeed."""
    return count.succeeded >= (1 if terms.completions is None else terms.completions)


def _list_failed(pods: Sequence[Pod], terms: JobTerms) -> list[Pod]:
    if terms.pod_failure_policy is None:
        return []
    return [pod for pod in pods if Member.of(pod).counts_failed(terms.replace_only_failed)]


def _has_restarted_too_often(terms: JobTerms, census: Census) -> bool:
    """Return whether restarts in place have reached the limit.

    With a limit of 0, the first restart reaches it. Failed pods, in contrast, must exceed the limit.
    """
    if not terms.restarts_in_place:
        return False
    members = (*census.active, *census.terminating)
    restarts = sum(restart_count(member.pod) for member in members if member.pod.status.phase in ("Running", "Pending"))
    return restarts >= max(terms.backoff_limit, 1)


def _compute_deadline(status: JobStatus, terms: JobTerms) -> datetime | None:
    if terms.active_deadline_seconds is None or status.start_time is None or terms.suspended:
        return None
    return status.start_time + timedelta(seconds=min(terms.active_deadline_seconds, _LONGEST_DEADLINE_SECONDS))


def _find_earliest(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)
