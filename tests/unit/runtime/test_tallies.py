"""Counters, gauges and histograms are scraped as prometheus_client's own are."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from muster.runtime.metrics import Registry
from muster.runtime.tallies import PIECE_SERIES

BOUNDS = (0.5, 1, 10.0)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", 'q"\n']), st.sampled_from([0.0, 0.5, 0.7, 1.0, 10.0, 11.0]))))
def test_numbers_are_scraped_as_those_of_the_library(numbers: list[tuple[str, float]]) -> None:
    ours, usual = Registry(), CollectorRegistry()
    counts = (
        ours.counter("things_total", "Things", ("who",)),
        Counter("things_total", "Things", ("who",), registry=usual),
    )
    times = (
        ours.histogram("seconds", "Seconds", ("who",), BOUNDS),
        Histogram("seconds", "Seconds", ("who",), buckets=BOUNDS, registry=usual),
    )
    levels = (
        ours.gauge("level", "Level", ("who",)),
        Gauge("level", "Level", ("who",), registry=usual),
    )
    for who, number in numbers:
        for level in levels:
            level.labels(who).set(number)
        for count in counts:
            count.labels(who).inc(int(number))
        for distribution in times:
            distribution.labels(who).observe(number)
    assert _lines(ours.text()) == _lines(generate_latest(usual))


def test_series_are_removed_by_the_values_of_some_labels() -> None:
    registry = Registry()
    things = registry.counter("things_total", "Things", ("who", "what"))
    for who, what in ("a", "x"), ("a", "y"), ("b", "x"):
        things.labels(who, what).inc()
    things.remove_by_labels({"who": "a"})
    things.remove_by_labels({"what": "z"})
    [left] = (line for line in _lines(registry.text()) if line.startswith("things"))
    assert left == 'things_total{what="x",who="b"} 1.0'
    things.labels("a", "x").inc()
    assert 'things_total{what="x",who="a"} 1.0' in _lines(registry.text())


def test_the_same_name_is_the_same_series() -> None:
    registry = Registry()
    first = registry.counter("things_total", "Things", ("who",))
    assert registry.counter("things_total", "Things", ("who",)) is first
    assert first.labels("a") is first.labels("a")


def test_a_gauge_of_a_function_is_read_at_each_scrape() -> None:
    registry, depth = Registry(), [1, 2]
    registry.gauge("depth", "Depth").labels().set_function(lambda: len(depth))
    assert "depth 2.0" in _lines(registry.text())
    depth.clear()
    assert "depth 0.0" in _lines(registry.text())


def test_a_scrape_of_many_series_lets_other_tasks_run() -> None:
    registry, turns = Registry(), 0
    waits = registry.histogram("seconds", "Seconds", ("queue",), BOUNDS)
    for number in range(10 * PIECE_SERIES):
        waits.labels(str(number)).observe(number)

    async def body() -> bytes:
        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                waits.labels(f"new {turns}").observe(1)
                await asyncio.sleep(0)

        other = asyncio.create_task(turn())
        text = await registry.scrape()
        other.cancel()
        return text

    before = registry.text().splitlines()
    assert asyncio.run(body()).splitlines()[: len(before)] == before
    assert turns > 10


def test_every_label_needs_a_value() -> None:
    with pytest.raises(ValueError, match="'who', 'what'"):
        Registry().counter("things_total", "Things", ("who", "what")).labels("a")


def _lines(text: bytes) -> set[str]:
    return {line for line in text.decode().splitlines() if "_created" not in line}
