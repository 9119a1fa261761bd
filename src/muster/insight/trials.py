"""How far a sweep is, and what each of its trials does. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from muster.api.core import Pod
from muster.api.ours.trials import grid_of
from muster.api.pods import is_deleting, is_finished, why_unplaced
from muster.api.values.indexes import Indexes
from muster.insight.failures import brief, failures, lost_trials, why_waiting
from muster.insight.record import JobRecord
from muster.jobs.job.census import completion_index, failures_of_index

# Longer digit strings are no index.
_MOST_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Count:
    """How many trials have succeeded, failed for good, run now, and are still to come."""

    done: int
    failed: int
    running: int
    left: int

    @property
    def over(self) -> int:
        """How many will not change any more."""
        return self.done + self.failed

    @property
    def all(self) -> int:
        """How many there are."""
        return self.over + self.running + self.left

    def __str__(self) -> str:
        parts = {"failed": self.failed, "running": self.running, "to go": self.left}
        return ", ".join([f"{self.done} of {self.all} done", *(f"{n} {what}" for what, n in parts.items() if n)])


def counted(job: JobRecord, pods: Sequence[Pod]) -> Count:
    """Of a sweep, by what its Job says, and its pods, which know it before."""
    source = job.jobs[0]
    done = Indexes.parse(source.status.completed_indexes, job.wanted) | _in_phase(pods, "Succeeded")
    failed = job.failed_trials
    running = Indexes() if job.end is not None else _in_phase(pods, "Running")
    going = len(running) - running.overlap(done)
    return Count(len(done), len(failed), going, max(job.wanted - len(done) - len(failed) - going, 0))


def _in_phase(pods: Sequence[Pod], phase: str) -> Indexes:
    return Indexes.of(completion_index(pod) for pod in pods if pod.status.phase == phase and not is_deleting(pod))


def so_far(job: JobRecord, count: Count) -> str:
    """What there is to say of a sweep that goes on, beside how many trials are done."""
    parts = {"running": count.running, "to go": count.left}
    told = [f"{number} {what}" for what, number in parts.items() if number]
    return "; ".join([", ".join(told), *([lost_trials(job, job.failed_trials)] if count.failed else [])])


def rank_of_trial(job: JobRecord, index: str) -> str:
    """The rank of the trial with this index. Raises `ValueError` if the job has none."""
    if job.array is None:
        raise ValueError(f"{job.metadata.name} is no sweep: its workers have ranks")
    known = index.isascii() and index.isdecimal() and len(index) <= _MOST_DIGITS
    rank = job.array.completion(int(index)) if known else None
    if rank is None:
        raise ValueError(f"{job.metadata.name} has no trial {index}: they are {brief(str(job.array))}")
    return str(rank)


def trial_rows(job: JobRecord, pods: Sequence[Pod], now: datetime) -> list[dict[str, Any]]:
    """What each trial of a sweep does, in the order of their ranks; of those that were tried again, the last try.

    seconds: how long it has run. values: those of its grid.
    """
    assert job.array is not None, "it is a sweep"
    newest = {completion_index(pod): pod for pod in sorted(pods, key=_age)}
    grid, count = grid_of(job.metadata.annotations), len(job.array)
    done, failed = Indexes.parse(job.jobs[0].status.completed_indexes, count), job.failed_trials
    found = []
    for rank, index in enumerate(job.array):
        pod = newest.get(rank)
        state = "Completed" if rank in done else "Failed" if rank in failed else _state(job, pod)
        row = {"index": index, "values": grid.values(index) if grid is not None else {}, "state": state}
        found.append(row | _of_pod(job, pod, state, now))
    return found


def _of_pod(job: JobRecord, pod: Pod | None, state: str, now: datetime) -> dict[str, Any]:
    if pod is None:
        return {"tries": 0, "node": "", "seconds": None, "reason": ""}
    reason = ""
    if state in ("Failed", "Retrying"):
        reason = next((one.alone for one in failures(job, [pod])), "")
    elif state in ("Pending", "Starting"):
        reason = next(iter(why_waiting(job, pod)), "") or why_unplaced([pod])
    began, tries = pod.status.start_time, sum(failures_of_index(pod)) + 1
    ends = [one.state.terminated.finished_at for one in pod.status.container_statuses if one.state.terminated]
    end = max(filter(None, ends), default=None) if is_finished(pod) else now
    seconds = int((end - began).total_seconds()) if began is not None and end is not None else None
    return {"tries": tries, "node": pod.spec.node_name, "seconds": seconds, "reason": reason}


def _state(job: JobRecord, pod: Pod | None) -> str:
    """Of a trial that its Job has not counted yet."""
    phase = pod.status.phase if pod is not None else ""
    if phase == "Succeeded":
        return "Completed"
    if job.end is not None:  # it ended before the trial did
        return "Failed" if phase == "Failed" else "Cancelled"
    if phase == "Failed":
        return "Retrying"
    if phase == "Running":
        return "Running"
    return "Starting" if pod is not None and pod.spec.node_name else "Pending"


def _age(pod: Pod) -> tuple[int, str]:
    return sum(failures_of_index(pod)), str(pod.metadata.creation_timestamp)
