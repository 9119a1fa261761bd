"""What a node writes of pods and of itself, merged by the server's own rules into what was there before."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.core import (
    NODE,
    POD,
    HostIP,
    NodeAddress,
    NodeCondition,
    NodeStatus,
    Pod,
    PodCondition,
    PodIP,
    PodStatus,
)
from muster.api.ours.gpus import GPU_PROBLEM
from muster.api.schema import make_inlined_schema
from muster.cluster.apiserver.patch import strategic
from muster.cluster.nodes import node_object
from muster.cluster.nodes.wire import node_status_patch, pod_status_patch, to_wire

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POD_SCHEMA, NODE_SCHEMA = make_inlined_schema(POD), make_inlined_schema(NODE)


def written_to(pod: Pod, status: PodStatus) -> PodStatus:
    """The status that the server has once the node has written."""
    patch = pod_status_patch(pod, status) or {}
    return msgspec.convert(strategic.apply(to_wire(pod), patch, POD_SCHEMA), Pod).status


def written_to_node(before: NodeStatus, after: NodeStatus) -> NodeStatus:
    found = strategic.apply({"status": to_wire(before)}, node_status_patch(before, after), NODE_SCHEMA)
    return msgspec.convert(found["status"], NodeStatus)


@pytest.mark.parametrize(
    ("schema", "merged"),
    [
        # The last one is the resource claim controller's.
        (POD_SCHEMA, {"conditions", "podIPs", "hostIPs", "resourceClaimStatuses"}),
        (NODE_SCHEMA, {"conditions", "addresses"}),
    ],
)
def test_these_lists_of_a_status_are_merged_by_key(schema: dict[str, Any], merged: set[str]) -> None:
    """A list that is new here needs a writer that takes away what is no longer in it, and a test below."""
    fields = schema["properties"]["status"]["properties"]
    assert {name for name, field in fields.items() if "x-kubernetes-patch-merge-key" in field} == merged


_ADDRESSES = st.sampled_from([(), ("127.1.0.1",), ("127.1.0.2",), ("127.1.0.1", "::1"), ("::1", "127.1.0.2")])
_PHASES = st.sampled_from(["Pending", "Running", "Failed"])


@st.composite
def _pod_statuses(draw: st.DrawFn) -> PodStatus:
    pod, host = draw(_ADDRESSES), draw(_ADDRESSES.filter(bool))
    status, reason = draw(st.sampled_from(["True", "False"])), draw(st.sampled_from(["", "Why"]))
    ready = PodCondition(type="Ready", status=status, reason=reason)
    return PodStatus(
        phase=draw(_PHASES),
        reason=draw(st.sampled_from(["", "Why"])),
        pod_ip=pod[0] if pod else "",
        pod_ips=tuple(PodIP(ip=ip) for ip in pod),
        host_ip=host[0],
        host_ips=tuple(HostIP(ip=ip) for ip in host),
        conditions=(ready,),
    )


@given(_pod_statuses(), _pod_statuses())
def test_a_pods_status_is_what_the_node_wrote_whatever_it_was(before: PodStatus, after: PodStatus) -> None:
    gate = PodCondition(type="example.com/gate", status="True")
    pod = Pod(status=msgspec.structs.replace(before, conditions=(gate, *before.conditions)))
    expected = msgspec.structs.replace(after, conditions=(gate, *after.conditions))
    assert written_to(pod, after) == expected
    assert pod_status_patch(Pod(status=expected), after) is None


@pytest.mark.parametrize("gpu_problem", [None, "", "GPU 0: it has fallen off the bus"])
@pytest.mark.parametrize("had_gpus", [False, True])
def test_a_nodes_status_is_what_the_node_wrote_whatever_it_was(*, gpu_problem: str | None, had_gpus: bool) -> None:
    others = NodeCondition(type="KernelDeadlock", status="False")
    before = NodeStatus(
        capacity={"cpu": "4", "nvidia.com/gpu": "2"},
        allocatable={"cpu": "4", "nvidia.com/gpu": "2"},
        addresses=(NodeAddress(type="InternalIP", address="10.0.0.1"), NodeAddress(type="Hostname", address="old")),
        conditions=(others, *node_object.make_conditions((), NOW, gpu_problem="ill" if had_gpus else None)),
    )
    after = NodeStatus(
        capacity={"cpu": "3"},
        allocatable={"cpu": "2"},
        addresses=(NodeAddress(type="Hostname", address="new"),),
        conditions=node_object.make_conditions(before.conditions, NOW, gpu_problem=gpu_problem),
    )
    found = written_to_node(before, after)
    assert (found.capacity, found.allocatable, found.addresses) == (after.capacity, after.allocatable, after.addresses)
    assert set(found.conditions) == {others, *after.conditions}
    assert any(each.type == GPU_PROBLEM for each in found.conditions) == (gpu_problem is not None)
    assert written_to_node(NodeStatus(), after) == after
