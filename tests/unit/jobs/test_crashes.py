"""A controller killed between two particular writes; `test_histories.py` tries the others."""

from datetime import timedelta

from tests.unit.jobs.world import World, job_of

from muster.api.conditions import is_true


def killed_after(world: World, *writes: str) -> None:
    """Write until the last of these, in order, has happened; then forget everything."""
    expected = list(writes)
    for write in world.writes():
        if write == expected[0]:
            expected.pop(0)
        if not expected:
            break
    assert not expected
    world.backoff = None


def ready(world: World) -> World:
    world.settle()
    return world


def test_pitfall_11_surplus_pods_never_fail(indexed: World) -> None:
    ready(indexed).scale(1)
    killed_after(indexed, "untrack", "delete")
    indexed.settle()
    assert (indexed.job.status.failed, indexed.active_indexes()) == (0, [0])


def test_a_removal_that_is_no_longer_wanted_is_taken_back(indexed: World) -> None:
    ready(indexed)
    before = indexed.pod_of(2).metadata.uid
    indexed.scale(2)
    killed_after(indexed, "untrack")
    indexed.scale(3)
    indexed.settle()
    assert indexed.pod_of(2).metadata.uid == before
    for index in range(3):
        indexed.set_phase(indexed.pod_of(index), "Succeeded")
    indexed.settle()
    assert indexed.job.status.completed_indexes == "0-2"
    assert len(indexed.created) == 3


def test_pods_of_a_job_that_met_its_success_policy_never_fail() -> None:
    policy = {"rules": [{"succeededIndexes": "0"}]}
    spec = {"completionMode": "Indexed", "completions": 3, "parallelism": 3, "successPolicy": policy}
    world = ready(World(job_of(spec)))
    world.set_phase(world.pod_of(0), "Succeeded")
    killed_after(world, "delete", "delete")
    world.settle()
    assert is_true(world.job.status.conditions, "Complete")
    assert world.job.status.failed == 0


def test_a_success_is_counted_once_wherever_the_controller_dies() -> None:
    for writes in (["status"], ["status", "release"], ["status", "release", "release"]):
        world = ready(World(job_of({"completions": 3, "parallelism": 2})))
        for pod in world.active():
            world.set_phase(pod, "Succeeded")
        # The third pod comes first, then the status that counts, then the finalizers.
        killed_after(world, "create", *writes)
        world.settle()
        assert world.job.status.succeeded == 2, writes
        assert len(world.active()) == 1


def test_a_finished_job_does_not_report_pods_that_could_not_be_deleted_as_gone() -> None:
    policy = {"rules": [{"succeededIndexes": "0"}]}
    spec = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "successPolicy": policy}
    world = ready(World(job_of(spec)))
    world.set_phase(world.pod_of(0), "Succeeded")
    world.delete_fails = True
    for _ in range(3):
        world.sync()
    assert [condition.type for condition in world.job.status.conditions] == ["SuccessCriteriaMet"]
    assert world.job.status.active == 1
    world.delete_fails = False
    world.settle()
    assert is_true(world.job.status.conditions, "Complete")


def test_the_backoff_outlives_the_controller() -> None:
    world = ready(World(job_of({"completions": 1, "parallelism": 1})))
    world.set_phase(world.active()[0], "Failed")
    world.settle()
    world.backoff = None
    world.now += timedelta(seconds=9)
    world.settle()
    assert not world.active()
    world.now += timedelta(seconds=1)
    world.settle()
    assert len(world.active()) == 1


def test_pitfall_14_no_decision_both_deletes_and_creates(indexed: World) -> None:
    ready(indexed)
    indexed.add("Running", 7)
    indexed.set_phase(indexed.pod_of(0), "Failed", ago=timedelta(hours=1))
    plan = indexed.decide()
    assert (len(plan.delete), len(plan.create)) == (1, 0)


def test_a_pod_that_succeeds_while_others_are_removed_is_not_removed(indexed: World) -> None:
    ready(indexed).set_spec(suspend=True)
    writes = indexed.writes()
    assert [next(writes), next(writes)] == ["untrack", "delete"]
    indexed.set_phase(indexed.pod_of(1), "Succeeded")
    assert list(writes) == ["untrack", "delete", "status"]
    indexed.settle()
    status = indexed.job.status
    assert (status.completed_indexes, status.active, status.failed) == ("1", 0, 0)
