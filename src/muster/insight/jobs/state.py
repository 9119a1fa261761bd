"""The state of a job as a word and a sentence, and how the job ended. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from muster.api.conditions import is_true
from muster.api.core import Pod
from muster.api.kueue import Workload
from muster.api.kueue.names import PODS_READY, QUEUE_NAME_LABEL
from muster.api.ours.trials import MOST_TRIALS
from muster.api.pods import is_finished, is_ready, why_unplaced
from muster.insight.jobs.deferral import describe_deferral
from muster.insight.jobs.failures import (
    count_times,
    describe_absent,
    describe_cancelled_trials,
    describe_failures_so_far,
    explain_failure,
    explain_unheard,
    explain_waiting,
    find_culprits,
)
from muster.insight.jobs.replacements import describe_replacements
from muster.insight.jobs.trials import TrialCount, count_trials
from muster.insight.jobs.trials import describe_sweep as trials_so_far
from muster.insight.quota.state import QuotaState, Stage
from muster.insight.record import JobRecord, RemoteCounts, has_joined
from muster.insight.text import format_span
from muster.jobs.job.conditions import finish

Word: TypeAlias = (
    Stage
    | Literal[
        "Suspended", "Pending", "Starting", "Running", "Finishing", "Retrying", "Cancelling", "Cancelled", "Deleting"
    ]
)


_NEVER, _NOT_AS_THINGS_ARE = "can never start", "cannot start as things are"

WAITING = ("Queued", "Checking", "Held", "Suspended", "Pending", "Evicting")
"""The states of a job that waits for quota, for a release or for nodes."""

# The state of a job whose `managedBy` names MultiKueue but whose queue does not use it.
_NO_CLUSTER = "it is left to MultiKueue, and no cluster has it: its queue has no check of MultiKueue's"


class JobState(Struct, frozen=True, gc=False):
    """The state of a job, as a row of `muster ps` shows it.

    word: the state of the job's quota (Queued, Checking, Evicting or Held) until the job may create pods; after that,
    the job's own state.
    ready: the number of pods that are ready or have succeeded; for a sweep, of trials that run or have succeeded.
    wanted: the desired number of pods.
    reason: what the job waits for, from the level that delays it.
    blocked: whether the job makes no progress until something changes; otherwise it continues within moments.
    quota_state: the job's state in its queue, while the queue delays it.
    progress: the part of `reason` that says how many workers of the group have started and hold nodes.
    count: the progress of a sweep's trials.
    slowed: a sentence that a sweep runs fewer concurrent trials than its user requested; "" if it does not.
    """

    word: Word
    ready: int
    wanted: int
    reason: str = ""
    blocked: bool = False
    quota_state: QuotaState | None = None
    progress: str = ""
    count: TrialCount | None = None
    slowed: str = ""

    @property
    def finished(self) -> bool:
        """Whether the job has ended: it completed, failed or was cancelled."""
        return self.word in ("Completed", "Failed", "Cancelled")

    @property
    def waits(self) -> bool:
        """Whether the job waits for its queue or for nodes, possibly forever."""
        return self.quota_state.waits if self.quota_state is not None else self.word == "Pending" and self.blocked

    @property
    def stuck(self) -> bool:
        """Whether the job waits, and the reason is known."""
        return self.waits and bool(self.reason)

    @property
    def hopeless(self) -> bool:
        """Whether the queue can never admit the job, or the job waits for another known reason without a queue."""
        return self.stuck and (self.quota_state is None or self.quota_state.final)

    @property
    def outside(self) -> bool:
        """Whether the queue that the job names has not accepted the job yet."""
        return self.word == "Queued" and self.quota_state is None

    def with_refusal(self, why: str) -> "JobState":
        """Return the state with the reason why the queue does not accept the job.

        Return the same state if `why` is "" or the queue has accepted the job.
        """
        return (
            replace(self, reason=f"its queue cannot take it in: {why}", blocked=True) if self.outside and why else self
        )

    def with_silence(self, why: str) -> "JobState":
        """Return the state with the reason why no program starts the job; the same state if `why` is ""."""
        return replace(self, reason=why, blocked=True) if why else self

    def with_reason(self, reason: str) -> "JobState":
        """Return the state with its reason replaced."""
        quota_state = replace(self.quota_state, reason=reason) if self.quota_state is not None else None
        return replace(self, reason=reason, blocked=True, quota_state=quota_state)


def find_wait_begin(
    state: JobState, quota: QuotaState | None, submitted: datetime | None, started: datetime | None
) -> datetime | None:
    """Return when a job began to wait; None if it does not wait, or if a job that ran before does not record it.

    submitted: when the job was created.
    started: when its first pod began to run; None if none has.
    """
    if state.word not in WAITING or (started is not None and state.word in ("Pending", "Suspended")):
        return None
    return quota.waits_since if quota is not None else submitted


class NeverVerdict(Struct, frozen=True):
    """Why a job cannot start even after all others have ended; empty if that is not proven.

    certain: whether further nodes, such as an autoscaler may add, would not help either.
    awaits: the nodes that must recover before the job starts, if nothing else is missing.
    """

    text: str = ""
    certain: bool = False
    awaits: str = ""

    @property
    def suffices(self) -> bool:
        """Whether the verdict alone explains the wait, so that callers need not read the usage of other jobs."""
        return self.certain or bool(self.awaits)

    @property
    def sentence(self) -> str:
        """The verdict as a sentence for the row of a job; "" if the job may start after others have ended."""
        if not self.text:
            return f"waits for {self.awaits}" if self.awaits else ""
        return f"{_NEVER if self.certain else _NOT_AS_THINGS_ARE}: {self.text}"


# The verdict that the job may start.
OPEN = NeverVerdict()


def tells_never(reason: str) -> bool:
    """Return whether the reason in a job's row says that the job can never start, or not as things are."""
    return reason.startswith((_NEVER, _NOT_AS_THINGS_ARE))


