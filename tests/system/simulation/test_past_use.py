"""A ClusterQueue may order its LocalQueues by what they used."""

import pytest
from tests.system.simulation.test_full_engine import kueue, play, queue, work

SHARED = {"admissionMode": "UsageBasedAdmissionFairSharing"}


def objects(scope, weight="1"):
    cluster_queue, local = queue("q", 1, **({"admissionScope": scope} if scope else {}))
    other = kueue("LocalQueue", "other", clusterQueue="q", fairSharing={"weight": weight})
    return [cluster_queue, local, other]


def starts(report):
    return {one.name: round(one.started) for one in report.jobs}


@pytest.mark.parametrize("engine", ["fast", "full"])
@pytest.mark.parametrize(
    ("scope", "weight", "first"),
    [(None, "1", "mine-1"), (SHARED, "1", "theirs-0"), (SHARED, "0", "mine-1")],
    ids=["by age", "by past use", "a weight of 0 comes last"],
)
def test_whoever_used_less_comes_first(tmp_path, engine, scope, weight, first):
    """The first LocalQueue ran a job for an hour, and asked again before the second asked at all."""
    works = [work("mine", [10, 20], 3600, queue="q"), work("theirs", [30], 3600, queue="other")]
    report = play(tmp_path, works, objects(scope, weight), engine=engine)
    last = ({"mine-1", "theirs-0"} - {first}).pop()
    assert starts(report) == {"mine-0": 10, first: 3610, last: 7210}


@pytest.mark.parametrize("engine", ["fast", "full"])
def test_whoever_used_more_is_preempted_first(tmp_path, engine):
    """Without past use, the newest job would be the victim."""
    works = [
        work("before", [10], 3600, queue="q"),
        work("mine", [4000], 50_000, queue="q"),
        work("theirs", [4010], 50_000, queue="other"),
        work("top", [9000], 60, queue="other", priority=5),
    ]
    cluster_queue, *locals_ = objects(SHARED)
    cluster_queue["spec"] |= {"preemption": {"withinClusterQueue": "LowerPriority"}}
    cluster_queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = 2
    report = play(tmp_path, works, [cluster_queue, *locals_], engine=engine)
    assert {one.name: one.evictions for one in report.jobs if one.evictions} == {"mine-0": 1}


def test_use_long_past_counts_for_less(tmp_path):
    """By the default half-life of a week, an hour of today is more than two hours a month ago."""
    month = 30 * 86_400
    works = [
        work("mine", [0, month + 7300], 7200, queue="q"),
        work("theirs", [month, month + 3700], 3600, queue="other"),
        work("wall", [month + 3650], 10_000, queue="q"),
    ]
    report = play(tmp_path, works, objects(SHARED), engine="fast")
    assert starts(report)["wall-0"] == month + 3650
    # The LocalQueue of the wall has used two hours more by then.
    assert starts(report)["theirs-1"] == month + 13_650
    works[2]["queue"] = "other"
    report = play(tmp_path, works, objects(SHARED), engine="fast")
    assert starts(report)["mine-1"] == month + 13_650, "what it used a month ago has nearly faded"
