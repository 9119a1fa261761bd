"""Who shrinks, who grows, and by how much."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.gang.conftest import make_node, make_pod

from muster.gang.elastic import ElasticGang, WaitingGang, resize
from muster.gang.nodes.capacity import Capacity
from muster.gang.placement import Placement, place
from muster.gang.shapes import Shape, guest_like, shape_of

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


def shape(cpu=1, gpus=0):
    return shape_of(make_pod(cpu=str(cpu), gpus=gpus))


def cluster(*cpus, gpus=()):
    """Nodes n0, n1, ... with so many CPUs (and GPUs)."""
    capacity = Capacity()
    for number, cpu in enumerate(cpus):
        resources = {"cpu": str(cpu), "nvidia.com/gpu": str(gpus[number] if gpus else 0)}
        capacity.set_node(make_node(f"n{number}", resources=resources))
    return capacity


def elastic(capacity, name, nodes, bounds, *, age=0, priority=0, asks=None, size=None, done=0):
    """An elastic gang whose pods are on these nodes, by index; None for a member that is missing."""
    asks = asks or shape()
    bound = {}
    for index, node in enumerate(nodes):
        if node is not None:
            bound[index] = f"{name}-{index}"
            capacity.assign(bound[index], node, guest_like(asks))
    least, most = bounds
    created = BEGINNING - timedelta(hours=age)
    return ElasticGang(name, priority, created, len(nodes) if size is None else size, least, most, asks, bound, done)


def waits(name, number, *, priority=0, asks=None, times=1):
    return WaitingGang(name, f"default/{name}", priority, {asks or shape(): number}, times)


def said(resizes):
    return {change.key: str(change) for change in resizes}


class TestOwnSize:
    """A waiting elastic gang takes the largest size that fits."""

    @pytest.mark.parametrize(
        ("cpus", "size", "bounds", "expected"),
        [
            pytest.param([4], 6, (2, 6), "Shrunk from 6 to 4 workers: cpu for 4 is free", id="what fits"),
            pytest.param([4, 1], 6, (2, 6), "Shrunk from 6 to 5 workers: cpu for 5 is free", id="on several nodes"),
            pytest.param([4], 6, (4, 6), "Shrunk from 6 to 4 workers: cpu for 4 is free", id="just its least"),
            pytest.param([4], 6, (5, 6), None, id="not even its least"),
            pytest.param([6], 6, (2, 6), None, id="all of it"),
            pytest.param([6], 4, (2, 6), None, id="it starts before it grows"),
            pytest.param([], 6, (1, 6), None, id="no nodes"),
        ],
    )
    def test_before_it_starts(self, cpus, size, bounds, expected):
        capacity = cluster(*cpus)
        gang = elastic(capacity, "e", [None] * size, bounds)
        assert said(resize(capacity, [], [waits("e", size)], [gang])).get("e") == expected

    @pytest.mark.parametrize("told", [True, False], ids=["its new pods wait", "it has no new pods yet"])
    @pytest.mark.parametrize(
        ("nodes", "bounds", "size"),
        [
            pytest.param(["n0", "n0", "n0", None, None], (2, 5), 3, id="the highest are gone"),
            pytest.param(["n0", "n0", None, None, "n0"], (2, 5), 3, id="the highest moves down"),
            pytest.param([None, None, None, "n0", "n0"], (2, 5), 2, id="all move down"),
            pytest.param([None, None, None, "n0", "n0"], (3, 5), 5, id="too few are left: it waits whole"),
        ],
    )
    def test_after_a_loss_its_highest_members_give_their_room_to_it(self, nodes, bounds, size, told):
        bound = sum(node is not None for node in nodes)
        capacity = cluster(bound)
        gang = elastic(capacity, "e", nodes, bounds)
        waiting = [waits("e", len(nodes) - bound)] if told else []
        changes = resize(capacity, [], waiting, [gang])
        assert [change.new for change in changes] == ([size] if size < len(nodes) else [])

    def test_what_has_ended_needs_no_room(self):
        capacity = cluster(2)
        gang = elastic(capacity, "e", [None, None, "n0", "n0"], (2, 4), done=2)
        assert resize(capacity, [], [], [gang]) == []

    def test_pods_on_their_way_out_are_waited_for_instead(self):
        capacity = cluster(4)
        for number in range(4):
            capacity.assign(f"old-{number}", "n0", guest_like(shape()))
        gang = elastic(capacity, "e", [None] * 4, (1, 4))
        assert resize(capacity, [f"old-{number}" for number in range(4)], [waits("e", 4)], [gang]) == []
        [change] = resize(capacity, ["old-0", "old-1"], [waits("e", 4)], [gang])
        assert change.new == 2

    def test_a_shrink_under_way_is_not_made_deeper(self):
        """Its pods 2 and 3 still run, but have no place any more: their room is for 0 and 1."""
        capacity = cluster(2)
        gang = elastic(capacity, "e", [None, None, "n0", "n0"], (1, 4), size=2)
        assert resize(capacity, [], [waits("e", 2)], [gang]) == []


class TestOthersSizes:
    """A waiting gang makes others shrink if that suffices."""

    def test_the_smallest_shrink_of_those_of_low_priority_and_then_the_young(self):
        capacity = cluster(16)
        gangs = [
            elastic(capacity, "important", ["n0"] * 4, (1, 4), priority=9),
            elastic(capacity, "old", ["n0"] * 4, (1, 4), age=2),
            elastic(capacity, "young", ["n0"] * 4, (1, 4), age=1),
            elastic(capacity, "low", ["n0"] * 4, (1, 4), priority=-1),
        ]
        expected = {"low": (4, 1), "young": (4, 1), "old": (4, 3)}
        for order in (gangs, gangs[::-1]):
            changes = resize(capacity, [], [waits("g", 7)], order)
            assert {change.key: (change.old, change.new) for change in changes} == expected
        assert resize(capacity, [], [waits("g", 10)], gangs) == [], "nobody is touched in vain"
        assert len(resize(capacity, [], [waits("g", 10, priority=9)], gangs)) == 4

    def test_only_those_whose_room_is_of_use(self):
        """The low one is on a node that is of no use to the gang; of the young one all pods but two can stay."""
        capacity = cluster(4, 8, gpus=(0, 4))
        gangs = [
            elastic(capacity, "low", ["n0"] * 4, (1, 4), priority=-1),
            elastic(capacity, "young", ["n1"] * 8, (1, 8)),
        ]
        assert said(resize(capacity, [], [waits("g", 2, asks=shape(gpus=2))], gangs)) == {
            "young": "Shrunk from 8 to 6 workers to make room for default/g"
        }

    def test_room_on_its_way_is_not_asked_for_twice(self):
        capacity = cluster(4)
        gang = elastic(capacity, "e", ["n0"] * 4, (1, 4), size=2)
        assert resize(capacity, [], [waits("g", 2)], [gang]) == []
        [change] = resize(capacity, [], [waits("g", 2), waits("h", 1)], [gang])
        assert str(change) == "Shrunk from 2 to 1 workers to make room for default/h"

    def test_for_several_at_once(self):
        capacity = cluster(6)
        gang = elastic(capacity, "e", ["n0"] * 6, (1, 6))
        waiting = [waits("g", 2), waits("too-large", 4), waits("h", 1)]
        assert said(resize(capacity, [], waiting, [gang])) == {
            "e": "Shrunk from 6 to 3 workers to make room for default/g and default/h"
        }

    def test_of_those_who_start_one_by_one_as_many_as_can(self):
        capacity = cluster(6)
        gang = elastic(capacity, "e", ["n0"] * 6, (2, 6))
        assert said(resize(capacity, [], [waits("sweep", 1, times=3)], [gang])) == {
            "e": "Shrunk from 6 to 3 workers to make room for default/sweep"
        }
        assert said(resize(capacity, [], [waits("sweep", 1, times=100)], [gang])) == {
            "e": "Shrunk from 6 to 2 workers to make room for default/sweep"
        }

    def test_an_elastic_gang_asks_others_for_its_least_and_only_if_it_must(self):
        capacity = cluster(6)
        running = elastic(capacity, "running", ["n0"] * 6, (2, 6))
        new = elastic(capacity, "new", [None] * 6, (2, 6))
        assert said(resize(capacity, [], [waits("new", 6)], [running, new])) == {
            "running": "Shrunk from 6 to 4 workers to make room for default/new"
        }
        shrunk = replace(running, size=4)
        assert said(resize(capacity, [], [waits("new", 6)], [shrunk, new])) == {
            "new": "Shrunk from 6 to 2 workers: cpu for 2 is free"
        }

    def test_its_own_spare_members_give_room_before_others_do(self):
        capacity = cluster(4)
        running = elastic(capacity, "running", ["n0"] * 3, (1, 3))
        hurt = elastic(capacity, "hurt", [None, None, None, "n0"], (2, 4))
        assert said(resize(capacity, [], [waits("hurt", 3)], [running, hurt])) == {
            "running": "Shrunk from 3 to 2 workers to make room for default/hurt"
        }

    def test_those_worth_more_are_not_touched_when_the_others_have_been_used_up(self):
        capacity = cluster(8)
        gangs = [
            elastic(capacity, "low", ["n0"] * 4, (2, 4)),
            elastic(capacity, "high", ["n0"] * 4, (1, 4), priority=1),
        ]
        assert said(resize(capacity, [], [waits("g", 2), waits("h", 2)], gangs)) == {
            "low": "Shrunk from 4 to 2 workers to make room for default/g"
        }

    def test_a_gang_smaller_than_its_least_is_left_alone(self):
        capacity = cluster(3)
        gang = elastic(capacity, "e", ["n0"], (2, 1))
        other = elastic(capacity, "f", ["n0"] * 2, (2, 2))
        assert resize(capacity, [], [waits("g", 1)], [gang, other]) == []
        assert resize(capacity, [], [waits("g", 1)], [gang, replace(other, least=1)]) != []


class TestGrowth:
    """Into room that is free and that nobody waits for."""

    def test_equals_take_turns_and_the_odd_pod_is_the_elders(self):
        capacity = cluster(9)
        gangs = [
            elastic(capacity, "young", ["n0"] * 2, (2, 9)),
            elastic(capacity, "old", ["n0"] * 2, (2, 9), age=1),
        ]
        assert said(resize(capacity, [], [], gangs)) == {
            "old": "Grown from 2 to 5 workers: room for 3 more is free",
            "young": "Grown from 2 to 4 workers: room for 2 more is free",
        }
        assert resize(capacity, [], [], gangs, grow=False) == []

    def test_priority_first_and_none_beyond_its_most(self):
        capacity = cluster(20)
        gangs = [
            elastic(capacity, "low", ["n0"] * 2, (2, 9), priority=-1),
            elastic(capacity, "high", ["n0"] * 2, (2, 6), priority=1),
            elastic(capacity, "short", ["n0"] * 2, (2, 3), age=1),
            elastic(capacity, "long", ["n0"] * 2, (2, 6)),
        ]
        assert {change.key: change.new for change in resize(capacity, [], [], gangs)} == {
            "high": 6,
            "short": 3,
            "long": 6,
            "low": 5,
        }

    def test_who_finds_no_room_does_not_stop_the_others(self):
        capacity = cluster(8, gpus=(1,))
        gangs = [
            elastic(capacity, "gpu", ["n0"], (1, 4), age=1, asks=shape(gpus=1)),
            elastic(capacity, "cpu", ["n0"], (1, 4)),
        ]
        assert {change.key: change.new for change in resize(capacity, [], [], gangs)} == {"cpu": 4}

    def test_not_while_somebody_waits_who_can_be_helped(self):
        capacity = cluster(6)
        gang = elastic(capacity, "e", ["n0"] * 2, (2, 6))
        assert resize(capacity, [], [waits("fits", 4)], [gang]) == []
        assert said(resize(capacity, [], [waits("too-large", 5)], [gang])) == {
            "e": "Grown from 2 to 6 workers: room for 4 more is free"
        }

    def test_somebody_of_low_priority_who_cannot_have_it_keeps_no_room_empty(self):
        capacity = cluster(6)
        gang = elastic(capacity, "e", ["n0"] * 3, (1, 6))
        assert [change.new for change in resize(capacity, [], [waits("low", 4, priority=-1)], [gang])] == [6]

    def test_not_into_room_that_others_still_hold_or_have_been_promised(self):
        capacity = cluster(6)
        capacity.assign("going", "n0", guest_like(shape()))
        gang = elastic(capacity, "e", ["n0"] * 2, (2, 6))
        grown = elastic(capacity, "grown", ["n0", None], (1, 2), age=1)
        assert [(change.key, change.new) for change in resize(capacity, ["going"], [], [gang, grown])] == [("e", 3)]

    def test_not_while_its_own_pods_are_on_their_way_out(self):
        capacity = cluster(6)
        gang = elastic(capacity, "e", ["n0"] * 3, (1, 6), size=2)
        assert resize(capacity, [], [], [gang]) == []

    def test_no_further_than_fits_whichever_gang_is_placed_first(self):
        """A second small pod, if the small ones are placed first, would take the one place that the large one has."""
        capacity = cluster(2, 5)
        small = elastic(capacity, "small", ["n0"], (1, 3), age=1)
        large = elastic(capacity, "large", ["n1"], (1, 2), asks=shape(2))
        grown = {change.key: change.new for change in resize(capacity, [], [], [small, large])}
        assert grown == {"small": 2, "large": 2}

    @pytest.mark.parametrize("most", [10**6, 2**31, 10**30])
    def test_absurd_bounds_cost_nothing(self, most):
        capacity = cluster(6)
        gang = elastic(capacity, "e", ["n0"] * 2, (2, most))
        assert [change.new for change in resize(capacity, [], [], [gang])] == [6]


# Laws.


class World:
    """A cluster on which what is decided also happens."""

    def __init__(self, cpus, gangs, leaving, waiting):
        self.capacity = cluster(*cpus, gpus=[cpu // 2 for cpu in cpus])
        self.leaving: list[str] = []
        self.uids = count()
        self.elastic = {}
        for number, (least, size, most, priority, asks) in enumerate(gangs):
            gang = elastic(
                self.capacity, f"e{number}", [None] * size, (least, most), age=number % 2, priority=priority, asks=asks
            )
            self.elastic[gang.key] = gang
            self.try_start(gang.key)
        for asks in leaving:
            self.leaving += self.put({asks: 1}) or []
        self.waiting = [
            waits(f"w{number}", pods, priority=priority, asks=asks, times=times)
            for number, (pods, priority, asks, times) in enumerate(waiting)
        ]
        self.waiting += [
            waits(gang.key, gang.size, priority=gang.priority, asks=gang.shape)
            for gang in self.elastic.values()
            if not gang.bound
        ]
        self.waiting.sort(key=lambda gang: (-gang.priority, gang.key))

    def put(self, pods):
        """Place pods together; the UIDs, or None if they do not fit."""
        placement = place(self.capacity, pods)
        if not isinstance(placement, Placement):
            return None
        uids = []
        for one in pods:
            for node in placement.expand(one):
                uids.append(f"p{next(self.uids)}")
                self.capacity.assign(uids[-1], node, guest_like(one))
        return uids

    def try_start(self, key):
        """Place what an elastic gang misses."""
        gang = self.elastic[key]
        uids = self.put(gang.count_missing(gang.size))
        if uids:
            missing = [index for index in range(gang.size) if index not in gang.bound]
            self.elastic[key] = replace(gang, bound=dict(gang.bound) | dict(zip(missing, uids, strict=True)))
        return uids is not None

    def plan(self):
        return resize(self.capacity, self.leaving, self.waiting, list(self.elastic.values()))

    def apply(self, changes):
        """The changes are made, and those whose pods had to go are gone."""
        for change in changes:
            gang = self.elastic[change.key]
            assert gang.size == change.old
            for uid in gang.above(change.new):
                self.capacity.release(uid)
            bound = {index: uid for index, uid in gang.bound.items() if index < change.new}
            self.elastic[change.key] = replace(gang, size=change.new, bound=bound)
        for uid in self.leaving:
            self.capacity.release(uid)
        self.leaving = []

    def schedule(self):
        """Start whoever fits, in order."""
        for gang in list(self.waiting):
            if gang.key in self.elastic:
                started = self.try_start(gang.key)
            elif gang.count == 1:
                started = self.put(gang.pods) is not None
            else:
                left = gang.count
                while left and self.put(gang.pods) is not None:
                    left -= 1
                self.waiting[self.waiting.index(gang)] = gang = replace(gang, count=max(left, 1))
                started = left == 0
            if started:
                self.waiting.remove(gang)
        for key in self.elastic:
            self.try_start(key)


def shapes():
    return st.sampled_from([shape(), shape(2), shape(gpus=1), shape(3)])


@st.composite
def gangs(draw):
    least = draw(st.integers(1, 4))
    size = draw(st.integers(least, least + 4))
    return least, size, draw(st.integers(size, size + 4)), draw(st.integers(-1, 1)), draw(shapes())


def worlds(*, waiting):
    """Worlds where so many gangs wait."""
    waiters = st.tuples(st.integers(1, 8), st.integers(-1, 1), shapes(), st.sampled_from([1, 1, 3]))
    return st.builds(
        World,
        st.lists(st.integers(1, 12), min_size=1, max_size=4),
        st.lists(gangs(), max_size=4),
        st.lists(shapes(), max_size=3),
        st.lists(waiters, min_size=min(waiting), max_size=max(waiting)),
    )


@settings(max_examples=2 * settings.default.max_examples, deadline=None)
@given(worlds(waiting=(0, 3)))
def test_sizes_stay_within_bounds_and_looking_changes_nothing(world):
    before = world.capacity.free().copy()
    changes = world.plan()
    assert bool((world.capacity.free() == before).all())
    assert len({change.key for change in changes}) == len(changes)
    assert len({change.verb for change in changes}) <= 1, "nobody grows while others shrink"
    for change in changes:
        gang = world.elastic[change.key]
        assert change.old == gang.size
        assert gang.least <= change.new <= gang.most
        assert change.new != change.old
    elastic_backwards = list(world.elastic.values())[::-1]
    assert resize(world.capacity, world.leaving, world.waiting, elastic_backwards) == changes


@settings(max_examples=2 * settings.default.max_examples, deadline=None)
@given(worlds(waiting=(1, 1)))
def test_others_shrink_only_if_it_suffices_and_no_more_than_is_needed(world):
    world.elastic = {key: gang for key, gang in world.elastic.items() if gang.bound}
    [gang] = world.waiting = [gang for gang in world.waiting if gang.key.startswith("w")]
    before = dict(world.elastic)
    changes = [change for change in world.plan() if change.verb == "Shrunk"]
    lost = {change.key: world.capacity.assigned(before[change.key].bound[change.new]) for change in changes}
    world.apply(changes)
    fits = fitting(world.capacity, gang)
    for change in changes:
        assert fits >= 1
        assert before[change.key].priority <= gang.priority
        # Had it kept one pod more, less would fit.
        world.capacity.assign("one more", *lost[change.key])
        assert fitting(world.capacity, gang) < fits
        world.capacity.release("one more")


def fitting(capacity, gang):
    """How many times over a waiting gang fits, up to its count."""
    [(one, pods)] = gang.pods.items()
    return int(np.minimum(capacity.count_fitting(one), gang.count * pods).sum() // pods)


@settings(max_examples=2 * settings.default.max_examples, deadline=None)
@given(worlds(waiting=(0, 3)))
def test_grown_pods_all_fit(world):
    changes = [change for change in world.plan() if change.verb == "Grown"]
    wanted: Counter[Shape] = Counter()
    for change in changes:
        wanted[world.elastic[change.key].shape] += change.new - change.old
    assert isinstance(place(world.capacity, wanted), Placement)


@settings(max_examples=3 * settings.default.max_examples, deadline=None)
@given(worlds(waiting=(0, 3)))
def test_sizes_come_to_rest_and_nobody_shrinks_after_somebody_grew(world):
    grown = False
    for _ in range(30):
        changes = world.plan()
        if not changes and not world.leaving:
            break
        grown |= any(change.verb == "Grown" for change in changes)
        assert not (grown and any(change.verb == "Shrunk" for change in changes))
        world.apply(changes)
        world.schedule()
    else:
        pytest.fail("sizes never come to rest")
    assert bool((world.capacity.free() >= 0).all())
