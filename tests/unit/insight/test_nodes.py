"""What is requested of nodes, and in which order and groups they are shown."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from muster.api.core import Node, NodeCondition, NodeSpec, NodeStatus, Pod
from muster.api.kueue import Topology
from muster.api.meta import ObjectMeta
from muster.api.nodes import DISK_PRESSURE
from muster.insight.nodes import (
    MOST_IN_GROUP,
    ZONE_LABEL,
    describe_health,
    group_rows,
    list_levels,
    list_node_resources,
    make_node_rows,
    sum_cluster,
    sum_pods,
)


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


def make_node(name: str, *, cpu: str = "8", gpus: int = 0, **labels: Any) -> Node:
    allocatable: dict[str, Any] = {"cpu": cpu, "pods": "110"} | ({"nvidia.com/gpu": gpus} if gpus else {})
    return msgspec.convert({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}, Node)


def make_pod(name: str, node: str, *, phase: str = "Running", **requests: Any) -> Pod:
    body = {
        "metadata": {"name": name, "namespace": "lab", "ownerReferences": [owner(name.partition("-")[0])]},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {"phase": phase},
    }
    return msgspec.convert(body, Pod)


def owner(job: str) -> dict[str, Any]:
    return {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job, "controller": True}


PODS = [
    make_pod("a-0", "n1", cpu="2"),
    make_pod("b-0", "n1", cpu="1"),
    make_pod("b-1", "n1", cpu="1"),
    make_pod("c-0", "n1", cpu="4", phase="Succeeded"),
    make_pod("d-0", "", cpu="4"),
    make_pod("e-0", "n2", cpu="nonsense"),
]


def test_pods_that_run_on_a_node_are_summed_up() -> None:
    used, jobs = sum_pods(PODS)
    assert used == {"n1": Counter(cpu=4000, pods=3), "n2": Counter(pods=1)}
    assert jobs == {"n1": Counter({"lab/a": 1, "lab/b": 2}), "n2": Counter({"lab/e": 1})}


def test_a_row_has_what_is_requested_and_the_largest_job_first() -> None:
    [row] = make_node_rows([make_node("n1")], PODS)
    assert [(one.resource, one.used, one.has, one.share) for one in row.amounts] == [
        ("cpu", 4000, 8000, 0.5),
        ("pods", 3, 110, 3 / 110),
    ]
    assert row.jobs == ("lab/b", "lab/a")
    assert row.load == 0.5


def test_a_node_full_of_small_pods_is_not_loaded() -> None:
    [row] = make_node_rows([make_node("n1")], [make_pod(f"a-{number}", "n1", cpu="10m") for number in range(110)])
    assert row.amounts[1].share == 1.0
    assert row.load == 1100 / 8000


def test_of_pods_that_cannot_all_be_seen_nothing_is_said() -> None:
    [row] = make_node_rows([make_node("n1")], None)
    assert [one.used for one in row.amounts] == [None, None]
    assert (row.jobs, row.load) == (None, 0.0)


def test_an_invalid_amount_is_nothing() -> None:
    [row] = make_node_rows([make_node("n1", cpu="nonsense")], [])
    assert row.amounts[0].has == 0
    assert row.load == 0.0


def test_rows_are_in_the_order_of_numbers() -> None:
    rows = make_node_rows([make_node(name) for name in ("n10", "n9", "m1", "n1-2", "n1-10")], [])
    assert [row.name for row in rows] == ["m1", "n1-2", "n1-10", "n9", "n10"]


def test_the_cluster_is_the_sum_of_its_nodes() -> None:
    nodes = [make_node("n1", gpus=4), make_node("n2")]
    assert list_node_resources(nodes) == ["cpu", "nvidia.com/gpu", "pods"]
    assert [(one.resource, one.used, one.has) for one in sum_cluster([*nodes, make_node("n3")], PODS)] == [
        ("cpu", 4000, 24000),
        ("nvidia.com/gpu", 0, 4),
        ("pods", 4, 330),
    ]
    assert sum_cluster(nodes, None)[0].used is None


HOST: dict[str, Any] = {"kubernetes.io/hostname": "n1"}


def topology(name: str, *labels: str) -> Topology:
    return msgspec.convert(
        {"metadata": {"name": name}, "spec": {"levels": [{"nodeLabel": label} for label in labels]}}, Topology
    )


def test_places_are_those_of_topologies_whose_labels_nodes_have() -> None:
    nodes = [make_node("n1", rack="r1", block="b1", **HOST), make_node("n2", **dict[str, Any]({ZONE_LABEL: "z"}))]
    topologies = [topology("dc", "block", "rack", "kubernetes.io/hostname"), topology("other", "row")]
    assert list_levels(nodes, topologies) == {"dc": ("block", "rack"), ZONE_LABEL: (ZONE_LABEL,)}
    assert list_levels(nodes[:1], ()) == {}


def test_nodes_are_grouped_by_place_those_without_one_last() -> None:
    nodes = [make_node("n1", rack="r10"), make_node("n2"), make_node("n3", rack="r9"), make_node("n4", rack="r10")]
    groups = group_rows(make_node_rows(nodes, []), ["rack"])
    assert [(group.name, [row.name for row in group.rows]) for group in groups] == [
        ("r9", ["n3"]),
        ("r10", ["n1", "n4"]),
        ("without a place", ["n2"]),
    ]


def test_many_nodes_are_parted_by_their_names() -> None:
    rows = make_node_rows([make_node(f"n{number}") for number in range(MOST_IN_GROUP + 1)], [])
    assert [(one.name, len(one.rows)) for one in group_rows(rows, ())] == [("n0 to n199", 200), ("n200", 1)]
    placed = make_node_rows([make_node(f"n{number}", rack="r") for number in range(MOST_IN_GROUP + 1)], [])
    assert [one.name for one in group_rows(placed, ["rack"])] == ["r: n0 to n199", "r: n200"]
    assert group_rows([], ["rack"]) == []
