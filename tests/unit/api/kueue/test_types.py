"""What the typed views read and write: zeroes that mean something are written, defaults are left to the server."""

from typing import Any

import msgspec
import pytest

from muster.api import kueue
from muster.api.defaults import DEFAULTS
from muster.api.kinds import Kind
from muster.api.kueue import GROUP, KUEUE_KINDS, names
from muster.api.kueue.visibility import PendingWorkload, PendingWorkloadsSummary, kind_of_summaries
from muster.api.meta import Condition, ObjectMeta

Json = dict[str, Any]


def written(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


WRITTEN: list[tuple[Any, Json]] = [
    (kueue.PodSet(), {}),
    (kueue.PodSet(count=0), {"count": 0}),
    (kueue.ReclaimablePod(name="main", count=0), {"name": "main", "count": 0}),
    (kueue.ClusterQueueStatus(pending_workloads=0), {"pendingWorkloads": 0}),
    (kueue.ClusterQueueStatus(), {}),
    (kueue.FairSharing(weight=0), {"weight": 0}),
    (kueue.FairSharing(), {}),
    (kueue.FairSharingStatus(weighted_share=0), {"weightedShare": 0}),
    (kueue.ResourceUsage(name="cpu"), {"name": "cpu", "total": 0, "borrowed": 0}),
    (kueue.ResourceQuota(name="cpu", nominal_quota=0, lending_limit=0), {
        "name": "cpu", "nominalQuota": 0, "lendingLimit": 0,
    }),
    (kueue.ClusterQueueSpec(), {}),
    (kueue.ClusterQueueSpec(stop_policy=kueue.HOLD), {"stopPolicy": "Hold"}),
    (kueue.AdmissionCheckState(name="a", state="Ready", message=""), {"name": "a", "state": "Ready", "message": ""}),
    (Condition(type="A", status="True", reason="R"), {
        "type": "A", "status": "True", "lastTransitionTime": None, "reason": "R", "message": "",
    }),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), WRITTEN)
def test_written(value: Any, expected: Json) -> None:
    assert written(value) == expected


@pytest.mark.parametrize("kind", KUEUE_KINDS, ids=lambda kind: kind.kind)
def test_a_view_has_the_defaults_that_the_server_fills_in(kind: Kind[Any]) -> None:
    document: Json = {"metadata": {"name": "x"}, "spec": {}}
    if kind is kueue.WORKLOAD_PRIORITY_CLASS:
        document = {"metadata": {"name": "x"}, "value": 1}
    before = msgspec.convert(document, kind.type)
    DEFAULTS[kind.resource](document)
    assert msgspec.convert(document, kind.type) == before
    again = msgspec.json.decode(msgspec.json.encode(document))
    DEFAULTS[kind.resource](again)
    assert again == document


CLUSTER_QUEUE_DEFAULTS = {
    "queueingStrategy": "BestEffortFIFO",
    "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
    "preemption": {
        "reclaimWithinCohort": "Never", "withinClusterQueue": "Never", "borrowWithinCohort": {"policy": "Never"},
    },
    "stopPolicy": "None",
}  # fmt: skip
TEMPLATE: Json = {"spec": {"containers": [{"name": "c"}]}}

# kind, what is given, what comes of it
DEFAULTED: list[tuple[Kind[Any], Json, Json]] = [
    (kueue.CLUSTER_QUEUE, {}, {}),
    (kueue.CLUSTER_QUEUE, {"spec": {}}, {"spec": CLUSTER_QUEUE_DEFAULTS}),
    (
        kueue.CLUSTER_QUEUE,
        {"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}, "fairSharing": {}, "stopPolicy": "Hold"}},
        {
            "spec": CLUSTER_QUEUE_DEFAULTS
            | {
                "preemption": {
                    "reclaimWithinCohort": "Never",
                    "withinClusterQueue": "LowerPriority",
                    "borrowWithinCohort": {"policy": "Never"},
                },
                "fairSharing": {"weight": 1},
                "stopPolicy": "Hold",
            }
        },
    ),
    (kueue.LOCAL_QUEUE, {"spec": {"clusterQueue": "c"}}, {"spec": {"clusterQueue": "c", "stopPolicy": "None"}}),
    (kueue.COHORT, {"spec": {}}, {"spec": {}}),
    (
        kueue.WORKLOAD,
        {"spec": {"podSets": [{"template": TEMPLATE}, {"name": "w", "count": 0, "template": TEMPLATE}]}},
        {
            "spec": {
                "active": True,
                "podSets": [
                    {"name": "main", "count": 1, "template": TEMPLATE},
                    {"name": "w", "count": 0, "template": TEMPLATE},
                ],
            }
        },
    ),
    (kueue.WORKLOAD, {"spec": {"active": False}}, {"spec": {"active": False}}),
    (
        kueue.WORKLOAD,
        {"status": {"admission": {"podSetAssignments": [{"count": 1}]}}},
        {"status": {"admission": {"podSetAssignments": [{"name": "main", "count": 1}]}}},
    ),
    (
        kueue.MULTI_KUEUE_CLUSTER,
        {"spec": {"clusterSource": {"kubeConfig": {"location": "l"}}}},
        {"spec": {"clusterSource": {"kubeConfig": {"location": "l", "locationType": "Secret"}}}},
    ),
    (
        kueue.PROVISIONING_REQUEST_CONFIG,
        {"spec": {}},
        {"spec": {"retryStrategy": {"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}}},
    ),
    (
        kueue.PROVISIONING_REQUEST_CONFIG,
        {"spec": {"retryStrategy": {"backoffLimitCount": 0}}},
        {"spec": {"retryStrategy": {"backoffLimitCount": 0, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}}},
    ),
]


@pytest.mark.parametrize(("kind", "given", "expected"), DEFAULTED)
def test_defaults(kind: Kind[Any], given: Json, expected: Json) -> None:
    document = msgspec.json.decode(msgspec.json.encode(given))
    DEFAULTS[kind.resource](document)
    assert document == expected


def test_names_are_in_the_group() -> None:
    found = {name: value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
    assert all("/" not in value or value.startswith((f"{GROUP}/", "provreq.")) for value in found.values())
    assert names.QUEUE_NAME_LABEL == "kueue.x-k8s.io/queue-name"
    assert names.RESOURCE_IN_USE_FINALIZER == "kueue.x-k8s.io/resource-in-use"


def test_the_first_of_the_pending_workloads() -> None:
    summary = PendingWorkloadsSummary(items=(PendingWorkload(metadata=ObjectMeta(name="x"), local_queue_name="q"),))
    assert msgspec.json.decode(kind_of_summaries("v1beta2").encode(summary)) == {
        "apiVersion": "visibility.kueue.x-k8s.io/v1beta2",
        "kind": "PendingWorkloadsSummary",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": "x"},
                "priority": 0,
                "localQueueName": "q",
                "positionInClusterQueue": 0,
                "positionInLocalQueue": 0,
            }
        ],
    }
