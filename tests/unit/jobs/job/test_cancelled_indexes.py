"""Indexes of a Job that a user cancels while the others go on."""

from typing import Any

import msgspec
from tests.unit.jobs.world import World, job_of

from muster.jobs.job.conditions import finish

FOUR = {"completionMode": "Indexed", "completions": 4, "parallelism": 4, "backoffLimitPerIndex": 0}


def world_of(**spec: Any) -> World:
    world = World(job_of(FOUR | spec))
    world.settle()
    return world


def cancel(world: World, indexes: str) -> None:
    annotations = {"muster.dev/cancelled-indexes": indexes}
    metadata = msgspec.structs.replace(world.job.metadata, annotations=annotations)
    world.job = msgspec.structs.replace(world.job, metadata=metadata)
    world.settle()


def finish_index(world: World, index: int, phase: str = "Succeeded") -> None:
    world.set_phase(world.pod_of(index), phase)
    world.settle()


def find_end(world: World) -> tuple[str, str]:
    end = finish(world.job)
    return (end.type, end.reason) if end is not None else ("", "")


def test_a_cancelled_index_ends_and_counts_as_no_failure() -> None:
    world = world_of()
    cancel(world, "1,2")
    assert [pod.metadata.name for pod in world.active()] == [world.pod_of(i).metadata.name for i in (0, 3)]
    assert (world.job.status.failed_indexes, world.job.status.failed) == ("1,2", 0)
    finish_index(world, 0)
    finish_index(world, 3)
    assert find_end(world) == ("Complete", "CompletionsReached")
    assert (world.job.status.completed_indexes, world.job.status.failed) == ("0,3", 0)


def test_an_index_that_waits_for_its_turn_never_starts() -> None:
    world = world_of(parallelism=1)
    cancel(world, "1-3")
    finish_index(world, 0)
    assert find_end(world) == ("Complete", "CompletionsReached")


def test_a_job_of_which_all_indexes_are_cancelled_is_cancelled() -> None:
    world = world_of()
    cancel(world, "0-3")
    assert find_end(world) == ("Failed", "Cancelled")
    assert world.job.status.failed == 0


def test_another_index_that_fails_fails_the_job() -> None:
    world = world_of()
    cancel(world, "1,2")
    finish_index(world, 0, "Failed")
    finish_index(world, 3)
    assert find_end(world) == ("Failed", "FailedIndexes")
    assert world.job.status.failed == 1


def test_indexes_that_are_cancelled_last_count_as_no_failure_of_a_job_that_fails() -> None:
    world = world_of()
    finish_index(world, 0, "Failed")
    finish_index(world, 3)
    cancel(world, "1,2")
    assert find_end(world) == ("Failed", "FailedIndexes")
    assert world.job.status.failed == 1


def test_cancelled_indexes_do_not_count_toward_the_most_that_may_fail() -> None:
    world = world_of(maxFailedIndexes=0)
    cancel(world, "1,2")
    assert find_end(world) == ("", "")


def test_an_index_that_has_succeeded_stays_so() -> None:
    world = world_of()
    finish_index(world, 1)
    cancel(world, "1")
    assert (world.job.status.completed_indexes, world.job.status.failed_indexes) == ("1", "")


def test_the_success_of_a_pod_that_ends_after_its_index_was_cancelled_does_not_count() -> None:
    world = world_of()
    status = msgspec.structs.replace(world.job.status, failed_indexes="1")
    world.job = msgspec.structs.replace(world.job, status=status)
    world.set_phase(world.pod_of(1), "Succeeded")
    cancel(world, "1")
    assert (world.job.status.completed_indexes, world.job.status.failed_indexes) == ("", "1")


def test_without_a_limit_per_index_no_index_can_be_cancelled() -> None:
    world = world_of(backoffLimitPerIndex=None)
    cancel(world, "1")
    assert len(world.active()) == 4
