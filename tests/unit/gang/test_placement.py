"""All of a gang or none."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.gang.conftest import make_node
from tests.unit.gang.fit.test_packing import bin_of, exists

from muster.gang.explain import explain
from muster.gang.fit.packing import Effort
from muster.gang.nodes.capacity import Capacity
from muster.gang.placement import NoPacking, Placement, Refusal, place
from muster.gang.shapes import Shape, guest_like, guest_of, shape_of


def gang(pod, count=1, **spec):
    return {shape_of(pod(**spec)): count}


def chosen(placement):
    assert isinstance(placement, Placement)
    return [list(nodes) for nodes in placement.nodes.values()]


@pytest.mark.parametrize(
    ("sizes", "count", "cpu", "expected"),
    [
        pytest.param(["4", "4"], 4, "1", [("n0", 4)], id="one node is enough: one node"),
        pytest.param(["4", "4"], 8, "1", [("n0", 4), ("n1", 4)], id="exactly full"),
        pytest.param(["2", "8", "3"], 8, "1", [("n1", 8)], id="the node that takes all"),
        pytest.param(["8", "2", "3"], 10, "1", [("n0", 8), ("n1", 2)], id="the rest goes where it is tightest"),
        pytest.param(["4", "4"], 9, "1", None, id="one too many: none"),
        pytest.param(["3", "3"], 2, "2", [("n0", 1), ("n1", 1)], id="fragments do not add up to a pod"),
        pytest.param(["3", "3"], 3, "2", None, id="six free CPUs, but no room for three pods of two"),
        pytest.param([], 1, "1", None, id="no nodes"),
    ],
)
def test_one_shape_is_exact(node, pod, cluster, sizes, count, cpu, expected):
    capacity = cluster(*(node(f"n{i}", resources={"cpu": size}) for i, size in enumerate(sizes)))
    outcome = place(capacity, gang(pod, count, cpu=cpu))
    if expected is None:
        assert isinstance(outcome, Refusal)
        assert outcome.proven
    else:
        assert chosen(outcome) == [expected]


@pytest.mark.parametrize(
    ("node_spec", "pod_spec", "fits"),
    [
        pytest.param({"labels": {"gpu": "a100"}}, {"nodeSelector": {"gpu": "a100"}}, True, id="selector matches"),
        pytest.param({"labels": {"gpu": "t4"}}, {"nodeSelector": {"gpu": "a100"}}, False, id="selector differs"),
        pytest.param({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}, {}, False, id="taint"),
        pytest.param({"taints": [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]}, {}, True, id="soft taint"),
        pytest.param(
            {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]},
            {"tolerations": [{"key": "k", "value": "v", "effect": "NoExecute"}]},
            True,
            id="tolerated",
        ),
        pytest.param(
            {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]},
            {"tolerations": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
            False,
            id="tolerated for another effect",
        ),
        pytest.param(
            {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
            {"tolerations": [{"key": "k", "operator": "Exists"}]},
            True,
            id="any value, any effect",
        ),
        pytest.param(
            {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
            {"tolerations": [{"operator": "Exists"}]},
            True,
            id="everything tolerated",
        ),
        pytest.param(
            {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
            {"tolerations": [{"key": "k", "value": "w"}]},
            False,
            id="another value",
        ),
        pytest.param({"unschedulable": True}, {}, False, id="cordoned"),
        pytest.param({"unschedulable": True}, {"tolerations": [{"operator": "Exists"}]}, True, id="cordon tolerated"),
    ],
)
def test_where_a_pod_may_go(node, pod, cluster, node_spec, pod_spec, fits):
    outcome = place(cluster(node("n", **node_spec)), gang(pod, **pod_spec))
    assert isinstance(outcome, Placement) is fits


def test_a_node_that_is_not_ready_takes_nothing(node, pod, cluster):
    from msgspec.structs import replace

    ready = node("n")
    capacity = cluster(replace(ready, status=replace(ready.status, conditions=())))
    assert isinstance(place(capacity, gang(pod)), Refusal)
    assert capacity.set_node(ready), "getting ready could help somebody"
    assert isinstance(place(capacity, gang(pod)), Placement)


def required(*terms):
    """A pod's affinity for nodes that match one of the terms: expressions as (key, operator, values...)."""

    def expressions(found):
        return [{"key": key, "operator": operator, "values": values} for key, operator, *values in found]

    selector = [
        {
            "matchExpressions": expressions(one for one in term if one[0] != "metadata.name"),
            "matchFields": expressions(one for one in term if one[0] == "metadata.name"),
        }
        for term in terms
    ]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": selector}}}


