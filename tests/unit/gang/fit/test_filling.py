"""How many pods of a gang go to each node, against plain ways to say it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.gang.conftest import make_node, make_pod

from muster.gang.nodes.capacity import Capacity, Strategy
from muster.gang.placement import Placement, Refusal, place
from muster.gang.shapes import Shape, guest_of, shape_of

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
MANY = {"pods": "1000000"}


def placed(capacity: Capacity, shape: Shape, count: int, **how: Any) -> dict[str, int]:
    outcome = place(capacity, {shape: count}, **how)
    assert isinstance(outcome, Placement)
    return dict(outcome.nodes[shape])


def preferring(labelled: str) -> Any:
    """The affinity of pods that would rather go to nodes with a label of that value."""
    preference = {"matchExpressions": [{"key": "kind", "operator": "In", "values": [labelled]}]}
    return {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": preference}]}}


@given(
    st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=5),
    st.integers(1, 20),
    st.sampled_from([1, 7000]),
    st.booleans(),
)
def test_tightly_packed_a_gang_is_on_as_few_nodes_as_can_be_and_its_rest_where_it_leaves_the_least(
    nodes: list[tuple[int, bool]], count: int, unit: int, wishes: bool
) -> None:
    """Of the most welcome nodes first. unit: nodes may take thousands of pods each."""
    capacity, count, unused = Capacity(), count * unit, dict[str, tuple[bool, int]]()
    for number, (size, preferred) in enumerate(nodes):
        unused[f"n{number}"] = preferred and wishes, size * unit
        labels = {"kind": "liked" if preferred else "other"}
        capacity.set_node(make_node(f"n{number}", labels=labels, resources={"cpu": str(size * unit), **MANY}))
    spec: Any = {"affinity": preferring("liked")} if wishes else {}
    shape = shape_of(make_pod(cpu="1", **spec))
    outcome = place(capacity, {shape: count})
    if sum(size for _, size in unused.values()) < count:
        assert isinstance(outcome, Refusal)
        return
    assert isinstance(outcome, Placement)
    expected, left = dict[str, int](), count
    while (best := max(unused.values()))[1] < left:
        full = next(name for name, node in unused.items() if node == best)
        expected[full] = unused.pop(full)[1]
        left -= expected[full]
    fitting = {name: size for name, (liked, size) in unused.items() if liked == best[0] and size >= left}
    tightest = min(fitting, key=lambda name: fitting[name])
    assert dict(outcome.nodes[shape]) == {name: pods for name, pods in (expected | {tightest: left}).items() if pods}


nodes = st.lists(
    st.tuples(st.sampled_from([1, 2, 4, 32]), st.integers(0, 3), st.booleans()), min_size=1, max_size=4
)  # CPUs, how many of them are in use, and whether pods prefer the node


@given(nodes, st.integers(1, 40), st.sampled_from([Strategy.MOST, Strategy.LEAST]), st.booleans())
def test_pod_by_pod_each_goes_to_the_most_welcome_node_and_there_where_it_is_worth_most(
    nodes: list[tuple[int, int, bool]], count: int, strategy: Strategy, wishes: bool
) -> None:
    capacity, sizes, used, liked = Capacity(strategy), dict[str, int](), dict[str, int](), dict[str, bool]()
    for number, (cpu, taken, preferred) in enumerate(nodes):
        name = f"n{number}"
        sizes[name], used[name], liked[name] = cpu, min(taken, cpu), preferred and wishes
        capacity.set_node(make_node(name, labels={"kind": str(preferred)}, resources={"cpu": str(cpu)}))
        for one in range(used[name]):
            capacity.assign(f"{name}-{one}", name, guest_of(make_pod(cpu="1")))
    spec: Any = {"affinity": preferring("True")} if wishes else {}
    shape = shape_of(make_pod(cpu="1", **spec))
    outcome = place(capacity, {shape: count})
    if sum(sizes.values()) - sum(used.values()) < count:
        assert isinstance(outcome, Refusal)
        return
    assert isinstance(outcome, Placement)
    expected = dict.fromkeys(sizes, 0)
    sign = 1 if strategy is Strategy.MOST else -1
    for _ in range(count):
        free = [name for name in sizes if used[name] < sizes[name]]
        best = max(free, key=lambda name: (liked[name], sign * (used[name] + 1) / sizes[name]))
        used[best] += 1
        expected[best] += 1
    assert dict(outcome.nodes[shape]) == {name: number for name, number in expected.items() if number}


def spread(key: str, unsatisfiable: str = "DoNotSchedule") -> dict[str, Any]:
    selector = {"matchLabels": {"app": "x"}}
    return {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": unsatisfiable, "labelSelector": selector}


def looking(**spec: Any) -> Shape:
    pod = make_pod(cpu="1", **spec)
    return shape_of(replace(pod, metadata=replace(pod.metadata, namespace="ns", labels={"app": "x"})))


@pytest.mark.parametrize(
    ("strategy", "taken", "expected"),
    [
        (Strategy.TIGHT, {}, "full"),
        (Strategy.MOST, {}, "full"),
        (Strategy.LEAST, {}, "empty"),
        (Strategy.LEAST, {"empty": 3}, "half"),
        (Strategy.LEAST, {"empty": 4, "half": 2}, "full"),
        (Strategy.MOST, {"half": 2}, "full"),
        (Strategy.MOST, {"half": 2, "full": 1}, "empty"),
    ],
)
def test_with_several_rules_the_strategy_decides_among_the_emptiest_places(
    strategy: Strategy, taken: dict[str, int], expected: str
) -> None:
    """Four CPUs each; of the full one three are in use, of half two. taken: what other shapes of the gang get."""
    capacity = Capacity(strategy)
    for name, used in (("empty", 0), ("full", 3), ("half", 2)):
        capacity.set_node(make_node(name, labels={"zone": "z", "rack": name}))
        for one in range(used):
            capacity.assign(f"{name}-{one}", name, guest_of(make_pod(cpu="1")))
    shape = looking(topologySpreadConstraints=[spread("zone"), spread("rack")])
    beside = capacity.sum_use(shape_of(make_pod(cpu="1")), capacity.counts(taken)) if taken else None
    assert placed(capacity, shape, 1, extra_use=beside) == {expected: 1}


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside other shapes"])
@pytest.mark.parametrize(("strategy", "expected"), [(Strategy.LEAST, {"a": 2, "b": 2}), (Strategy.MOST, {"a": 4})])
def test_with_several_rules_each_pod_sees_those_before_it(
    strategy: Strategy, expected: dict[str, int], beside: bool
) -> None:
    """Two nodes of one place."""
    capacity = Capacity(strategy)
    for name in "ab":
        capacity.set_node(make_node(name, labels={"zone": "z", "rack": "r"}))
    shape = looking(topologySpreadConstraints=[spread("zone"), spread("rack")])
    assert placed(capacity, shape, 4, extra_use=np.zeros_like(capacity.free()) if beside else None) == expected


@pytest.mark.parametrize("wishes", [False, True])
def test_in_each_place_the_most_welcome_and_then_the_roomiest_nodes_go_first(wishes: bool) -> None:
    capacity = Capacity()
    for name, cpu, kind in (("a1", 1, "x"), ("a2", 4, "x"), ("b1", 3, "x"), ("b2", 2, "liked"), ("b3", 1, "liked")):
        capacity.set_node(make_node(name, labels={"zone": name[0], "kind": kind}, resources={"cpu": str(cpu)}))
    shape = looking(topologySpreadConstraints=[spread("zone")], **({"affinity": preferring("liked")} if wishes else {}))
    expected = {"a2": 4, "b2": 2, "b3": 1, "b1": 1} if wishes else {"a2": 4, "b1": 3, "b2": 1}
    assert placed(capacity, shape, 8) == expected


@pytest.mark.parametrize(
    ("wishes", "count", "expected"),
    [
        pytest.param(["zone"], 600, {"a": 300, "b": 300}, id="one wish of a large gang"),
        pytest.param(["zone", "rack"], 400, {"a": 200, "b": 200}, id="several of a smaller one"),
        pytest.param(["zone", "rack"], 600, {"a": 600}, id="several of a large one: too slow"),
    ],
)
def test_wishes_for_the_pods_of_a_gang_are_met_while_that_is_quick(
    wishes: list[str], count: int, expected: dict[str, int]
) -> None:
    capacity = Capacity()
    for name in "ab":
        labels = {"zone": name, "rack": name}
        capacity.set_node(make_node(name, labels=labels, resources={"cpu": "1000", **MANY}))
    shape = looking(topologySpreadConstraints=[spread(key, "ScheduleAnyway") for key in wishes])
    assert placed(capacity, shape, count) == expected


def test_a_node_that_has_nothing_of_a_resource_is_no_worse_than_full() -> None:
    capacity = Capacity(Strategy.LEAST)
    capacity.set_node(make_node("a", resources={"cpu": "0"}))
    capacity.set_node(make_node("b"))
    with np.errstate(all="raise"):
        assert placed(capacity, shape_of(make_pod(cpu="1")), 2) == {"b": 2}
