"""What a job is doing, in a word and a sentence, and how it ended. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from muster.api.conditions import is_true
from muster.api.core import Pod
from muster.api.kueue import Workload
from muster.api.kueue.names import PODS_READY, QUEUE_NAME_LABEL
from muster.api.pods import is_finished, is_ready, why_unplaced
from muster.insight.failures import absent, failures, so_far, why_failed, why_waiting
from muster.insight.quotastate import QuotaState, Stage
from muster.insight.record import JobRecord, has_joined

Word: TypeAlias = (
    Stage | Literal["Suspended", "Pending", "Starting", "Running", "Finishing", "Retrying", "Cancelled", "Deleting"]
)


@dataclass(frozen=True, slots=True)
class JobState:
    """One line of `muster ps`.

    word: before a job may make pods, that of its quota state: Queued, Checking, Evicting or Held.
    ready: pods that are ready, or that have succeeded.
    wanted: pods that should be.
    reason: why it is not further, as the level that holds it says.
    blocked: something must change before it goes on; otherwise it is only a matter of moments.
    quota_state: where it stands in its queue, as long as that is what holds it.
    """

    word: Word
    ready: int
    wanted: int
    reason: str = ""
    blocked: bool = False
    quota_state: QuotaState | None = None

    @property
    def finished(self) -> bool:
        """Whether it will not change any more."""
        return self.word in ("Completed", "Failed", "Cancelled")

    @property
    def stuck(self) -> bool:
        """Whether it has been said why it does not start; that may be for ever."""
        waits = self.quota_state.waits if self.quota_state is not None else self.word == "Pending" and self.blocked
        return waits and bool(self.reason)

    @property
    def hopeless(self) -> bool:
        """Whether those who decide see no way, as far as they have said."""
        return self.stuck and (self.quota_state is None or self.quota_state.final)

    def saying(self, reason: str) -> "JobState":
        """The same with another reason."""
        quota_state = replace(self.quota_state, reason=reason) if self.quota_state is not None else None
        return replace(self, reason=reason, blocked=True, quota_state=quota_state)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a job does not start, whatever ends before it; "" if nothing proves that.

    certain: more nodes, that an autoscaler may bring, would not help.
    """

    text: str = ""
    certain: bool = False

    @property
    def sentence(self) -> str:
        """For the line of a job."""
        return f"{'can never start' if self.certain else 'cannot start as things are'}: {self.text}"


# Nothing says that it cannot start.
OPEN = Verdict()


def worker(job: JobRecord, rank: str) -> str:
    """A rank that the job can have, as its pods have it. Raises `ValueError` that says which ones there are."""
    if not job.indexed:
        return rank  # there, it is whatever its pods' names end with
    if not (rank.isascii() and rank.isdecimal()) or int(rank) >= job.most:
        raise ValueError(f"{job.metadata.name} has no worker {rank}: its ranks are 0 to {job.most - 1}")
    return str(int(rank))


def job_state(job: JobRecord, pods: Sequence[Pod], quota_state: QuotaState | None = None) -> JobState:
    """The state of a job with the pods that it has now, and where its Workload stands, if it has one."""
    wanted, end = job.wanted, job.end
    live = [pod for pod in pods if not is_finished(pod)]
    done = job.succeeded + sum(1 for pod in live if is_ready(pod))
    if end is not None:
        return JobState(end.word, job.succeeded, wanted, why_failed(job, end, pods) if end.word == "Failed" else "")
    if job.metadata.deletion_timestamp is not None:
        return JobState("Deleting", done, wanted)
    if quota_state is not None and quota_state.stopped:
        return JobState(quota_state.word, done, wanted, quota_state.reason, bool(quota_state.reason), quota_state)
    if job.suspended:
        return _suspended(job, quota_state, done, wanted)
    unplaced = [pod for pod in live if not pod.spec.node_name]
    goes_on = any(map(is_ready, live)) and all(pod.spec.scheduling_gates for pod in unplaced)
    if unplaced and not goes_on:  # who is gated has not its turn yet, as when a job grows in its queue
        why = why_unplaced(unplaced)
        return JobState("Pending", done, wanted, why or "waiting for all its pods, to be placed together", bool(why))
    waiting = [reason for pod in live if not is_ready(pod) for reason in why_waiting(job, pod)]
    if waiting:
        return JobState("Starting", done, wanted, waiting[0], blocked=True)
    if not live:
        return _between_pods(job, pods, done, wanted)
    if any(pod.status.phase == "Running" for pod in live):
        return JobState("Running", done, wanted, so_far(job, pods))
    return JobState("Starting", done, wanted, so_far(job, pods) or _gathering(job, live))


def _gathering(job: JobRecord, live: Sequence[Pod]) -> str:
    """How far workers are that wait for each other."""
    if job.gathering is None:
        return ""
    told, expected = job.gathering
    started = max(told, sum(map(has_joined, live)))  # it is told only now and then
    missing = absent(job, live)
    said = f"{started} of {expected} workers have started; they go on once all have"
    return f"{said}; not yet: {missing}" if missing else said


def workload_state(workload: Workload, quota_state: QuotaState) -> JobState:
    """The state of a pod group, or of another kind of job: it is known by its Workload only."""
    wanted = sum(podset.count for podset in workload.spec.pod_sets)
    ready = is_true(workload.status.conditions, PODS_READY)
    word: Word = ("Running" if ready else "Starting") if quota_state.word == "Admitted" else quota_state.word
    return JobState(word, wanted if ready else 0, wanted, quota_state.reason, quota_state=quota_state)


def _suspended(job: JobRecord, quota_state: QuotaState | None, done: int, wanted: int) -> JobState:
    """By its queue, which resumes it, or by a person."""
    if quota_state is not None:
        return JobState("Starting", done, wanted)
    if QUEUE_NAME_LABEL in job.metadata.labels:
        return JobState("Queued", done, wanted, "waiting to be taken in by its queue")
    return JobState("Suspended", done, wanted, "the job is suspended", blocked=True)


def _between_pods(job: JobRecord, pods: Sequence[Pod], done: int, wanted: int) -> JobState:
    """No pod runs: none has been made yet, the last ones have ended, or some failed and others will follow."""
    failed = max(job.failed, sum(pod.status.phase == "Failed" for pod in pods))
    ending = job.ends_with(failed)
    if not pods or (len(pods) < wanted and not (failed or ending)):
        return JobState("Pending", done, wanted, "waiting for its pods to be created")
    if ending or not failed:
        return JobState("Finishing", done, wanted)
    return JobState("Retrying", done, wanted, f"the next comes after a pause; {so_far(job, pods)}")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a finished job ended: its own exit code, and what is to be said about it."""

    code: int
    text: str = ""


def ending(job: JobRecord, pods: Sequence[Pod], late: str = "") -> Ending:
    """Code 0, or that of the worker that failed first, or 1 if none is left to tell. late: who was absent at last."""
    state = job_state(job, pods)
    if state.word == "Completed":
        return Ending(0)
    if state.word == "Cancelled":
        return Ending(1, "cancelled")
    found = failures(job, pods)
    if late and job.gathering is not None:
        return Ending(found[0].code if found else 1, f"failed: {state.reason}; not yet: {late}")
    return Ending(found[0].code if found else 1, f"failed: {state.reason}" if state.reason else "failed")