@pytest.mark.parametrize(
    ("terms", "open_nodes"),
    [
        ([[("zone", "In", "x", "y")]], "ab"),
        ([[("zone", "NotIn", "x")]], "bc"),
        ([[("gpus", "Exists")]], "b"),
        ([[("gpus", "DoesNotExist")]], "ac"),
        ([[("gpus", "Gt", "4")]], "b"),
        ([[("gpus", "Lt", "4")]], ""),
        ([[("zone", "In", "x"), ("gpus", "Exists")]], ""),
        ([[("zone", "In", "x")], [("gpus", "Exists")]], "ab"),
        ([[("metadata.name", "In", "c")]], "c"),
        ([[("metadata.name", "NotIn", "c"), ("zone", "Exists")]], "ab"),
        ([[]], ""),
        ([[("zone", "Near", "x")], [("metadata.name", "In", "a")]], "a"),
    ],
)
def test_a_pod_goes_only_where_its_node_affinity_allows(node, pod, cluster, terms, open_nodes):
    capacity = cluster(
        node("a", labels={"zone": "x"}), node("b", labels={"zone": "y", "gpus": "8"}), node("c", labels={})
    )
    eligible = capacity.eligible(shape_of(pod(affinity=required(*terms))))
    assert "".join(name for name, suits in zip(capacity.names, eligible, strict=True) if suits) == open_nodes


