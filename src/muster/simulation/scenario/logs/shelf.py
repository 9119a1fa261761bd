"""Cache the logs that were read last, so that the variants of a scenario read each log only once."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from muster.simulation.scenario.logs.jobs import HELD_JOBS, OrderedJobs, TracedJob
from muster.simulation.scenario.logs.opening import read_trace
from muster.simulation.scenario.model import Trace

# Called with the file of a log and the number of its jobs read so far.
Look = Callable[[Path, int], None]

# The maximum number of jobs in memory over all logs of a shelf, about 400 MB.
_MOST_JOBS = 4 * HELD_JOBS
# The number of jobs to read between two calls of `look`, which take about 50 ms.
_LOOK_JOBS = 5_000


class LogShelf:
    """A cache of the logs that the simulations of one process read last, up to a total number of jobs.

    look: called periodically while a log is read, to show the progress. An interrupt that it raises stops the reading.
    """

    def __init__(self, look: Look = lambda _file, _jobs: None) -> None:
        self._look = look
        self._logs: dict[tuple[Path, bytes], OrderedJobs] = {}  # the most recently read log comes last

    def read(self, file: Path, trace: Trace) -> OrderedJobs:
        """Return the jobs of a log that ran, in order of submission, as `read_trace` does."""
        same = replace(
            trace, file="", queues={}, limits="logged", speed=1.0
        )  # fields that do not affect the reading of a log
        key = file, msgspec.json.encode(same)
        log = self._logs.pop(key, None)
        if log is None:
            self._make_room()
            log = read_trace(file, trace, self._watch)
        self._logs[key] = log
        return log

    def clear(self) -> None:
        """Free the memory of all logs. Each is read again when it is needed."""
        self._logs.clear()

    def _make_room(self) -> None:
        """Drop the least recently read logs, until the memory suffices for any other log."""
        held = sum(log.held for log in self._logs.values())
        while held > _MOST_JOBS - HELD_JOBS:
            held -= self._logs.pop(next(iter(self._logs))).held

    def _watch(self, file: Path, jobs: Iterator[TracedJob]) -> Iterator[TracedJob]:
        for number, job in enumerate(jobs):
            if number % _LOOK_JOBS == 0:
                self._look(file, number)
            yield job
