"""Tests of eviction, release and backoff: what is written, when quota is free, and the order afterwards."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given as sampled
from hypothesis import strategies as st
from tests.unit.queueing import lives
from tests.unit.queueing.lives import NOW, at, check, condition

from muster.api.conditions import find, is_true
from muster.api.kueue import ClusterQueue, UnhealthyNode, WorkloadStatus
from muster.queueing import convert
from muster.queueing.model import FlavorResource, QueueSpec, Quota, ResourceGroup
from muster.queueing.moments import NEVER
from muster.queueing.pending.queues import Queues
from muster.queueing.quota.tree import Tree
from muster.queueing.workload.eviction import delay_requeue, evict, not_before, release, release_evicted
from muster.queueing.workload.lifecycle import decide
from muster.queueing.workload.readiness import with_readiness

CPU = FlavorResource("f", "cpu")


def describe_condition(status: WorkloadStatus, type: str) -> str:
    result = find(status.conditions, type)
    return "" if result is None else f"{result.status} {result.reason}: {result.message}"


# --- Evicting.


def test_who_is_evicted_keeps_the_quota_and_nothing_else() -> None:
    before = lives.status(
        {
            "admitted": -60,
            "cluster": "worker",
            "nominated": ["worker", "other"],
            "gates": {"g": "Open"},
            "checks": {"c": "Ready updates: go"},
            "conditions": {"BlockedOnPreemptionGates": "True Blocked @-9: m"},
        }
    )
    before = msgspec.structs.replace(before, unhealthy_nodes=(UnhealthyNode(name="node"),))
    after = evict(before, "PodsReadyTimeout", "late", NOW, "WaitForStart")
    assert after.admission == before.admission
    assert describe_condition(after, "Evicted") == "True PodsReadyTimeout: late"
    assert describe_condition(after, "BlockedOnPreemptionGates") == "False PodsReadyTimeout: late"
    assert is_true(after.conditions, "QuotaReserved")
    assert is_true(after.conditions, "Admitted")
    assert (after.cluster_name, after.nominated_cluster_names, after.unhealthy_nodes) == (None, (), ())
    assert [(gate.position, gate.last_transition_time) for gate in after.preemption_gates] == [("Closed", NOW)]
    assert after.admission_checks == (check("c", "Pending: Reset to Pending after eviction. Previously: Ready"),)


@pytest.mark.parametrize(
    ("before", "reason", "cause", "condition", "after"),
    [
        ({}, "Preempted", "", "Preempted", {"Preempted": 1}),
        ({"Preempted": 2}, "Preempted", "", "Preempted", {"Preempted": 3}),
        (
            {"Preempted": 2},
            "Deactivated",
            "RequeuingLimitExceeded",
            "DeactivatedDueToRequeuingLimitExceeded",
            {"Preempted": 2, "Deactivated/RequeuingLimitExceeded": 1},
        ),
        (
            {"PodsReadyTimeout/WaitForStart": 1},
            "PodsReadyTimeout",
            "WaitForRecovery",
            "PodsReadyTimeout",
            {"PodsReadyTimeout/WaitForStart": 1, "PodsReadyTimeout/WaitForRecovery": 1},
        ),
    ],
)
def test_evictions_are_counted_by_reason_and_cause(
    before: dict[str, int], reason: str, cause: str, condition: str, after: dict[str, int]
) -> None:
    status = evict(lives.status({"admitted": -60, "stats": before}), reason, "m", NOW, cause)
    assert status.scheduling_stats == lives.stats(after)
    assert find(status.conditions, "Evicted").reason == condition


# --- Giving back.


@pytest.mark.parametrize(
    ("reason", "quota", "requeued"),
    [
        ("Preempted", "False PendingEvaluation: why", "True Preempted: why"),
        ("NodeFailures", "False PendingEvaluation: why", "True NodeFailures: why"),
        ("PodsReadyTimeout", "False PendingEvaluation: why", "False PodsReadyTimeout: why"),
        ("AdmissionCheck", "False PendingEvaluation: why", "False AdmissionCheck: why"),
        ("ClusterQueueStopped", "False PendingEvaluation: why", "False ClusterQueueStopped: why"),
        ("LocalQueueStopped", "False PendingEvaluation: why", "False LocalQueueStopped: why"),
        ("Deactivated", "False Deactivated: The workload is deactivated", "False Deactivated: why"),
        (
            "DeactivatedDueToAdmissionCheck",
            "False Deactivated: The workload is deactivated",
            "False DeactivatedDueToAdmissionCheck: why",
        ),
    ],
)
def test_what_a_workload_says_once_its_job_has_stopped(reason: str, quota: str, requeued: str) -> None:
    status = lives.status({"admitted": -90, "past": 30, "conditions": {"Evicted": f"True {reason} @-60: why"}})
    after = release_evicted(status, NOW)
    assert (describe_condition(after, "QuotaReserved"), describe_condition(after, "Requeued")) == (quota, requeued)
    assert describe_condition(after, "Admitted") == "False NoReservation: The workload has no reservation"
    assert describe_condition(after, "Evicted") == f"True {reason}: why"
    assert after.admission is None
    assert after.accumulated_past_execution_time_seconds == 120


def test_time_before_admission_is_no_execution_time() -> None:
    status = release(lives.status({"reserved": -90}), "m", NOW)
    assert status.accumulated_past_execution_time_seconds is None
    assert release(lives.status({"admitted": 90}), "m", NOW).accumulated_past_execution_time_seconds == 0


def test_who_gave_back_has_nothing_to_recover() -> None:
    status = lives.status({"admitted": -90, "conditions": {"PodsReady": "False WaitForRecovery @-9: m"}})
    assert (
        describe_condition(release(status, "m", NOW), "PodsReady")
        == "False WaitForStart: Not all pods are ready or succeeded"
    )


def test_who_holds_nothing_and_says_so_is_not_written_again() -> None:
    status = release(WorkloadStatus(), "m", NOW)
    assert release(status, "m", at(60)) is status


@sampled(
    st.sampled_from(["Preempted", "PodsReadyTimeout", "Deactivated"]),
    st.integers(0, 10**7),
    st.fixed_dictionaries({"checks": st.dictionaries(st.sampled_from("abc"), st.sampled_from(["Ready", "Retry"]))}),
)
def test_pitfall_8_eviction_gives_back_exactly_what_was_taken_and_not_before_the_release(
    reason: str, others: int, extra: dict[str, Any]
) -> None:
    """The quota is free when the job has stopped, and not a moment earlier."""
    tree = Tree()
    tree.set_queue(QueueSpec("q", groups=(ResourceGroup(("cpu",), ("f",)),), quotas={CPU: Quota(10**8)}))
    tree.queues["q"].add({CPU: others})
    held = lives.workload({"admitted": -60, **extra})

    def see(status: WorkloadStatus) -> int:
        result = convert.convert_workload(msgspec.structs.replace(held, status=status), "q")
        if result.usage is None:
            tree.release(result)
        else:
            tree.hold(result)
        return tree.queues["q"].usage[CPU]

    assert see(held.status) == others + 4000
    evicted = evict(held.status, reason, "m", NOW)
    assert see(evicted) == others + 4000
    assert see(release_evicted(evicted, at(60))) == others


# --- Backing off.


@pytest.mark.parametrize(
    ("wait", "state", "expected"),
    [
        pytest.param({}, None, {"count": 1, "at": 60}, id="the first time"),
        pytest.param({"base": 10}, {"count": 3}, {"count": 4, "at": 80}, id="doubled each time"),
        pytest.param({"base": 10, "longest": 7200}, {"count": 10}, {"count": 11, "at": 7200}, id="up to the longest"),
        pytest.param({}, {"count": 1, "at": 9000}, {"count": 2, "at": 9000}, id="never shorter than what is there"),
        pytest.param({}, {"count": 1, "at": -9}, {"count": 2, "at": 120}, id="what is over does not matter"),
        pytest.param({"base": 0}, None, {"count": 1, "at": 0}, id="no wait at all"),
        pytest.param({"limit": 0}, None, None, id="pitfall 5: no chance at all"),
        pytest.param({"limit": 1}, None, {"count": 1, "at": 60}, id="pitfall 5: one chance"),
        pytest.param({"limit": 1}, {"count": 1}, None, id="pitfall 5: the one chance is gone"),
        pytest.param({}, {"count": 2**30}, {"count": 2**30 + 1, "at": 3600}, id="pitfall 5: without a limit"),
    ],
)
def test_how_long_a_workload_waits(
    wait: dict[str, Any], state: dict[str, int] | None, expected: dict[str, int] | None
) -> None:
    settings = lives.waiting(wait)
    assert settings is not None
    status = delay_requeue(
        WorkloadStatus(requeue_state=lives.requeue(state)), settings, NOW + timedelta(microseconds=9)
    )
    assert (None if status is None else status.requeue_state) == lives.requeue(expected)


def test_a_wait_is_only_made_longer() -> None:
    status = not_before(WorkloadStatus(), at(9))
    assert status.requeue_state == lives.requeue({"at": 9})
    assert not_before(status, at(9)) is status
    assert not_before(status, at(3)) is status
    assert not_before(status, at(10)).requeue_state == lives.requeue({"at": 10})


# --- In the queue afterwards.


def test_pitfall_6_who_has_to_wait_stays_out_of_the_queue_whatever_is_flushed() -> None:
    selector = {"metadata": {"name": "q"}, "spec": {"namespaceSelector": {}}}
    tree, queues = Tree(), Queues()
    node = tree.set_queue(convert.queue_spec(msgspec.convert(selector, ClusterQueue)))
    queues.set_queue(node.policy)
    waiter = lives.workload(
        {"requeue": {"count": 1, "at": 60}, "conditions": {"Requeued": "False PodsReadyTimeout @-9: m"}}
    )
    queues.add(convert.convert_workload(waiter, "q"), until=NEVER)
    queues.flush(node)
    queues.advance(at(3600))
    assert queues.head("q") is None
    early = decide(waiter, lives.around({}), at(59))
    assert (early.status, early.wake_at) == (waiter.status, at(60))
    done = decide(waiter, lives.around({}), at(60))
    assert is_true(done.status.conditions, "Requeued")
    queues.add(convert.convert_workload(msgspec.structs.replace(waiter, status=done.status), "q"))
    assert queues.head("q") is not None


@pytest.mark.parametrize(
    ("evicted", "by_eviction", "seconds"),
    [
        pytest.param("True PodsReadyTimeout @-60", True, -60, id="pitfall 7: a timeout puts behind"),
        pytest.param("True PodsReadyTimeout @-60", False, -3600, id="unless creation counts"),
        pytest.param("True AdmissionCheck @-60", True, -60, id="a check puts behind"),
        pytest.param("True AdmissionCheck @-60", False, -60, id="pitfall 9: even if creation counts"),
        pytest.param("True Preempted @-60", True, -3600, id="pitfall 7: a preemption does not"),
        pytest.param("True Deactivated @-60", True, -3600, id="a deactivation does not"),
        pytest.param("False QuotaReserved @-60", True, -3600, id="pitfall 7: nor what is over"),
    ],
)
def test_where_an_evicted_workload_queues(evicted: str, by_eviction: bool, seconds: int) -> None:
    result = convert.convert_workload(
        lives.workload({"conditions": {"Evicted": evicted}}), "q", convert.ConversionSettings(by_eviction=by_eviction)
    )
    assert result.queued == at(seconds)


def test_pitfall_7_evicted_stays_true_until_the_next_reservation() -> None:
    status = evict(lives.status({"admitted": -60}), "PodsReadyTimeout", "m", NOW)
    status = release_evicted(status, NOW)
    status = msgspec.structs.replace(status, conditions=with_readiness(status.conditions, False, NOW))
    workload = msgspec.structs.replace(lives.workload({}), status=status)
    waiting = decide(workload, lives.around({}), at(9999)).status
    assert find(waiting.conditions, "Evicted") == condition("Evicted", "True PodsReadyTimeout: m")
