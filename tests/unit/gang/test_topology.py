"""Gangs that keep together: domains, best fit, levels upwards, replacement where the others run."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.gang.conftest import make_node, make_pod

from muster.gang import topology
from muster.gang.explain import explain
from muster.gang.nodes.capacity import Capacity
from muster.gang.nodes.domains import NOWHERE, list_levels
from muster.gang.placement import Placement, Refusal, place
from muster.gang.shapes import Shape, shape_of
from muster.gang.topology import NoDomain, TopologyConstraint, place_near

LEVELS = ("block", "rack", "host")


def required(level):
    return TopologyConstraint(LEVELS, required=level)


def preferred(level):
    return TopologyConstraint(LEVELS, preferred=level)


def racks(*sizes, without=()):
    """A cluster with a host for each size: `b1-r1-h1` and so on, from lists of blocks of racks of CPUs of hosts."""
    capacity = Capacity()
    for b, block in enumerate(sizes, 1):
        for r, rack in enumerate(block, 1):
            for h, cpus in enumerate(rack, 1):
                name = f"b{b}-r{r}-h{h}"
                labels = {"block": f"b{b}", "rack": f"r{r}", "host": name}
                kept = {label: value for label, value in labels.items() if (name, label) not in without}
                capacity.set_node(make_node(name, labels=kept, resources={"cpu": str(cpus)}))
    return capacity


def nodes_of(outcome):
    assert isinstance(outcome, Placement), outcome
    return {node: count for nodes in outcome.nodes.values() for node, count in nodes}


def domains_of(outcome, level):
    return {tuple((node[:2], node[3:5], node)[: LEVELS.index(level) + 1]) for node in nodes_of(outcome)}


def test_domains_are_numbered_by_name_and_named_from_the_widest_level():
    nodes = [
        {"block": "b", "rack": "1"},
        {"block": "a", "rack": "1"},
        None,
        {"block": "a"},
        {"rack": "1"},
        {"block": "a", "rack": "1"},
    ]
    block, rack = list_levels(nodes, ("block", "rack"))
    assert block.names == (("a",), ("b",))
    assert list(block.of_node) == [1, 0, NOWHERE, 0, NOWHERE, 0]
    assert rack.names == (("a", "1"), ("b", "1")), "two blocks may each have a rack 1"
    assert list(rack.of_node) == [1, 0, NOWHERE, NOWHERE, NOWHERE, 0]
    assert list(rack.parents) == [0, 1]
    assert list(rack.totals(np.arange(6))) == [6, 0]


# Two blocks of two racks of two hosts; the number is the CPUs of a host, and each pod asks for one.
SMALL = ([[2, 2], [3, 3]], [[1, 1], [4, 4]])


@pytest.mark.parametrize(
    ("constraint", "count", "expected"),
    [
        pytest.param(required("rack"), 2, {"b2-r1"}, id="the tightest rack that takes it"),
        pytest.param(required("rack"), 4, {"b1-r1"}, id="tightest again"),
        pytest.param(required("rack"), 5, {"b1-r2"}, id="one more needs the next"),
        pytest.param(required("rack"), 8, {"b2-r2"}, id="the roomiest, exactly full"),
        pytest.param(required("rack"), 9, None, id="no rack takes nine"),
        pytest.param(required("block"), 9, {"b1-r1", "b1-r2"}, id="a block: both have room for ten"),
        pytest.param(required("block"), 11, None, id="no block takes eleven"),
        pytest.param(required("host"), 4, {"b2-r2"}, id="one host"),
        pytest.param(required("host"), 5, None, id="no host takes five"),
        pytest.param(preferred("rack"), 8, {"b2-r2"}, id="preferred, and there is one"),
        pytest.param(preferred("rack"), 9, {"b1-r1", "b1-r2"}, id="preferred: a level up"),
        pytest.param(preferred("rack"), 14, {"b1-r2", "b2-r2"}, id="over blocks: as few racks as can be"),
        pytest.param(preferred("host"), 5, {"b1-r2"}, id="preferred host: one rack"),
        pytest.param(preferred("block"), 20, {"b1-r1", "b1-r2", "b2-r1", "b2-r2"}, id="all there is"),
        pytest.param(preferred("block"), 21, None, id="more than there is"),
        pytest.param(TopologyConstraint(LEVELS), 20, {"b1-r1", "b1-r2", "b2-r1", "b2-r2"}, id="no constraint"),
    ],
)
def test_the_tightest_domain_takes_the_whole_gang(constraint, count, expected):
    gang = {shape_of(make_pod(cpu="1")): count}
    outcome = place_near(racks(*SMALL), gang, constraint)
    if expected is None:
        assert isinstance(outcome, Refusal)
        assert outcome.proven
    else:
        assert sum(nodes_of(outcome).values()) == count
        assert {node[:5] for node in nodes_of(outcome)} == expected


@pytest.mark.parametrize(
    ("constraint", "count", "sentence"),
    [
        pytest.param(
            required("rack"), 9, "All pods have to be in one domain of rack: the roomiest, b2/r2, takes 8 of 9."
        ),
        pytest.param(required("host"), 6, "in one domain of host: the roomiest, b2/r2/b2-r2-h1, takes 4 of 6."),
    ],
)
def test_a_refusal_tells_the_best_there_is(constraint, count, sentence):
    capacity = racks(*SMALL)
    refusal = place_near(capacity, {shape_of(make_pod(cpu="1")): count}, constraint)
    assert isinstance(refusal, NoDomain)
    assert explain(capacity, refusal, count).startswith(f"0/8 nodes are available for the gang of {count} together.")
    assert sentence in explain(capacity, refusal, count)


def test_what_does_not_fit_the_cluster_is_refused_for_that():
    refusal = place_near(racks(*SMALL), {shape_of(make_pod(cpu="1")): 21}, required("rack"))
    assert isinstance(refusal, Refusal)
    assert not isinstance(refusal, NoDomain)
    assert (refusal.fits, refusal.wanted) == (20, 21)


@pytest.mark.parametrize(
    ("constraint", "running", "count", "expected"),
    [
        pytest.param(required("rack"), ["b1-r1-h1"] * 3, 1, {"b1-r1"}, id="where the others run, though not tightest"),
        pytest.param(required("rack"), ["b1-r1-h1"], 1, {"b1-r1"}, id="where one other runs"),
        pytest.param(required("rack"), ["b1-r1-h1"] * 3, 5, None, id="required: only there"),
        pytest.param(preferred("rack"), ["b1-r1-h1"] * 3, 5, {"b1-r2"}, id="preferred: their block then"),
        pytest.param(preferred("rack"), ["b1-r1-h1"], 12, {"b1-r1", "b2-r2"}, id="preferred: anywhere in the end"),
        pytest.param(required("rack"), ["b1-r1-h1", "b1-r2-h1", "b1-r2-h1"], 2, {"b1-r2"}, id="where most run"),
        pytest.param(required("rack"), ["gone"], 2, {"b2-r1"}, id="a node that is gone says nothing"),
    ],
)
def test_a_lost_member_goes_where_the_others_run(constraint, running, count, expected):
    gang = {shape_of(make_pod(cpu="1")): count}
    outcome = place_near(racks(*SMALL), gang, constraint, running=running)
    if expected is None:
        assert isinstance(outcome, NoDomain)
        assert outcome.sentence == (
            "All pods have to be in one domain of rack: b1/r1, where the others run, takes 4 of 5."
        )
    else:
        assert {node[:5] for node in nodes_of(outcome)} == expected


def test_nodes_that_may_not_be_used_or_are_taken_do_not_count():
    capacity = racks(*SMALL)
    gang = {shape_of(make_pod(cpu="1")): 4}
    within = np.array([name is not None and not name.startswith("b1-r1") for name in capacity.names])
    assert {node[:5] for node in nodes_of(place_near(capacity, gang, required("rack"), within=within))} == {"b1-r2"}
    extra_use = capacity.sum_use(next(iter(gang)), capacity.counts({"b1-r1-h2": 1}))
    assert {node[:5] for node in nodes_of(place_near(capacity, gang, required("rack"), extra_use=extra_use))} == {
        "b1-r2"
    }


def test_nodes_without_a_label_are_in_no_domain_and_the_last_resort_of_who_only_prefers_one():
    capacity = racks([[1, 4]], without={("b1-r1-h2", "rack")})
    gang = {shape_of(make_pod(cpu="1")): 4}
    assert isinstance(place_near(capacity, gang, required("rack")), NoDomain)
    assert nodes_of(place_near(capacity, gang, preferred("rack"))) == {"b1-r1-h2": 4}
    bare = racks([[4]], without={("b1-r1-h1", "block")})
    assert nodes_of(place_near(bare, gang, preferred("rack"))) == {"b1-r1-h1": 4}
    refusal = place_near(bare, gang, required("rack"))
    assert isinstance(refusal, NoDomain)
    assert (refusal.fits, refusal.wanted, refusal.domain) == (0, 4, ())
    assert refusal.sentence == "No node that the pods may use has the labels of topology level rack."


def test_a_gang_of_several_shapes_keeps_together():
    capacity = racks([[2, 2], [4, 1]], [[3, 3]])
    big, small = shape_of(make_pod(cpu="3")), shape_of(make_pod(cpu="1"))
    assert {node[:5] for node in nodes_of(place_near(capacity, {small: 2, big: 1}, required("rack")))} == {"b1-r2"}
    assert {node[:5] for node in nodes_of(place_near(capacity, {big: 2}, required("rack")))} == {"b2-r1"}
    refusal = place_near(capacity, {small: 3, big: 1}, required("rack"))
    assert isinstance(refusal, Placement)
    refusal = place_near(capacity, {small: 3, big: 2}, required("rack"))
    assert isinstance(refusal, NoDomain)
    assert not refusal.proven
    assert "no way was found to fit all" in refusal.sentence


@pytest.mark.parametrize(
    ("constraint", "problem"),
    [
        (TopologyConstraint(LEVELS, required="zone"), "no topology level for label: zone"),
        (TopologyConstraint(LEVELS, preferred="zone"), "no topology level for label: zone"),
        (TopologyConstraint(LEVELS, "rack", "rack"), "the topology is either required or preferred, not both"),
        (required("rack"), ""),
        (TopologyConstraint(LEVELS), ""),
    ],
)
def test_what_is_wrong_with_a_constraint(constraint, problem):
    assert constraint.problem == problem


clusters = st.lists(
    st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3), min_size=1, max_size=3), min_size=1, max_size=3
)


def room(capacity, shape, level):
    """By domain, how many pods of a shape it takes."""
    rooms: dict[tuple[str, ...], int] = {}
    for index, traits in enumerate(capacity.traits):
        if traits is not None:
            labels = dict(traits.labels)
            domain = tuple(labels[label] for label in LEVELS[: LEVELS.index(level) + 1])
            rooms[domain] = rooms.get(domain, 0) + int(capacity.count_fitting(shape)[index])
    return rooms


@given(clusters, st.sampled_from(LEVELS), st.integers(1, 12), st.integers(1, 2))
def test_like_pods_get_a_domain_whenever_one_takes_them(sizes, level, count, cpu):
    capacity, shape = racks(*sizes), shape_of(make_pod(cpu=str(cpu)))
    rooms = room(capacity, shape, level)
    outcome = place_near(capacity, {shape: count}, required(level))
    enough = [have for have in rooms.values() if have >= count]
    if not enough:
        assert isinstance(outcome, Refusal)
        assert isinstance(outcome, NoDomain) == (sum(rooms.values()) >= count)
        if isinstance(outcome, NoDomain):
            assert outcome.fits == max(rooms.values())
        return
    used = domains_of(outcome, level)
    assert len(used) == 1
    assert rooms[used.pop()] == min(enough)


@settings(max_examples=2 * settings.default.max_examples)
@given(clusters, st.integers(1, 30))
def test_who_prefers_a_rack_starts_whenever_there_is_room_in_as_few_racks_as_can_be(sizes, count):
    capacity, shape = racks(*sizes), shape_of(make_pod(cpu="1"))
    outcome = place_near(capacity, {shape: count}, preferred("rack"))
    blocks, each = room(capacity, shape, "block"), room(capacity, shape, "rack")
    if sum(each.values()) < count:
        assert isinstance(outcome, Refusal)
        return
    nodes = nodes_of(outcome)
    assert sum(nodes.values()) == count
    used = {tuple(node.split("-")[:2]) for node in nodes}
    if any(have >= count for have in blocks.values()):
        assert len({block for block, _ in used}) == 1
        block = next(iter(used))[0]
        inside = [have for domain, have in each.items() if domain[0] == block]
        least = next(n for n in range(1, 9) if any(sum(some) >= count for some in combinations(inside, n)))
        assert len(used) == least
    else:
        least = next(n for n in range(1, 9) if any(sum(some) >= count for some in combinations(blocks.values(), n)))
        assert len({block for block, _ in used}) == least


@given(clusters, st.sampled_from(LEVELS), st.integers(1, 12), st.booleans(), st.randoms(use_true_random=False))
def test_the_order_in_which_nodes_are_heard_of_does_not_matter(sizes, level, count, must, random):
    capacity, shuffled = racks(*sizes), Capacity()
    heard = [traits for traits in capacity.traits if traits is not None]
    cpus = {traits.name: int(capacity.allocatable_of("cpu")[i]) for i, traits in enumerate(capacity.traits) if traits}
    random.shuffle(heard)
    for traits in heard:
        resources = {"cpu": f"{cpus[traits.name]}m"}
        shuffled.set_node(make_node(traits.name, labels=dict(traits.labels), resources=resources))
    gang: dict[Shape, int] = {shape_of(make_pod(cpu="1")): count}
    constraint = required(level) if must else preferred(level)
    one, other = (place_near(world, gang, constraint) for world in (capacity, shuffled))
    assert type(one) is type(other)
    if isinstance(one, Placement):
        assert domains_of(one, level) == domains_of(other, level)


def test_pods_that_keep_apart_need_a_rack_with_as_many_hosts():
    capacity = racks([[8], [2, 2, 2]])
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "x"}}}
    pod = make_pod(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    shape = shape_of(replace(pod, metadata=replace(pod.metadata, namespace="ns", labels={"app": "x"})))
    assert domains_of(place_near(capacity, {shape: 3}, required("rack")), "rack") == {("b1", "r2")}
    refusal = place_near(capacity, {shape: 4}, required("rack"))
    assert isinstance(refusal, NoDomain)
    assert (refusal.domain, refusal.fits) == (("b1", "r2"), 3)


LESS, MORE = shape_of(make_pod(cpu="2")), shape_of(make_pod(cpu="3"))


@pytest.mark.parametrize(
    ("large", "constraint", "pods", "hosts"),
    [
        pytest.param(0, preferred("host"), 200, 300, id="half of the hosts, and more than each shape needs alone"),
        pytest.param(1, required("host"), 1, 1, id="the last host that is tried"),
        pytest.param(0, required("host"), 1, None, id="none: each shape has room on every host, both on none"),
    ],
)
def test_not_every_domain_is_tried_for_a_gang_of_several_shapes(monkeypatch, large, constraint, pods, hosts):
    tries = []

    def counted(*args, **more):
        tries.append(args)
        return place(*args, **more)

    monkeypatch.setattr(topology, "place", counted)
    capacity = racks([[4] * 600 + [8] * large])
    found = place_near(capacity, {LESS: pods, MORE: pods}, constraint)
    if hosts is None:
        assert isinstance(found, NoDomain)
        assert not found.proven
    else:
        assert len(nodes_of(found)) == hosts
    assert len(tries) < 80
