"""What fits is kept up to date change by change: always what a capacity made anew says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gang.conftest import make_node, make_pod
from tests.unit.gang.nodes.oracle import sum_differs

from muster.gang.nodes.capacity import Capacity
from muster.gang.nodes.holdings import Holdings
from muster.gang.placement import place
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
                fits = by_name(anew(nodes, pods), about[0])
                assert by_name(capacity, about[0]) == fits
                assert capacity.find_known_room(about[0]) in (None, sum(fits.values()))
                refusal = place(capacity, {about[0]: 1000})
                assert refusal == place(anew(nodes, pods), {about[0]: 1000})
                assert capacity.find_known_room(about[0]) == sum(fits.values()) == refusal.fits


def anew(nodes, pods):
    capacity = Capacity()
    for node in nodes.values():
        capacity.set_node(node)
    for uid, (node, guest) in pods.items():
        capacity.assign(str(uid), node, guest)
    return capacity


def by_name(capacity, shape):
    found = capacity.count_fitting(shape)
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
        pytest.param(
            lambda capacity: capacity.count_fitting(SHAPES[2]).fill(9), 3, id="who asks writes into the answer"
        ),
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
    assert int(capacity.count_fitting(SHAPES[2]).sum()) == fits, "no other node has the label"


def node(cpu="4", labels=None, **spec):
    return make_node("n", labels=labels or {"zone": "a"}, resources={"cpu": cpu}, **spec)


def test_of_a_resource_that_no_node_has_nothing_can_be_taken():
    capacity = Capacity()
    capacity.set_node(make_node("n"))
    shape = shape_of(make_pod(gpus=2))
    taken = capacity.sum_use(shape, np.array([3] + [0] * (len(capacity.names) - 1)))
    assert taken.shape == capacity.free().shape
    assert int(capacity.count_fitting(shape).sum()) == int(capacity.count_fitting(shape, taken).sum()) == 0


def test_what_pods_invent_makes_no_rows_until_a_node_has_it():
    """Any user may make pods that name their node and ask for whatever they like."""
    capacity = Capacity()
    capacity.set_node(make_node("n"))
    rows = dict(capacity.rows())
    seats = {}
    for number in range(400):
        seats[f"p{number}"] = "n", guest_of(inventing(f"p{number}", f"example.com/r{number}"))
        capacity.assign(f"p{number}", *seats[f"p{number}"])
    assert capacity.rows() == rows
    assert sum_differs(capacity, "n") is None
    capacity.release("p8")
    with_them = make_node("n", resources={"cpu": "400", **{f"example.com/r{number}": "9" for number in range(7, 9)}})
    capacity.set_node(with_them)
    assert capacity.rows().keys() == {*rows, "example.com/r7", "example.com/r8"}
    assert [int(capacity.free_of(f"example.com/r{number}")[0]) for number in range(6, 9)] == [0, 6, 9]
    assert sum_differs(capacity, "n") is None
    freed = Holdings.of(capacity, [["p6", "p7"]]).freed()
    assert freed[capacity.rows()["example.com/r7"], 0] == -3
    assert freed[capacity.rows()["cpu"], 0] == -2000
    capacity.release("p7")
    assert int(capacity.free_of("example.com/r7")[0]) == 9
    assert sum_differs(capacity, "n") is None


def inventing(name, resource):
    return make_pod(name, containers=[{"name": "c", "resources": {"requests": {"cpu": "1", resource: 3}}}])


def test_resources_that_are_asked_for_no_more_leave_their_rows_to_others():
    capacity = Capacity()
    for number in range(50):
        capacity.set_node(make_node("n", resources={"cpu": "4", f"x{number}": "2"}))
        capacity.retire([f"x{number}"])
    assert {resource for resource in capacity.rows() if resource.startswith("x")} == {"x48", "x49"}
    assert len(capacity.free()) == len(capacity.rows())
    assert (capacity.free_of("x49")[0], capacity.free_of("x3")[0], capacity.free_of("cpu")[0]) == (2, 0, 4000)


def test_a_row_of_which_something_is_there_or_in_use_stays():
    capacity = Capacity()
    capacity.set_node(make_node("n", resources={"cpu": "4", "x": "2"}))
    capacity.assign("p", "n", guest_of(make_pod(cpu="1"), (("x", 1),)))
    capacity.retire(["x"])
    capacity.set_node(make_node("n", resources={"cpu": "4", "y": "2"}))
    assert (capacity.used_of("x")[0], capacity.free_of("y")[0]) == (1, 2)
    capacity.release("p")
    capacity.set_node(make_node("n", resources={"cpu": "4", "z": "3"}))
    assert ("x" in capacity.rows(), capacity.free_of("z")[0]) == (False, 3)


def test_a_resource_that_comes_back_keeps_its_row():
    capacity = Capacity()
    capacity.set_node(make_node("n", resources={"x": "2"}))
    capacity.retire(["x"])
    capacity.set_node(make_node("n", resources={"x": "2"}))
    capacity.set_node(make_node("n", resources={"y": "2"}))
    assert {"x", "y"} <= capacity.rows().keys()


@pytest.mark.parametrize(
    ("before", "after", "helps"),
    [
        pytest.param(None, {}, True, id="it is new"),
        pytest.param({}, {}, False, id="nothing has changed"),
        pytest.param({}, {"resources": {"cpu": "5"}}, True, id="it has more"),
        pytest.param({}, {"resources": {"cpu": "3"}}, False, id="it has less"),
        pytest.param({}, {"resources": {"cpu": "3", "memory": "17Gi"}}, True, id="less of one, and more of another"),
        pytest.param({}, {"resources": {"gpu": "1"}}, True, id="it has what it never had"),
        pytest.param({}, {"labels": {"zone": "b"}}, True, id="it has another label"),
        pytest.param({"unschedulable": True}, {}, True, id="it is cordoned no more"),
    ],
)
def test_whether_a_change_of_a_node_may_help_a_waiting_pod(before, after, helps):
    capacity = Capacity()
    if before is not None:
        capacity.set_node(make_node("n", **before))
    assert capacity.set_node(make_node("n", **after)) is helps


def test_whether_a_pod_comes_or_goes_is_news():
    capacity, guest = Capacity(), guest_of(make_pod())
    capacity.set_node(make_node("n"))
    assert [capacity.release("p"), capacity.assign("p", "n", guest), capacity.assign("p", "n", guest)] == [
        False,
        True,
        False,
    ]
    assert capacity.assign("p", "m", guest)
    assert [capacity.release("p"), capacity.release("p")] == [True, False]
