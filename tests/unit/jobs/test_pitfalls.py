"""What is easily got wrong, where one decision or a plain sequence does not show it."""

from datetime import timedelta
from typing import Any

import pytest
from tests.unit.jobs.world import World, job_of

from muster.api.batch import INDEX_FAILURE_COUNT, JobStatus

THREE = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}


class Recorded(World):
    """A world that remembers every status that was stored; each is checked as the API server does."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.statuses: list[JobStatus] = []

    def _store_status(self, status: JobStatus) -> None:
        super()._store_status(status)
        self.statuses.append(status)

    def told(self) -> list[tuple[str, ...]]:
        """The conditions that were True, each time they changed."""
        all_told = [tuple(c.type for c in status.conditions if c.status == "True") for status in self.statuses]
        return [told for at, told in enumerate(all_told) if at == 0 or told != all_told[at - 1]]


@pytest.mark.parametrize(
    ("spec", "phase", "announced", "end"),
    [
        ({}, "Succeeded", "SuccessCriteriaMet", "Complete"),
        ({"successPolicy": {"rules": [{"succeededCount": 1}]}}, "Succeeded", "SuccessCriteriaMet", "Complete"),
        ({"backoffLimit": 0}, "Failed", "FailureTarget", "Failed"),
        ({"backoffLimitPerIndex": 0}, "Failed", "FailureTarget", "Failed"),
        ({"backoffLimitPerIndex": 0, "maxFailedIndexes": 0}, "Failed", "FailureTarget", "Failed"),
        ({"activeDeadlineSeconds": 60}, "Running", "FailureTarget", "Failed"),
        ({"completions": 0, "parallelism": 0}, "Succeeded", "SuccessCriteriaMet", "Complete"),
    ],
)
def test_pitfall_7_the_end_is_announced_first_and_its_status_is_whole(
    spec: dict[str, Any], phase: str, announced: str, end: str
) -> None:
    world = Recorded(job_of(THREE | spec))
    world.settle()
    for pod in world.active():
        world.set_phase(pod, phase)
    world.now += timedelta(minutes=1)
    world.settle()
    *before, last = world.told()
    assert last == (announced, end)
    assert before == [told for told in ((), (announced,)) if told in before]
    status = world.job.status
    assert status.start_time is not None
    assert (status.completion_time is not None) == (end == "Complete")
    assert (status.active, status.ready, status.terminating) == (0, 0, 0)


def test_pitfall_11_pods_of_a_failing_job_count_and_keep_their_finalizer_until_they_do(indexed: World) -> None:
    """Unlike surplus and suspended ones, which lose it before they are deleted."""
    indexed.set_spec(backoff_limit=0)
    indexed.settle()
    indexed.set_phase(indexed.pod_of(0), "Failed")
    writes = indexed.sync()
    assert writes[:3] == ["delete", "delete", "status"]
    assert "untrack" not in writes
    indexed.settle()
    assert indexed.job.status.failed == 3


def test_pitfall_11_suspended_pods_never_count(indexed: World) -> None:
    indexed.settle()
    indexed.set_spec(suspend=True)
    assert indexed.sync()[:2] == ["untrack", "delete"]
    indexed.settle()
    assert indexed.job.status.failed == 0


def test_pitfall_17_completion_waits_until_nothing_is_uncounted() -> None:
    world = World(job_of({"completions": 2, "parallelism": 2}))
    world.settle()
    for pod in world.active():
        world.set_phase(pod, "Succeeded")
    seen = []
    for _ in range(3):
        world.sync()
        uncounted = world.job.status.uncounted_terminated_pods
        types = [condition.type for condition in world.job.status.conditions]
        seen.append((len(uncounted.succeeded) if uncounted else 0, types))
    # A status that counts them, then one that says so; the last look finds nothing to do.
    assert seen == [(2, ["SuccessCriteriaMet"]), *[(0, ["SuccessCriteriaMet", "Complete"])] * 2]


@pytest.mark.parametrize("by_hand", [False, True])
def test_pitfall_20_deleting_failed_pods_by_hand_forgets_their_count(by_hand: bool) -> None:
    """The count of an index is in annotations: with the last failed pod it is gone."""
    spec = THREE | {"completions": 1, "parallelism": 1, "backoffLimitPerIndex": 3, "backoffLimit": 2**31 - 1}
    world = World(job_of(spec))
    world.settle()
    for failures in range(2):
        failed = world.pod_of(0)
        assert failed.metadata.annotations[INDEX_FAILURE_COUNT] == str(failures)
        world.set_phase(failed, "Failed")
        world.settle()
        world.now += timedelta(minutes=1)
        if failures == 1 and by_hand:
            world.untrack(failed)
            world.delete(failed)
        world.settle()
    assert world.pod_of(0).metadata.annotations[INDEX_FAILURE_COUNT] == ("0" if by_hand else "2")
