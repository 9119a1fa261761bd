"""Pods go to the nodes that their admission chose, or wait."""

import pytest
from tests.unit.gang.conftest import make_node, make_pod

from muster.gang.nodes.capacity import Capacity
from muster.gang.placement import Placement, Refusal
from muster.gang.shapes import guest_of, shape_of
from muster.queueing.model import Places
from muster.simulation.engine.nodes.pinning import index_hosts, pin, place_pinned

SMALL, LARGE = shape_of(make_pod(cpu="1")), shape_of(make_pod(cpu="3"))
HOST = "kubernetes.io/hostname"


def places(*domains, levels=(HOST,)):
    return Places("main", ("f",), levels, (), tuple(((host,), count) for host, count in domains))


def test_the_hosts_of_all_podsets_are_pinned():
    pins = pin([SMALL, LARGE, SMALL], [places(("h1", 2)), places(("h2", 1)), places(("h1", 1))], {"h1": "a", "h2": "b"})
    assert pins == {SMALL: (("a", 3),), LARGE: (("b", 1),)}


@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param(None, id="a podset has no place"),
        pytest.param(places(("r", 1), levels=("rack",)), id="the lowest level is a rack"),
        pytest.param(places(("h3", 1)), id="no one node has the host name"),
    ],
)
def test_nothing_is_pinned_unless_every_pod_has_a_node(chosen):
    assert pin([SMALL, LARGE], [places(("h1", 1)), chosen], {"h1": "a"}) is None


def test_a_host_name_of_two_nodes_names_neither():
    assert index_hosts([("a", {HOST: "h1"}), ("b", {HOST: "h1"}), ("c", {HOST: "h2"}), ("d", {})]) == {"h2": "c"}


def test_pods_fit_on_their_own_nodes_alone_and_beside_each_other():
    capacity = Capacity()
    for name in ("a", "b", "free"):
        capacity.set_node(make_node(name))
    assert place_pinned(capacity, {SMALL: (("a", 4),)}, None) == Placement({SMALL: (("a", 4),)})
    assert isinstance(place_pinned(capacity, {SMALL: (("a", 5),)}, None), Refusal)
    both = {SMALL: (("a", 2),), LARGE: (("a", 1), ("b", 1))}
    refusal = place_pinned(capacity, both, None)
    assert isinstance(refusal, Refusal)
    assert (refusal.shape, refusal.wanted, refusal.fits) == (LARGE, 2, 1)
    capacity.assign("other", "b", guest_of(make_pod("other", cpu="2")))
    refusal = place_pinned(capacity, {LARGE: (("b", 1),)}, None)
    assert isinstance(refusal, Refusal)
    taken = -capacity.sum_use(shape_of(make_pod(cpu="2")), capacity.counts({"b": 1}))
    assert isinstance(place_pinned(capacity, {LARGE: (("b", 1),)}, taken), Placement), "once the other is gone"
    assert isinstance(place_pinned(capacity, {LARGE: (("gone", 1),)}, None), Refusal)