def parse_rank(job: JobRecord, rank: str) -> str:
    """Return a rank as the job's pods have it, for example without the leading zeros that a user typed.

    Ranks of a job without indexes stay unchanged. Raises `ValueError`, with the existing ranks in its message, if an
    indexed job has no such rank.
    """
    if not job.indexed:
        return rank  # in another cluster, it is the end of the pod's name
    if not (rank.isascii() and rank.isdecimal()) or int(rank) >= job.max_ranks:
        raise ValueError(f"{job.metadata.name} has no worker {rank}: its ranks are 0 to {job.max_ranks - 1}")
    return str(int(rank))


def parse_ranks(job: JobRecord, text: str) -> frozenset[str]:
    """Parse a list of ranks such as `0,2-3`.

    Raises `ValueError` for ranks that the job does not have, for a range whose end is less than its beginning, and for
    too many ranks.
    """
    ranks: set[str] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if dash and job.indexed:
            low, high = int(parse_rank(job, first)), int(parse_rank(job, last))
            if low > high:
                raise ValueError(f"{part}: the first rank of it is higher than the last")
            if len(ranks) + high - low >= MOST_TRIALS:
                raise ValueError(f"{part}: more than {MOST_TRIALS} ranks; name fewer, or none for all")
            ranks |= {str(rank) for rank in range(low, high + 1)}
        else:
            ranks.add(parse_rank(job, part))
    return frozenset(ranks)


def find_job_state(job: JobRecord, pods: Sequence[Pod], quota_state: QuotaState | None = None) -> JobState:
    """Return the state of a job from its existing pods and, if it has a Workload, from the state of its quota.

    quota_state: the state of the job's quota; None for a job without a Workload.
    """
    state = _find_state_of_job(job, pods, quota_state)
    return state if job.array is None else _find_state_of_sweep(job, pods, state, quota_state)


def _find_state_of_sweep(
    job: JobRecord, pods: Sequence[Pod], state: JobState, quota_state: QuotaState | None
) -> JobState:
    """Return the state of a sweep, which runs while any trial runs, because trials are independent."""
    count = count_trials(job, pods)
    state = replace(state, ready=count.done + count.running, count=count)
    if state.finished or state.word in ("Cancelling", "Deleting", "Suspended") or state.quota_state is not None:
        return state
    between = count.over or state.word in ("Retrying", "Finishing")  # between two pods
    goes_on = count.running or (between and not state.blocked)
    if not goes_on:
        return state
    slowed = _describe_partial_sweep(job, quota_state) if quota_state is not None else ""
    reason = "; ".join(filter(None, (trials_so_far(job, count), slowed)))
    return replace(state, word="Running", reason=reason, blocked=False, slowed=slowed)


