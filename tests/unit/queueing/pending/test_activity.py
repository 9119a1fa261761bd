"""Tests of whether queues are active, and of their condition Active."""

from typing import Any

import msgspec
import pytest

from muster.api.kueue import AdmissionCheck
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER, PROVISIONING_REQUEST_CONTROLLER
from muster.queueing.model import FlavorSpec, QueueSpec, ResourceGroup
from muster.queueing.pending.activity import Activity, judge_activity, local_activity

FLAVORS = {name: FlavorSpec(name) for name in ("spot", "reserved")}


def check(controller: str = "example.com/c", active: str = "True") -> AdmissionCheck:
    conditions = [{"type": "Active", "status": active, "reason": "R", "message": ""}] if active else []
    document = {"spec": {"controllerName": controller}, "status": {"conditions": conditions}}
    return msgspec.convert(document, AdmissionCheck)


CHECKS = {
    "fine": check(),
    "off": check(active="False"),
    "new": check(active=""),
    "mk1": check(MULTI_KUEUE_CONTROLLER),
    "mk2": check(MULTI_KUEUE_CONTROLLER),
    "prov": check(PROVISIONING_REQUEST_CONTROLLER),
}


def queue(*flavors: str, checks: Any = (), **more: Any) -> QueueSpec:
    groups = (ResourceGroup(("cpu",), flavors),) if flavors else ()
    named = checks if isinstance(checks, dict) else dict.fromkeys(checks, frozenset[str]())
    return QueueSpec("q", groups=groups, checks=named, **more)


CASES = [
    (queue("spot", "reserved", checks=["fine"]), "Ready", ""),
    (queue(), "Ready", ""),
    (queue("spot", checks=["fine", "mk1"]), "Ready", ""),
    (queue("spot", checks=["prov"]), "Ready", ""),
    (queue("spot", checks={"fine": frozenset({"spot"})}), "Ready", ""),
    (queue("spot", stop="Hold"), "Stopped", "is stopped"),
    (queue("spot", stop="HoldAndDrain"), "Stopped", "is stopped"),
    (
        queue("z", "spot", "a"),
        "FlavorNotFound",
        "references missing ResourceFlavor(s): z,a",
    ),
    (
        queue("spot", checks=["y", "fine", "x"]),
        "AdmissionCheckNotFound",
        "references missing AdmissionCheck(s): x,y",
    ),
    (
        queue("spot", checks=["off", "fine", "new"]),
        "AdmissionCheckInactive",
        "references inactive AdmissionCheck(s): new,off",
    ),
    (
        queue("spot", checks=["mk2", "mk1"]),
        "MultipleMultiKueueAdmissionChecks",
        "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: mk1,mk2",
    ),
    (
        queue("spot", checks={"mk1": frozenset({"spot"})}),
        "MultiKueueAdmissionCheckAppliedPerFlavor",
        "Cannot specify MultiKueue AdmissionCheck per flavor, found: mk1",
    ),
    (
        queue("spot", checks=["prov", "mk1"]),
        "MultiKueueWithProvisioningRequest",
        "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found: mk1, prov",
    ),
    (
        queue("z", checks=["x"], stop="Hold"),
        "Stopped",
        "is stopped, references missing ResourceFlavor(s): z, references missing AdmissionCheck(s): x",
    ),
]


@pytest.mark.parametrize(("spec", "reason", "message"), CASES)
def test_cluster_queues(spec: QueueSpec, reason: str, message: str) -> None:
    whole = f"Can't admit new workloads: {message}." if message else "Can admit new workloads"
    assert judge_activity(spec, FLAVORS, CHECKS) == Activity(not message, reason, whole)


def test_a_queue_that_is_being_deleted_says_nothing_else() -> None:
    expected = Activity(False, "Terminating", "Can't admit new workloads; clusterQueue is terminating")
    assert judge_activity(queue("z", stop="Hold"), FLAVORS, CHECKS, terminating=True) == expected


def test_cohorts_in_a_circle() -> None:
    result = judge_activity(queue("spot"), FLAVORS, CHECKS, in_circle=True)
    assert not result.active
    assert result.reason == "Unknown"


ACTIVE, INACTIVE = Activity(True, "Ready", ""), Activity(False, "Stopped", "")


@pytest.mark.parametrize(
    ("stop", "found", "reason", "message"),
    [
        ("None", ACTIVE, "Ready", "Can submit new workloads to localQueue"),
        ("None", INACTIVE, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"),
        ("None", None, "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"),
        ("Hold", ACTIVE, "Stopped", "LocalQueue is stopped"),
        ("HoldAndDrain", None, "Stopped", "LocalQueue is stopped"),
    ],
)
def test_local_queues(stop: Any, found: Activity | None, reason: str, message: str) -> None:
    assert local_activity(stop, found) == Activity(reason == "Ready", reason, message)
