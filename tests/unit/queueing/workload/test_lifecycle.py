"""Tests of the lifecycle of a Workload: the cases of `cases/lifecycle.yaml`, and laws that hold for all of them."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given as sampled
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.queueing import lives
from tests.unit.queueing.lives import NOW, at

from muster.api.conditions import find, is_true
from muster.api.kueue import Workload, WorkloadStatus
from muster.queueing.workload.lifecycle import LifecyclePlan, QueueingContext, decide

CASES = yaml.load((Path(__file__).parents[1] / "cases" / "lifecycle.yaml").read_text(), yaml.CSafeLoader)["cases"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"].replace(" ", "_") for case in CASES])
def test_a_look(case: dict[str, Any]) -> None:
    before, wanted = case["given"], case.get("wanted", {})
    workload = lives.workload(before)
    plan = decide(workload, lives.around(before), NOW)
    assert lives.in_order(plan.status) == lives.in_order(lives.expected(workload.status, wanted))
    assert (plan.deactivate, plan.finalize, plan.delete) == tuple(
        wanted.get(name, False) for name in ("deactivate", "finalize", "delete")
    )
    assert [f"{note.type} {note.reason}: {note.message}" for note in plan.notes] == wanted.get("events", [])
    assert plan.wake_at == (at(wanted["wake"]) if "wake" in wanted else None)


# --- Laws.

_SECONDS = st.integers(-1000, 1000)
_VALUES = st.sampled_from(["True", "False"])


def _condition(*reasons: str) -> st.SearchStrategy[str]:
    return st.builds("{} {} @{}: m".format, _VALUES, st.sampled_from(reasons), _SECONDS)


_EVICTIONS = (
    "PodsReadyTimeout",
    "AdmissionCheck",
    "Preempted",
    "Deactivated",
    "LocalQueueStopped",
    "ClusterQueueStopped",
)
_QUEUES = st.sampled_from(["open", "open", "Hold", "HoldAndDrain", "missing", "terminating"])
_CHECK = st.one_of(
    st.sampled_from(["Pending", "Ready", "Ready", "Rejected", "Retry"]),
    st.builds("Retry after={} @{}".format, st.integers(1, 100), _SECONDS),
)
_WORLDS = st.fixed_dictionaries(
    {
        "active": st.booleans(),
        "owned": st.sampled_from([True, True, True, False]),
        "deleting": st.sampled_from([False, False, False, True]),
        "finalizer": st.booleans(),
        "conditions": st.fixed_dictionaries(
            {},
            optional={
                "Evicted": _condition(*_EVICTIONS),
                "Requeued": _condition(*_EVICTIONS, "DeactivatedDueToMaximumExecutionTimeExceeded"),
                "PodsReady": _condition("WaitForStart", "WaitForRecovery", "Started"),
                "DeactivationTarget": _condition("AdmissionCheck", "RequeuingLimitExceeded"),
                "Finished": _condition("Succeeded"),
                "QuotaReserved": st.builds(
                    "False {} @{}: m".format,
                    st.sampled_from(["WaitingForQuota", "Pending", "Deactivated", "AdmissionGated", "OnHold"]),
                    _SECONDS,
                ),
            },
        ),
        "checks": st.dictionaries(st.sampled_from("abc"), _CHECK),
        "queue_checks": st.dictionaries(st.sampled_from("abc"), st.sampled_from([None, ["f"], ["g"]])),
        "local": _QUEUES,
        "queue": _QUEUES,
        "wait": st.none()
        | st.fixed_dictionaries(
            {"timeout": st.integers(1, 900), "limit": st.none() | st.integers(0, 3), "recovery": st.integers(0, 900)}
        ),
    },
    optional={
        "reserved": st.integers(-1000, 0),
        "admitted": st.integers(-1000, 0),
        "requeue": st.fixed_dictionaries({"count": st.integers(0, 5)}, optional={"at": _SECONDS}),
        "max": st.integers(1, 2000),
        "past": st.integers(0, 500),
        "retention": st.integers(0, 2000),
        "annotations": st.just({"kueue.x-k8s.io/admission-gated-by": "g"}),
        "gates": st.just({"x": "Open"}),
        "cluster": st.just("c"),
    },
)


def _applied(workload: Workload, plan: LifecyclePlan) -> Workload:
    spec = msgspec.structs.replace(workload.spec, active=workload.spec.active and not plan.deactivate)
    finalizers = () if plan.finalize else workload.metadata.finalizers
    metadata = msgspec.structs.replace(workload.metadata, finalizers=finalizers)
    return msgspec.structs.replace(workload, metadata=metadata, spec=spec, status=plan.status)


def _settled(workload: Workload, around: QueueingContext, now: datetime) -> tuple[Workload, int]:
    """Return the workload once nothing is left to do, and the number of decisions until then."""
    for looks in range(10):
        plan = decide(workload, around, now)
        after = _applied(workload, plan)
        if after == workload or plan.delete:
            return after, looks
        workload = after
    raise AssertionError("it does not come to rest")


@sampled(_WORLDS)
def test_a_second_look_at_the_same_moment_changes_nothing(world: dict[str, Any]) -> None:
    workload, around = lives.workload(world), lives.around(world)
    plan = decide(workload, around, NOW)
    again = decide(_applied(workload, replace(plan, deactivate=False)), around, NOW)
    assert again.status == plan.status
    if not plan.deactivate and not plan.delete:
        assert again.notes == ()


@sampled(_WORLDS)
def test_a_life_comes_to_rest_within_three_writes(world: dict[str, Any]) -> None:
    # To be deactivated, deactivated, evicted.
    _, looks = _settled(lives.workload(world), lives.around(world), NOW)
    assert looks <= 3


@sampled(_WORLDS, st.integers(0, 5000))
def test_waking_up_in_time_misses_nothing(world: dict[str, Any], seconds: int) -> None:
    """Nothing is to be done before the moment that was named."""
    workload, around = lives.workload(world), lives.around(world)
    rest, _ = _settled(workload, around, NOW)
    plan = decide(rest, around, NOW)
    later = NOW + timedelta(seconds=seconds)
    if not plan.delete and (plan.wake_at is None or later < plan.wake_at):
        assert decide(rest, around, later) == plan


@sampled(_WORLDS)
def test_a_transition_is_a_flip(world: dict[str, Any]) -> None:
    workload = lives.workload(world)
    status = decide(workload, lives.around(world), NOW).status
    for new in status.conditions:
        old = find(workload.status.conditions, new.type)
        if old is not None and old.status == new.status:
            assert new.last_transition_time == old.last_transition_time
        else:
            assert new.last_transition_time == NOW
        assert new == old or new.observed_generation == lives.GENERATION


@sampled(_WORLDS)
def test_pitfall_8_quota_of_what_is_admitted_is_never_given_back_here(world: dict[str, Any]) -> None:
    """Only whoever saw the job stop does that."""
    workload = lives.workload(world)
    plan = decide(workload, lives.around(world), NOW)
    if "admitted" in world:
        assert plan.status.admission == workload.status.admission
        assert find(plan.status.conditions, "QuotaReserved") == find(workload.status.conditions, "QuotaReserved")


@sampled(_WORLDS)
def test_a_clone_whose_job_has_not_come_holds_nothing_once_it_is_evicted(world: dict[str, Any]) -> None:
    workload = lives.workload({**world, "clone": True, "owned": False})
    plan = decide(workload, lives.around(world), NOW)
    is_over = is_true(plan.status.conditions, "Finished") or world["deleting"]
    if is_true(plan.status.conditions, "Evicted") and not is_over:
        assert plan.status.admission is None
        assert not is_true(plan.status.conditions, "QuotaReserved")
        assert not is_true(plan.status.conditions, "Admitted")


@sampled(_WORLDS)
def test_who_waits_holds_nothing_and_who_holds_says_so(world: dict[str, Any]) -> None:
    plan = decide(lives.workload(world), lives.around(world), NOW)
    reserved = find(plan.status.conditions, "QuotaReserved")
    holds = reserved is not None and reserved.status == "True"
    assert holds == (plan.status.admission is not None)


def test_what_is_written_is_what_the_api_takes() -> None:
    for case in CASES:
        plan = decide(lives.workload(case["given"]), lives.around(case["given"]), NOW)
        msgspec.convert(msgspec.to_builtins(plan.status), WorkloadStatus)
