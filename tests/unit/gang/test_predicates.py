"""Every predicate of kube-scheduler's default profile, beside an implementation that is plain and slow."""

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.oracle import open_nodes
from tests.worlds import Manifest, World, random_world

from muster.gang.explain import explain
from muster.gang.nodes.capacity import Capacity
from muster.gang.placement import Placement, Refusal, place
from muster.gang.shapes import guest_of, shape_of, shapes_of


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


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.randoms(use_true_random=False))
def test_a_pod_goes_where_the_plain_rules_let_it(random):
    world = random_world(random)
    assert decided(capacity_of(world), world) == open_nodes(world)


@pytest.mark.parametrize("seed", range(8))
def test_many_worlds(seed):
    random = Random(seed)
    for _ in range(150):
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


def ways(world: World, count: int, most: dict[str, int]) -> bool:
    """Whether so many pods like the one that waits can be placed in turn, at most so many of them on each node."""
    done: set[tuple[str, ...]] = set()

    def go(chosen: tuple[str, ...]) -> bool:
        if len(chosen) == count:
            return True
        if (state := tuple(sorted(chosen))) in done:
            return False
        done.add(state)
        placed = [
            {"metadata": world.pending["metadata"] | {"name": f"g{number}"}}
            | {"spec": world.pending["spec"] | {"nodeName": name}}
            for number, name in enumerate(chosen)
        ]
        now = replace(world, bound=[*world.bound, *placed])
        return any(go((*chosen, name)) for name in sorted(open_nodes(now)) if chosen.count(name) < most[name])

    return go(())


def look(world: World, count: int) -> None:
    """A gang of pods like the one that waits is placed if there is a way, and only as there is one."""
    capacity = capacity_of(world)
    pod = world.pending_object()
    (shape,) = set(shapes_of([pod], capacity.watched).values())
    outcome = place(capacity, {shape: count})
    if isinstance(outcome, Placement):
        most = {node["metadata"]["name"]: 0 for node in world.nodes} | dict(outcome.nodes[shape])
        assert sum(most.values()) == count
        assert ways(world, count, most), outcome
    elif outcome.proven:
        assert not ways(world, count, {node["metadata"]["name"]: count for node in world.nodes}), outcome
    assert explain_or_none(capacity, outcome, count) != ""


def explain_or_none(capacity, outcome, count):
    return None if isinstance(outcome, Placement) else explain(capacity, outcome, count)


@pytest.mark.parametrize("seed", range(6))
def test_a_gang_of_one_shape_is_placed_when_there_is_a_way(seed):
    """Pitfalls 24 and 25: all nodes are looked at, and what fits in sum but on no node does not fit."""
    random = Random(100 + seed)
    for _ in range(60):
        look(random_world(random), random.randint(2, 4))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.randoms(use_true_random=False), st.integers(2, 4))
def test_a_gang_of_one_shape_is_placed_when_there_is_a_way_found_by_search(random, count):
    look(random_world(random), count)


def test_several_rules_at_once_are_seldom_in_each_others_way():
    """One after the other finds nearly every way that there is: how often not is bounded."""
    random = Random(5)
    placed = missed = 0
    for _ in range(500):
        world, count = random_world(random), random.randint(2, 4)
        capacity = capacity_of(world)
        (shape,) = set(shapes_of([world.pending_object()], capacity.watched).values())
        outcome = place(capacity, {shape: count})
        placed += isinstance(outcome, Placement)
        if isinstance(outcome, Refusal) and not outcome.proven:
            missed += ways(world, count, {node["metadata"]["name"]: count for node in world.nodes})
    assert placed > 50
    assert missed <= placed // 50


@pytest.mark.parametrize("seed", range(4))
def test_the_order_in_which_things_are_heard_of_decides_nothing(seed):
    """Pitfall 23."""
    random = Random(200 + seed)
    for _ in range(60):
        world, count = random_world(random), random.randint(1, 4)
        shuffled = replace(
            world,
            nodes=random.sample(world.nodes, len(world.nodes)),
            bound=random.sample(world.bound, len(world.bound)),
        )
        outcomes = []
        for one in (world, shuffled):
            capacity = capacity_of(one)
            (shape,) = set(shapes_of([one.pending_object()], capacity.watched).values())
            outcome = place(capacity, {shape: count})
            nodes = outcome.nodes[shape] if isinstance(outcome, Placement) else outcome
            outcomes.append((decided(capacity, one), nodes))
        assert outcomes[0] == outcomes[1]


def valid(world: World, pods: list[Manifest], nodes: list[str]) -> bool:
    """Whether there is an order in which each of the pods may go to its node."""
    if not pods:
        return True
    for number, (pod, node) in enumerate(zip(pods, nodes, strict=True)):
        if node in open_nodes(replace(world, pending=pod)):
            bound = {"metadata": pod["metadata"], "spec": pod["spec"] | {"nodeName": node}}
            rest = [*pods[:number], *pods[number + 1 :]], [*nodes[:number], *nodes[number + 1 :]]
            if valid(replace(world, bound=[*world.bound, bound]), *rest):
                return True
    return False


@pytest.mark.parametrize("seed", range(6))
def test_a_gang_of_several_shapes_goes_only_where_its_pods_may_go_in_some_order(seed):
    random = Random(300 + seed)
    placed = 0
    for _ in range(60):
        world = random_world(random)
        others = [pod for pod in world.bound if pod["metadata"]["name"] not in world.leaving][:2]
        world = replace(world, bound=[pod for pod in world.bound if pod not in others])
        pods = [world.pending, world.pending | {"metadata": world.pending["metadata"] | {"name": "again"}}]
        for pod in others:
            spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
            selector = spec.get("nodeSelector", {}) | {"world": world.name}
            pods.append({"metadata": pod["metadata"], "spec": spec | {"nodeSelector": selector}})
        capacity = capacity_of(world)
        shapes = shapes_of([replace(world, pending=pod).pending_object() for pod in pods], capacity.watched)
        outcome = place(capacity, Counter(shapes.values()))
        if isinstance(outcome, Placement):
            placed += 1
            nodes = {shape: outcome.expand(shape) for shape in outcome.nodes}
            assert valid(world, pods, [next(nodes[shapes[pod["metadata"]["name"]]]) for pod in pods]), outcome
        elif outcome.proven and len(pods) == 2:
            assert explain(capacity, outcome, len(pods))
    assert placed > 2
