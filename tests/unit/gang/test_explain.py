"""Why a gang waits, sentence by sentence: which reason a node is counted under, and which numbers are told."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.gang.conftest import make_node, make_pod

from muster.gang.explain import explain
from muster.gang.nodes.capacity import Capacity
from muster.gang.placement import Refusal, place
from muster.gang.shapes import Shape, guest_of, shape_of

PORT: Any = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}, "ports": [{"hostPort": 80}]}]}
TERM = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "x"}}}
APART: Any = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}


def labelled(pod: Any) -> Any:
    return replace(pod, metadata=replace(pod.metadata, namespace="ns", labels={"app": "x"}))


def sentence(capacity: Capacity, shape: Shape, count: int = 1) -> str:
    refusal = place(capacity, {shape: count})
    assert isinstance(refusal, Refusal)
    return explain(capacity, refusal, count)


@pytest.mark.parametrize(
    ("spec", "used", "reason"),
    [
        pytest.param(PORT, 4, "node(s) didn't have free ports for the requested pod ports", id="ports before room"),
        pytest.param(PORT, 2, "node(s) didn't have free ports for the requested pod ports", id="ports alone"),
        pytest.param(APART, 4, "Insufficient cpu", id="room before what other pods forbid"),
        pytest.param(APART, 2, "node(s) didn't match pod anti-affinity rules", id="what other pods forbid"),
        pytest.param({}, 4, "Insufficient cpu", id="room"),
    ],
)
def test_a_node_counts_under_the_first_reason_that_the_scheduler_comes_to(
    spec: dict[str, Any], used: int, reason: str
) -> None:
    """One node of four CPUs with a pod that has the port and the label, and others."""
    capacity = Capacity()
    capacity.set_node(make_node("n", labels={"host": "n"}))
    capacity.assign("p", "n", guest_of(labelled(make_pod("p", **PORT))))
    for number in range(used - 1):
        capacity.assign(f"q{number}", "n", guest_of(make_pod(f"q{number}")))
    said = sentence(capacity, shape_of(labelled(make_pod(**spec)), capacity.watched))
    assert said.startswith(f"0/1 nodes are available: 1 {reason}.")


@pytest.mark.parametrize(
    ("cpus", "used", "asked", "expected"),
    [
        pytest.param([4, 2], [2, 0], "3", "cpu 3 (most free on one node: 2 of 4)", id="no node has it free"),
        pytest.param([4, 2], [2, 0], "4", "cpu 4 (most free on one node: 2 of 4)", id="one has it, if it were empty"),
        pytest.param(
            [4, 2], [2, 0], "5", "cpu 5 (most free on one node: 2 of 4; no node is large enough)", id="none ever has"
        ),
        pytest.param([1], [3], "1", "cpu 1 (most free on one node: 0 of 1)", id="a node has shrunk below its use"),
    ],
)
def test_what_a_pod_asks_for_stands_beside_the_most_that_a_node_has(
    cpus: list[int], used: list[int], asked: str, expected: str
) -> None:
    capacity = Capacity()
    for number, (cpu, taken) in enumerate(zip(cpus, used, strict=True)):
        capacity.set_node(make_node(f"n{number}", resources={"cpu": str(cpu)}))
        capacity.assign(f"p{number}", f"n{number}", guest_of(make_pod(cpu=str(taken))))
    assert sentence(capacity, shape_of(make_pod(cpu=asked))).endswith(f" Each pod asks for {expected}.")


@pytest.mark.parametrize(
    ("count", "spec", "expected"),
    [
        (3, {"cpu": "2"}, " They need 3 nodes with cpu 2 free; 2 have them."),
        (2, {"cpu": "2", "nodeSelector": {"host": "n0"}}, " They need 2 nodes with cpu 2 free; 1 has them."),
        (5, {"cpu": "1"}, " Together they ask for cpu 5 (4 free on 2 nodes)."),
        (3, {"cpu": "1", "nodeSelector": {"host": "n0"}}, " Together they ask for cpu 3 (2 free on 1 node)."),
        (3, APART, " They need 3 nodes with cpu 1 free; 2 have them."),
    ],
)
def test_what_a_gang_lacks_is_told_in_nodes_or_in_all(count: int, spec: dict[str, Any], expected: str) -> None:
    """Two nodes of two CPUs."""
    capacity = Capacity()
    for number in range(2):
        capacity.set_node(make_node(f"n{number}", labels={"host": f"n{number}"}, resources={"cpu": "2"}))
    assert sentence(capacity, shape_of(labelled(make_pod(**spec))), count).endswith(expected)


def test_a_gang_without_an_open_node_is_told_why_they_are_closed_and_no_numbers() -> None:
    capacity = Capacity()
    capacity.set_node(make_node("n", unschedulable=True))
    assert sentence(capacity, shape_of(make_pod(cpu="1")), 2) == (
        "0/1 nodes are available: 1 node(s) were unschedulable. "
        "0 of 2 identical pods fit now, and the gang of 2 starts whole."
    )


def rule(kind: str) -> Any:
    """Pods of the app x, by zone."""
    term = {**TERM, "topologyKey": "zone"}
    if kind == "spread":
        return {"topologySpreadConstraints": [{**term, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


@pytest.mark.parametrize(
    ("kind", "count", "expected"),
    [
        ("podAntiAffinity", 4, " They keep apart from each other, and there are places for 3."),
        ("podAffinity", 4, " They keep together, and the roomiest place takes 3."),
        ("spread", 6, " They are spread evenly, and that leaves room for 5."),
    ],
)
def test_what_pods_of_a_gang_do_to_each_other_is_told(kind: str, count: int, expected: str) -> None:
    """Three zones, of two nodes each, that take one, two and three pods."""
    capacity = Capacity()
    for number, (zone, cpu) in enumerate([("a", 1), ("a", 0), ("b", 1), ("b", 1), ("c", 2), ("c", 1)]):
        capacity.set_node(make_node(f"n{number}", labels={"zone": zone}, resources={"cpu": str(cpu)}))
    assert sentence(capacity, shape_of(labelled(make_pod(**rule(kind)))), count).endswith(expected)
