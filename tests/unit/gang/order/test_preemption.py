"""Whom a gang displaces."""

from itertools import combinations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.gang.conftest import make_node, make_pod

from muster.api.core import Pod
from muster.gang.nodes.capacity import Capacity
from muster.gang.nodes.holdings import Holdings
from muster.gang.order import preemption
from muster.gang.order.preemption import (
    Candidate,
    DisruptionBudget,
    GangPreemption,
    Protected,
    compute_resistance,
    compute_strength,
    preempt,
    protected_until,
)
from muster.gang.placement import Placement, Refusal, place, sum_placement_use
from muster.gang.quorum import Quorum
from muster.gang.shapes import guest_of, shape_of


def shape(cpu=1):
    return shape_of(make_pod(cpu=str(cpu)))


class World:
    """Nodes with so many CPUs, and the gangs that run there."""

    def __init__(self, *cpus):
        self.capacity = Capacity()
        for number, cpu in enumerate(cpus):
            self.capacity.set_node(make_node(f"n{number}", resources={"cpu": str(cpu)}))
        self.gangs = {}

    def runs(self, name, nodes, *, priority=0, least=None, started=0.0, cpu=1, gpus=0, **more):
        """One pod on each of these nodes; `least`: how many it needs, all if nothing is said."""
        uids = [f"{name}{number}" for number in range(len(nodes))]
        for uid, node in zip(uids, nodes, strict=True):
            self.capacity.assign(uid, f"n{node}", guest_of(make_pod(uid, cpu=str(cpu), gpus=gpus)))
        quorums = () if least is None else (Quorum(frozenset(uids), least),)
        self.gangs[name] = Candidate(name, uids, priority, started, more.pop("quorums", quorums), **more)
        return self

    @property
    def nothing(self):
        return np.zeros_like(self.capacity.free())

    def preempt(self, pods, *, strength=10, now=0.0, extra_use=None, budgets=(), within=None, gangs=None):
        pods = pods if isinstance(pods, dict) else {shape(): pods}
        mask = None if within is None else np.isin(np.arange(len(self.capacity.names)), within)
        extra_use = self.nothing if extra_use is None else extra_use
        return preempt(
            self.capacity,
            pods,
            self.placing(pods, mask),
            strength,
            list(self.gangs.values()) if gangs is None else gangs,
            now,
            extra_use=extra_use,
            budgets=budgets,
        )

    def placing(self, pods, mask):
        def placing(extra_use, gone):
            with self.capacity.guests.without(gone):
                return place(self.capacity, pods, within=mask, extra_use=extra_use)

        return placing

    def victims(self, pods, **how):
        found = self.preempt(pods, **how)
        assert isinstance(found, GangPreemption)
        return {pod for pods in found.victims.values() for pod in pods}


