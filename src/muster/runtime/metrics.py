"""Register metrics for Prometheus: one registry per process part, never the library's global one.

Names of queues and controllers are the same as in client-go and controller-runtime, so that their dashboards work.
Values that can be read at any time (depth, age of running work) are read at a scrape and cost nothing in between.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from muster.runtime.control.controller import Outcome
from muster.runtime.control.queue import WorkQueue
from muster.runtime.tallies import Level, Series, Spread, Tally, make_counter, make_gauge, make_histogram

M = TypeVar("M")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# client-go's: 10 ns to 10 s for queues; controller-runtime's for reconciles.
_QUEUE_BUCKETS = tuple(10.0**n for n in range(-8, 2))
_RECONCILE_BUCKETS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
)  # fmt: skip


class Gauges(NamedTuple):
    """A gauge's values at the time of a scrape, one for each combination of label values."""

    name: str
    text: str
    labels: Sequence[str]
    values: Iterable[tuple[Sequence[str], float]]


class Registry:
    """The metrics of one part of the process. The same name always returns the same metric.

    A method raises ValueError if a metric of another type has the name.
    """

    def __init__(self, *, process: bool = False) -> None:
        """Make an empty registry.

        process: whether to include the metrics of the operating system and the interpreter.
        """
        self._types: dict[str, str] = {}  # of all metrics, by name
        self._process = process
        self._computed: list[Callable[[], Iterable[Gauges]]] = []
        self._gauges: dict[str, Series[Level]] = {}
        self._counters: dict[str, Series[Tally]] = {}
        self._histograms: dict[str, Series[Spread]] = {}

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Series[Tally]:
        """Return the counter with this name: a number that only grows, for each combination of label values."""
        return self._register(self._counters, "counter", name, lambda: make_counter(name, text, labels))

    def histogram(self, name: str, text: str, labels: Sequence[str], bounds: Sequence[float]) -> Series[Spread]:
        """Return the histogram with this name: a distribution over buckets, for each combination of label values."""
        return self._register(self._histograms, "histogram", name, lambda: make_histogram(name, text, labels, bounds))

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Series[Level]:
        """Return the gauge with this name: a number that goes up and down, for each combination of label values."""
        return self._register(self._gauges, "gauge", name, lambda: make_gauge(name, text, labels))

    def add_computed(self, ask: Callable[[], Iterable[Gauges]]) -> None:
        """Add gauges whose values a function computes at every scrape. ask: this function."""
        self._computed.append(ask)

    def controller(self, name: str) -> "ControllerMetrics":
        """Return the observer for a `Controller` of that name."""
        return ControllerMetrics(self, name)

    def text(self) -> bytes:
        """Return all metrics in the text format of `CONTENT_TYPE`."""
        return b"".join(self._render_pieces())

    async def scrape(self) -> bytes:
        """Return the same text as `text`, and let other tasks run between its parts."""
        parts = []
        for piece in self._render_pieces():
            parts.append(piece)
            await asyncio.sleep(0)
        return b"".join(parts)

    def _render_pieces(self) -> Iterator[bytes]:
        """Yield all metrics as text, some milliseconds of work at a time."""
        if self._process:
            yield _render_process()
        for ask in self._computed:
            # All at once, because what `ask` reads may change between the parts of a scrape.
            yield from map(str.encode, chain.from_iterable([_make_series(gauges).pieces() for gauges in ask()]))
        named: tuple[Series[Any], ...] = (
            *self._gauges.values(), *self._counters.values(), *self._histograms.values(),
        )  # fmt: skip
        for series in named:
            yield from map(str.encode, series.pieces())

    def _register(self, metrics: dict[str, M], type_: str, name: str, make: Callable[[], M]) -> M:
        if (known := self._types.setdefault(name, type_)) != type_:
            raise ValueError(f"{name} is a {known} already, and cannot be a {type_}")
        if name not in metrics:
            metrics[name] = make()
        return metrics[name]


def _make_series(gauges: Gauges) -> Series[Level]:
    series = make_gauge(gauges.name, gauges.text, gauges.labels)
    for labels, value in gauges.values:
        series.labels(*labels).set(value)
    return series


def _render_process() -> bytes:
    """Return the metrics of the operating system and the interpreter as text."""
    # Importing them takes 20 ms, and many clusters see no scrape.
    from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return generate_latest(registry)


class ControllerMetrics:
    """The metrics of one controller and its queue."""

    def __init__(self, registry: Registry, name: str) -> None:
        self._name = name
        both = ("name", "controller")
        mine = ("controller",)
        self._depth = registry.gauge("workqueue_depth", "Current depth of the queue", both).labels(name, name)
        self._adds = registry.counter("workqueue_adds_total", "Number of adds to the queue", both).labels(name, name)
        self._retries = registry.counter("workqueue_retries_total", "Number of retries", both).labels(name, name)
        self._waits = registry.histogram(
            "workqueue_queue_duration_seconds", "How long keys wait before a worker has them", both, _QUEUE_BUCKETS
        ).labels(name, name)
        self._works = registry.histogram(
            "workqueue_work_duration_seconds", "How long a worker has a key", both, _QUEUE_BUCKETS
        ).labels(name, name)
        self._unfinished = registry.gauge(
            "workqueue_unfinished_work_seconds", "Seconds of work in progress, all workers together", both
        ).labels(name, name)
        self._longest = registry.gauge(
            "workqueue_longest_running_processor_seconds", "How long the longest running worker has its key", both
        ).labels(name, name)
        self._results = registry.counter(
            "controller_runtime_reconcile_total", "Reconciles by result", (*mine, "result")
        )
        self._outcomes = {word: self._results.labels(name, word) for word in ("success", "requeue_after", "error")}
        self._errors = registry.counter(
            "controller_runtime_reconcile_errors_total", "Reconciles that failed", mine
        ).labels(name)
        self._seconds = registry.histogram(
            "controller_runtime_reconcile_time_seconds", "How long a reconcile takes", mine, _RECONCILE_BUCKETS
        ).labels(name)
        self._limit = registry.gauge(
            "controller_runtime_max_concurrent_reconciles", "How many reconciles may run at once", mine
        ).labels(name)
        self._active = registry.gauge("controller_runtime_active_workers", "How many workers have a key", mine).labels(
            name
        )

    def attach(self, queue: WorkQueue, workers: int) -> None:
        """Report the depth of this queue, its keys in progress, and the number of workers at every scrape."""
        self._limit.set(workers)
        self._depth.set_function(lambda: len(queue))
        self._active.set_function(lambda: len(queue.working))
        self._unfinished.set_function(lambda: sum(queue.working.values()))
        self._longest.set_function(lambda: max(queue.working.values(), default=0.0))

    def added(self) -> None:
        """Count a key that was added, or added again."""
        self._adds.inc()

    def retried(self) -> None:
        """Count a key that was added because its reconcile failed."""
        self._retries.inc()

    def started(self, waited_seconds: float) -> None:
        """Count a key that a worker took."""
        self._waits.observe(waited_seconds)

    def finished(self, worked_seconds: float) -> None:
        """Count a key that a worker has finished."""
        self._works.observe(worked_seconds)

    def reconciled(self, result: Outcome, seconds: float) -> None:
        """Count one finished reconcile. A conflict counts as an error, as in controller-runtime."""
        if result in ("conflict", "error"):
            result = "error"
            self._errors.inc()
        self._outcomes[result].inc()
        self._seconds.observe(seconds)
