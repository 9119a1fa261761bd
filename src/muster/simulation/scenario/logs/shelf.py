"""Keep the logs that were read last, so that the variants of a scenario read each log once."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from muster.simulation.scenario.logs.jobs import OrderedJobs, TracedJob
from muster.simulation.scenario.logs.opening import read_trace
from muster.simulation.scenario.model import Trace

# Called with the file of a log and how many of its jobs are read. An interrupt that it raises ends the reading.
Look = Callable[[Path, int], None]

# How many logs a shelf holds. Each of them takes up to 100 MB of memory (`HELD_JOBS`).
_MOST_LOGS = 4
# How many jobs are read between two looks: some 50 ms.
_LOOK_JOBS = 5_000


class LogShelf:
    """The logs that the simulations of one process read last. look: called while a log is read."""

    def __init__(self, look: Look = lambda _file, _jobs: None) -> None:
        self._look = look
        self._logs: dict[tuple[Path, bytes], OrderedJobs] = {}  # the one read last at the end

    def read(self, file: Path, trace: Trace) -> OrderedJobs:
        """Return the jobs of a log that ran, in order of submission, as `read_trace` does."""
        same = replace(trace, file="", queues={}, limits="logged")  # the reader of a log ignores these fields
        key = file, msgspec.json.encode(same)
        log = self._logs.pop(key, None)
        if log is None:
            while len(self._logs) >= _MOST_LOGS:
                del self._logs[next(iter(self._logs))]
            log = read_trace(file, trace, self._watch)
        self._logs[key] = log
        return log

    def _watch(self, file: Path, jobs: Iterator[TracedJob]) -> Iterator[TracedJob]:
        for number, job in enumerate(jobs):
            if number % _LOOK_JOBS == 0:
                self._look(file, number)
            yield job
