from itertools import takewhile
from random import Random

import pytest

from muster.api.core import Node
from muster.api.meta import ObjectMeta
from muster.simulation.scenario.changes import choose_nodes, draw_failures, find_largest_size, list_times, name_nodes
from muster.simulation.scenario.model import ClusterChange, NodeChoice, NodePool, Scaling, Spec

DAY = 86_400.0


def draw(nodes, uptime, downtime, until, seed=1):
    failures = draw_failures([f"n-{n}" for n in range(nodes)], 0, uptime, downtime, Random(seed))
    return list(takewhile(lambda one: one.at < until, failures))


@pytest.mark.parametrize(("uptime", "downtime"), [(10 * DAY, DAY), (DAY, DAY), (DAY / 4, 60.0)])
def test_nodes_break_as_often_and_as_long_as_the_means_say(uptime, downtime):
    until, nodes = 400 * DAY, 100
    moments = draw(nodes, uptime, downtime, until)
    breaks = [one for one in moments if not one.returns]
    assert len(breaks) == pytest.approx(nodes * until / (uptime + downtime), rel=0.05)
    down = sum(one.at if one.returns else -one.at for one in moments)
    down += until * (len(breaks) - sum(one.returns for one in moments))
    assert down / (nodes * until) == pytest.approx(downtime / (uptime + downtime), rel=0.05)


def test_each_node_breaks_and_comes_back_in_turn_and_in_order():
    moments = draw(20, 3600.0, 600.0, 10 * DAY)
    assert [one.at for one in moments] == sorted(one.at for one in moments)
    for name in {one.node for one in moments}:
        turns = [one.returns for one in moments if one.node == name]
        assert turns == [number % 2 == 1 for number in range(len(turns))]


def test_the_same_seed_breaks_the_same_nodes():
    assert draw(9, DAY, 60.0, 9 * DAY, seed=3) == draw(9, DAY, 60.0, 9 * DAY, seed=3)
    assert draw(9, DAY, 60.0, 9 * DAY, seed=3) != draw(9, DAY, 60.0, 9 * DAY, seed=4)


NODES = {
    name: Node(metadata=ObjectMeta(name=name, labels=labels))
    for name, labels in {"a-0": {"rack": "1"}, "a-1": {"rack": "2"}, "b-0": {"rack": "1"}, "c": {}}.items()
}


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (NodeChoice(pool="a"), ["a-0", "a-1"]),
        (NodeChoice(labels={"rack": "1"}), ["a-0", "b-0"]),
        (NodeChoice(pool="a", labels={"rack": "1"}), ["a-0"]),
        (NodeChoice(nodes=("c", "a-1")), ["c", "a-1"]),
        (NodeChoice(nodes=("c", "a-1"), pool="a"), ["a-1"]),
        (NodeChoice(nodes=("d",)), []),
        (NodeChoice(labels={"rack": "3"}), []),
    ],
)
def test_a_choice_names_nodes_that_meet_all_of_it(choice, names):
    assert choose_nodes(choice, NODES, {"a": ["a-0", "a-1", "a-2"], "b": ["b-0"]}) == names


def test_a_pool_is_as_large_as_it_ever_gets():
    pool = NodePool(name="p", count=2, template={})
    changes = tuple(ClusterChange(at=1, scale=Scaling(pool=name, count=count)) for name, count in (("p", 5), ("q", 9)))
    assert find_largest_size(Spec(changes=changes), pool) == 5
    assert find_largest_size(Spec(), pool) == 2
    assert name_nodes(pool, 3) == ["p-0", "p-1", "p-2"]


def test_times_are_in_order():
    assert list_times(ClusterChange(at=("1h", 5, "1d")), Spec().start) == [5.0, 3600.0, DAY]
    assert list_times(ClusterChange(at="2m"), Spec().start) == [120.0]
