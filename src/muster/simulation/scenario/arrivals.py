"""Turn the work of a scenario into jobs, in the order in which they are submitted. Pure."""

import heapq
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from random import Random

from msgspec import Struct

from muster.simulation.scenario.draws import PARSERS, Draw, DrawError, draw_arrivals, make_draw
from muster.simulation.scenario.logs.jobs import MOST, OrderedJobs, Role
from muster.simulation.scenario.logs.opening import HISTORY, find_format
from muster.simulation.scenario.model import Trace, Work
from muster.simulation.scenario.reading import Reading


class Submission(Struct, frozen=True, gc=False):
    """A job to be submitted.

    at: the time of submission, in seconds from the start.
    work: the index of its source of work.
    name: its name.
    run_time: its run time in seconds, from when its pods have started.
    limit: its time limit in seconds; None for no limit.
    size: the number of its pods; None for the number in the template.
    priority: its priority; None for the priority of the template.
    local_queue: its LocalQueue, if it differs from the template's; with a slash for another namespace.
    roles: its pods, if they differ from the template's.
    user: the user who submitted it.
    gang: the number of pods with which it may start.
    series: a name that similar jobs of its user share; "" if unknown.
    startup: the seconds from when all its pods have nodes until they are ready.
    """

    at: float
    work: int
    name: str
    run_time: float
    limit: float | None
    size: int | None = None
    priority: int | None = None
    local_queue: str = ""
    roles: tuple[Role, ...] = ()
    user: str = ""
    gang: int | None = None
    series: str = ""
    startup: float = 0.0


def list_submissions(reading: Reading) -> Iterator[Submission]:
    """Yield all jobs of a scenario in order of submission; each is made only when it is requested.

    Raises `ScenarioError`, before the first job, if a value of the scenario cannot be drawn.
    """
    spec = reading.scenario.spec
    sources = []
    for number, work in enumerate(spec.work):
        try:
            sources.append(_submit(reading, number, work, spec.start))
        except DrawError as error:
            raise reading.source.error(f"spec.work[{number}]{error.path}", error.why) from None
    return heapq.merge(*sources, key=lambda one: one.at)


def _submit(reading: Reading, number: int, work: Work, start: datetime) -> Iterator[Submission]:
    random = Random(f"{reading.scenario.spec.seed}/{work.name}")
    limit, startup = _make_draw(reading, "limit", work), _make_draw(reading, "startup", work)
    size, priority = _make_draw(reading, "size", work), _make_draw(reading, "priority", work)
    if work.trace is not None:
        return _replay(reading.logs[work.name], number, work, work.trace)
    assert work.arrivals is not None, "a work without a trace has arrivals"
    try:
        times = draw_arrivals(work.arrivals, start, random)
    except DrawError as error:
        raise DrawError(f".arrivals{error.path}", error.why) from None
    run_time = _make_draw(reading, "run_time", work)
    assert run_time is not None, "a work without a trace has a run time"
    return _draw_jobs(times, work, number, random, run_time, limit, size, priority, startup)


def _make_draw(reading: Reading, name: str, work: Work) -> Draw | None:
    value = getattr(work, name)
    try:
        return None if value is None else make_draw(value, PARSERS[name], reading.samples)
    except DrawError as error:
        shown = "runTime" if name == "run_time" else name
        raise DrawError(f".{shown}{error.path}", error.why) from None


def _draw_jobs(
    times: Iterator[float],
    work: Work,
    number: int,
    random: Random,
    run_time: Draw,
    limit: Draw | None,
    size: Draw | None,
    priority: Draw | None,
    startup: Draw | None,
) -> Iterator[Submission]:
    """Yield a job for each time, with drawn properties, up to the count of the work.

    number: the position of the work in the scenario.
    limit, size, priority, startup: None if the work does not set them.
    """
    for serial, at in enumerate(times):
        if work.count is not None and serial >= work.count:
            return
        yield Submission(
            at,
            number,
            f"{work.name}-{serial}",
            max(0.0, run_time(random)),
            None if limit is None else limit(random),
            None if size is None else _round_draw(size(random), 1),
            None if priority is None else _round_draw(priority(random), -MOST),
            user=work.name,
            series=work.name,
            startup=0.0 if startup is None else max(0.0, startup(random)),
        )


def _round_draw(value: float, least: int) -> int:
    """Return a drawn number as an integer between `least` and the maximum that the API allows."""
    return round(max(least, min(value, MOST)))


def _replay(jobs: OrderedJobs, number: int, work: Work, trace: Trace) -> Iterator[Submission]:
    """Yield the jobs of a log in order of submission, at most the number in the work's `count`.

    Times count from the `start` of the trace, or else from the first job of the log.
    """
    for job in islice(jobs, work.count):
        bare = len(job.roles) == 1 and job.roles[0].requests is None and not job.roles[0].labels
        yield Submission(
            (job.submit - jobs.origin) / trace.speed,
            number,
            f"{work.name}-{job.name}",
            job.run_time,
            {"logged": job.limit, "exact": job.run_time, "none": None}[trace.limits],
            job.roles[0].pods if bare else None,
            job.priority,
            translate_queue(work, trace, job.queue),
            () if bare else job.roles,
            job.user,
            job.gang,
            job.series,
        )


def translate_queue(work: Work, trace: Trace, queue: str) -> str:
    """Return the LocalQueue for jobs from a queue of a log; "" for the LocalQueue of the source of work.

    In a history of Muster, a queue without a mapping keeps its name, unless the work has a queue.
    """
    return trace.queues.get(queue, queue if find_format(trace) == HISTORY and not work.queue else "")
