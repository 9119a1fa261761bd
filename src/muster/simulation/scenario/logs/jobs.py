"""Define the jobs of logs, and sort them by submission in bounded memory."""

import heapq
import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from operator import attrgetter

import msgspec
from msgspec import Struct

# The maximum number of pods, and the highest priority, because the API has 32 bits for them.
MOST = 2**31 - 1
# The maximum number of jobs in memory, about 100 MB. With more jobs, a temporary file is used.
HELD_JOBS = 250_000
# The number of jobs to read at once from each sorted part of the temporary file; a log of 10 GB has about 1,500 parts.
_BATCH = 200
_LENGTH_BYTES = 8

Labels = tuple[tuple[str, tuple[str, ...]], ...]


class LogError(ValueError):
    """A line of a log that cannot be parsed.

    line: the number of the line, from 1.
    why: the reason, for users.
    """

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why


class FormError(LogError):
    """A line that does not match the format of its log. The log may have another format."""


class Role(Struct, frozen=True, array_like=True, gc=False):
    """Equal pods of a job.

    requests: the amounts that each pod requests, in the units of decisions; None for the template's requests.
    labels: the allowed values of node labels, by label.
    """

    pods: int
    requests: tuple[tuple[str, int], ...] | None = None
    labels: Labels = ()


class TracedJob(Struct, frozen=True, array_like=True, gc=False):
    """A job of a log. Times are seconds.

    submit: the time of submission, on the clock of the log.
    limit: the time limit; None if the log has none.
    queue: the name of the queue in the log.
    gang: the number of pods with which the job may start; None for all.
    series: a name that similar jobs of its user share; "" if unknown.
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
    """The number of a log's jobs that are left out because they never ran, or because the log lacks their run time."""

    jobs: int = 0


class OrderedJobs:
    """The jobs of a log in order of submission. Jobs submitted at the same time keep the order of the log.

    origin: the time of the log at which the simulation starts.
    count: the number of jobs.
    left_out: the number of jobs that are left out (`LeftOut`).
    queues: the names of the jobs' queues.
    users: the names of the jobs' users, as in the log; "" for jobs without one.
    priorities: the priorities of the jobs; None for jobs without one.
    """

    def __init__(
        self, jobs: Iterable[TracedJob], left_out: LeftOut, origin: float | None, held: int = HELD_JOBS
    ) -> None:
        """Read all jobs and sort them, with a temporary file if there are more than `held`.

        origin: the time of the log at which the simulation starts; None for the submission of the first job.
        """
        self.count = 0
        self.queues: set[str] = set()
        self.users: set[str] = set()
        self.priorities: set[int | None] = set()
        self._spill: _SpillFile | None = None
        self._runs: list[tuple[int, int]] = []
        rows: list[TracedJob] = []
        for job in jobs:
            self.count += 1
            self.queues.add(job.queue)
            self.users.add(job.user)
            self.priorities.add(job.priority)
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
        """The maximum number of jobs in memory: all of a short log, and `HELD_JOBS` for one with a temporary file."""
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
    """A temporary file with sorted parts of the jobs. The operating system removes it when the process exits."""

    def __init__(self) -> None:
        with tempfile.TemporaryFile() as file:
            self._file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._file)
        self._end = 0
        self._decoder = msgspec.msgpack.Decoder(list[TracedJob])

    def append(self, rows: list[TracedJob]) -> tuple[int, int]:
        """Append sorted jobs to the file; return their start and end positions in it."""
        start = self._end
        for number in range(0, len(rows), _BATCH):
            block = msgspec.msgpack.encode(rows[number : number + _BATCH])
            left = memoryview(len(block).to_bytes(_LENGTH_BYTES, "big") + block)
            while left:
                written = os.pwrite(self._file, left, self._end)
                left, self._end = left[written:], self._end + written
        return start, self._end

    def read(self, start: int, end: int) -> Iterator[TracedJob]:
        """Yield the jobs between two positions of the file. Concurrent readers are supported."""
        at = start
        while at < end:
            length = int.from_bytes(os.pread(self._file, _LENGTH_BYTES, at), "big")
            yield from self._decoder.decode(os.pread(self._file, length, at + _LENGTH_BYTES))
            at += _LENGTH_BYTES + length
