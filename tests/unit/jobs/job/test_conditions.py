from datetime import timedelta

from tests.unit.jobs.world import START, World, job_of

from muster.api.batch import JobCondition
from muster.api.conditions import is_true
from muster.jobs.job.conditions import backoff_limit_verdict, ensure

LATER = START + timedelta(seconds=5)
OTHER = JobCondition(type="Theirs", status="True")


def test_a_condition_is_added_and_others_stay() -> None:
    found, changed = ensure((OTHER,), "Suspended", "True", "R", "M", START)
    assert changed
    assert found == (
        OTHER,
        JobCondition(
            type="Suspended", status="True", reason="R", message="M", last_probe_time=START, last_transition_time=START
        ),
    )


def test_the_same_again_changes_nothing() -> None:
    found, _ = ensure((), "Suspended", "True", "R", "M", START)
    assert ensure(found, "Suspended", "True", "R", "M", LATER) == (found, False)


def test_only_a_flip_is_a_transition() -> None:
    found, _ = ensure((), "Suspended", "True", "R", "M", START)
    (reworded,), changed = ensure(found, "Suspended", "True", "R", "other", LATER)
    assert changed
    assert (reworded.last_transition_time, reworded.last_probe_time) == (START, LATER)
    (flipped,), _ = ensure(found, "Suspended", "False", "R", "M", LATER)
    assert flipped.last_transition_time == LATER


def test_false_is_never_added() -> None:
    assert ensure((OTHER,), "Suspended", "False", "R", "M", START) == ((OTHER,), False)


def test_times_are_whole_seconds() -> None:
    world = World(job_of({"completions": 0, "parallelism": 0}), now=START + timedelta(microseconds=123))
    world.sync()
    status = world.job.status
    assert (status.start_time, status.completion_time) == (START, START)
    assert {condition.last_transition_time for condition in status.conditions} == {START}


def test_a_clock_set_back_does_not_complete_a_job_before_it_started() -> None:
    world = World(job_of({"completions": 1, "parallelism": 1}))
    world.settle()
    world.now -= timedelta(hours=1)
    world.set_phase(world.active()[0], "Succeeded")
    world.settle()
    assert is_true(world.job.status.conditions, "Complete")
    assert world.job.status.completion_time == world.job.status.start_time == START


def test_the_back_off_limit_is_told_with_what_befell_the_last_pod_if_that_is_known() -> None:
    said = "Job has reached the specified backoff limit"
    assert [backoff_limit_verdict(evidence).message for evidence in ("", "x")] == [said, f"{said}: x"]
