"""The progress of a sweep, and what each of its trials does. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

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

# Longer digit strings are no index.
_MOST_DIGITS = 9


@dataclass(frozen=True, slots=True)
class TrialCount:
    """How many trials have succeeded, have failed for good, run now, are still to come, and were cancelled."""

    done: int
    failed: int
    running: int
    left: int
    cancelled: int = 0

    @property
    def over(self) -> int:
        """How many trials have ended for good."""
        return self.done + self.failed + self.cancelled

    @property
    def all(self) -> int:
        """How many trials the sweep has."""
        return self.over + self.running + self.left

    def __str__(self) -> str:
        parts = {"failed": self.failed, "cancelled": self.cancelled, "running": self.running, "to go": self.left}
        return ", ".join([f"{self.done} of {self.all} done", *(f"{n} {what}" for what, n in parts.items() if n)])


def count_trials(job: JobRecord, pods: Sequence[Pod]) -> TrialCount:
    """Return the count of a sweep's trials: pods show an end before the Job's status does."""
    done = job.succeeded_trials | _indexes_in_phase(pods, "Succeeded")
    failed, cancelled = job.failed_trials, job.cancelled_trials - done
    running = Indexes() if job.end is not None else _indexes_in_phase(pods, "Running")
    over = done | failed | cancelled
    going = len(running - over)
    return TrialCount(len(done), len(failed), going, max(job.wanted - len(over) - going, 0), len(cancelled))


def _indexes_in_phase(pods: Sequence[Pod], phase: str) -> Indexes:
    return Indexes.of(completion_index(pod) for pod in pods if pod.status.phase == phase and not is_deleting(pod))


def describe_sweep(job: JobRecord, count: TrialCount) -> str:
    """Return what to say of a sweep that goes on, beside how many trials are done."""
    parts = {"running": count.running, "to go": count.left}
    told = [f"{number} {what}" for what, number in parts.items() if number]
    lost = describe_failed_trials(job, job.failed_trials) if count.failed else ""
    cancelled, happened = describe_cancelled_trials(job), describe_interruptions_and_restarts(job)
    return "; ".join(filter(None, (", ".join(told), lost, cancelled, happened)))


def rank_of_trial(job: JobRecord, index: str) -> str:
    """Return the rank of the trial with this index. Raises `ValueError` if the job has no such trial."""
    if job.array is None:
        raise ValueError(f"{job.metadata.name} is no sweep: its workers have ranks")
    known = index.isascii() and index.isdecimal() and len(index) <= _MOST_DIGITS
    rank = job.array.completion(int(index)) if known else None
    if rank is None:
        raise ValueError(f"{job.metadata.name} has no trial {index}: they are {shorten_indexes(str(job.array))}")
    return str(rank)


def make_trial_rows(job: JobRecord, pods: Sequence[Pod], now: datetime) -> list[dict[str, Any]]:
    """Return what each trial of a sweep does, by rank; of a trial that was tried again, the last try.

    seconds: how long it has run. values: its point of the grid.
    """
    assert job.array is not None, "it is a sweep"
    newest = {completion_index(pod): pod for pod in sorted(pods, key=_age_key)}
    grid, done, failed = grid_of(job.metadata.annotations), job.succeeded_trials, job.failed_trials
    rows = []
    for rank, index in enumerate(job.array):
        pod = newest.get(rank)
        state = "Completed" if rank in done else "Failed" if rank in failed else _state_of_trial(job, rank, pod)
        row = {"index": index, "values": grid.values(index) if grid is not None else {}, "state": state}
        row |= _row_of_pod(job, pod, state, now)
        rows.append(row if pod is not None or state not in ("Completed", "Failed") else row | _row_of_past(job, row))
    return rows


def _row_of_past(job: JobRecord, row: dict[str, Any]) -> dict[str, Any]:
    """Return what the history knows of a trial whose pod is gone.

    The first failed trial, and the node if there was one.
    """
    nodes = job.past.nodes if job.past is not None else ()
    node = nodes[0] if len(nodes) == 1 else ""
    if row["state"] != "Failed":
        return {"node": node}
    told = job.past.reason.partition(f": trial {row['index']} ")[2] if job.past is not None else ""
    return {"node": node, "reason": told or "its pod is gone"}


def _row_of_pod(job: JobRecord, pod: Pod | None, state: str, now: datetime) -> dict[str, Any]:
    if pod is None:
        return {"tries": 0, "node": "", "seconds": None, "reason": ""}
    began, tries = pod.status.start_time, sum(failures_of_index(pod)) + 1
    ends = [one.state.terminated.finished_at for one in pod.status.container_statuses if one.state.terminated]
    end = max(filter(None, ends), default=None) if is_finished(pod) else now
    seconds = int((end - began).total_seconds()) if began is not None and end is not None else None
    return {"tries": tries, "node": pod.spec.node_name, "seconds": seconds, "reason": explain_pod(job, pod, state)}


def _state_of_trial(job: JobRecord, rank: int, pod: Pod | None) -> str:
    """Return the state of a trial that its Job has not counted as succeeded or failed."""
    phase = pod.status.phase if pod is not None else ""
    if rank in job.cancelled_trials:
        return "Cancelling" if pod is not None and not is_finished(pod) else "Cancelled"
    if phase == "Succeeded":
        return "Completed"
    if job.is_cancelled and pod is not None and not is_finished(pod):
        return "Cancelling"
    if job.is_cancelled or job.end is not None:  # the job ends before the trial does
        return "Failed" if phase == "Failed" else "Cancelled"
    if phase == "Failed":
        return "Retrying"
    if phase == "Running":
        return "Running"
    return "Starting" if pod is not None and pod.spec.node_name else "Pending"


def _age_key(pod: Pod) -> tuple[int, str]:
    return sum(failures_of_index(pod)), str(pod.metadata.creation_timestamp)
