"""Which pods of a JobSet wait for quota."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from muster.api.core import Pod
from muster.api.jobset import JobSet
from muster.api.kueue import Workload, WorkloadStatus
from muster.jobs.jobset.quota import by_role, may_go, must_wait

SET = msgspec.convert(
    {
        "spec": {
            "replicatedJobs": [
                {"name": "a", "replicas": 3, "template": {"spec": {"parallelism": 2, "completions": 2}}},
                {"name": "b", "template": {"spec": {}}},
            ]
        }
    },
    JobSet,
)

WORKLOAD = msgspec.convert(
    {"spec": {"podSets": [{"name": "x", "template": {}}, {"name": "y", "template": {}}]}}, Workload
)


def pod(name: str) -> Pod:
    """`g`: gated; `+`: has ended; anything else runs."""
    spec: dict[str, Any] = {"schedulingGates": [{"name": "kueue.x-k8s.io/elastic-job"}]} if "g" in name else {}
    phase = "Succeeded" if "+" in name else "Pending"
    return msgspec.convert({"metadata": {"name": name}, "spec": spec, "status": {"phase": phase}}, Pod)


@pytest.mark.parametrize(
    ("role", "granted", "waits"),
    [("a", 6, False), ("a", 5, True), ("a", 0, True), ("b", 1, False), ("b", 0, True), ("stranger", 0, False)],
)
def test_a_new_pod_waits_while_less_is_granted_than_its_role_is_to_have(role, granted, waits):
    assert must_wait(SET, role, granted) is waits


def test_podsets_correspond_to_roles_by_position():
    assert by_role(SET, WORKLOAD, {"x": 4, "z": 9}) == {"a": 4, "b": 0}
    assert by_role(SET, WORKLOAD, {"x": 4, "y": 2}) == {"a": 4, "b": 2}


def test_what_was_given_back_is_granted_no_more():
    back = {"reclaimablePods": [{"name": "x", "count": 2}, {"name": "y", "count": 1}]}
    status = msgspec.convert(back, WorkloadStatus)
    assert by_role(SET, replace(WORKLOAD, status=status), {"x": 6, "y": 0}) == {"a": 4, "b": 0}


@pytest.mark.parametrize(
    ("pods", "granted", "go"),
    [
        ("r1 r2 g1 g2", 2, ""),
        ("r1 r2 g1 g2", 3, "g1"),
        ("r1 r2 g1 g2", 9, "g1 g2"),
        ("r1 r2 r3 g1", 2, ""),
        ("r1 +1 g1 g2", 2, "g1"),
        ("g1 g2", 0, ""),
    ],
)
def test_as_many_go_as_were_granted(pods, granted, go):
    assert [one.metadata.name for one in may_go(map(pod, pods.split()), granted)] == go.split()
