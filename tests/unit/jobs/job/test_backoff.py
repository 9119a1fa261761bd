from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.unit.jobs.world import START, World, job_of

from muster.api.core import ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodStatus
from muster.api.meta import ObjectMeta
from muster.jobs.job.backoff import Backoff, compute_delay, finish_time, index_until


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@pytest.mark.parametrize(
    ("failures", "expected"), [(0, 0), (1, 10), (2, 20), (3, 40), (4, 80), (6, 320), (7, 600), (8, 600), (10_000, 600)]
)
def test_delay(failures: int, expected: int) -> None:
    assert compute_delay(failures) == seconds(expected)


def ended(*agos: float, phase: str = "Failed") -> list[Pod]:
    world = World(job_of({}))
    return [world.add(phase, ago=seconds(ago)) for ago in agos]


@pytest.mark.parametrize(
    ("before", "succeeded", "failed", "failures", "last"),
    [
        (Backoff(), [], [], 0, None),
        (Backoff(2, START - seconds(90)), [], [], 2, 90),
        (Backoff(2, START - seconds(90)), [], [5, 3, 4], 5, 3),
        (Backoff(2, START - seconds(90)), [9], [], 0, None),
        (Backoff(2, START - seconds(90)), [4], [5, 3, 2], 2, 2),
        (Backoff(2, START - seconds(90)), [4], [4], 0, None),
        (Backoff(), [9, 1], [5], 0, None),
    ],
)
def test_record(before: Backoff, succeeded: list[int], failed: list[int], failures: int, last: int | None) -> None:
    after = before.after(ended(*succeeded, phase="Succeeded"), ended(*failed))
    assert after == Backoff(failures, None if last is None else START - seconds(last))
    assert after.until() == (None if last is None else START - seconds(last) + compute_delay(failures))


def container(finished: float | None) -> ContainerStatus:
    terminated = ContainerStateTerminated(
        exit_code=1, finished_at=None if finished is None else START - seconds(finished)
    )
    return ContainerStatus(name="c", state=ContainerState(terminated=terminated))


NOT_READY = PodCondition(type="Ready", status="False", last_transition_time=START - seconds(30))


@pytest.mark.parametrize(
    ("meta", "status", "ago"),
    [
        ({}, PodStatus(container_statuses=(container(5), container(7))), 5),
        ({}, PodStatus(container_statuses=(container(5), container(None)), conditions=(NOT_READY,)), 30),
        ({}, PodStatus(container_statuses=(container(5), ContainerStatus(name="r")), conditions=(NOT_READY,)), 30),
        ({}, PodStatus(conditions=(NOT_READY,)), 30),
        ({"deletion_timestamp": START, "deletion_grace_period_seconds": 20}, PodStatus(), 20),
        ({"deletion_timestamp": START}, PodStatus(), 0),
        ({"creation_timestamp": START - seconds(99)}, PodStatus(), 99),
    ],
    ids=["containers", "a time is missing", "one runs", "not ready", "deleted", "deleted at once", "created"],
)
def test_finish_time_by_the_best_evidence(meta: dict[str, Any], status: PodStatus, ago: int) -> None:
    assert finish_time(Pod(metadata=ObjectMeta(**meta), status=status)) == START - seconds(ago)


def test_nothing_known_is_long_ago() -> None:
    assert finish_time(Pod()).year == 1970


def test_index_waits_by_the_count_it_carries() -> None:
    world = World(job_of({}))
    pod = world.add("Failed", 0, failures=2, ago=seconds(5))
    assert index_until(pod) == START - seconds(5) + seconds(40)
    annotations = pod.metadata.annotations | {"batch.kubernetes.io/job-index-ignored-failure-count": "1"}
    pod = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations))
    assert index_until(pod) == START - seconds(5) + seconds(80)
