"""The state of a node in `muster top`."""

from collections import Counter

import pytest

from muster.api.core import Node, NodeCondition, NodeSpec, NodeStatus
from muster.api.meta import ObjectMeta
from muster.api.nodes import DISK_PRESSURE
from muster.cli.commands.top import _make_users_table, describe_health


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


def test_the_table_of_jobs_names_their_owners() -> None:
    asked = Counter(cpu=2000, pods=1)
    users = {
        ("default", "train", "system:serviceaccount:muster-users:ada", "vision"): asked,
        ("default", "lost", "", "-"): Counter(pods=1),
    }
    header, train, lost = _make_users_table(users, ["cpu", "pods"], {}).splitlines()
    assert header.split()[:6] == ["NAMESPACE", "NAME", "OWNER", "CLUSTERQUEUE", "CPU", "PODS"]
    assert train.split()[:6] == ["default", "train", "ada", "vision", "2", "1"]
    assert lost.split()[:6] == ["default", "lost", "-", "-", "0", "1"]
