"""Every predicate of kube-scheduler's default profile, beside an implementation that is plain and slow."""

from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.oracle import open_nodes
from tests.worlds import World, random_world

from muster.gang.capacity import Capacity
from muster.gang.placement import Placement, place
from muster.gang.shapes import guest_of, shape_of


def capacity_of(world: World) -> Capacity:
    """All of a world but the pod that waits."""
    capacity = Capacity()
    for node in world.node_objects():
        capacity.set_node(node)
    for pod in world.bound_objects():
        capacity.assign(pod.metadata.uid, pod.spec.node_name, guest_of(pod))
    for one in world.namespaces:
        capacity.set_namespace(one["metadata"]["name"], one["metadata"]["labels"])
    for volume in world.volume_objects():
        capacity.set_volume(volume.metadata.name, volume)
    for claim in world.claim_objects():
        capacity.set_claim(f"{claim.metadata.namespace}/{claim.metadata.name}", claim)
    return capacity


def decided(capacity: Capacity, world: World) -> set[str]:
    """The nodes on which placement would put the pod that waits, if asked for that node alone."""
    shape = shape_of(world.pending_object(), capacity.watched)
    found = set()
    for index, name in enumerate(capacity.names):
        only = np.arange(len(capacity.names)) == index
        if name is not None and isinstance(place(capacity, {shape: 1}, within=only), Placement):
            found.add(name)
    return found


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.randoms(use_true_random=False))
def test_a_pod_goes_where_the_plain_rules_let_it(random):
    world = random_world(random)
    assert decided(capacity_of(world), world) == open_nodes(world)


@pytest.mark.parametrize("seed", range(8))
def test_many_worlds(seed):
    random = Random(seed)
    for _ in range(400):
        world = random_world(random)
        assert decided(capacity_of(world), world) == open_nodes(world), world


def test_the_worlds_are_neither_all_open_nor_all_closed():
    random = Random(7)
    worlds = [random_world(random) for _ in range(300)]
    some = sum(0 < len(open_nodes(world)) < len(world.nodes) for world in worlds)
    none = sum(not open_nodes(world) for world in worlds)
    assert some > 60
    assert none > 60
    assert some + none < 290
