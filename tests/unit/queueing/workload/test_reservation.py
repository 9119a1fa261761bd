"""Tests of the status after an admission and after a preemption."""

from datetime import UTC, datetime

import pytest

from muster.api.conditions import find
from muster.api.kueue import WorkloadStatus
from muster.queueing.model import Assignment, FlavorChoice, Mode, PodSetAssignment, QueueSpec
from muster.queueing.workload.reservation import make_admission, mark_blocked, mark_preempted, reserve_quota

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOTHING = Assignment((), {})


def describe_conditions(status: WorkloadStatus) -> dict[str, str]:
    return {one.type: f"{one.status} {one.reason}: {one.message}" for one in status.conditions}


@pytest.mark.parametrize(
    ("checks", "admitted"),
    [
        ({}, "True Admitted: The workload is admitted"),
        ({"check": frozenset[str]()}, "False UnsatisfiedAdmissionChecks: The workload has not all checks ready"),
    ],
)
def test_who_gets_quota_is_admitted_unless_something_is_to_be_checked(
    checks: dict[str, frozenset[str]], admitted: str
) -> None:
    status = reserve_quota(WorkloadStatus(), QueueSpec("q", checks=checks), NOTHING, NOW)
    assert describe_conditions(status) == {
        "QuotaReserved": "True QuotaReserved: Quota reserved in ClusterQueue q",
        "Admitted": admitted,
    }
    assert [one.name for one in status.admission_checks] == list(checks)


def test_a_preemption_is_an_eviction_that_says_for_what_reason() -> None:
    status = mark_preempted(reserve_quota(WorkloadStatus(), QueueSpec("q"), NOTHING, NOW), "InClusterQueue", "why", NOW)
    assert {name: describe_conditions(status)[name] for name in ("Evicted", "Preempted")} == {
        "Evicted": "True Preempted: why", "Preempted": "True InClusterQueue: why",
    }  # fmt: skip


def test_a_closed_gate_blocks_until_there_is_quota() -> None:
    status = mark_blocked(WorkloadStatus(), "no room", NOW)
    assert describe_conditions(status) == {"BlockedOnPreemptionGates": "True PreemptionGated: no room"}
    again = find(reserve_quota(status, QueueSpec("q"), NOTHING, NOW).conditions, "BlockedOnPreemptionGates")
    assert again is not None
    assert (again.status, again.reason) == ("False", "QuotaReserved")


def test_usage_is_listed_of_the_resources_that_have_a_flavor() -> None:
    podset = PodSetAssignment("main", 2, {"cpu": FlavorChoice("f", Mode.FIT)}, {"cpu": 1500, "example.com/gpu": 0})
    (assigned,) = make_admission("q", Assignment((podset,), {})).pod_set_assignments
    assert (assigned.flavors, assigned.resource_usage, assigned.count) == ({"cpu": "f"}, {"cpu": "1500m"}, 2)
