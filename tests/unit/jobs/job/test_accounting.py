"""What is entered into a Job's status of pods that have ended, and what is left for the next look."""

from datetime import timedelta
from typing import Any

import pytest
from tests.unit.jobs.world import World, job_of

from muster.api.batch import UncountedTerminatedPods
from muster.jobs.job.accounting import count_ended_pods
from muster.jobs.job.census import Census
from muster.jobs.job.terms import JobTerms

IGNORED = {"onExitCodes": {"operator": "In", "values": [42]}, "action": "Ignore"}
COUNTED = {"onExitCodes": {"operator": "In", "values": [1]}, "action": "Count"}


@pytest.mark.parametrize(
    ("code", "judged"), [(42, ("Ignore",)), (1, ("Count",)), (3, ())], ids=["ignored", "counted", "no rule"]
)
def test_the_plan_names_the_actions_on_the_pods_that_it_counts(code: int, judged: tuple[str, ...]) -> None:
    world = World(job_of({"completions": 2, "parallelism": 2, "podFailurePolicy": {"rules": [IGNORED, COUNTED]}}))
    world.add("Failed", exit_code=code, ago=timedelta(1))
    assert world.decide().judged == judged


@pytest.mark.parametrize(
    ("spec", "status", "uncounted", "ended", "succeeded"),
    [
        pytest.param({}, {"succeeded": 2}, (), 3, 5, id="new ones"),
        pytest.param({}, {"succeeded": 2}, ("x", "y"), 3, 7, id="beside those that the status holds"),
        pytest.param(
            {"completionMode": "Indexed"}, {"completedIndexes": "0-1", "succeeded": 2}, (), 0, 2, id="indexes"
        ),
    ],
)
def test_what_has_succeeded_is_counted_once(
    spec: dict[str, Any], status: dict[str, Any], uncounted: tuple[str, ...], ended: int, succeeded: int
) -> None:
    world = World(job_of({"completions": 9, "parallelism": 9, **spec}, status))
    for _ in range(ended):
        world.add("Succeeded")
    held = UncountedTerminatedPods(succeeded=uncounted)
    found = (
        world.job.status
        if not uncounted
        else type(world.job.status)(succeeded=world.job.status.succeeded, uncounted_terminated_pods=held)
    )
    assert count_ended_pods(found, JobTerms.of(world.job), Census.of(world.pods.values())).succeeded == succeeded


def test_a_job_that_is_resumed_says_so_before_it_has_pods_and_is_looked_at_again() -> None:
    suspended = {"conditions": [{"type": "Suspended", "status": "True"}]}
    plan = World(job_of({"completions": 2, "parallelism": 2}, suspended)).decide()
    assert (plan.create, plan.more) == ((), True)
    plan = World(job_of({"completions": 2, "parallelism": 2})).decide()
    assert (len(plan.create), plan.more) == (2, False)
