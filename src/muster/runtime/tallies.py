"""The counters, gauges and histograms of a `Registry`, at a fraction of the cost of prometheus_client's.

One event loop counts, so no number needs a lock. A scrape turns the numbers into text, piece by piece, because a
thousand queues have a hundred thousand lines.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, islice
from typing import Generic, TypeVar

PIECE_SERIES = 200  # the series that are formatted in one step: some milliseconds


class Tally:
    """A number that only grows: the value of a counter."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self, count: int = 1) -> None:
        """Add this count."""
        self.value += count


class Level:
    """A number that goes up and down: the value of a gauge."""

    __slots__ = ("read",)

    def __init__(self) -> None:
        self.set(0)

    def set(self, value: float) -> None:
        """Set the value to report from now on."""
        self.read: Callable[[], float] = lambda: value

    def set_function(self, read: Callable[[], float]) -> None:
        """Set a function whose result is reported at each scrape."""
        self.read = read


class Spread:
    """A distribution of numbers over buckets: the value of a histogram.

    counts: how many numbers are in each bucket, and how many are above the last bound.
    """

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, number: float) -> None:
        """Count a number in the first bucket whose bound is not less than the number."""
        self.counts[bisect_left(self._bounds, number)] += 1
        self.total += number


S = TypeVar("S")


# Turns a series into lines: takes its labels and their values, and the numbers.
Write = Callable[[Sequence[tuple[str, str]], S], Iterable[str]]


class Series(Generic[S]):
    """The counters, gauges or histograms of one metric, by the values of its labels."""

    def __init__(self, head: str, labels: Sequence[str], make: Callable[[], S], write: Write[S]) -> None:
        self._head = head
        self._labels = labels
        self._make = make
        self._write = write
        self._series: dict[tuple[str, ...], S] = {}

    def labels(self, *values: str) -> S:
        """Return the series with these values of the labels. Raises ValueError unless each label has one."""
        series = self._series.get(values)
        if series is None:
            if len(values) != len(self._labels):
                raise ValueError(f"the labels {self._labels} have the values {values}")
            series = self._series[values] = self._make()
        return series

    def remove_by_labels(self, labels: Mapping[str, str]) -> None:
        """Remove all series that have these values of these labels."""
        at = {self._labels.index(name): value for name, value in labels.items()}
        for values in [*self._series]:
            if all(values[index] == value for index, value in at.items()):
                del self._series[values]

    def pieces(self) -> Iterator[str]:
        """Yield the series in the text format of Prometheus, some at a time.

        Series may be added and removed meanwhile.
        """
        yield self._head
        series = iter([*self._series.items()])
        while some := [*islice(series, PIECE_SERIES)]:
            yield "".join(
                line
                for values, numbers in some
                for line in self._write([*zip(self._labels, map(_escape, values), strict=True)], numbers)
            )


def make_counter(name: str, text: str, labels: Sequence[str]) -> Series[Tally]:
    """Return the series of a counter."""

    def write(pairs: Sequence[tuple[str, str]], tally: Tally) -> Iterable[str]:
        return (f"{name}{_render_labels(pairs)} {_format_number(tally.value)}\n",)

    return Series(_render_head(name, text, "counter"), labels, Tally, write)


def make_gauge(name: str, text: str, labels: Sequence[str]) -> Series[Level]:
    """Return the series of a gauge."""

    def write(pairs: Sequence[tuple[str, str]], level: Level) -> Iterable[str]:
        return (f"{name}{_render_labels(pairs)} {_format_number(level.read())}\n",)

    return Series(_render_head(name, text, "gauge"), labels, Level, write)


def make_histogram(name: str, text: str, labels: Sequence[str], bounds: Sequence[float]) -> Series[Spread]:
    """Return the series of a histogram."""

    @cache
    def list_edges() -> list[str]:
        return [_format_number(bound) for bound in (*bounds, float("inf"))]

    def write(pairs: Sequence[tuple[str, str]], spread: Spread) -> Iterable[str]:
        before, after = f"{name}_bucket{_render_labels([*pairs, ('le', _EDGE)])} ".split(_EDGE)
        counts = [*accumulate(spread.counts)]
        for edge, count in zip(list_edges(), counts, strict=True):
            yield f"{before}{edge}{after}{_format_number(count)}\n"
        braced = _render_labels(pairs)
        yield f"{name}_count{braced} {_format_number(counts[-1])}\n"
        yield f"{name}_sum{braced} {_format_number(spread.total)}\n"

    return Series(_render_head(name, text, "histogram"), labels, lambda: Spread(bounds), write)


_EDGE = "\n"  # stands for the bound of a bucket: no escaped value of a label has a line feed


def _render_head(name: str, text: str, kind: str) -> str:
    escaped = text.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {escaped}\n# TYPE {name} {kind}\n"


def _render_labels(pairs: Sequence[tuple[str, str]]) -> str:
    """Return labels in the text format of Prometheus, sorted by name."""
    return "{" + ",".join([f'{name}="{value}"' for name, value in sorted(pairs)]) + "}" if pairs else ""


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _format_number(value: float) -> str:
    return _find_formatter()(value)


@cache
def _find_formatter() -> Callable[[float], str]:
    from prometheus_client.utils import floatToGoString  # importing it takes 20 ms, and many clusters see no scrape

    return floatToGoString
