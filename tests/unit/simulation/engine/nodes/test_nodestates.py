from random import Random

from muster.api.core import Node
from muster.api.meta import ObjectMeta
from muster.simulation.engine.nodes.nodestates import NodeStates
from muster.simulation.scenario.model import NodeChoice

POOL = NodeChoice(pool="n")


def make(count, later=0):
    nodes = [Node(metadata=ObjectMeta(name=f"n-{number}")) for number in range(count + later)]
    return NodeStates(nodes[:count], nodes[count:], {"n": [node.metadata.name for node in nodes]})


def test_a_node_is_back_once_all_causes_are_over():
    states = make(1)
    assert states.lose("n-0")
    assert not states.lose("n-0"), "it is lost already"
    assert not states.restore("n-0")
    assert states.get("n-0").status.conditions[0].status == "Unknown"
    assert states.restore("n-0")
    assert states.get("n-0") == states.get_usual("n-0")


def test_a_cordon_and_a_loss_are_apart():
    states = make(1)
    states.cordon("n-0")
    states.lose("n-0")
    assert states.restore("n-0")
    assert states.get("n-0").spec.unschedulable
    assert states.uncordon("n-0")
    assert not states.get("n-0").spec.unschedulable


def test_a_pool_grows_and_shrinks_at_its_end():
    states = make(2, later=2)
    assert states.get("n-2") is None
    assert list(states.scale("n", 4)) == ["n-2", "n-3"]
    assert list(states.scale("n", 1)) == ["n-1", "n-2", "n-3"]
    assert list(states.scale("n", 1)) == []
    assert states.get("n-1") is None


def test_a_node_that_breaks_before_it_exists_comes_broken():
    states = make(0, later=1)
    assert not states.lose("n-0")
    assert list(states.scale("n", 1)) == ["n-0"]
    assert states.get("n-0").status.conditions[0].status == "Unknown"


def test_some_nodes_are_drawn_of_those_that_are_there():
    states = make(6, later=3)
    states.lose("n-1")
    drawn = {tuple(states.choose(POOL, 2, Random(seed))) for seed in range(200)}
    left = [0, 2, 3, 4, 5]
    assert drawn == {(f"n-{a}", f"n-{b}") for a in left for b in left if a < b}
    assert states.choose(POOL, 9, Random(1)) == [f"n-{number}" for number in left]
    assert len(states.choose(POOL, None, Random(1))) == 6
