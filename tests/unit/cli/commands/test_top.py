"""The state of a node in `muster top`."""

import pytest

from muster.api.core import Node, NodeCondition, NodeSpec, NodeStatus
from muster.api.meta import ObjectMeta
from muster.api.nodes import DISK_PRESSURE
from muster.cli.commands.top import describe_health


@pytest.mark.parametrize(
    ("ready", "cordoned", "full", "state"),
    [
        ("True", False, "False", "Ready"),
        ("True", True, "False", "Ready,Cordoned"),
        ("True", False, "True", "Ready,DiskPressure"),
        ("Unknown", True, "True", "NotReady,Cordoned,DiskPressure"),
    ],
)
def test_a_node_that_takes_no_pods_says_why(ready: str, cordoned: bool, full: str, state: str) -> None:
    conditions = (NodeCondition(type="Ready", status=ready), NodeCondition(type=DISK_PRESSURE, status=full))
    node = Node(
        metadata=ObjectMeta(name="n"), spec=NodeSpec(unschedulable=cordoned), status=NodeStatus(conditions=conditions)
    )
    assert describe_health(node) == state