def test_what_a_node_affinity_prefers_closes_no_node(node, pod, cluster):
    wish = {"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    assert isinstance(place(cluster(node("a")), gang(pod, affinity=affinity)), Placement)


@pytest.mark.parametrize(
    ("cpus", "gang"),
    [
        pytest.param([8, 3], {3: 1, 2: 2, 4: 1}, id="the scarcest first"),
        pytest.param([7, 5], {1: 2, 2: 1, 4: 2}, id="the largest first"),
        pytest.param([6, 5, 5], {5: 2, 2: 3}, id="the least scarce first"),
    ],
)
def test_one_of_the_orders_is_enough(node, pod, cluster, cpus, gang):
    capacity = cluster(*(node(f"n{number}", resources={"cpu": str(cpu)}) for number, cpu in enumerate(cpus)))
    outcome = place(capacity, {shape_of(pod(cpu=str(cpu))): count for cpu, count in gang.items()})
    assert isinstance(outcome, Placement)


def test_several_shapes_scarcest_first(node, pod, cluster):
    """Eight CPU pods would fill the GPU node if they came first."""
    capacity = cluster(node("gpu", resources={"cpu": "4", "nvidia.com/gpu": "1"}), node("cpu", resources={"cpu": "8"}))
    leader, worker = shape_of(pod(cpu="4", gpus=1)), shape_of(pod(cpu="1"))
    outcome = place(capacity, {worker: 8, leader: 1})
    assert isinstance(outcome, Placement)
    assert outcome.nodes == {leader: (("gpu", 1),), worker: (("cpu", 8),)}
    refusal = place(capacity, {worker: 9, leader: 1})
    assert isinstance(refusal, Refusal)
    assert not refusal.proven


@pytest.mark.parametrize(
    ("within", "count", "expected"),
    [
        pytest.param([True, True, True], 5, [("n2", 4), ("n0", 1)], id="everywhere"),
        pytest.param([True, True, False], 5, [("n1", 3), ("n0", 2)], id="without the roomiest"),
        pytest.param([True, False, False], 2, [("n0", 2)], id="one node"),
        pytest.param([True, False, False], 3, None, id="too many for one node"),
        pytest.param([False, False, False], 1, None, id="nowhere"),
    ],
)
def test_a_gang_stays_within_the_nodes_that_it_may_use(node, pod, cluster, within, count, expected):
    capacity = cluster(*(node(f"n{i}", resources={"cpu": size}) for i, size in enumerate("234")))
    mask = np.zeros(len(capacity.names), np.bool_)
    mask[:3] = within
    outcome = place(capacity, gang(pod, count), within=mask)
    if expected is None:
        assert isinstance(outcome, Refusal)
        assert outcome.proven
        assert outcome.fits == sum(size for size, open_ in zip((2, 3, 4), within, strict=True) if open_)
    else:
        assert sorted(chosen(outcome)[0]) == sorted(expected)


@pytest.mark.parametrize(
    ("counts", "fits"),
    [
        pytest.param([0, 0], 8, id="nothing"),
        pytest.param([3, 1], 4, id="others come first"),
        pytest.param([4, 4], 0, id="all is taken"),
        pytest.param([5, 0], 4, id="more than there is"),
        pytest.param([-1, -2], 11, id="what comes free"),
    ],
)
def test_what_is_taken_besides_counts(node, pod, cluster, counts, fits):
    capacity = cluster(node("n0", resources={"cpu": "6"}), node("n1", resources={"cpu": "6"}))
    shape = shape_of(pod())
    for uid in range(4):
        capacity.assign(str(uid), f"n{uid % 2}", guest_like(shape))
    before = capacity.free()
    numbers = np.zeros(len(capacity.names), np.int64)
    numbers[:2] = counts
    extra_use = capacity.sum_use(shape, numbers)
    if fits:
        assert isinstance(place(capacity, {shape: fits}, extra_use=extra_use), Placement)
    refusal = place(capacity, {shape: fits + 1}, extra_use=extra_use)
    assert isinstance(refusal, Refusal)
    assert refusal.fits == fits
    assert (capacity.free() == before).all(), "nothing is changed"


def test_several_shapes_share_what_is_left_of_the_nodes_that_they_may_use(node, pod, cluster):
    capacity = cluster(*(node(f"n{i}", resources={"cpu": "4"}) for i in range(3)))
    small, large = shape_of(pod(cpu="1")), shape_of(pod(cpu="3"))
    within = np.zeros(len(capacity.names), np.bool_)
    within[:2] = True
    counts = np.zeros(len(capacity.names), np.int64)
    counts[0] = 1
    extra_use = capacity.sum_use(small, counts)
    outcome = place(capacity, {small: 1, large: 2}, within=within, extra_use=extra_use)
    assert isinstance(outcome, Placement)
    assert outcome.nodes == {large: (("n0", 1), ("n1", 1)), small: (("n1", 1),)}
    assert isinstance(place(capacity, {small: 2, large: 2}, within=within, extra_use=extra_use), Refusal)
    assert isinstance(place(capacity, {small: 2, large: 2}, within=within), Placement)


def test_assigned_pods_take_room_until_released(node, pod, cluster):
    capacity = cluster(node("n", resources={"cpu": "2"}))
    guest = guest_of(pod(cpu="2"))
    capacity.assign("a", "n", guest)
    capacity.assign("a", "n", guest)
    assert isinstance(place(capacity, gang(pod)), Refusal)
    assert capacity.release("a")
    assert not capacity.release("a")
    assert isinstance(place(capacity, gang(pod)), Placement)


def test_pods_seen_before_their_node_count_once_it_comes(node, pod, cluster):
    capacity = cluster()
    capacity.assign("a", "n", guest_of(pod(cpu="3")))
    capacity.set_node(node("n"))
    assert isinstance(place(capacity, gang(pod, cpu="2")), Refusal)
    capacity.remove_node("n")
    capacity.set_node(node("n"))
    assert isinstance(place(capacity, gang(pod, cpu="2")), Refusal)
    assert isinstance(place(capacity, gang(pod, cpu="1")), Placement)


@pytest.mark.parametrize(
    ("size", "spec", "sentence"),
    [
        pytest.param(
            1,
            {"cpu": "64"},
            "0/2 nodes are available: 2 Insufficient cpu. "
            "Each pod asks for cpu 64 (most free on one node: 4 of 4; no node is large enough).",
            id="impossible",
        ),
        pytest.param(
            3,
            {"cpu": "3"},
            "0/2 nodes are available. 2 of 3 identical pods fit now, and the gang of 3 starts whole. "
            "They need 3 nodes with cpu 3 free; 2 have them.",
            id="the gang is too large, each a node's",
        ),
        pytest.param(
            5,
            {"cpu": "2"},
            "0/2 nodes are available. 4 of 5 identical pods fit now, and the gang of 5 starts whole. "
            "Together they ask for cpu 10 (8 free on 2 nodes).",
            id="the gang is too large",
        ),
        pytest.param(
            1,
            {"nodeSelector": {"zone": "x"}},
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
            id="selector",
        ),
        pytest.param(
            1,
            {"gpus": 1},
            "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. "
            "Each pod asks for nvidia.com/gpu 1 (most free on one node: 0 of 0; no node is large enough).",
            id="no such resource",
        ),
    ],
)
def test_refusals_say_why(node, pod, cluster, size, spec, sentence):
    capacity = cluster(node("a"), node("b"))
    refusal = place(capacity, gang(pod, size, **spec))
    assert isinstance(refusal, Refusal)
    assert explain(capacity, refusal, size) == sentence


HUGE = ["1", "10P", "7E", "9223372036854775807", "1E", "1e30"]


@pytest.mark.parametrize("asked", HUGE)
@pytest.mark.parametrize("has", HUGE)
def test_no_quantity_is_too_large_to_count(node, pod, cluster, asked, has):
    capacity = cluster(node("n", resources={"cpu": has, "memory": has}))
    shape = shape_of(pod(cpu=asked))
    for number in range(100):
        capacity.assign(str(number), "n", guest_like(shape))
    outcome = place(capacity, {shape: 3})
    if isinstance(outcome, Refusal):
        assert "cpu" in explain(capacity, outcome, 3)
    for number in range(100):
        assert capacity.release(str(number))
    assert int(capacity.free_of("pods")[0]) == 110


@st.composite
def problems(draw):
    nodes = draw(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4)), max_size=8))
    shapes = draw(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 2), st.integers(1, 6)), min_size=1, max_size=3))
    return nodes, shapes


