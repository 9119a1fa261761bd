"""Tests of the status of queues and Cohorts."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.unit.queueing.given import START, cohort, queue, usage, workload

from muster.api.kueue import ClusterQueueStatus, LocalQueueStatus
from muster.api.meta import Condition
from muster.queueing.pending.activity import Activity
from muster.queueing.quota.status import cohort_status, local_status, queue_status, with_activity
from muster.queueing.quota.tallies import WorkloadSums
from muster.queueing.quota.tree import Tree

NOW = datetime(2026, 1, 2, tzinfo=UTC)

QUEUES: dict[str, dict[str, Any]] = {
    "a": {
        "cohort": "all",
        "groups": [
            {"spot": {"memory": "8Gi", "cpu": 2}, "reserved": {"memory": "1Gi", "cpu": 1}},
            {"gpus": {"gpu": 1}},
        ],
    },
    "b": {"cohort": "all", "groups": [{"spot": {"memory": "8Gi", "cpu": 4}}]},
}


def tree(*holders: tuple[str, dict[str, Any]]) -> Tree:
    result = Tree()
    for name, written in QUEUES.items():
        result.set_queue(queue(name, written))
    result.set_cohort(cohort("all", {}))
    for name, values in holders:
        result.hold(replace(workload(name=name, queue="a"), **values | {"usage": usage(values["usage"])}))
    return result


MADE = tree(
    ("one", {"usage": {"spot/cpu": "1500m", "spot/memory": "1Gi"}, "admitted": True}),
    ("two", {"usage": {"spot/cpu": "1", "gpus/gpu": 1}, "local_queue": "ns/other"}),
)


def plain(flavors: Any) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the amounts by flavor and resource, in their order."""
    return {
        one["name"]: {
            each["name"]: tuple(value for name, value in each.items() if name != "name") for each in one["resources"]
        }
        for one in msgspec.to_builtins(flavors)
    }


def test_a_cluster_queue() -> None:
    conditions = (Condition(type="Other", status="True", reason="R", message=""),)
    status = queue_status(ClusterQueueStatus(conditions=conditions), MADE.queues["a"], 7, fair=False)
    assert (status.pending_workloads, status.reserving_workloads, status.admitted_workloads) == (7, 2, 1)
    assert status.conditions == conditions
    assert status.fair_sharing is None
    reservation, used = plain(status.flavors_reservation), plain(status.flavors_usage)
    assert [(flavor, list(resources)) for flavor, resources in reservation.items()] == [
        ("spot", ["memory", "cpu"]),
        ("reserved", ["memory", "cpu"]),
        ("gpus", ["gpu"]),
    ]
    assert reservation["spot"] == {"memory": ("1Gi", "0"), "cpu": ("2500m", "500m")}
    assert reservation["reserved"] == {"memory": ("0", "0"), "cpu": ("0", "0")}
    assert reservation["gpus"] == {"gpu": ("1", "0")}
    assert used["spot"] == {"memory": ("1Gi", "0"), "cpu": ("1500m", "0")}
    assert used["gpus"] == {"gpu": ("0", "0")}


@pytest.mark.parametrize(("queue", "share"), [("a", 72), ("b", 0)])  # 500m of 7 CPUs are borrowed
def test_shares(queue: str, share: int) -> None:
    status = queue_status(ClusterQueueStatus(), MADE.queues[queue], 0, fair=True)
    assert status.fair_sharing is not None
    assert status.fair_sharing.weighted_share == share


def test_the_root_has_no_share() -> None:
    status = cohort_status(MADE.cohorts["all"])
    assert status.fair_sharing is not None
    assert status.fair_sharing.weighted_share == 0


def test_a_local_queue_shows_every_flavor_of_its_cluster_queue() -> None:
    node = MADE.queues["a"]
    status = local_status(LocalQueueStatus(), node.tallies.of("ns/other"), node.policy, 3)
    assert (status.pending_workloads, status.reserving_workloads, status.admitted_workloads) == (3, 1, 0)
    assert plain(status.flavors_reservation) == {
        "spot": {"memory": ("0",), "cpu": ("1",)},
        "reserved": {"memory": ("0",), "cpu": ("0",)},
        "gpus": {"gpu": ("1",)},
    }
    assert plain(status.flavors_usage)["gpus"] == {"gpu": ("0",)}


def test_a_local_queue_without_cluster_queue() -> None:
    status = local_status(LocalQueueStatus(), WorkloadSums(), None, 0)
    assert (status.pending_workloads, status.flavors_reservation, status.flavors_usage) == (0, (), ())


def test_nothing_changes_if_nothing_happened() -> None:
    node = MADE.queues["a"]
    once = queue_status(ClusterQueueStatus(), node, 7, fair=True)
    assert queue_status(once, node, 7, fair=True) == once


def test_the_condition() -> None:
    ready, stopped = Activity(True, "Ready", "fine"), Activity(False, "Stopped", "no")
    first = with_activity((), ready, START, 1)
    assert with_activity(first, ready, NOW, 1) is first
    (result,) = with_activity(first, ready, NOW, 2)
    assert (result.observed_generation, result.last_transition_time) == (2, START)
    (flipped,) = with_activity(first, stopped, NOW, 2)
    assert (flipped.status, flipped.reason, flipped.message) == ("False", "Stopped", "no")
    assert (flipped.observed_generation, flipped.last_transition_time) == (2, NOW)
    assert with_activity((flipped,), replace(stopped, reason="Terminating"), NOW + timedelta(1), 2)[
        0
    ].last_transition_time == NOW  # fmt: skip
