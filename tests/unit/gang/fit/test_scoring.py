"""Which of the nodes that would do a gang takes."""

from typing import get_args

import pytest
from msgspec.structs import replace
from tests.unit.gang.conftest import make_node, make_pod

from muster.api.config.types import Configuration, ScoringStrategy
from muster.gang.nodes.capacity import Capacity, Strategy
from muster.gang.placement import Placement, place
from muster.gang.shapes import guest_of, shape_of, shapes_of

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def build(*nodes, strategy=Strategy.TIGHT, used=()):
    capacity = Capacity(strategy)
    for one in nodes:
        capacity.set_node(one)
    for name, cpu in used:
        capacity.assign(f"on-{name}-{cpu}", name, guest_of(make_pod(cpu=cpu)))
    return capacity


def nodes_of(capacity, pod, count=1):
    (shape,) = set(shapes_of([pod], capacity.watched).values())
    outcome = place(capacity, {shape: count})
    assert isinstance(outcome, Placement)
    return dict(outcome.nodes[shape])


def labelled(pod, **labels):
    return replace(pod, metadata=replace(pod.metadata, labels=labels, namespace="ns"))


@pytest.mark.parametrize(
    ("strategy", "count", "expected"),
    [
        (Strategy.TIGHT, 3, {"some": 3}),
        (Strategy.TIGHT, 6, {"empty": 4, "half": 2}),
        (Strategy.MOST, 1, {"full": 1}),
        (Strategy.MOST, 6, {"full": 1, "half": 2, "some": 3}),
        (Strategy.LEAST, 1, {"empty": 1}),
        (Strategy.LEAST, 6, {"empty": 3, "some": 2, "half": 1}),
    ],
)
def test_the_strategy_decides_among_equals(strategy, count, expected):
    nodes = [make_node(name, resources={"cpu": "4"}) for name in ("empty", "full", "half", "some")]
    capacity = build(*nodes, strategy=strategy, used=[("full", "3"), ("half", "2"), ("some", "1")])
    assert nodes_of(capacity, make_pod(cpu="1"), count) == expected


def test_balanced_takes_the_node_whose_resources_are_then_used_alike():
    lean = make_node("lean", resources={"cpu": "8", "memory": "8Gi"})
    fat = make_node("fat", resources={"cpu": "8", "memory": "64Gi"})
    pod = make_pod(cpu="2")
    heavy = shape_of(pod)
    capacity = build(lean, fat, strategy=Strategy.BALANCED)
    requests = tuple(sorted({**dict(heavy.requests), "memory": 16 << 30}.items()))
    outcome = place(capacity, {replace(heavy, requests=requests): 2})
    assert isinstance(outcome, Placement)
    assert next(iter(outcome.nodes.values())) == (("fat", 2),)
    small = replace(heavy, requests=tuple(sorted({**dict(heavy.requests), "memory": 2 << 30}.items())))
    outcome = place(capacity, {small: 1})
    assert isinstance(outcome, Placement)
    assert outcome.nodes[small] == (("lean", 1),)


def test_nodes_that_a_pod_prefers_go_first():
    nodes = [make_node("a", labels={"disk": "hdd"}), make_node("b", labels={"disk": "ssd"}), make_node("c")]
    wishes = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": [value]}]}}
        for weight, value in ((10, "hdd"), (90, "ssd"))
    ]
    pod = make_pod(cpu="1", affinity={"nodeAffinity": {PREFERRED: wishes}})
    assert nodes_of(build(*nodes), pod, 4) == {"b": 4}
    assert nodes_of(build(*nodes), pod, 6) == {"b": 4, "a": 2}
    assert nodes_of(build(*nodes), pod, 9) == {"b": 4, "a": 4, "c": 1}


def test_a_taint_that_asks_to_stay_away_is_heeded_while_there_is_room_elsewhere():
    taint = {"key": "k", "value": "v", "effect": "PreferNoSchedule"}
    nodes = [make_node("a", taints=[taint]), make_node("b", resources={"cpu": "2"})]
    assert nodes_of(build(*nodes), make_pod(), 2) == {"b": 2}
    assert nodes_of(build(*nodes), make_pod(), 3) == {"b": 2, "a": 1}
    tolerant = make_pod(tolerations=[{"key": "k", "operator": "Exists"}])
    assert nodes_of(build(*nodes), tolerant, 4) == {"a": 4}