@settings(max_examples=2 * settings.default.max_examples, deadline=None)
@given(problems())
def test_a_placement_never_overcommits_and_places_everybody(problem):
    from tests.unit.gang.conftest import make_node, make_pod

    nodes, shapes = problem
    capacity = Capacity()
    for i, (cpu, gpus) in enumerate(nodes):
        capacity.set_node(make_node(f"n{i}", resources={"cpu": str(cpu), "nvidia.com/gpu": str(gpus)}))
    wanted: Counter[Shape] = Counter()
    for cpu, gpus, count in shapes:
        wanted[shape_of(make_pod(cpu=str(cpu), gpus=gpus))] += count
    outcome = place(capacity, wanted)
    if isinstance(outcome, Refusal):
        # One shape alone is exact: a refusal that claims a proof is one.
        assert outcome.proven == (
            int(capacity.count_fitting(outcome.shape).clip(max=wanted[outcome.shape]).sum()) < outcome.wanted
        )
        return
    for shape, count in wanted.items():
        placed = list(outcome.expand(shape))
        assert len(placed) == count
        for number, name in enumerate(placed):
            capacity.assign(f"{hash(shape)}-{number}", name, guest_like(shape))
    assert bool((capacity.free() >= 0).all())
    assert np.issubdtype(capacity.free().dtype, np.integer)