def _describe_partial_sweep(job: JobRecord, quota_state: QuotaState) -> str:
    """Return a phrase that a sweep has quota for fewer concurrent trials than its user requested; "" if it has enough.

    Also return "" for a sweep that requested to run all its trials at the same time, because it runs as many as there
    is quota for.
    """
    if not quota_state.is_partial or quota_state.asked >= job.wanted:
        return ""
    return f"{quota_state.granted} at a time instead of {quota_state.asked}, as there is quota for no more"


def _find_state_of_job(job: JobRecord, pods: Sequence[Pod], quota_state: QuotaState | None) -> JobState:
    """Return the state of a job. The first rule that applies decides, from the job's end to its running pods.

    quota_state: the state of the job in its queue; None for a job without a queue.
    """
    wanted = job.wanted
    live = [pod for pod in pods if not is_finished(pod)]
    done = job.succeeded + sum(1 for pod in live if is_ready(pod))
    if (over := _find_state_of_ending(job, pods, live, done)) is not None:
        return over
    if (deferral := describe_deferral(job)) and (quota_state is None or quota_state.waits):
        return JobState("Held", done, wanted, deferral, blocked=True)
    if quota_state is not None and quota_state.stopped:
        return JobState(quota_state.word, done, wanted, quota_state.reason, bool(quota_state.reason), quota_state)
    if job.manager and not live:  # the external manager decides whether and when the job starts
        return JobState(
            "Suspended" if job.suspended else "Pending", done, wanted, f"managed by {job.manager}", blocked=True
        )
    if job.suspended:
        return _find_state_of_suspended(job, quota_state, done, wanted)
    if job.held_up:
        return JobState("Starting" if live else "Pending", done, wanted, job.held_up, blocked=True)
    if job.remote_counts is not None:
        return _find_state_elsewhere(job, job.remote_counts, quota_state, wanted)
    unplaced = [pod for pod in live if not pod.spec.node_name]
    goes_on = any(map(is_ready, live)) and all(pod.spec.scheduling_gates for pod in unplaced)
    if unplaced and not goes_on:  # a gated pod is not due yet, for example while a job grows in its queue
        why, progress = why_unplaced(unplaced), _describe_progress(job, live)
        wait_reason = why or explain_no_verdict(job)
        reason = f"{wait_reason.rstrip('.')}; {progress}" if progress else wait_reason
        return JobState("Pending", done, wanted, reason, bool(why), progress=progress)
    if (held_back := _find_state_of_stuck_pods(job, live, done, wanted)) is not None:
        return held_back
    if not live:
        return _find_state_between_pods(job, pods, done, wanted)
    if any(pod.status.phase == "Running" for pod in live):
        return JobState("Running", done, wanted, _describe_trouble(job, pods, quota_state))
    return JobState("Starting", done, wanted, describe_failures_so_far(job, pods) or _describe_group_start(job, live))


def explain_no_verdict(job: JobRecord | None) -> str:
    """Return why pods have no node yet, if the scheduler has not reported a reason."""
    if job is not None and job.array is not None:
        return "waiting for the scheduler, which places each trial by itself"
    return "waiting for all its pods, to be placed together"


def _find_state_of_ending(job: JobRecord, pods: Sequence[Pod], live: Sequence[Pod], done: int) -> JobState | None:
    """Return the state of a job that has ended, is cancelled or is being deleted; None for any other job.

    live: the pods that have not ended.
    done: how many pods are ready or have succeeded.
    """
    wanted, end = job.wanted, job.end
    if is_cancelling(job, pods):
        return JobState("Cancelling", done, wanted, explain_unheard(job, live) or _describe_grace(live))
    if end is not None:
        past_reason = job.past.reason if job.past is not None else ""  # the reason recorded before pods were deleted
        reason = past_reason or explain_failure(job, end, pods) if end.word == "Failed" else ""
        cancelled = "" if end.word == "Cancelled" else describe_cancelled_trials(job)
        return JobState(end.word, job.succeeded, wanted, "; ".join(filter(None, (reason, cancelled))))
    if job.gone or job.metadata.deletion_timestamp is not None:
        return JobState("Deleting", min(done, wanted), wanted)  # some Jobs may be deleted before their pods
    return None


