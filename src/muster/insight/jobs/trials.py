"""The progress of a sweep, and the state of each of its trials. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from muster.api.core import Pod
from muster.api.ours.trials import grid_of
from muster.api.pods import is_deleting, is_finished
from muster.api.values.indexes import Indexes
from muster.insight.jobs.failures import (
    describe_cancelled_trials,
    describe_failed_trials,
    describe_interruptions_and_restarts,
    shorten_indexes,
)
from muster.insight.jobs.workers import explain_pod
from muster.insight.record import JobRecord
from muster.jobs.job.census import completion_index, failures_of_index

# Longer strings of digits are no index.
_MOST_DIGITS = 9


class TrialCount(Struct, frozen=True):
    """The numbers of a sweep's trials that succeeded, failed permanently, run, have not started, or were cancelled."""

    done: int
    failed: int
    running: int
    left: int
    cancelled: int = 0

    @property
    def over(self) -> int:
        """The number of trials that have ended permanently."""
        return self.done + self.failed + self.cancelled

    @property
    def all(self) -> int:
        """The number of all trials of the sweep."""
        return self.over + self.running + self.left

    def __str__(self) -> str:
        parts = {"failed": self.failed, "cancelled": self.cancelled, "running": self.running, "to go": self.left}
        return ", ".join([f"{self.done} of {self.all} done", *(f"{n} {what}" for what, n in parts.items() if n)])


def count_trials(job: JobRecord, pods: Sequence[Pod]) -> TrialCount:
    """Return how many trials of a sweep are in each state.

    Pods are read, too, because they end before the Job's status shows it.
    """
    done = job.succeeded_trials | _list_indexes_in_phase(pods, "Succeeded")
    failed, cancelled = job.failed_trials, job.cancelled_trials - done
    running = Indexes() if job.end is not None else _list_indexes_in_phase(pods, "Running")
    over = done | failed | cancelled
    going = len(running - over)
    return TrialCount(len(done), len(failed), going, max(job.wanted - len(over) - going, 0), len(cancelled))


def _list_indexes_in_phase(pods: Sequence[Pod], phase: str) -> Indexes:
    return Indexes.of(completion_index(pod) for pod in pods if pod.status.phase == phase and not is_deleting(pod))


def describe_sweep(job: JobRecord, count: TrialCount) -> str:
    """Return, as a phrase, how many trials run and remain, and which failed or were cancelled.

    The phrase ends with interruptions and restarts. It is "" if there is none of all this.
    """
    parts = {"running": count.running, "to go": count.left}
    counts = [f"{number} {what}" for what, number in parts.items() if number]
    lost = describe_failed_trials(job, job.failed_trials) if count.failed else ""
    cancelled, happened = describe_cancelled_trials(job), describe_interruptions_and_restarts(job)
    return "; ".join(filter(None, (", ".join(counts), lost, cancelled, happened)))


def rank_of_trial(job: JobRecord, index: str) -> str:
    """Return the rank of the trial with this index. Raises `ValueError` if the job has no such trial."""
    if job.array is None:
        raise ValueError(f"{job.metadata.name} is no sweep: its workers have ranks")
    is_index = index.isascii() and index.isdecimal() and len(index) <= _MOST_DIGITS
    rank = job.array.completion(int(index)) if is_index else None
    if rank is None:
        raise ValueError(f"{job.metadata.name} has no trial {index}: they are {shorten_indexes(str(job.array))}")
    return str(rank)


def make_trial_rows(job: JobRecord, pods: Sequence[Pod], now: datetime) -> list[dict[str, Any]]:
    """Return a row for each trial of a sweep, by rank, with the trial's state.

    A retried trial has the state of its last attempt.
    """
    trials = Trials(job, pods)
    return trials.make_rows(range(len(trials)), now)