def near(kind, app="x", key="zone"):
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {kind: {PREFERRED: [{"weight": 5, "podAffinityTerm": term}]}}


def zones(*names):
    return [make_node(f"{zone}{number}", labels={"zone": zone}) for number, zone in enumerate(names)]


def test_pods_that_are_liked_draw_and_those_that_are_not_repel():
    other = labelled(make_pod("other", cpu="1"), app="x")
    for kind, expected in (("podAffinity", "b1"), ("podAntiAffinity", "a0")):
        capacity = build(*zones("a", "b"))
        capacity.assign("other", "b1", guest_of(other))
        assert nodes_of(capacity, labelled(make_pod(affinity=near(kind)), app="y")) == {expected: 1}


@pytest.mark.parametrize(
    ("kind", "count", "expected"),
    [
        ("podAffinity", 6, [{"b": 6}]),
        ("podAffinity", 9, [{"a": 4, "b": 5}, {"a": 1, "b": 8}]),  # no zone takes all: as if it wished for nothing
        ("podAntiAffinity", 2, [{"a": 1, "b": 1}]),
        ("podAntiAffinity", 3, [{"a": 3}, {"b": 3}]),
    ],
)
def test_a_gang_that_likes_itself_goes_together_if_it_can_and_one_that_does_not_apart(kind, count, expected):
    pod = labelled(make_pod(affinity=near(kind)), app="x")
    found: dict[str, int] = {}
    for name, number in nodes_of(build(*zones("a", "b", "b")), pod, count).items():
        found[name[0]] = found.get(name[0], 0) + number
    assert found in expected


def test_schedule_anyway_spreads_if_it_can():
    spread = {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    pod = labelled(make_pod(topologySpreadConstraints=[spread]), app="x")
    assert nodes_of(build(*zones("a", "b")), pod, 4) == {"a0": 2, "b1": 2}
    one = make_node("c", labels={"zone": "c"}, resources={"cpu": "1"})
    assert sum(nodes_of(build(*zones("a"), one), pod, 5).values()) == 5


def test_the_configuration_knows_every_strategy():
    assert {strategy.value for strategy in Strategy} == set(get_args(ScoringStrategy))
    assert Strategy(Configuration.default().muster.scheduling.scoring_strategy) is Strategy.TIGHT


@pytest.mark.parametrize(
    ("liked", "unliked", "there", "expected"),
    [
        pytest.param(5, 4, {"a0": "xy"}, "a0", id="liked more than unliked"),
        pytest.param(4, 5, {"a0": "xy"}, "b1", id="unliked more than liked"),
        pytest.param(4, 5, {"a0": "xxy"}, "a0", id="each pod counts"),
        pytest.param(1, 1, {"a0": "x", "b1": "xx"}, "b1", id="two are liked more than one"),
        pytest.param(1, 1, {"a0": "yy", "b1": "y"}, "b1", id="two are unliked more than one"),
        pytest.param(3, 2, {"a0": "xy", "b1": "xxyy"}, "b1", id="by the sum of the weights"),
    ],
)
def test_wishes_for_pods_nearby_are_weighed_against_each_other(liked, unliked, there, expected):
    """Letters: the label of a pod on a node; x is liked, y is not."""
    capacity = build(*zones("a", "b"))
    for node, apps in there.items():
        for number, app in enumerate(apps):
            capacity.assign(f"{node}-{number}", node, guest_of(labelled(make_pod(cpu="0"), app=app)))
    wishes = near("podAffinity") | near("podAntiAffinity", "y")
    for kind, weight in (("podAffinity", liked), ("podAntiAffinity", unliked)):
        wishes[kind][PREFERRED][0]["weight"] = weight
    assert nodes_of(capacity, labelled(make_pod(affinity=wishes), app="z")) == {expected: 1}