class TestWho:
    """Those of lower priority, the least important, and no more than it takes."""

    def test_takes_the_least_important(self):
        world = World(4).runs("high", [0], priority=5).runs("old", [0], started=1).runs("young", [0], started=2)
        assert world.victims(2) == {"young0"}, "one CPU is free"

    def test_pitfall_12_who_resists_as_much_is_not_displaced(self):
        world = World(2).runs("equal", [0, 0], priority=10)
        assert isinstance(world.preempt(1), Refusal)

    def test_whole_gangs_go_or_stay(self):
        world = World(2, 2).runs("gang", [0, 0, 1, 1])
        assert world.victims(1) == {"gang0", "gang1", "gang2", "gang3"}

    def test_those_that_are_no_help_stay(self):
        world = World(2, 2, 1).runs("a", [0, 0]).runs("b", [1, 1]).runs("tiny", [2], started=9)
        assert world.victims({shape(2): 1}) in ({"a0", "a1"}, {"b0", "b1"})

    def test_none_goes_if_that_does_not_help(self):
        world = World(2, 2).runs("a", [0, 0]).runs("b", [1], priority=20)
        found = world.preempt(4)
        assert isinstance(found, Refusal)
        assert (found.fits, found.wanted) == (3, 4)

    def test_pitfall_11_none_goes_while_what_is_leaving_is_enough(self):
        world = World(2).runs("leaving", [0, 0])
        freed = Holdings.of(world.capacity, [world.gangs.pop("leaving").pods]).freed()
        world.runs("weak", [])
        found = world.preempt(2, extra_use=freed)
        assert isinstance(found, GangPreemption)
        assert not found.victims

    def test_what_is_kept_for_others_is_not_free(self):
        world = World(3).runs("a", [0]).runs("b", [0], started=1)
        kept = world.capacity.sum_use(shape(), np.where(np.arange(len(world.capacity.names)) == 0, 1, 0))
        assert world.victims(1) == set()
        assert world.victims(1, extra_use=kept) == {"b0"}

    def test_pitfall_11_victims_and_place_are_one_decision(self):
        world = World(2, 2).runs("a", [0, 0], priority=1).runs("b", [1, 1])
        found = world.preempt(2)
        assert isinstance(found, GangPreemption)
        assert (found.victims, found.placement.nodes) == ({"b": ("b0", "b1")}, {shape(): (("n1", 2),)})

    def test_a_gang_that_has_hardly_begun_is_left_alone(self):
        world = World(1).runs("a", [0], protected=60)
        assert isinstance(world.preempt(1, now=59), Refusal)
        assert world.victims(1, now=60) == {"a0"}

    def test_in_one_domain_only_those_there_go(self):
        world = World(2, 2).runs("a", [0, 0]).runs("b", [1, 1], priority=5)
        assert world.victims(2, within=[1]) == {"b0", "b1"}

    def test_several_shapes_are_looked_at_together(self):
        """Each of two shapes alone would leave both small gangs where they are."""
        world = World(4, 4).runs("a", [0, 0], started=1).runs("b", [1, 1], started=2)
        pods = {shape(2): 2, shape(1): 2}
        assert world.victims(pods) == {"b0", "b1"}


class TestSurplus:
    """What a gang has above its minimum goes first, and it is counted down."""

    def test_pitfall_10_two_victims_of_one_gang_are_not_both_surplus(self):
        world = World(4, 4).runs("gang", [0, 0, 0, 0], least=3).runs("other", [1, 1, 1, 1])
        assert world.victims(1) == {"gang3"}
        assert world.victims(2) == {f"gang{n}" for n in range(4)} or world.victims(2) == {f"other{n}" for n in range(4)}

    def test_comes_before_whole_gangs_of_less_importance(self):
        world = World(2, 2).runs("whole", [0, 0]).runs("spare", [1, 1], least=1, priority=5)
        assert world.victims(1) == {"spare1"}

    def test_goes_with_the_rest(self):
        world = World(4).runs("gang", [0, 0, 0, 0], least=2)
        assert world.victims(3) == {f"gang{n}" for n in range(4)}

    def test_each_role_keeps_what_it_needs(self):
        quorums = (Quorum(frozenset({"g0"}), 1), Quorum(frozenset({"g1", "g2", "g3"}), 1))
        world = World(4).runs("g", [0, 0, 0, 0], quorums=quorums)
        assert world.victims(2) == {"g2", "g3"}

    def test_a_gang_that_needs_none_loses_pod_by_pod(self):
        world = World(4).runs("gang", [0, 0, 0, 0], least=0)
        assert world.victims(1) == {"gang3"}
        assert world.victims(4) == {f"gang{n}" for n in range(4)}

    def test_a_gang_that_is_broken_already_has_nothing_to_lose(self):
        quorums = (Quorum(frozenset({"g0", "g1", "gone"}), 3),)
        world = World(2).runs("g", [0, 0], quorums=quorums)
        assert world.victims(1) == {"g1"}


