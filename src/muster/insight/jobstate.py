"""What a job is doing, in a word and a sentence, and how it ended. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from muster.api.conditions import is_true
from muster.api.core import Pod
from muster.api.kueue import Workload
from muster.api.kueue.names import PODS_READY, QUEUE_NAME_LABEL
from muster.api.pods import ended_with_cluster, is_finished, is_ready, why_unplaced
from muster.insight.failures import absent, culprits, so_far, why_failed, why_waiting
from muster.insight.quotastate import QuotaState, Stage
from muster.insight.record import Elsewhere, JobRecord, has_joined
from muster.insight.trials import Count, counted
from muster.insight.trials import so_far as trials_so_far

Word: TypeAlias = (
    Stage | Literal["Suspended", "Pending", "Starting", "Running", "Finishing", "Retrying", "Cancelled", "Deleting"]
)


# Of a job that names MultiKueue as what runs it.
_NO_CLUSTER = "it is left to MultiKueue, and no cluster has it: its queue has no check of MultiKueue's"


@dataclass(frozen=True, slots=True)
class JobState:
    """One line of `muster ps`.

    word: before a job may make pods, that of its quota state: Queued, Checking, Evicting or Held.
    ready: pods that are ready, or that have succeeded.
    wanted: pods that should be.
    reason: why it is not further, as the level that holds it says.
    blocked: something must change before it goes on; otherwise it is only a matter of moments.
    quota_state: where it stands in its queue, as long as that is what holds it.
    progress: how far its group is, which holds nodes meanwhile; part of the reason.
    count: how far a sweep is; of one, `ready` is how many trials have succeeded.
    """

    word: Word
    ready: int
    wanted: int
    reason: str = ""
    blocked: bool = False
    quota_state: QuotaState | None = None
    progress: str = ""
    count: Count | None = None

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

    @property
    def outside(self) -> bool:
        """Whether it is to queue, and its queue does not know of it yet."""
        return self.word == "Queued" and self.quota_state is None

    def kept_out(self, why: str) -> "JobState":
        """The same with the reason why its queue does not take it in; "" if none is known."""
        return (
            replace(self, reason=f"its queue cannot take it in: {why}", blocked=True) if self.outside and why else self
        )

    def saying(self, reason: str) -> "JobState":
        """The same with another reason."""
        quota_state = replace(self.quota_state, reason=reason) if self.quota_state is not None else None
        return replace(self, reason=reason, blocked=True, quota_state=quota_state)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a job does not start, whatever ends before it; "" if nothing proves that.

    certain: more nodes, that an autoscaler may bring, would not help.
    awaits: which nodes must be well before it starts, if that is all that it takes.
    """

    text: str = ""
    certain: bool = False
    awaits: str = ""

    @property
    def decides(self) -> bool:
        """Whether it says all there is to say: what others have is of no matter."""
        return self.certain or bool(self.awaits)

    @property
    def sentence(self) -> str:
        """For the line of a job; "" if it may start once others have ended."""
        if not self.text:
            return f"waits for {self.awaits}" if self.awaits else ""
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


def workers(job: JobRecord, text: str) -> frozenset[str]:
    """The ranks of a list as `0,2-3`. Raises `ValueError` as `worker` does."""
    found: set[str] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if dash and job.indexed:
            low, high = int(worker(job, first)), int(worker(job, last))
            if low > high:
                raise ValueError(f"{part}: the first rank of it is higher than the last")
            found |= {str(rank) for rank in range(low, high + 1)}
        else:
            found.add(worker(job, part))
    return frozenset(found)


def job_state(job: JobRecord, pods: Sequence[Pod], quota_state: QuotaState | None = None) -> JobState:
    """The state of a job with the pods that it has now, and where its Workload stands, if it has one."""
    state = _job_state(job, pods, quota_state)
    return state if job.array is None else _of_sweep(job, pods, state)


def _of_sweep(job: JobRecord, pods: Sequence[Pod], state: JobState) -> JobState:
    """The state of a job whose pods are trials: each goes on by itself, so it runs while one of them does."""
    count = counted(job, pods)
    state = replace(state, ready=count.done, count=count)
    if state.finished or state.word in ("Deleting", "Suspended") or state.quota_state is not None:
        return state
    between = count.over or state.word in ("Retrying", "Finishing")  # one pod and the next
    goes_on = count.running or (between and not state.blocked)
    return replace(state, word="Running", reason=trials_so_far(job, count), blocked=False) if goes_on else state


