"""The judge of the fast engine: what it compares, and where it says that there is nothing to compare."""

import pytest
from tests.system.simulation.judge import CAME, ENDED, Unclear, configure, find_difference
from tests.system.simulation.random_scenarios import RandomScenario
from tests.system.simulation.test_full_engine import job, queue, work, write

JOB_SET = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "spec": {"replicatedJobs": [{"name": "r", "replicas": 1, "template": {"spec": job()["spec"]}}]},
}


@pytest.mark.parametrize(
    ("comes", "clear"),
    [((150, 170), False), ((50, 170), False), ((50, 70), True)],
    ids=["both during the restart", "one before", "both before"],
)
def test_a_restarted_cluster_may_decide_before_it_knows_all_jobs(tmp_path, comes, clear):
    """It gives the JobSet quota before it queues the Job of higher priority, which came meanwhile."""
    of_set, of_job = comes
    works = [
        work("before", [10], 150, queue="q"),
        work("set", [of_set], 100, queue="q", template=JOB_SET),
        work("job", [of_job], 100, queue="q", priority=5),
    ]
    changes = [{"at": 100, "restart": {"for": 100}}]
    outcome = find_difference(write(tmp_path, works, queue("q", 1), changes=changes))
    assert outcome == ("" if clear else CAME)


@pytest.mark.parametrize(("workers", "outcome"), [((1, 1), ENDED), ((2,), "")], ids=["two ended", "one ended"])
def test_a_restarted_cluster_may_decide_before_it_frees_all_quota(tmp_path, workers, outcome):
    """The end of one job makes room for the small job only, so that the big one waits, which has higher priority."""
    works = [
        *(work(f"before-{at}", [at], 120, queue="q", size=size) for at, size in zip((10, 20), workers, strict=False)),
        work("big", [40], 100, queue="q", size=2, priority=5),
        work("small", [60], 100, queue="q"),
    ]
    changes = [{"at": 100, "restart": {"for": 100}}]
    assert find_difference(write(tmp_path, works, queue("q", 2), changes=changes)) == outcome


def test_a_job_more_that_got_quota_for_a_moment_counts_as_past_use(tmp_path):
    """The cluster evicted a victim more, started it again, and so its LocalQueue comes behind the other one later."""
    scenario = RandomScenario(2484)
    outcome = find_difference(scenario.write(tmp_path), configure(scenario.dispatcher))
    assert isinstance(outcome, Unclear)
    assert "past use" in outcome.why