class Trials:
    """The trials of a sweep by state. Building it takes time in proportion to the number of pods, not of trials.

    ranks_by_state: the ranks of the trials in each state that at least one trial has.
    """

    def __init__(self, job: JobRecord, pods: Sequence[Pod]) -> None:
        assert job.array is not None, "it is a sweep"
        self._job, self._array = job, job.array
        self._newest = _find_newest(pods)
        self._done, self._failed, self._cancelled = job.succeeded_trials, job.failed_trials, job.cancelled_trials
        self.ranks_by_state = self._group_by_state()

    def __len__(self) -> int:
        return len(self._array)

    def make_rows(self, ranks: Iterable[int], now: datetime) -> list[dict[str, Any]]:
        """Return a row for each of these trials, with its state.

        `seconds` is how long the trial has run, `values` its parameters in the grid.
        """
        job, grid, rows = self._job, grid_of(self._job.metadata.annotations), []
        for rank in ranks:
            index, pod = self._array[rank], self._newest.get(rank)
            state = self._find_state(rank, pod)
            row = {"index": index, "values": grid.values(index) if grid is not None else {}, "state": state}
            row |= _make_row_of_pod(job, pod, state, now)
            is_past = pod is None and state in ("Completed", "Failed")
            rows.append(row | _make_row_of_past(job, row) if is_past else row)
        return rows

    def _group_by_state(self) -> dict[str, Indexes]:
        """Return the ranks of the trials in each state that at least one trial has.

        Only trials with a pod are examined one by one; all other ranks are divided as whole ranges, by the Job's
        status.
        """
        ranks: dict[str, list[int]] = {}
        for rank, pod in self._newest.items():
            if 0 <= rank < len(self):
                ranks.setdefault(self._find_state(rank, pod), []).append(rank)
        found = {state: Indexes.of(some) for state, some in ranks.items()}
        rest = Indexes(((0, len(self) - 1),)) - Indexes.of(rank for rank in self._newest if rank >= 0)
        is_over = self._job.is_cancelled or self._job.end is not None
        counted = (("Completed", self._done), ("Failed", self._failed), ("Cancelled", self._cancelled))
        for state, some in counted:
            found[state] = found.get(state, Indexes()) | (rest & some)
            rest -= some
        others = "Cancelled" if is_over else "Pending"
        found[others] = found.get(others, Indexes()) | rest
        return {state: some for state, some in found.items() if some}

    def _find_state(self, rank: int, pod: Pod | None) -> str:
        if rank in self._done:
            return "Completed"
        return "Failed" if rank in self._failed else _find_state_of_trial(self._job, rank, pod, self._cancelled)


def _find_newest(pods: Sequence[Pod]) -> dict[int, Pod]:
    """Return the newest pod of each rank."""
    newest: dict[int, Pod] = {}
    for pod in pods:
        rank = completion_index(pod)
        other = newest.get(rank)
        if other is None or _make_age_key(other) <= _make_age_key(pod):
            newest[rank] = pod
    return newest


def _make_row_of_past(job: JobRecord, row: dict[str, Any]) -> dict[str, Any]:
    """Return the recorded node of a trial whose pod is deleted and, if the trial failed, the recorded reason.

    The history records a node only for jobs on one node, and a reason only for the first trial that failed.
    """
    nodes = job.past.nodes if job.past is not None else ()
    node = nodes[0] if len(nodes) == 1 else ""
    if row["state"] != "Failed":
        return {"node": node}
    reason = job.past.reason.partition(f": trial {row['index']} ")[2] if job.past is not None else ""
    return {"node": node, "reason": reason or "its pod is gone"}


def _make_row_of_pod(job: JobRecord, pod: Pod | None, state: str, now: datetime) -> dict[str, Any]:
    if pod is None:
        return {"tries": 0, "node": "", "seconds": None, "reason": ""}
    began, tries = pod.status.start_time, sum(failures_of_index(pod)) + 1
    ends = [one.state.terminated.finished_at for one in pod.status.container_statuses if one.state.terminated]
    end = max(filter(None, ends), default=None) if is_finished(pod) else now
    seconds = int((end - began).total_seconds()) if began is not None and end is not None else None
    return {"tries": tries, "node": pod.spec.node_name, "seconds": seconds, "reason": explain_pod(job, pod, state)}


def _find_state_of_trial(job: JobRecord, rank: int, pod: Pod | None, cancelled: Indexes) -> str:
    """Return the state of a trial that its Job does not count as succeeded or failed yet."""
    phase = pod.status.phase if pod is not None else ""
    if rank in cancelled:
        return "Cancelling" if pod is not None and not is_finished(pod) else "Cancelled"
    if phase == "Succeeded":
        return "Completed"
    if job.is_cancelled and pod is not None and not is_finished(pod):
        return "Cancelling"
    if job.is_cancelled or job.end is not None:  # the job ends before the trial finishes
        return "Failed" if phase == "Failed" else "Cancelled"
    if phase == "Failed":
        return "Retrying"
    if phase == "Running":
        return "Running"
    return "Starting" if pod is not None and pod.spec.node_name else "Pending"


def _make_age_key(pod: Pod) -> tuple[int, str]:
    return sum(failures_of_index(pod)), str(pod.metadata.creation_timestamp)
