"""What gang schedulers get wrong in placing, by the numbers of the list that the project keeps: 22 to 26, and 35."""

from msgspec.structs import replace
from tests.unit.gang.conftest import make_node, make_pod

from muster.gang.explain import explain
from muster.gang.nodes.capacity import Capacity
from muster.gang.placement import Placement, Refusal, place
from muster.gang.shapes import guest_like, shape_of


def cluster(*nodes):
    capacity = Capacity()
    for one in nodes:
        capacity.set_node(one)
    return capacity


def test_22_no_tolerance_adds_up_to_overcommitment():
    capacity = cluster(make_node("n", resources={"cpu": "10", "pods": "5000"}))
    shape = shape_of(make_pod(cpu="10m"))
    assert isinstance(place(capacity, {shape: 1000}), Placement)
    assert isinstance(place(capacity, {shape: 1001}), Refusal)
    for number in range(1000):
        capacity.assign(str(number), "n", guest_like(shape))
    assert int(capacity.free_of("cpu")[0]) == 0
    assert isinstance(place(capacity, {shape_of(make_pod(cpu="1m")): 1}), Refusal)


def test_23_the_order_in_which_nodes_were_heard_of_decides_nothing():
    names = [f"n{number}" for number in range(20)]
    outcomes = []
    for order in (names, names[::-1]):
        outcome = place(cluster(*(make_node(name) for name in order)), {shape_of(make_pod()): 30})
        assert isinstance(outcome, Placement)
        outcomes.append(outcome.nodes)
    assert outcomes[0] == outcomes[1]


def test_24_no_node_is_left_out_of_the_search():
    capacity = cluster(*(make_node(f"n{number}", resources={"cpu": "1"}) for number in range(3000)))
    assert isinstance(place(capacity, {shape_of(make_pod()): 3000}), Placement)
    assert isinstance(place(capacity, {shape_of(make_pod()): 3001}), Refusal)


def test_25_what_is_free_in_sum_but_on_no_node_is_not_enough_and_that_is_said():
    capacity = cluster(*(make_node(f"n{number}", resources={"cpu": "3"}) for number in range(4)))
    shape = shape_of(make_pod(cpu="2"))
    refusal = place(capacity, {shape: 6})
    assert isinstance(refusal, Refusal)
    assert refusal.proven
    assert explain(capacity, refusal, 6) == (
        "0/4 nodes are available. 4 of 6 identical pods fit now, and the gang of 6 starts whole. "
        "They need 6 nodes with cpu 2 free; 4 have them."
    )


def test_26_another_order_is_tried_and_that_no_other_packing_exists_is_said():
    capacity = cluster(make_node("a", resources={"cpu": "4"}), make_node("b", resources={"cpu": "3"}))
    large, small = shape_of(make_pod(cpu="3")), shape_of(make_pod(cpu="2"))
    assert isinstance(place(capacity, {small: 2, large: 1}), Placement)
    refusal = place(capacity, {small: 2, large: 2})
    assert isinstance(refusal, Refusal)
    assert not refusal.proven
    assert "There is no way to fit the 4 pods of the gang together" in explain(capacity, refusal, 4)


SELECTOR = {"matchLabels": {"app": "x"}}


def spread(key):
    return {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}


def apart(key):
    term = {"topologyKey": key, "labelSelector": SELECTOR}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def looking(**spec):
    pod = make_pod(**spec)
    return shape_of(replace(pod, metadata=replace(pod.metadata, namespace="ns", labels={"app": "x"})))


def racks(*names):
    """Two nodes in each rack; the first letter is the zone."""
    labels = [{"zone": name[0], "rack": name} for name in names for _ in range(2)]
    return cluster(*(make_node(f"n{number}", labels=one) for number, one in enumerate(labels)))


def test_35_rules_that_no_node_knows_alone_are_kept_pod_by_pod_and_that_is_said():
    """Two rules at once between the pods of a gang: they are placed one after the other."""
    shape = looking(topologySpreadConstraints=[spread("zone"), spread("rack")])
    outcome = place(racks("a1", "a2", "b1", "b2"), {shape: 6})
    assert isinstance(outcome, Placement)
    assert sum(count for _, count in outcome.nodes[shape]) == 6
    capacity = racks("a1", "b1", "b2", "b3")
    shape = looking(topologySpreadConstraints=[spread("zone")], affinity=apart("rack"))
    assert isinstance(place(capacity, {shape: 3}), Placement)
    refusal = place(capacity, {shape: 4})
    assert isinstance(refusal, Refusal)
    assert not refusal.proven
    assert explain(capacity, refusal, 4).endswith(
        "No way was found to fit the 4 pods of the gang together, one after the other; 3 found a node."
    )
    refusal = place(capacity, {shape: 5})
    assert isinstance(refusal, Refusal)
    assert (refusal.proven, refusal.fits) == (True, 4), "one of the rules alone shows it"


def test_35_pods_with_several_rules_between_them_do_not_hold_up_all_others(monkeypatch):
    monkeypatch.setattr("muster.gang.fit.filling.MOST_TURNS", 50)
    monkeypatch.setattr("muster.gang.explain.MOST_TURNS", 50)
    capacity = racks("a1", "a2", "b1", "b2")
    shape = looking(topologySpreadConstraints=[spread("zone"), spread("rack")])
    assert isinstance(place(capacity, {shape: 3}), Placement)
    refusal = place(capacity, {shape: 4})
    assert isinstance(refusal, Refusal)
    assert not refusal.proven
    assert "have several rules between them, and are too many" in explain(capacity, refusal, 4)
