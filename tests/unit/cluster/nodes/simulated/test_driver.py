"""The driver that simulated nodes play."""

from typing import Any

import msgspec
import pytest

from muster.api.core import Node, Pod
from muster.api.groups.resource import ResourceClaim
from muster.cluster.nodes.simulated.driver import is_prepared, slice_for, stale_slices

NODE = msgspec.convert({"metadata": {"name": "sim-0", "uid": "u"}}, Node)


def test_a_slice_says_what_a_node_has_and_changes_only_with_it():
    first = slice_for(NODE, "gpu.example.com", 2, None)
    spec = first.spec
    assert (first.metadata.name, spec.node_name, spec.driver) == ("sim-0-gpu.example.com", "sim-0", "gpu.example.com")
    assert [one.name for one in spec.devices] == ["device-0", "device-1"]
    assert (spec.pool.name, spec.pool.generation, spec.pool.resource_slice_count) == ("sim-0", 1, 1)
    assert slice_for(NODE, "gpu.example.com", 2, first) is first
    more = slice_for(NODE, "gpu.example.com", 3, first)
    assert (len(more.spec.devices), more.spec.pool.generation) == (3, 2)


def test_slices_of_drivers_that_are_played_no_more_go():
    mine, other = slice_for(NODE, "a.example.com", 1, None), slice_for(NODE, "b.example.com", 1, None)
    foreign = msgspec.structs.replace(mine, metadata=msgspec.structs.replace(mine.metadata, labels={}))
    assert stale_slices([mine, other, foreign], frozenset({"sim-0"}), ["b.example.com"]) == [mine]
    assert stale_slices([mine], frozenset({"sim-1"}), []) == []


POD = msgspec.convert(
    {
        "metadata": {"name": "p", "namespace": "ns", "uid": "p"},
        "spec": {"resourceClaims": [{"name": "a", "resourceClaimTemplateName": "t"}, {"name": "b"}]},
        "status": {
            "resourceClaimStatuses": [{"name": "a", "resourceClaimName": "p-a"}, {"name": "b"}]
        },
    },
    Pod,
)  # fmt: skip
HAS: dict[str, Any] = {"devices": {"results": []}}
FOR_IT = [{"resource": "pods", "name": "p", "uid": "p"}]


@pytest.mark.parametrize(
    ("status", "prepared"),
    [
        (None, False),
        ({}, False),
        ({"allocation": HAS}, False),
        ({"allocation": HAS, "reservedFor": [{"resource": "pods", "name": "p", "uid": "q"}]}, False),
        ({"reservedFor": FOR_IT}, False),
        ({"allocation": HAS, "reservedFor": FOR_IT}, True),
    ],
    ids=["no claim", "no devices", "not reserved", "for another", "reserved alone", "reserved"],
)
def test_a_pod_starts_once_its_claims_are_allocated_and_reserved_for_it(status, prepared):
    claims = {"ns/p-a": msgspec.convert({"metadata": {"name": "p-a"}, "status": status or {}}, ResourceClaim)}
    if status is None:
        claims.clear()
    assert is_prepared(POD, claims.get) is prepared