def _job_state(job: JobRecord, pods: Sequence[Pod], quota_state: QuotaState | None) -> JobState:
    wanted, end = job.wanted, job.end
    live = [pod for pod in pods if not is_finished(pod)]
    done = job.succeeded + sum(1 for pod in live if is_ready(pod))
    if end is not None:
        return JobState(end.word, job.succeeded, wanted, why_failed(job, end, pods) if end.word == "Failed" else "")
    if job.gone or job.metadata.deletion_timestamp is not None:
        return JobState("Deleting", min(done, wanted), wanted)  # of its Jobs some may have gone before their pods
    if quota_state is not None and quota_state.stopped:
        return JobState(quota_state.word, done, wanted, quota_state.reason, bool(quota_state.reason), quota_state)
    if job.manager and not live:  # when it starts, and whether, is for that to say
        return JobState(
            "Suspended" if job.suspended else "Pending", done, wanted, f"managed by {job.manager}", blocked=True
        )
    if job.suspended:
        return _suspended(job, quota_state, done, wanted)
    if job.held_up:
        return JobState("Starting" if live else "Pending", done, wanted, job.held_up, blocked=True)
    if job.elsewhere is not None:
        return _running_elsewhere(job, job.elsewhere, quota_state, wanted)
    unplaced = [pod for pod in live if not pod.spec.node_name]
    goes_on = any(map(is_ready, live)) and all(pod.spec.scheduling_gates for pod in unplaced)
    if unplaced and not goes_on:  # who is gated has not its turn yet, as when a job grows in its queue
        why, progress = why_unplaced(unplaced), _progress(job, live)
        said = why or "waiting for all its pods, to be placed together"
        reason = f"{said.rstrip('.')}; {progress}" if progress else said
        return JobState("Pending", done, wanted, reason, bool(why), progress=progress)
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
    missing = absent(job, live)
    said = f"{gathered(job, live)} of {job.gathering[1]} workers have started; they go on once all have"
    return f"{said}; not yet: {missing}" if missing else said


def _progress(job: JobRecord, live: Sequence[Pod]) -> str:
    """How many of a group have started while others have no node."""
    return f"{gathered(job, live)} of {job.gathering[1]} pods started" if job.gathering is not None else ""


def gathered(job: JobRecord, live: Iterable[Pod]) -> int:
    """How many of its group have started: the status of the JobSet says it only now and then."""
    told = job.gathering[0] if job.gathering is not None else 0
    return max(told, sum(map(has_joined, live)))


def workload_state(workload: Workload, quota_state: QuotaState) -> JobState:
    """The state of a pod group, or of another kind of job: it is known by its Workload only."""
    wanted = sum(podset.count for podset in workload.spec.pod_sets)
    ready = is_true(workload.status.conditions, PODS_READY)
    word: Word = ("Running" if ready else "Starting") if quota_state.word == "Admitted" else quota_state.word
    if workload.metadata.deletion_timestamp is not None:
        word = "Deleting"
    return JobState(word, wanted if ready else 0, wanted, quota_state.reason, quota_state=quota_state)


def _suspended(job: JobRecord, quota_state: QuotaState | None, done: int, wanted: int) -> JobState:
    """By its queue, which resumes it, or by a person."""
    if quota_state is not None:
        return JobState("Starting", done, wanted)
    if job.metadata.labels.get(QUEUE_NAME_LABEL):
        return JobState("Queued", done, wanted, "waiting to be taken in by its queue")
    return JobState("Suspended", done, wanted, "the job is suspended", blocked=True)


def _running_elsewhere(job: JobRecord, told: Elsewhere, quota_state: QuotaState | None, wanted: int) -> JobState:
    """As its cluster counts its pods."""
    done = told.succeeded + told.ready
    if quota_state is None or not quota_state.cluster:
        return JobState("Starting", done, wanted, _NO_CLUSTER, blocked=True)
    if told.ready or done >= wanted:
        return JobState("Running", done, wanted)
    reason = f"not started in {quota_state.cluster} yet: muster why {job.metadata.name}"
    return JobState("Starting", done, wanted, reason)


def _between_pods(job: JobRecord, pods: Sequence[Pod], done: int, wanted: int) -> JobState:
    """No pod runs: none has been made yet, the last ones have ended, or some failed and others will follow."""
    pods = [pod for pod in pods if not ended_with_cluster(pod)]
    failed = max(job.failed, sum(pod.status.phase == "Failed" for pod in pods))
    ending = job.ends_with(pods)
    if not pods and not job.workers:
        reason = "it has 0 workers, and waits to be scaled" if job.roles else "it has no roles, and never runs"
        return JobState("Pending", done, wanted, reason, blocked=True)
    if not pods or (len(pods) < wanted and not (failed or ending)):
        return JobState("Pending", done, wanted, "waiting for its pods to be created")
    if job.restarting:
        return JobState("Retrying", done, wanted, so_far(job, pods))
    if ending or not failed:
        return JobState("Finishing", done, wanted)
    return JobState("Retrying", done, wanted, f"the next comes after a pause; {so_far(job, pods)}")


# As the command timeout has it.
_OUT_OF_TIME = 124


@dataclass(frozen=True, slots=True)
class Ending:
    """How a finished job ended: its own exit code, and what is to be said about it."""

    code: int
    text: str = ""


def ending(job: JobRecord, pods: Sequence[Pod], late: str = "") -> Ending:
    """Code 0, or that of the worker that failed first, or 1 if none is left to tell; 124 of one that ran out of time.

    late: who was absent at last.
    """
    state = job_state(job, pods)
    if state.word == "Completed":
        return Ending(0)
    if state.word == "Cancelled":
        return Ending(1, "cancelled")
    if job.end is not None and job.end.out_of_time and job.gathering is None:  # else it is the start that took too long
        return Ending(_OUT_OF_TIME, f"failed: {state.reason}")
    found = culprits(job, job.end, pods) if job.end is not None else []
    if late and job.gathering is not None:
        return Ending(found[0].code if found else 1, f"failed: {state.reason}; not yet: {late}")
    return Ending(found[0].code if found else 1, f"failed: {state.reason}" if state.reason else "failed")