class TestBudgets:
    """PodDisruptionBudgets are kept to."""

    def test_what_they_protect_comes_back_first(self):
        world = World(2, 2).runs("a", [0, 0], priority=5).runs("b", [1, 1])
        assert world.victims(2, budgets=[DisruptionBudget("ns/b", 1, {"b0", "b1"})]) == {"a0", "a1"}

    def test_none_goes_if_they_protect_all(self):
        world = World(2).runs("a", [0, 0])
        found = world.preempt(
            1, budgets=[DisruptionBudget("ns/a", 1, {"a0", "a1"}), DisruptionBudget("ns/b", 9, {"a0"})]
        )
        assert found == Protected(("ns/a",))

    def test_what_they_allow_may_go(self):
        world = World(2).runs("a", [0, 0])
        assert world.victims(1, budgets=[DisruptionBudget("ns/a", 2, {"a0", "a1"})]) == {"a0", "a1"}

    def test_they_are_counted_down_over_all_victims(self):
        world = World(1, 1, 1).runs("a", [0]).runs("b", [1]).runs("c", [2])
        budget = DisruptionBudget("ns/all", 2, {"a0", "b0", "c0"})
        assert len(world.victims(2, budgets=[budget])) == 2
        assert isinstance(world.preempt(3, budgets=[budget]), Protected)

    def test_it_does_not_matter_which_of_their_pods_must_go(self):
        world = World(1, 2).runs("a", [0], started=2).runs("b", [1, 1], started=1)
        assert world.victims({shape(2): 1}, budgets=[DisruptionBudget("ns/all", 2, {"a0", "b0", "b1"})]) == {"b0", "b1"}


class TestPriorities:
    """Pitfall 30: members of different priorities."""

    def pod(self, priority, policy=None, **metadata):
        base = msgspec.to_builtins(make_pod())
        base["metadata"] |= metadata
        base["spec"] |= {"priority": priority, "preemptionPolicy": policy}
        return msgspec.convert(base, Pod)

    def test_pitfall_30_a_gang_is_as_strong_as_its_least_and_resists_as_its_greatest_member(self):
        mixed = [self.pod(1), self.pod(9)]
        assert (compute_strength(mixed), compute_resistance(mixed)) == (1, 9)

    @given(st.lists(st.integers(0, 3), min_size=1), st.lists(st.integers(0, 3), min_size=1))
    def test_pitfall_12_no_gang_displaces_one_that_displaced_it(self, one, other):
        one, other = [self.pod(n) for n in one], [self.pod(n) for n in other]

        def stronger(gang, than):
            strong, resists = compute_strength(gang), compute_resistance(than)
            assert strong is not None
            assert resists is not None
            return strong > resists

        assert not (stronger(one, other) and stronger(other, one))

    def test_a_policy_of_never_is_kept_to(self):
        assert compute_strength([self.pod(5, "PreemptLowerPriority"), self.pod(5, "Never")]) is None

    @pytest.mark.parametrize("where", ["labels", "annotations"])
    def test_pods_that_may_not_be_displaced_are_not(self, where):
        kept = self.pod(0, **{where: {"volcano.sh/preemptable": "false"}})
        free = self.pod(0, **{where: {"volcano.sh/preemptable": "true"}})
        assert (compute_resistance([kept, free]), compute_resistance([free])) == (None, 0)

    @pytest.mark.parametrize(
        ("text", "expected"), [("10m", 700), ("1m", 400), ("soon", 400), ("", 400), ("-5m", 400), ("9" * 400, 400)]
    )
    def test_the_longer_of_its_own_and_the_common_time_protects_a_pod(self, text, expected):
        pod = self.pod(0, annotations={"volcano.sh/cooldown-time": text})
        assert protected_until(pod, 100, 300) == expected


