"""Define the jobs of logs, and order them by their submission in bounded memory."""

import heapq
import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from operator import attrgetter

import msgspec
from msgspec import Struct

# The largest number of pods, and the highest priority: the API has 32 bits for them.
MOST = 2**31 - 1
# How many jobs memory holds; more of them wait in a temporary file. They take some 100 MB.
HELD_JOBS = 250_000
# How many jobs of one run of the temporary file are read at once: a log of 10 GB has some 1,500 runs.
_BATCH = 200
_LENGTH_BYTES = 8

Labels = tuple[tuple[str, tuple[str, ...]], ...]


class LogError(ValueError):
    """The error of a line of a log that cannot be read. line: its number, from 1. why: what is wrong, for people."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why


class FormError(LogError):
    """The error of a line that does not have the form of its log's format. The log may have another format."""


class Role(Struct, frozen=True, array_like=True, gc=False):
    """Pods of a job that are alike.

    requests: the amounts that each pod requests, in the units of decisions; None for those of the template.
    labels: by label, the values of which a node must have one.
    """

    pods: int
    requests: tuple[tuple[str, int], ...] | None = None
    labels: Labels = ()


class TracedJob(Struct, frozen=True, array_like=True, gc=False):
    """A job of a log. Times are seconds. submit: on the clock of the log.

    limit: None if the log says none. queue: as the log calls it. gang: with how many pods the job may start; None for
    all. series: what the names of its user's jobs of this kind have in common.
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
    series: str = ""


class LeftOut(Struct):
    """The count of a log's jobs that are left out, because they never ran."""

    jobs: int = 0


class OrderedJobs:
    """The jobs of a log in order of submission; those of one time stay in the order of the log.

    origin: the time of the log at which the simulation starts. left_out: how many jobs never ran.
    queues: the names of their queues.
    """

    def __init__(
        self, jobs: Iterable[TracedJob], left_out: LeftOut, origin: float | None, held: int = HELD_JOBS
    ) -> None:
        """Read all jobs and sort them, in a temporary file if there are more than `held`.

        origin: the time of the log at which the simulation starts; None for that of the first job.
        """
        self.queues: set[str] = set()
        self._spill: _SpillFile | None = None
        self._runs: list[tuple[int, int]] = []
        rows: list[TracedJob] = []
        for job in jobs:
            self.queues.add(job.queue)
            rows.append(job)
            if len(rows) == held:
                self._spill = self._spill or _SpillFile()
                self._runs.append(self._spill.append(_sort(rows)))
                rows = []
        self._last = _sort(rows)
        self.left_out = left_out.jobs
        first = next(iter(self), None)
        self.origin = origin if origin is not None else first.submit if first is not None else 0.0

    @property
    def held(self) -> int:
        """How many jobs it may hold in memory: all of a short log, and `HELD_JOBS` of one with a temporary file."""
        return len(self._last) if self._spill is None else HELD_JOBS

    def __iter__(self) -> Iterator[TracedJob]:
        if self._spill is None:
            return iter(self._last)
        runs = [self._spill.read(*run) for run in self._runs]
        return heapq.merge(*runs, self._last, key=attrgetter("submit"))


def _sort(rows: list[TracedJob]) -> list[TracedJob]:
    rows.sort(key=attrgetter("submit"))
    return rows


class _SpillFile:
    """A temporary file with parts of sorted jobs. The system removes it when the process ends."""

    def __init__(self) -> None:
        with tempfile.TemporaryFile() as file:
            self._file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._file)
        self._end = 0
        self._decoder = msgspec.msgpack.Decoder(list[TracedJob])

    def append(self, rows: list[TracedJob]) -> tuple[int, int]:
        """Write some sorted jobs at the end of the file, and return where they begin and end in it."""
        start = self._end
        for number in range(0, len(rows), _BATCH):
            block = msgspec.msgpack.encode(rows[number : number + _BATCH])
            left = memoryview(len(block).to_bytes(_LENGTH_BYTES, "big") + block)
            while left:
                written = os.pwrite(self._file, left, self._end)
                left, self._end = left[written:], self._end + written
        return start, self._end

    def read(self, start: int, end: int) -> Iterator[TracedJob]:
        """Yield the jobs between two positions of the file. Several readers may read at the same time."""
        at = start
        while at < end:
            length = int.from_bytes(os.pread(self._file, _LENGTH_BYTES, at), "big")
            yield from self._decoder.decode(os.pread(self._file, length, at + _LENGTH_BYTES))
            at += _LENGTH_BYTES + length
