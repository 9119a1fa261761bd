import pytest

from muster.api.core import Node, NodeCondition, NodeSpec, NodeStatus, Taint
from muster.api.meta import ObjectMeta
from muster.api.nodes import DISK_PRESSURE, has_full_disk, taints_of

OURS = Taint(key="team", effect="NoSchedule")
FULL = Taint(key="node.kubernetes.io/disk-pressure", effect="NoSchedule")


@pytest.mark.parametrize(
    ("written", "pressure", "found"),
    [
        ((OURS,), "False", (OURS,)),
        ((OURS,), "True", (OURS, FULL)),
        ((FULL, OURS), "True", (FULL, OURS)),  # by kube-controller-manager
    ],
)
def test_a_full_disk_is_a_taint(written, pressure, found):
    condition = NodeCondition(type=DISK_PRESSURE, status=pressure)
    node = Node(
        metadata=ObjectMeta(name="n"), spec=NodeSpec(taints=written), status=NodeStatus(conditions=(condition,))
    )
    assert taints_of(node) == found
    assert has_full_disk(node) is (pressure == "True")
