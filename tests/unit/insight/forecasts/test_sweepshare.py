"""Whether a sweep takes its whole queue for long."""

from typing import Any

import msgspec
import pytest
from tests.unit.insight.forecasts.test_never import cluster_queue, job, room

from muster.insight.forecasts.sweepshare import describe_queue_use
from muster.insight.record import JobRecord, record_of


def sweep(trials: int, at_once: int, cpu: str = "1") -> JobRecord:
    source: Any = job(trials, annotations={"muster.dev/array": f"0-{trials - 1}"}, cpu=cpu).source
    return record_of(msgspec.structs.replace(source, spec=msgspec.structs.replace(source.spec, parallelism=at_once)))


@pytest.mark.parametrize(
    ("trials", "at_once", "cpu", "most"),
    [
        (10_000, 10_000, "1", 8),
        (80, 80, "1", 8),
        (79, 79, "1", None),  # not for long
        (10_000, 7, "1", None),  # the others have one CPU
        (10_000, 8, "1", 8),
        (40, 40, "2", 4),
        (10_000, 10_000, "16", 0),  # it never starts, which others say
    ],
)
def test_a_sweep_without_a_limit(trials: int, at_once: int, cpu: str, most: int | None) -> None:
    queues = [cluster_queue("q", {"f": {"cpu": "8", "pods": "100"}})]
    sentence = describe_queue_use(sweep(trials, at_once, cpu), room(queues=queues), "q")
    assert sentence.startswith(f"its {trials} trials take all of queue q, at most {most} at a time") is bool(most)
    assert bool(sentence) is bool(most)


@pytest.mark.parametrize(
    ("at_once", "cpu", "advice"),
    [
        (10_000, "1", "; with a number below 8 after %, as in --array 0-99%4, other jobs have the rest"),
        (50, "1", "; with a number below 8 after %, as in --array 0-99%4, other jobs have the rest"),
        (50, "4", "; with a number below 2 after %, as in --array 0-99%1, other jobs have the rest"),
        (50, "8", "until the sweep ends"),  # no number leaves room
    ],
)
def test_the_advice_names_a_limit_that_leaves_room(at_once: int, cpu: str, advice: str) -> None:
    queues = [cluster_queue("q", {"f": {"cpu": "8", "pods": "100"}})]
    assert describe_queue_use(sweep(10_000, at_once, cpu), room(queues=queues), "q").endswith(advice)


def test_what_the_user_may_not_see_is_not_judged() -> None:
    assert describe_queue_use(sweep(10_000, 10_000), room(), "q") == ""


def test_a_queue_without_limits_is_not_taken() -> None:
    queues = [cluster_queue("q", {"f": {"nvidia.com/gpu": "8"}})]
    assert describe_queue_use(sweep(10_000, 10_000), room(queues=queues), "q") == ""