def is_cancelling(job: JobRecord, pods: Iterable[Pod]) -> bool:
    """Return whether a user cancelled the job, and the job, one of its Jobs or one of its workers has not ended.

    A JobSet fails at once, and an unfinished Job of it may still create pods until its controller deletes it.
    """
    if not job.is_cancelled:
        return False
    goes_on = job.end is None or any(finish(one) is None for one in job.jobs)
    return goes_on or not all(map(is_finished, pods))


def _describe_grace(live: Iterable[Pod]) -> str:
    """Return how long the workers of a cancelled job may still run; "" if none is left or none has a grace period."""
    seconds = max((pod.spec.termination_grace_period_seconds or 0 for pod in live), default=0)
    return f"its workers have up to {format_span(seconds)} to end" if seconds else ""


def _find_state_of_stuck_pods(job: JobRecord, live: Sequence[Pod], done: int, wanted: int) -> JobState | None:
    """Return the state of a job with pods on lost nodes or pods that cannot start; None if it has neither.

    live: the pods that have not ended.
    done: how many pods are ready or have succeeded.
    """
    if unheard := explain_unheard(job, live):
        has_run = all(pod.status.phase == "Running" for pod in live)
        return JobState("Running" if has_run else "Starting", done, wanted, unheard, blocked=True)
    waiting = [reason for pod in live if not is_ready(pod) for reason in explain_waiting(job, pod)]
    return JobState("Starting", done, wanted, waiting[0], blocked=True) if waiting else None


def _describe_trouble(job: JobRecord, pods: Sequence[Pod], quota_state: QuotaState | None) -> str:
    """Return why a running job restarted or lost pods; "" if neither happened."""
    lost = describe_evictions(quota_state, job)
    return "; ".join(filter(None, (describe_failures_so_far(job, pods), lost)))


def describe_evictions(quota_state: QuotaState | None, job: JobRecord | None) -> str:
    """Return how many times a job that has quota lost it before, and why it last did; "" if it never lost it.

    For a job whose status counts suspensions as interruptions, return "".
    """
    if quota_state is None or not quota_state.evictions or not quota_state.last_eviction:
        return ""
    if job is not None and job.suspensions:
        return ""
    return f"lost its quota {count_times(quota_state.evictions)}, last: {quota_state.last_eviction}"


def _describe_group_start(job: JobRecord, live: Sequence[Pod]) -> str:
    """Return how many workers of the start group have started and which have not; "" if no group waits."""
    if job.group_start is None:
        return ""
    missing = describe_absent(job, live)
    started = f"{count_started(job, live)} of {job.group_start.expected} workers have started"
    sentence = f"{started}; their commands begin when all have started"
    return f"{sentence}; not yet: {missing}" if missing else sentence


def _describe_progress(job: JobRecord, live: Sequence[Pod]) -> str:
    """Return how many pods of the start group have started, such as `2 of 4 pods started`; "" if no group waits."""
    return (
        f"{count_started(job, live)} of {job.group_start.expected} pods started" if job.group_start is not None else ""
    )


def count_started(job: JobRecord, live: Iterable[Pod]) -> int:
    """Return how many workers of the start group have started. Pods show that before the JobSet's status does."""
    recorded = job.group_start.started if job.group_start is not None else 0
    return max(recorded, sum(map(has_joined, live)))


def find_workload_state(workload: Workload, quota_state: QuotaState, pods: Iterable[Pod] = ()) -> JobState:
    """Return the state of a job of which only the Workload is known.

    Such a job is a single pod, a pod group, or a job of another project's kind.

    pods: the pods of a pod group or a single pod, if they are known.
    """
    wanted = sum(podset.count for podset in workload.spec.pod_sets)
    ready = is_true(workload.status.conditions, PODS_READY)
    word: Word = ("Running" if ready else "Starting") if quota_state.word == "Admitted" else quota_state.word
    if workload.metadata.deletion_timestamp is not None:
        word = "Deleting"
    pods = tuple(pods)
    lacks = describe_replacements(workload, pods) if word in ("Starting", "Running", "Queued") else ""
    if lacks:
        going = [pod for pod in pods if is_ready(pod)]
        return JobState("Starting" if word == "Running" else word, len(going), wanted, lacks, blocked=True)
    unplaced = [pod for pod in pods if not is_finished(pod) and not pod.spec.node_name]
    if word == "Starting" and (why := why_unplaced(unplaced)):
        return JobState("Pending", 0, wanted, why, blocked=True)
    return JobState(word, wanted if ready else 0, wanted, quota_state.reason, quota_state=quota_state)


