"""What is written of nodes that are lost, not ready, or well again."""

from datetime import UTC, datetime

import pytest

from muster.api.core import Node, NodeCondition, NodeSpec, NodeStatus, Taint
from muster.api.groups.coordination import Lease, LeaseSpec
from muster.cluster.controllers.nodes.nodehealth import compute_patience, lost_conditions, wanted_taints

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONG_AGO = datetime(2025, 1, 1, tzinfo=UTC)
OTHERS = Taint(key="team", effect="NoExecute", time_added=LONG_AGO)
CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def node(ready: str, *taints: Taint) -> Node:
    conditions = (NodeCondition(type="Ready", status=ready),) if ready else ()
    return Node(spec=NodeSpec(taints=taints), status=NodeStatus(conditions=conditions))


def ours(key: str, effect: str, added: datetime = NOW) -> Taint:
    return Taint(key=f"node.kubernetes.io/{key}", effect=effect, time_added=added)


@pytest.mark.parametrize(
    ("before", "evicts", "taints"),
    [
        (node("True"), True, ()),
        (node("True", OTHERS, CORDON, ours("unreachable", "NoExecute", LONG_AGO)), True, (OTHERS, CORDON)),
        (node("Unknown", OTHERS), True, (OTHERS, ours("unreachable", "NoSchedule"), ours("unreachable", "NoExecute"))),
        (node("False"), True, (ours("not-ready", "NoSchedule"), ours("not-ready", "NoExecute"))),
        (node("", CORDON), False, (CORDON, ours("unreachable", "NoSchedule"))),
        (
            node("Unknown", ours("unreachable", "NoSchedule", LONG_AGO), ours("unreachable", "NoExecute", LONG_AGO)),
            False,
            (ours("unreachable", "NoSchedule", LONG_AGO),),
        ),
        (
            node("Unknown", ours("not-ready", "NoSchedule", LONG_AGO), ours("unreachable", "NoExecute", LONG_AGO)),
            True,
            (ours("unreachable", "NoExecute", LONG_AGO), ours("unreachable", "NoSchedule")),
        ),
    ],
)
def test_taints_follow_the_condition_and_those_of_others_stay(
    before: Node, evicts: bool, taints: tuple[Taint, ...]
) -> None:
    assert wanted_taints(before, evicts=evicts, now=NOW) == taints


def test_a_lost_node_is_said_to_be_so_once() -> None:
    before = Node(
        status=NodeStatus(
            conditions=(
                NodeCondition(type="Ready", status="True", last_heartbeat_time=LONG_AGO),
                NodeCondition(type="MemoryPressure", status="Unknown", reason="NodeStatusUnknown"),
                NodeCondition(type="DiskPressure", status="True"),
                NodeCondition(type="PIDPressure", status="False"),
                NodeCondition(type="NetworkUnavailable", status="False"),
            )
        )
    )
    written = lost_conditions(before, NOW)
    assert [one["type"] for one in written] == ["Ready", "DiskPressure", "PIDPressure"]
    assert {one["reason"] for one in written} == {"NodeStatusUnknown"}
    assert not any("lastHeartbeatTime" in one for one in written), "the node has not said anything"


@pytest.mark.parametrize(("grace", "lease", "seconds"), [(50, 40, 50), (40, 40, 50), (5, None, 5), (1, 4, 5)])
def test_the_server_waits_longer_than_the_lease(grace: float, lease: int | None, seconds: float) -> None:
    assert compute_patience(grace, Lease(spec=LeaseSpec(lease_duration_seconds=lease))) == seconds
