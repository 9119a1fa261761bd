"""Rows about queues."""

from datetime import UTC, datetime

import msgspec
import pytest

from muster.api.kueue import ClusterQueue, LocalQueue
from muster.insight.quota.queues import (
    explain_closed,
    format_row,
    format_usage,
    list_resources,
    make_cluster_queue_row,
    make_local_queue_row,
)


def queue(stop="None", active=None, message="why"):
    quotas = [{"name": "cpu", "nominalQuota": "8"}, {"name": "memory", "nominalQuota": "32Gi"}]
    more = [{"name": "cpu", "nominalQuota": "2"}, {"name": "memory", "nominalQuota": "0"}]
    used = [{"name": "cpu", "total": "9500m", "borrowed": "1500m"}, {"name": "memory", "total": "1Gi", "borrowed": "0"}]
    pods = {
        "coveredResources": ["pods"],
        "flavors": [{"name": "p", "resources": [{"name": "pods", "nominalQuota": 5}]}],
    }
    flavors = [{"name": "a", "resources": quotas}, {"name": "b", "resources": more}]
    groups = [{"coveredResources": ["cpu", "memory"], "flavors": flavors}, pods]
    conditions = []
    if active is not None:
        conditions = [{"type": "Active", "status": active[0], "reason": active[1], "message": message}]
    return msgspec.convert(
        {
            "metadata": {"name": "q"},
            "spec": {"resourceGroups": groups, "stopPolicy": stop, "cohortName": "all"},
            "status": {
                "conditions": conditions,
                "flavorsReservation": [{"name": "a", "resources": used}],
                "pendingWorkloads": 3,
                "admittedWorkloads": 2,
            },
        },
        ClusterQueue,
    )


def test_usage_is_over_all_flavors_and_says_what_is_borrowed():
    row = make_cluster_queue_row(queue())
    assert (row["cohort"], row["pending"], row["admitted"]) == ("all", 3, 2)
    assert list_resources([row]) == ["cpu", "memory"]
    assert list_resources([row], everything=True) == ["cpu", "memory", "pods"]
    assert format_usage(row, "cpu") == "9500m/10 (1500m borrowed)"
    assert format_usage(row, "memory") == "1Gi/32Gi"
    assert format_usage(row, "pods") == "0/5"
    assert format_usage(row, "nvidia.com/gpu") == "-"
    first = format_row(row)["quotas"][0]
    assert first == {"flavor": "a", "resource": "cpu", "nominal": "8", "used": "9500m", "borrowed": "1500m"}


def test_a_resource_of_which_there_is_nothing_has_no_column():
    gone = {"flavor": "a", "resource": "nvidia.com/gpu", "nominal": 0, "used": 0, "borrowed": 0}
    row = {"quotas": [gone, gone | {"resource": "cpu", "used": 1}]}
    assert list_resources([row]) == ["cpu"]
    assert list_resources([row], everything=True) == ["nvidia.com/gpu", "cpu"]
    assert list_resources([row, {"quotas": [gone | {"nominal": 2}]}]) == ["nvidia.com/gpu", "cpu"]


@pytest.mark.parametrize(
    ("stop", "active", "state", "message"),
    [
        ("None", None, "New", ""),
        ("None", ("True", "Ready"), "Active", ""),
        ("None", ("False", "FlavorNotFound"), "FlavorNotFound", "why"),
        ("None", ("False", "Unknown"), "Inactive", "why"),
        ("Hold", ("False", "Stopped"), "Stopped", "why"),
        ("HoldAndDrain", ("False", "Stopped"), "Draining", "why"),
    ],
)
def test_state(stop, active, state, message):
    row = make_cluster_queue_row(queue(stop, active))
    assert (row["state"], row["message"]) == (state, message)


def test_a_deleted_queue_whose_jobs_still_run():
    active = queue()
    leaving = msgspec.structs.replace(active.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    assert make_cluster_queue_row(msgspec.structs.replace(active, metadata=leaving))["state"] == "Deleting"


def test_a_local_queue():
    document = {"metadata": {"name": "l", "namespace": "ns"}, "spec": {"clusterQueue": "q", "stopPolicy": "Hold"}}
    row = make_local_queue_row(msgspec.convert(document, LocalQueue))
    assert (row["namespace"], row["clusterQueue"], row["state"], row["pending"]) == ("ns", "q", "Stopped", 0)


CIRCLE = "Can't admit new workloads: its cohorts name each other in a circle."


@pytest.mark.parametrize(
    ("reason", "queues", "said"),
    [
        (
            "ClusterQueue q is inactive",
            [queue(active=("False", "Unknown"), message=CIRCLE)],
            "ClusterQueue q is inactive: its cohorts name each other in a circle",
        ),
        ("ClusterQueue q is inactive", [queue(stop="Hold", active=("False", "Stopped"))], "ClusterQueue q is inactive"),
        ("ClusterQueue q is inactive", [queue(active=("True", "Ready"))], "ClusterQueue q is inactive"),
        ("ClusterQueue other is inactive", [queue(active=("False", "Unknown"))], "ClusterQueue other is inactive"),
        ("no room", [queue(active=("False", "Unknown"))], "no room"),
    ],
)
def test_why_a_queue_admits_nothing_is_said_of_those_that_wait_in_it(reason, queues, said):
    assert explain_closed(reason, {one.metadata.name: one for one in queues}) == said
