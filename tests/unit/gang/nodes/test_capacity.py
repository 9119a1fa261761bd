"""What fits is kept up to date change by change: always what a capacity made anew says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gang.conftest import make_node, make_pod

from muster.gang.nodes.capacity import Capacity
from muster.gang.shapes import guest_of, shape_of

NODES = [f"n{number}" for number in range(5)]
SHAPES = [
    shape_of(make_pod(cpu="1")),
    shape_of(make_pod(cpu="2", gpus=1)),
    shape_of(make_pod(cpu="1", nodeSelector={"zone": "a"})),
    shape_of(make_pod(cpu="1", tolerations=[{"operator": "Exists"}])),
]

steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("node"), st.sampled_from(NODES), st.integers(0, 6), st.sampled_from("ab"), st.integers(0, 2),
            st.booleans(),
        ),
        st.tuples(st.just("gone"), st.sampled_from(NODES)),
        st.tuples(st.just("pod"), st.integers(0, 9), st.sampled_from(NODES), st.integers(1, 3), st.integers(0, 1)),
        st.tuples(st.just("ended"), st.integers(0, 9)),
        st.tuples(st.just("look"), st.sampled_from(SHAPES)),
    ),
    max_size=40,
)  # fmt: skip


@given(steps)
def test_what_fits_is_what_a_capacity_made_anew_says(steps):
    capacity, nodes, pods = Capacity(), {}, {}
    for what, *about in [*steps, *(("look", shape) for shape in SHAPES)]:
        match what:
            case "node":
                name, cpu, zone, gpus, cordoned = about
                resources = {"cpu": str(cpu)} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
                nodes[name] = make_node(name, labels={"zone": zone}, resources=resources, unschedulable=cordoned)
                capacity.set_node(nodes[name])
            case "gone":
                nodes.pop(about[0], None)
                capacity.remove_node(about[0])
            case "pod":
                uid, node, cpu, gpus = about
                pods[uid] = node, guest_of(make_pod(str(uid), cpu=str(cpu), gpus=gpus))
                capacity.assign(str(uid), *pods[uid])
            case "ended":
                pods.pop(about[0], None)
                capacity.release(str(about[0]))
            case "look":
                assert by_name(capacity, about[0]) == by_name(anew(nodes, pods), about[0])


def anew(nodes, pods):
    capacity = Capacity()
    for node in nodes.values():
        capacity.set_node(node)
    for uid, (node, guest) in pods.items():
        capacity.assign(str(uid), node, guest)
    return capacity


def by_name(capacity, shape):
    found = capacity.fitting(shape)
    return {name: int(found[index]) for index, name in enumerate(capacity.names) if name is not None}


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        pytest.param(lambda capacity: capacity.set_node(node(cpu="6")), 5, id="the node is larger"),
        pytest.param(lambda capacity: capacity.set_node(node(cpu="2")), 1, id="smaller"),
        pytest.param(lambda capacity: capacity.set_node(node(unschedulable=True)), 0, id="cordoned"),
        pytest.param(lambda capacity: capacity.set_node(node(labels={"zone": "b"})), 0, id="labelled otherwise"),
        pytest.param(lambda capacity: capacity.remove_node("n"), 0, id="gone"),
        pytest.param(lambda capacity: capacity.assign("new", "n", guest_of(make_pod(cpu="2"))), 1, id="a pod comes"),
        pytest.param(lambda capacity: capacity.release("old"), 4, id="a pod goes"),
        pytest.param(lambda capacity: capacity.fitting(SHAPES[2]).fill(9), 3, id="who asks writes into the answer"),
    ],
)
def test_every_change_shows(change, fits):
    capacity = Capacity()
    for number in range(100):  # so many that a few changes are not all
        capacity.set_node(make_node(f"other{number}"))
    capacity.set_node(node())
    capacity.assign("old", "n", guest_of(make_pod("old")))
    assert by_name(capacity, SHAPES[2])["n"] == 3
    change(capacity)
    assert int(capacity.fitting(SHAPES[2]).sum()) == fits, "no other node has the label"


def node(cpu="4", labels=None, **spec):
    return make_node("n", labels=labels or {"zone": "a"}, resources={"cpu": cpu}, **spec)


def test_what_pods_take_of_a_resource_that_no_node_has_is_counted_too():
    capacity = Capacity()
    capacity.set_node(make_node("n"))
    shape = shape_of(make_pod(gpus=2))
    taken = capacity.taking(shape, np.array([3] + [0] * (len(capacity.names) - 1)))
    assert taken[capacity.rows()["nvidia.com/gpu"], 0] == 6