def test_a_small_gang_of_several_shapes_fits_where_no_order_of_them_does(node, pod, cluster):
    capacity = cluster(*(node(f"n{number}", resources={"cpu": "16"}) for number in range(3)))
    fives, sixes = shape_of(pod(cpu="5")), shape_of(pod(cpu="6"))
    outcome = place(capacity, {fives: 4, sixes: 4})
    assert isinstance(outcome, Placement)
    used: Counter[str] = Counter()
    for shape, cpus in ((fives, 5), (sixes, 6)):
        assert len(list(outcome.expand(shape))) == 4
        used.update({name: count * cpus for name, count in outcome.nodes[shape]})
    assert max(used.values()) <= 16


@pytest.mark.parametrize(
    ("nodes", "fives", "sixes", "proof", "said"),
    [
        pytest.param(3, 4, 5, True, "There is no way to fit the 9 pods", id="small"),
        pytest.param(30, 40, 60, False, "No way was found to fit the 100 pods", id="too large to look at all ways"),
    ],
)
def test_whether_a_refusal_of_several_shapes_is_a_proof_is_said(node, pod, cluster, nodes, fives, sixes, proof, said):
    capacity = cluster(*(node(f"n{number}", resources={"cpu": "16"}) for number in range(nodes)))
    refusal = place(capacity, {shape_of(pod(cpu="5")): fives, shape_of(pod(cpu="6")): sixes})
    assert isinstance(refusal, Refusal)
    assert isinstance(refusal, NoPacking) is proof
    sentence = explain(capacity, refusal, fives + sixes)
    assert said in sentence
    assert ("the search was cut short" in sentence) is not proof


def test_a_decision_that_has_no_effort_left_does_not_call_a_packing_impossible(node, pod, cluster):
    capacity = cluster(*(node(f"n{number}", resources={"cpu": "16"}) for number in range(3)))
    pods, effort = {shape_of(pod(cpu="5")): 4, shape_of(pod(cpu="6")): 4}, Effort(200)
    while effort.steps > 0:
        before = effort.steps
        place(capacity, pods, effort=effort)
        assert effort.steps < before
    outcome = place(capacity, pods, effort=effort)
    assert isinstance(outcome, Refusal)
    assert not isinstance(outcome, NoPacking)
    assert isinstance(place(capacity, pods), Placement)


@settings(max_examples=2 * settings.default.max_examples)
@given(
    cpus=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    sizes=st.lists(st.integers(1, 5), min_size=2, max_size=3, unique=True),
    data=st.data(),
)
def test_a_small_gang_of_several_shapes_is_placed_if_and_only_if_there_is_a_way(cpus, sizes, data):
    """On nodes of which one may take a single pod of it, or none."""
    capacity = Capacity()
    for number, cpu in enumerate(cpus):
        capacity.set_node(make_node(f"n{number}", resources={"cpu": str(cpu)}))
    wanted = data.draw(st.tuples(*[st.integers(1, 3)] * len(sizes)))
    shapes = [Shape(requests=(("cpu", 1000 * size), ("pods", 1))) for size in sizes]
    outcome = place(capacity, dict(zip(shapes, wanted, strict=True)))
    requests = [(size,) for size in sizes]
    assert isinstance(outcome, Placement) == exists([bin_of((cpu,), requests) for cpu in cpus], requests, wanted)
    if isinstance(outcome, Placement):
        used = Counter[str]()
        for shape, size in zip(shapes, sizes, strict=True):
            assert sum(count for _, count in outcome.nodes[shape]) == wanted[shapes.index(shape)]
            used.update({node: size * count for node, count in outcome.nodes[shape]})
        assert all(used[f"n{number}"] <= cpu for number, cpu in enumerate(cpus))
    else:
        assert outcome.proven or isinstance(outcome, NoPacking)
