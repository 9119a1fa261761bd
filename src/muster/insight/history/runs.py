"""The history of runs: the records of ended or deleted jobs, and the query for them.

A record outlives the objects of its job. It covers one run of one job from its submission to its end, with all
attempts. `build` makes the records.
"""

from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from muster.api.ours.users import is_user

Outcome: TypeAlias = Literal["Completed", "Failed", "Cancelled", "Deleted"]
OUTCOMES: tuple[Outcome, ...] = ("Completed", "Failed", "Cancelled", "Deleted")

# The path under which a Muster server serves the history.
PATH = "/muster/history"


class PodRequests(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A number of equal pods that ran at the same time, and the requests of each of them."""

    pods: int
    requests: dict[str, str] = {}


class Run(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The record of one run of a job.

    state: how the run ended; Deleted if the job was deleted before it ended.
    reason: why the run failed, as a sentence.
    started: when the first pod after the last admission began to run; None if none did.
    exit_code: the exit code of the worker that failed first; None if no worker decided the end.
    workers: the desired number of pods.
    restarts: how many times the whole job restarted after a failure, as `maxRestarts` counts.
    interruptions: how many times the platform ended pods of the job.
    cpu_seconds: the CPU time of all pods; None if no node reported it.
    memory_bytes: the peak of the pod that used the most memory; None if no node reported it.
    requested_cpus: how many CPUs the workers that run at the same time request; None if none, or unknown.
    gpu_seconds, gpu_memory_bytes: the time in which GPUs were busy, and the largest peak of one pod's GPU memory; None
    if no node reported it.
    priority: the priority of its Workload, or else of its pods; None if unknown.
    limit_seconds: the time limit of the job; None if it had none.
    pod_requests: the requests of its pods, by role.
    """

    uid: str
    namespace: str
    name: str
    kind: str
    state: Outcome
    submitted: datetime
    ended: datetime
    started: datetime | None = None
    owner: str = ""
    queue: str = ""
    command: str = ""
    reason: str = ""
    exit_code: int | None = None
    workers: int = 0
    restarts: int = 0
    interruptions: int = 0
    nodes: tuple[str, ...] = ()
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    requested_cpus: float | None = None
    gpu_seconds: float | None = None
    gpu_memory_bytes: int | None = None
    priority: int | None = None
    limit_seconds: int | None = None
    pod_requests: tuple[PodRequests, ...] = ()

    @property
    def mean_cpus(self) -> float | None:
        """The number of CPUs that all workers together used on average; None if unknown.

        It is unknown for an interrupted run: the CPU time counts all its attempts, and the run time counts only the
        last.
        """
        return self._find_mean(self.cpu_seconds)

    @property
    def mean_gpus(self) -> float | None:
        """The average number of busy GPUs of all workers together; None if unknown, as with `mean_cpus`."""
        return self._find_mean(self.gpu_seconds)

    def _find_mean(self, seconds: float | None) -> float | None:
        if seconds is None or not self.run_seconds or self.interruptions:
            return None
        return round(seconds / self.run_seconds, 2)

    @property
    def waited_seconds(self) -> int:
        """The seconds from the submission to the start, or to the end if the run never started."""
        return max(int(((self.started or self.ended) - self.submitted).total_seconds()), 0)

    @property
    def run_seconds(self) -> int | None:
        """The seconds from the start to the end, or None if the run never started."""
        return max(int((self.ended - self.started).total_seconds()), 0) if self.started is not None else None


class Runs(Struct, frozen=True):
    """A page of the history, in order of the runs' ends, the latest first.

    more: the position of the next page, for the parameter `after`; "" on the last page.
    """

    items: tuple[Run, ...] = ()
    more: str = ""


class RunQuery(Struct, frozen=True):
    """A query for runs. An empty field matches all runs.

    names: shell patterns, of which at least one must match.
    since: matches runs that ended at this time or later.
    until: matches runs that were submitted before this time.
    """

    namespace: str = ""
    names: tuple[str, ...] = ()
    owner: str = ""
    queue: str = ""
    states: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    def matches(self, run: Run) -> bool:
        """Return whether a run matches all fields of the query that are not empty."""
        return (
            self.namespace in ("", run.namespace)
            and (not self.owner or is_user(self.owner, run.owner))
            and self.queue in ("", run.queue)
            and (not self.states or run.state in self.states)
            and (not self.names or any(fnmatchcase(run.name, pattern) for pattern in self.names))
            and (self.since is None or run.ended >= self.since)
            and (self.until is None or run.submitted < self.until)
        )


def make_row(run: Run) -> dict[str, Any]:
    """Return a run as a row of a table, with values for JSON. All rows have the same keys."""
    return {
        "namespace": run.namespace,
        "name": run.name,
        "kind": run.kind,
        "state": run.state,
        "exitCode": run.exit_code,
        "reason": run.reason,
        "owner": run.owner,
        "queue": run.queue,
        "submitted": run.submitted,
        "started": run.started,
        "ended": run.ended,
        "waitedSeconds": run.waited_seconds,
        "runSeconds": run.run_seconds,
        "workers": run.workers,
        "restarts": run.restarts,
        "interruptions": run.interruptions,
        "nodes": list(run.nodes),
        "cpuSeconds": run.cpu_seconds,
        "memoryBytes": run.memory_bytes,
        "meanCpus": run.mean_cpus,
        "requestedCpus": run.requested_cpus,
        "meanGpus": run.mean_gpus,
        "gpuMemoryBytes": run.gpu_memory_bytes,
        "priority": run.priority,
        "limitSeconds": run.limit_seconds,
        "podRequests": [{"pods": one.pods, "requests": one.requests} for one in run.pod_requests],
        "command": run.command,
        "uid": run.uid,
    }
