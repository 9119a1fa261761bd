"""What ran: the record of a job that has ended, or is gone, which outlives its objects. Pure.

One record is one run of one job, from its submission to its end: attempts within it are part of it.
"""

from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias

from msgspec import Struct

Outcome: TypeAlias = Literal["Completed", "Failed", "Cancelled", "Deleted"]
OUTCOMES: tuple[Outcome, ...] = ("Completed", "Failed", "Cancelled", "Deleted")

# Where a server of ours tells what ran.
PATH = "/muster/history"


class Run(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One run.

    state: Deleted, if it had not ended when its object was taken away. reason: why it failed, in a sentence.
    started: when the first of its pods began to run, of those after it was last admitted; None if none has.
    exit_code: that of the worker that failed first; None if it was not its own end.
    workers: how many pods it was to have.
    restarts: how many times the whole began anew after a failure, as `maxRestarts` counts.
    interruptions: how many times the platform ended pods of it.
    cpu_seconds: of all its pods; memory_bytes: at the highest, of the pod that held the most. None: no node has said.
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

    @property
    def waited_seconds(self) -> int:
        """From its submission to its start; to its end if it never started."""
        return max(int(((self.started or self.ended) - self.submitted).total_seconds()), 0)

    @property
    def run_seconds(self) -> int | None:
        """From its start to its end."""
        return max(int((self.ended - self.started).total_seconds()), 0) if self.started is not None else None


class Runs(Struct, frozen=True):
    """An answer: the newest end first. more: where it goes on, for `after` of the next question; "" if that is all."""

    items: tuple[Run, ...] = ()
    more: str = ""


class Wanted(Struct, frozen=True):
    """Which runs are asked for. Empty means any.

    names: patterns as of a shell, any of which is to match.
    since, until: runs that had not ended before the one, and were submitted before the other.
    """

    namespace: str = ""
    names: tuple[str, ...] = ()
    owner: str = ""
    queue: str = ""
    states: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    def matches(self, run: Run) -> bool:
        """Whether a run is one of those."""
        return (
            self.namespace in ("", run.namespace)
            and self.owner in ("", run.owner)
            and self.queue in ("", run.queue)
            and (not self.states or run.state in self.states)
            and (not self.names or any(fnmatchcase(run.name, pattern) for pattern in self.names))
            and (self.since is None or run.ended >= self.since)
            and (self.until is None or run.submitted < self.until)
        )


def row(run: Run) -> dict[str, Any]:
    """A run as one line of a table, all of whose lines have the same members."""
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
        "command": run.command,
        "uid": run.uid,
    }