def _find_state_of_suspended(job: JobRecord, quota_state: QuotaState | None, done: int, wanted: int) -> JobState:
    """Return the state of a suspended job.

    With quota it is Starting, with a queue it is Queued, and otherwise a user has to resume it.
    """
    if quota_state is not None:
        return JobState("Starting", done, wanted)
    if job.metadata.labels.get(QUEUE_NAME_LABEL):
        return JobState("Queued", done, wanted, "waiting to be taken in by its queue")
    return JobState("Suspended", done, wanted, "the job is suspended", blocked=True)


def _find_state_elsewhere(
    job: JobRecord, remote_counts: RemoteCounts, quota_state: QuotaState | None, wanted: int
) -> JobState:
    """Return the state of a job that runs in another cluster, or is still to be sent to one.

    remote_counts: the other cluster's counts of pods.
    """
    done = remote_counts.succeeded + remote_counts.ready
    if quota_state is None or not quota_state.cluster:
        return JobState("Starting", done, wanted, _NO_CLUSTER, blocked=True)
    if remote_counts.ready or done >= wanted:
        return JobState("Running", done, wanted, describe_evictions(quota_state, job))
    reason = f"not started in {quota_state.cluster} yet: muster why {job.metadata.name}"
    return JobState("Starting", done, wanted, reason)


def _find_state_between_pods(job: JobRecord, pods: Sequence[Pod], done: int, wanted: int) -> JobState:
    """Return the state of a job without a running pod.

    No pod exists yet, all pods have ended, or failed pods will be replaced.

    done: how many pods have succeeded.
    """
    pods = [pod for pod in pods if not job.is_excused(pod)]
    failed = max(job.failed, sum(pod.status.phase == "Failed" for pod in pods))
    ending = job.ends_with(pods)
    if not pods and not any(job.workers_by_role):
        reason = "it has 0 workers, and waits to be scaled" if job.roles else "it has no roles, and never runs"
        return JobState("Pending", done, wanted, reason, blocked=True)
    if not pods or (len(pods) < wanted and not (failed or ending)):
        return JobState("Pending", done, wanted, "waiting for its pods to be created")
    if job.restarting:
        return JobState("Retrying", done, wanted, describe_failures_so_far(job, pods))
    if ending or not failed:
        return JobState("Finishing", done, wanted)
    return JobState("Retrying", done, wanted, f"the next comes after a pause; {describe_failures_so_far(job, pods)}")


# The exit code of the command `timeout`.
_OUT_OF_TIME = 124


class Ending(Struct, frozen=True):
    """The end of a finished job, for the command line: its exit code and a text."""

    code: int
    text: str = ""


def find_ending(job: JobRecord, pods: Sequence[Pod], late: str = "") -> Ending:
    """Return the exit code of a finished job and a text on its failure.

    The code is 0 for a completed job, the exit code of the worker that failed first, or 124 for a job that exceeded its
    time limit. It is 1 for a cancelled job, or if neither a pod nor the history has an exit code.

    late: the pods that had not started when the group's start timed out.
    """
    state = find_job_state(job, pods)
    if state.word == "Completed":
        return Ending(0)
    if job.is_cancelled:
        return Ending(1, "cancelled")
    if job.end is not None and job.end.out_of_time and job.group_start is None:  # otherwise the start took too long
        return Ending(_OUT_OF_TIME, f"failed: {state.reason}")
    culprits = find_culprits(job, job.end, pods) if job.end is not None else []
    code = culprits[0].code if culprits else 1
    if job.past is not None and job.past.exit_code is not None:
        code = job.past.exit_code
    if late and job.group_start is not None:
        return Ending(code, f"failed: {state.reason}; not yet: {late}")
    return Ending(code, f"failed: {state.reason}" if state.reason else "failed")