@st.composite
def worlds(draw, *, shapes=1):
    cpus = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    world = World(*cpus)
    for number in range(draw(st.integers(0, 6))):
        free = (world.capacity.free_of("cpu") // 1000).tolist()
        nodes = [node for node, room in enumerate(free) for _ in range(room)]
        if not nodes:
            break
        places = draw(st.lists(st.sampled_from(range(len(nodes))), min_size=1, max_size=4, unique=True))
        world.runs(
            f"g{number}-",
            [nodes[place] for place in places],
            priority=draw(st.integers(0, 3)),
            least=draw(st.one_of(st.none(), st.integers(0, len(places)))),
            started=draw(st.integers(0, 2)),
        )
    sizes = draw(st.lists(st.integers(1, max(2, shapes)), min_size=shapes, max_size=shapes, unique=True))
    return world, {shape(size): draw(st.integers(1, 4)) for size in sizes}, draw(st.integers(0, 4))


def fits(world, pods, gone):
    extra_use = Holdings.of(world.capacity, [sorted(gone)]).freed()
    return isinstance(place(world.capacity, pods, extra_use=extra_use), Placement)


def has_room(world, found):
    """Whether the gang, where it is placed, and all that stays are on no node more than it has."""
    freed = Holdings.of(world.capacity, found.victims.values()).freed()
    return bool((world.capacity.free() - freed - sum_placement_use(world.capacity, found.placement) >= 0).all())


def test_of_many_gangs_those_come_back_that_leave_a_gang_of_several_shapes_its_room():
    world = World(*[4] * 60)
    for number in range(240):
        world.runs(f"g{number}-", [number // 4], priority=number % 7, started=number % 11)
    pods = {shape(4): 3, shape(3): 5, shape(2): 20, shape(1): 50}
    found = world.preempt(pods)
    assert isinstance(found, GangPreemption)
    assert has_room(world, found)
    assert len(found.victims) == 3 * 4 + 5 * 3 + 20 * 2 + 50


def test_of_so_many_that_not_all_are_tried_none_takes_the_room_of_the_gang():
    """Large and small pods, scattered: what comes back late finds less room than it would alone."""
    pods = {shape(8): 7, shape(5): 13, shape(3): 29, shape(2): 31, shape(1): 60}
    victims = []
    for gpus in (0, 1):  # of which no node has any, and which the gang does not ask for
        world = World(*[8] * 100)
        for number in range(800):
            started = number * 17 % 23
            world.runs(f"g{number}-", [number * 37 % 100], priority=number * 31 % 9, started=started, gpus=gpus)
        found = world.preempt(pods)
        assert isinstance(found, GangPreemption)
        assert has_room(world, found)
        victims.append(found.victims)
    assert victims[0] == victims[1]


@settings(max_examples=3 * settings.default.max_examples)
@given(st.one_of(worlds(), worlds(shapes=2), worlds(shapes=3)))
def test_victims_are_weaker_and_enough_and_all_needed_and_gangs_stay_whole_or_go(case):
    world, pods, strong = case
    before = world.capacity.free().copy()
    weaker = [gang for gang in world.gangs.values() if gang.resistance < strong]
    found = world.preempt(pods, strength=strong)
    assert np.array_equal(before, world.capacity.free())
    if isinstance(found, Refusal):
        assert not fits(world, pods, {pod for gang in weaker for pod in gang.pods})
        return
    gone = {pod for pods in found.victims.values() for pod in pods}
    assert has_room(world, found)
    assert set(found.victims) <= {gang.key for gang in weaker}
    for gang in world.gangs.values():
        left = set(gang.pods) - gone
        needed = gang.quorums[0].least if gang.quorums else len(gang.pods)
        assert len(left) >= needed or not left
        lost = gone & set(gang.pods)
        if not lost:
            continue
        # It cannot keep all; nor one more, if it goes on.
        assert not fits(world, pods, gone - lost)
        if left:
            assert all(not fits(world, pods, gone - {pod}) for pod in lost)


@settings(max_examples=2 * settings.default.max_examples)
@given(st.one_of(worlds(shapes=2), worlds(shapes=3)), st.integers(0, 4))
def test_however_few_tries_there_are_nobody_goes_whose_room_the_gang_leaves_alone(case, tries):
    world, pods, strong = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preemption, "_TRIES", tries)
        found = world.preempt(pods, strength=strong)
    if isinstance(found, Refusal):
        return
    assert has_room(world, found)
    for key, lost in found.victims.items():
        gang = world.gangs[key]
        needed = gang.quorums[0].least if gang.quorums else len(gang.pods)
        left = len(gang.pods) - len(lost)
        assert left >= needed or not left
        for back in [lost] if not left else [(pod,) for pod in lost]:
            rest = {**found.victims, key: tuple(pod for pod in lost if pod not in back)}
            assert not has_room(world, GangPreemption(rest, found.placement))


@given(worlds())
def test_no_smaller_choice_of_the_same_pods_would_do(case):
    world, pods, strong = case
    found = world.preempt(pods, strength=strong)
    if isinstance(found, GangPreemption) and len(found.victims) <= 4:
        for size in range(len(found.victims)):
            for some in combinations(found.victims, size):
                assert not fits(world, pods, {pod for key in some for pod in found.victims[key]})


@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_in_which_gangs_are_told_is_no_matter(case, random):
    world, pods, strong = case
    shuffled = list(world.gangs.values())
    random.shuffle(shuffled)
    assert world.preempt(pods, strength=strong) == world.preempt(pods, strength=strong, gangs=shuffled)


@given(worlds(), st.data())
def test_budgets_are_kept_to(case, data):
    world, pods, strong = case
    everyone = sorted(pod for gang in world.gangs.values() for pod in gang.pods)
    some = st.sets(st.sampled_from(everyone)) if everyone else st.just(set())
    budgets = [DisruptionBudget(f"b{n}", data.draw(st.integers(0, 3)), data.draw(some)) for n in range(2)]
    found = world.preempt(pods, strength=strong, budgets=budgets)
    if isinstance(found, GangPreemption):
        gone = {pod for pods in found.victims.values() for pod in pods}
        assert all(len(gone.intersection(budget.pods)) <= budget.allowed for budget in budgets)


class TestCompany:
    """Pods that go take their ports and their dislikes with them."""

    def pod(self, name="p"):
        port = {"hostPort": 80, "containerPort": 80}
        return make_pod(name, containers=[{"name": "c", "ports": [port]}])

    def world(self):
        world = World(8, 8).runs("plain", [0, 1])
        for number, node in enumerate((0, 1)):
            held = guest_of(self.pod(f"holder{number}"))
            world.capacity.assign(f"holder{number}", f"n{node}", held)
            name = f"holder{number}"
            world.gangs[name] = Candidate(name, [name], 1, float(number), ())
        return world

    @pytest.mark.parametrize(("count", "victims"), [(1, {"holder1"}), (2, {"holder0", "holder1"})])
    def test_who_holds_a_port_goes_and_who_does_not_stays(self, count, victims):
        world = self.world()
        assert world.victims({shape_of(self.pod()): count}) == victims

    def test_it_is_enough_to_wait_for_who_is_leaving(self):
        world = self.world()
        asked = shape_of(self.pod())
        freed = Holdings.of(world.capacity, [["holder0"]]).freed()
        found = preempt(
            world.capacity,
            {asked: 1},
            world.placing({asked: 1}, None),
            10,
            [gang for name, gang in world.gangs.items() if name != "holder0"],
            0.0,
            extra_use=freed,
            leaving=frozenset({"holder0"}),
        )
        assert isinstance(found, GangPreemption)
        assert not found.victims

    def test_none_goes_if_one_who_resists_holds_the_port(self):
        world = self.world()
        strong = {name: gang for name, gang in world.gangs.items() if not name.startswith("holder")}
        asked = shape_of(self.pod())
        assert isinstance(world.preempt({asked: 1}, gangs=list(strong.values())), Refusal)
