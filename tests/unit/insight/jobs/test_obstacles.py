"""Why the ClusterQueue of a job admits nothing."""

import msgspec

from muster.api.kueue import ClusterQueue
from muster.insight.jobs.obstacles import with_obstacle
from muster.insight.jobs.state import JobState
from muster.insight.quota.state import QuotaState

REASON = "ClusterQueue q is inactive"


def test_a_job_whose_queue_admits_nothing_says_why_and_needs_no_survey_of_the_nodes() -> None:
    active = {"type": "Active", "status": "False", "message": "Can't admit new workloads: its flavor is missing."}
    closed = msgspec.convert({"metadata": {"name": "q"}, "status": {"conditions": [active]}}, ClusterQueue)
    state = JobState("Queued", 0, 1, REASON, True, QuotaState("Queued", REASON, queue="q"))
    assert not state.hopeless
    assert with_obstacle(state, {"q": closed}).reason == "ClusterQueue q is inactive: its flavor is missing"
    assert with_obstacle(state, {}) == state
