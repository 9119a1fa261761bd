"""Define the jobs of logs, and order them by their submission in bounded memory."""

import heapq
import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from operator import attrgetter

import msgspec
from msgspec import Struct

# How many jobs memory holds; more of them wait in a temporary file. They take some 100 MB.
HELD_JOBS = 250_000
# How many jobs are read from a temporary file at once.
_BATCH = 2_000
_LENGTH_BYTES = 8

Labels = tuple[tuple[str, tuple[str, ...]], ...]


class LogError(ValueError):
    """A line of a log that cannot be read. line: from 1. why: what is wrong, for people."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why


class Role(Struct, frozen=True, array_like=True, gc=False):
    """Pods of a job that are alike.

    requests: the amounts that each pod requests, in the units of decisions; None for those of the template.
    labels: the values of which the labels of its node must have one.
    """

    pods: int
    requests: tuple[tuple[str, int], ...] | None = None
    labels: Labels = ()


class TracedJob(Struct, frozen=True, array_like=True, gc=False):
    """A job of a log. Times are seconds. submit: on the clock of the log.

    limit: None if the log says none. queue: as the log calls it. gang: with how many pods the job may start; None for
    all.
    """

    submit: float
    run_time: float
    name: str
    roles: tuple[Role, ...]
    limit: float | None = None
    queue: str = ""
    user: str = ""
    priority: int | None = None
    gang: int | None = None


class LeftOut(Struct):
    """How many jobs of a log are left out, because they never ran."""

    jobs: int = 0


class OrderedJobs:
    """The jobs of a log in order of submission; those of one time stay in the order of the log.

    origin: the time of the log at which the simulation starts. left_out: how many jobs never ran.
    queues: the names of their queues.
    """

    def __init__(
        self, jobs: Iterable[TracedJob], left_out: LeftOut, origin: float | None, held: int = HELD_JOBS
    ) -> None:
        """Read all jobs. held: how many of them memory holds."""
        self.queues: set[str] = set()
        self._runs: list[_SpilledRun] = []
        rows: list[TracedJob] = []
        for job in jobs:
            self.queues.add(job.queue)
            rows.append(job)
            if len(rows) == held:
                self._runs.append(_SpilledRun(_sort(rows)))
                rows = []
        self._last = _sort(rows)
        self.left_out = left_out.jobs
        first = next(iter(self), None)
        self.origin = origin if origin is not None else first.submit if first is not None else 0.0

    def __iter__(self) -> Iterator[TracedJob]:
        if not self._runs:
            return iter(self._last)
        return heapq.merge(*self._runs, self._last, key=attrgetter("submit"))


def _sort(rows: list[TracedJob]) -> list[TracedJob]:
    rows.sort(key=attrgetter("submit"))
    return rows


class _SpilledRun:
    """Sorted jobs in a temporary file, which the system removes with the process."""

    def __init__(self, rows: list[TracedJob]) -> None:
        with tempfile.TemporaryFile() as file:
            for start in range(0, len(rows), _BATCH):
                block = msgspec.msgpack.encode(rows[start : start + _BATCH])
                file.write(len(block).to_bytes(_LENGTH_BYTES, "big") + block)
            file.flush()
            self._file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._file)

    def __iter__(self) -> Iterator[TracedJob]:
        at, number = 0, self._file
        decoder = msgspec.msgpack.Decoder(list[TracedJob])
        while header := os.pread(number, _LENGTH_BYTES, at):
            length = int.from_bytes(header, "big")
            yield from decoder.decode(os.pread(number, length, at + _LENGTH_BYTES))
            at += _LENGTH_BYTES + length
