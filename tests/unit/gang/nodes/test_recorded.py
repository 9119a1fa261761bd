"""The arrays against the nodes and pods: after any sequence of changes nothing differs, and what is wrong is found."""

from random import Random

import pytest
from msgspec.structs import replace
from tests.unit.gang.conftest import make_node, make_pod
from tests.unit.gang.nodes.oracle import Seat, differences, rebuilt
from tests.unit.gang.test_predicates import capacity_of, decided
from tests.worlds import random_world

from muster.api.core import Node
from muster.gang.nodes.capacity import Capacity
from muster.gang.placement import place
from muster.gang.shapes import guest_of, shape_of


@pytest.mark.parametrize("seed", range(5))
def test_incremental_arrays_equal_a_rebuild(seed):
    """Pitfall 22 with it: amounts are integers, so that what came and went leaves nothing behind."""
    random = Random(seed)
    worlds = [random_world(random) for _ in range(10)]
    everyone = {f"{number}-{pod.metadata.uid}": pod for number, one in enumerate(worlds) for pod in one.bound_objects()}
    machines = {node.metadata.name: node for one in worlds for node in one.node_objects()}
    asked = [shape_of(pod) for pod in list(everyone.values())[:10]]
    capacity = Capacity()
    nodes: dict[str, Node] = {}
    seats: dict[str, Seat | None] = {}
    for _ in range(300):
        name, uid = random.choice(list(machines)), random.choice(list(everyone))
        match random.randrange(5):
            case 0:
                nodes.pop(name, None)
                capacity.remove_node(name)
            case 1 | 2:
                nodes[name] = random.choice([one for one in machines.values() if one.metadata.name == name])
                capacity.set_node(nodes[name])
            case 3:
                seats.pop(uid, None)
                capacity.release(uid)
            case 4:
                guest = guest_of(everyone[uid])
                seats[uid] = name, guest
                capacity.assign(uid, name, guest)
        place(capacity, {random.choice(asked): 3})
        if random.random() < 0.1:  # terms ask, so that pods are filed by label
            capacity.guests._ensure_filed()
        assert differences(capacity, nodes.values(), seats) == []
    anew = rebuilt(capacity, nodes.values(), {uid: seat for uid, seat in seats.items() if seat is not None})
    assert not any(capacity.allocatable_of(resource).any() for resource in capacity.rows().keys() - anew.rows().keys())
    for name in nodes:
        for resource in anew.rows():
            mine, other = capacity.index_of(name), anew.index_of(name)
            assert capacity.free_of(resource)[mine] == anew.free_of(resource)[other]


def test_a_rebuild_decides_as_the_original():
    random = Random(11)
    for _ in range(50):
        world = random_world(random)
        capacity = capacity_of(world)
        seats = dict(capacity.guests.items())
        assert decided(rebuilt(capacity, world.node_objects(), seats), world) == decided(capacity, world)


def spoil_sums(capacity, what):
    match what:
        case "a sum went wrong":
            capacity._used[capacity.rows()["cpu"], 0] += 1
        case "a place without a node":
            capacity._used[0, 1] += 1
        case "a memory went wrong":
            place(capacity, {shape_of(make_pod()): 1})
            next(iter(capacity._fits.values()))[1][0] += 1
        case "a pod was lost":
            capacity.guests._on_node["n"].discard("a")
        case "a pod was found elsewhere":
            capacity.guests._on_node["n"].add("c")
        case "a pod was found where no node is":
            capacity.guests._on_node["gone"].add("c")
        case "a pod was lost by label":
            capacity.guests._ensure_filed()
            capacity.guests._labelled["", "app", "x"].discard("a")
        case "a pod was filed elsewhere":
            capacity.guests._ensure_filed()
            capacity.guests._labelled["", "app", "y"].add("a")
        case "an index went wrong":
            capacity.guests._claiming["ns/c"] += 1


def spoilt(what):
    capacity, node = Capacity(), make_node("n", labels={"zone": "a"})
    capacity.set_node(node)
    one, other = replace(guest_of(make_pod("a")), labels={"app": "x"}), guest_of(make_pod("b"))
    seats: dict[str, Seat | None] = {"a": ("n", one), "b": ("n", other)}
    capacity.assign("a", "n", one)
    capacity.assign("b", "n", other)
    match what:
        case "a pod was missed":
            capacity.release("b")
        case "a pod moved":
            capacity.assign("b", "m", other)
        case "a pod changed":
            capacity.assign("b", "n", guest_of(make_pod("b", cpu="2")))
        case "a pod went":
            seats["b"] = None
        case "a node grew":
            node = make_node("n", labels={"zone": "a"}, resources={"cpu": "8"})
        case "a node got a label":
            node = make_node("n", labels={"zone": "b"})
        case "a node was missed":
            capacity.remove_node("n")
        case _:
            spoil_sums(capacity, what)
    return capacity, node, seats


@pytest.mark.parametrize(
    ("what", "where", "text"),
    [
        ("nothing", "", None),
        ("a pod was missed", "n", "pod b is here and not recorded"),
        ("a pod moved", "n", "pod b is here, and recorded on m"),
        ("a pod changed", "n", "pod b is recorded as another than it is"),
        ("a pod went", "n", "pod b is recorded and not here"),
        ("a node grew", "n", "the node has 8000 cpu, and 4000 are recorded"),
        ("a node got a label", "n", "other labels, taints or conditions are recorded than the node has"),
        ("a node was missed", "n", "the node is not recorded"),
        ("a sum went wrong", "n", "its pods use 2000 cpu, and 2001 are recorded"),
        ("a place without a node", "", "room is recorded where no node is"),
        ("a pod was lost", "n", "pod a is recorded and not found by its node or labels"),
        ("a pod was found elsewhere", "n", "pod c is found there and not recorded there"),
        ("a pod was found where no node is", "", "other pods are found by node or label than are recorded"),
        ("a pod was lost by label", "n", "pod a is recorded and not found by its node or labels"),
        ("a pod was filed elsewhere", "", "other pods are found by node or label than are recorded"),
        ("a memory went wrong", "n", "what fits there is not what is remembered"),
        ("an index went wrong", "", "pods are not found by their ports, volumes or terms"),
    ],
)
def test_what_is_wrong_is_found(what, where, text):
    capacity, node, seats = spoilt(what)
    found = differences(capacity, [node], seats)
    assert ((where, text) in [(one.node, one.text) for one in found]) is (text is not None)
    assert bool(found) is (text is not None)
    here = {uid: seat for uid, seat in seats.items() if seat is not None}
    assert differences(rebuilt(capacity, [node], here), [node], seats) == []
