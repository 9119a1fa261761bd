"""Read logs in the Standard Workload Format (Feitelson's Parallel Workloads Archive), version 2.2."""

from collections.abc import Iterable, Iterator
from math import isfinite
from typing import NamedTuple

from muster.simulation.scenario.logs.jobs import FormError, LeftOut, LogError

_FIELDS = 18
# Indexes of the fields in a line, from 0.
_SUBMIT, _RUN, _USED, _WANTED, _LIMIT, _STATUS, _USER, _EXECUTABLE, _QUEUE = 1, 3, 4, 7, 8, 10, 11, 13, 14
# The statuses of lines for a part of a job that was swapped out; another line describes the whole job.
_PARTS = frozenset((2, 3, 4))
_MOST_PROCESSORS = 2**31 - 1
# The number of numbers that share an entry. Five million consecutive numbers take 3 MB, instead of 280 MB in a set.
_BLOCK = 256


class LoggedJob(NamedTuple):
    """A job of a log. Times are seconds.

    submit: the time of submission, from the start of the log.
    limit: the time limit; 0 if the log has none.
    user, executable: their numbers; "" if they are not recorded.
    queue: the number of the queue; -1 if it is not recorded.
    """

    number: int
    submit: float
    run_time: float
    limit: float
    processors: int
    user: str
    executable: str
    queue: str


class NumberSet:
    """A set of integers that takes little memory if most of them are consecutive, like the numbers of jobs."""

    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}  # by the number of a block: one bit for each integer in it

    def add(self, number: int) -> bool:
        """Add an integer; return whether it is new."""
        block, place = divmod(number, _BLOCK)
        bits, bit = self._blocks.get(block, 0), 1 << place
        self._blocks[block] = bits | bit
        return not bits & bit


def read_log(lines: Iterable[str], left_out: LeftOut | None = None) -> Iterator[LoggedJob]:
    """Yield the logged jobs that ran: the jobs with a run time and a number of processors.

    Lines about a part of a job are skipped, because another line describes the whole job.

    left_out: counts the other jobs.

    Raises `LogError` if a line is not a job.
    """
    numbers = NumberSet()
    for number, line in enumerate(lines, 1):
        if not (text := line.strip()) or text.startswith(";"):
            continue
        fields = text.split()
        if len(fields) < _FIELDS:
            raise FormError(number, f"has {len(fields)} fields instead of {_FIELDS}")
        try:
            submit, run, limit = (float(fields[field]) for field in (_SUBMIT, _RUN, _LIMIT))
            name, used, wanted, status = (int(fields[field]) for field in (0, _USED, _WANTED, _STATUS))
        except ValueError:
            raise FormError(number, "holds a field that is no number") from None
        if not all(map(isfinite, (submit, run, limit))) or max(used, wanted) > _MOST_PROCESSORS:
            raise LogError(number, "holds a number that is too large")
        if status in _PARTS:
            continue
        if not numbers.add(name):
            raise LogError(number, f"is the second line of job {name}")
        if submit < 0:
            raise LogError(number, "was submitted before the log begins")
        processors = used if used > 0 else wanted
        if run >= 0 and processors > 0:
            user, executable = ("" if fields[field] == "-1" else fields[field] for field in (_USER, _EXECUTABLE))
            yield LoggedJob(name, submit, run, max(limit, 0.0), processors, user, executable, fields[_QUEUE])
        elif left_out is not None:
            left_out.jobs += 1
