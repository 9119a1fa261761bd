"""Counts what happens thousands of times a second, at a fraction of what a counter of prometheus_client costs.

One event loop counts, so no number needs a lock. A scrape turns the numbers into metrics.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Generic, TypeVar

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Tally:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self) -> None:
        """Count one more."""
        self.value += 1


class Spread:
    """A distribution of numbers over buckets.

    counts: how many numbers each bucket has, and how many are above the last bound.
    """

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, number: float) -> None:
        """Count a number in the first bucket whose bound it does not exceed."""
        self.counts[bisect_left(self._bounds, number)] += 1
        self.total += number


S = TypeVar("S")


class Series(Collector, Generic[S]):
    """The tallies or spreads of one metric, by the values of its labels."""

    def __init__(
        self,
        labels: Sequence[str],
        make: Callable[[], S],
        collect: Callable[[Iterable[tuple[Sequence[str], S]]], Metric],
    ) -> None:
        self._labels = labels
        self._make = make
        self._collect = collect
        self._series: dict[tuple[str, ...], S] = {}

    def labels(self, *values: str) -> S:
        """Return the series with these values of the labels."""
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = self._make()
        return series

    def remove_by_labels(self, labels: Mapping[str, str]) -> None:
        """Remove all series that have these values of these labels."""
        at = {self._labels.index(name): value for name, value in labels.items()}
        for values in [*self._series]:
            if all(values[index] == value for index, value in at.items()):
                del self._series[values]

    def describe(self) -> Iterable[Metric]:
        """Yield nothing: the names need no check."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the metric as it stands."""
        yield self._collect(self._series.items())


def tallies(name: str, text: str, labels: Sequence[str]) -> Series[Tally]:
    """Return the series of a counter."""

    def collect(series: Iterable[tuple[Sequence[str], Tally]]) -> Metric:
        family = CounterMetricFamily(name, text, labels=labels)
        for values, tally in series:
            family.add_metric(values, tally.value)
        return family

    return Series(labels, Tally, collect)


def spreads(name: str, text: str, labels: Sequence[str], bounds: Sequence[float]) -> Series[Spread]:
    """Return the series of a histogram."""
    edges = [str(floatToGoString(bound)) for bound in (*bounds, float("inf"))]  # type: ignore[no-untyped-call]

    def collect(series: Iterable[tuple[Sequence[str], Spread]]) -> Metric:
        family = HistogramMetricFamily(name, text, labels=labels)
        for values, spread in series:
            buckets = [*zip(edges, map(float, accumulate(spread.counts)), strict=True)]
            family.add_metric(values, buckets, spread.total)
        return family

    return Series(labels, lambda: Spread(bounds), collect)
