"""What is kept for the gang at the head, and who may pass it."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gang.conftest import make_node, make_pod

from muster.gang.nodes.capacity import Capacity
from muster.gang.order.ends import NEVER, EndTime
from muster.gang.order.ledger import GangLedger, RunningGang
from muster.gang.order.reservation import Passing, Reservation, may_pass, record_passing, reserve
from muster.gang.placement import Placement, Refusal, place, sum_placement_use
from muster.gang.shapes import guest_of, shape_of

ONE = shape_of(make_pod(cpu="1"))
GUEST = guest_of(make_pod(cpu="1"))


def gang(pods):
    return {ONE: pods}


class World:
    """A cluster, what runs in it since when and until when, and a head that wants `wants` pods of one CPU."""

    def __init__(self, *cpus, wants, most=2):
        self.capacity = Capacity()
        for number, cpu in enumerate(cpus):
            self.capacity.set_node(make_node(f"n{number}", resources={"cpu": str(cpu)}))
        self.wants = gang(wants)
        self.running = {}
        self.most = most

    def placing(self, extra_use):
        return place(self.capacity, self.wants, extra_use=extra_use)

    def runs(self, name, node, pods, *, end=None, sure=False, started=0.0):
        uids = [f"{name}-{number}" for number in range(pods)]
        for uid in uids:
            self.capacity.assign(uid, node, GUEST)
        known = end if end is None or isinstance(end, EndTime) else EndTime(end, is_enforced=sure)
        self.running[name] = RunningGang(uids, started, known)
        return self

    def ends(self, name):
        for uid in self.running.pop(name).pods:
            self.capacity.release(uid)

    @property
    def ledger(self):
        return GangLedger.of(self.capacity, self.running.values())

    def reserve(self, now=0.0, previous=None):
        found = reserve(self.capacity, "head", self.placing, self.ledger, now, previous, self.most)
        assert isinstance(found, Reservation)
        return found

    def asks(self, reservation, pods, *, end=None, sure=False):
        """Whether a gang of so many may start now where it fits best."""
        placement = place(self.capacity, gang(pods))
        assert isinstance(placement, Placement), "it fits now"
        taken = sum_placement_use(self.capacity, placement)
        known = None if end is None else EndTime(end, is_enforced=sure)
        return may_pass(reservation, self.placing, taken, known), taken


class TestShadow:
    """The earliest time at which the head fits, by real placement."""

    @pytest.mark.parametrize(
        ("wants", "shadow"),
        [
            pytest.param(3, 10, id="the first end is enough"),
            pytest.param(5, 20, id="two have to end"),
            pytest.param(8, 30, id="all have to end"),
        ],
    )
    def test_is_the_first_end_with_which_it_fits(self, wants, shadow):
        world = World(4, 4, wants=wants)
        world.runs("a", "n0", 3, end=30).runs("b", "n1", 1, end=10).runs("c", "n1", 2, end=20)
        assert world.reserve().shadow == shadow

    def test_is_not_a_sum_of_fragments(self):
        world = World(3, 3, wants=1)
        world.wants = {shape_of(make_pod(cpu="3")): 1}
        world.runs("a", "n0", 1, end=10).runs("b", "n1", 1, end=20).runs("c", "n0", 1, end=30)
        assert world.reserve().shadow == 20, "four are free at 10, but not on one node"

    def test_is_unknown_if_the_head_needs_what_has_no_known_end(self):
        world = World(4, wants=4).runs("a", "n0", 2, end=10).runs("b", "n0", 1)
        assert world.reserve().shadow is None

    @pytest.mark.parametrize(
        ("now", "shadow"), [(9, 10), (10, 40), (39, 40), (40, 70), (69, 70), (70, 130), (129, 130), (130, 250)]
    )
    def test_pitfall_33_what_overruns_its_estimate_gets_a_grace_that_doubles(self, now, shadow):
        assert World(4, wants=4).runs("a", "n0", 1, end=10).reserve(now).shadow == shadow

    def test_pitfall_34_does_not_jump_for_a_little(self):
        world = World(4, wants=4).runs("a", "n0", 1, end=100).runs("b", "n0", 1, end=95).runs("c", "n0", 1, end=40)
        first = world.reserve()
        assert first.shadow == 100
        world.ends("a")
        steady = world.reserve(0, first)
        assert steady.shadow == 100, "five of a hundred seconds are not worth a change"
        world.ends("b")
        assert world.reserve(0, steady).shadow == 40
        assert steady.spent == 0

    def test_moves_to_later_at_once_and_that_is_counted(self):
        world = World(4, wants=4).runs("a", "n0", 1, end=100)
        first = world.reserve()
        world.runs("b", "n0", 1, end=101)
        moved = world.reserve(0, first)
        assert (moved.shadow, moved.spent) == (101, 1)


class TestPassing:
    """EASY: by the shadow time, or in room that the head does not need."""

    def world(self):
        """Three CPUs are free; the head wants six of eight, at 100."""
        return World(4, 4, wants=6).runs("a", "n0", 4, end=100).runs("b", "n1", 1, end=NEVER)

    @pytest.mark.parametrize(
        ("pods", "end", "expected"),
        [
            pytest.param(3, 99, Passing.IN_TIME, id="ends before"),
            pytest.param(3, 100, Passing.IN_TIME, id="ends just then"),
            pytest.param(3, 101, None, id="ends later, in the way"),
            pytest.param(1, 101, Passing.HARMLESS, id="ends later, not in the way"),
            pytest.param(1, None, Passing.HARMLESS, id="no known end, not in the way"),
            pytest.param(2, None, None, id="no known end, in the way"),
        ],
    )
    def test_who_may(self, pods, end, expected):
        world = self.world()
        assert world.asks(world.reserve(), pods, end=end)[0] == expected

    def test_what_has_passed_is_counted(self):
        world = self.world()
        reservation = world.reserve()
        passing, taken = world.asks(reservation, 1)
        reservation = record_passing(reservation, passing, taken)
        world.runs("c", "n1", 1)
        assert world.asks(reservation, 1)[0] is None, "the second would be in the way"
        passing, taken = world.asks(reservation, 1, end=50)
        reservation = record_passing(reservation, passing, taken)
        world.runs("d", "n1", 1, end=50)
        assert world.asks(reservation, 1, end=50)[0] == Passing.IN_TIME
        assert reservation.shadow == world.reserve(0, reservation).shadow == 100

    def test_what_ends_before_is_gone_by_then(self):
        world = World(4, wants=3).runs("a", "n0", 2, end=100)
        passing, taken = world.asks(reservation := world.reserve(), 1, end=50)
        reservation = record_passing(reservation, passing, taken)
        world.runs("b", "n0", 1, end=50)
        assert world.asks(reservation, 1)[0] == Passing.HARMLESS

    def test_pitfall_2_without_known_ends_a_bounded_number_passes_and_then_the_head_holds(self):
        world = World(10, wants=9, most=3)
        world.runs("old", "n0", 5)
        reservation, passes = world.reserve(), []
        for number in range(6):
            passing, taken = world.asks(reservation, 1)
            passes.append(passing)
            if passing is None:
                break
            reservation = record_passing(reservation, passing, taken)
            world.runs(f"new{number}", "n0", 1, started=number)
            reservation = world.reserve(number, reservation)
        # Three overtake; one more stays beside the head for good.
        assert passes == [*[Passing.OVERTAKING] * 3, Passing.HARMLESS, None]

    def test_in_a_hold_only_what_is_sure_to_end_in_time_passes_by_its_end(self):
        world = World(4, wants=4, most=0).runs("a", "n0", 2, end=100)
        reservation = world.reserve()
        assert world.asks(reservation, 1, end=50)[0] is None
        assert world.asks(reservation, 1, end=50, sure=True)[0] == Passing.IN_TIME

    def test_what_started_in_a_hold_is_not_counted_upon_to_go(self):
        world = World(4, wants=3, most=0).runs("a", "n0", 2)
        reservation = world.reserve(10)
        assert world.asks(reservation, 1)[0] == Passing.HARMLESS
        world.runs("b", "n0", 1, started=11)
        assert world.asks(world.reserve(12, reservation), 1)[0] is None

    @pytest.mark.parametrize(("sure", "passing"), [(True, Passing.HARMLESS), (False, None)])
    def test_what_started_in_a_hold_is_counted_upon_only_if_it_is_sure_to_go(self, sure, passing):
        world = World(4, wants=3, most=0).runs("a", "n0", 2)
        reservation = world.reserve(10)
        world.runs("b", "n0", 1, started=11, end=20, sure=sure)
        assert world.asks(world.reserve(12, reservation), 1)[0] == passing

    def test_a_hold_begins_anew_if_the_head_no_longer_fits_in_it(self):
        world = World(4, wants=4, most=0).runs("a", "n0", 2)
        reservation = world.reserve(10)
        world.runs("first", "n0", 1, started=11)  # of a higher priority
        assert (reservation.held_since, world.reserve(12, reservation).held_since) == (10, 12)

    def test_pitfall_33_estimates_that_are_not_kept_end_in_a_hold(self):
        world = World(4, wants=4, most=2).runs("a", "n0", 1, end=10)
        reservation = world.reserve()
        for now in (10, 40, 70):
            assert not reservation.is_firm
            reservation = world.reserve(now, reservation)
            if reservation.is_firm:
                break
        assert reservation.is_firm


class TestImpossible:
    """A head that never fits stops no other gang."""

    def test_pitfall_3_more_than_there_is(self):
        world = World(4, wants=5).runs("a", "n0", 1, end=10)
        found = reserve(world.capacity, "head", world.placing, world.ledger, 0)
        assert isinstance(found, Refusal)

    def test_pitfall_3_more_than_there_is_beside_what_never_ends(self):
        world = World(4, wants=4).runs("a", "n0", 1, end=NEVER)
        found = reserve(world.capacity, "head", world.placing, world.ledger, 0)
        assert isinstance(found, Refusal)
        world.ends("a")
        world.runs("b", "n0", 1)
        assert world.reserve().shadow is None


ENDS = st.one_of(st.none(), st.just(inf), st.integers(1, 20))


@st.composite
def worlds(draw):
    cpus = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    world = World(*cpus, wants=draw(st.integers(1, sum(cpus))), most=draw(st.integers(0, 2)))
    for number in range(draw(st.integers(0, 6))):
        node = draw(st.integers(0, len(cpus) - 1))
        free = int(world.capacity.free_of("cpu")[node]) // 1000
        if free:
            pods, end, sure = draw(st.integers(1, free)), draw(ENDS), draw(st.booleans())
            world.runs(f"r{number}", f"n{node}", pods, end=end, sure=sure or end == inf)
    return world


def reserved(world, now=0.0, previous=None):
    return reserve(world.capacity, "head", world.placing, world.ledger, now, previous, world.most)


@given(worlds())
def test_the_shadow_is_the_earliest_time_at_which_the_rest_leaves_room(world):
    """Against the same cluster with what has ended taken out of it."""
    free = world.capacity.free().copy()
    found = reserved(world)
    assert np.array_equal(free, world.capacity.free())
    ends = {name: one.end.at if one.end else None for name, one in world.running.items()}
    expected = None
    for time in [0, *sorted({end for end in ends.values() if end is not None and end != inf})]:
        for name, end in ends.items():
            if name in world.running and end is not None and end <= time:
                world.ends(name)
        if expected is None and isinstance(world.placing(np.zeros_like(free)), Placement):
            expected = time
    for name, end in ends.items():
        if end is None:
            world.ends(name)
    if isinstance(found, Refusal):
        assert isinstance(world.placing(np.zeros_like(free)), Refusal)
    else:
        assert found.shadow == expected


@given(worlds(), st.data())
def test_who_passes_by_its_end_or_does_no_harm_moves_no_shadow(world, data):
    reservation = reserved(world)
    if isinstance(reservation, Refusal) or reservation.shadow is None:
        return
    for number in range(4):
        free = int(np.maximum(world.capacity.free_of("cpu"), 0).sum()) // 1000
        if not free:
            return
        end = data.draw(st.one_of(st.none(), st.integers(1, 20)))
        passing, taken = world.asks(reservation, pods := data.draw(st.integers(1, free)), end=end, sure=True)
        if passing is None:
            continue
        for node, count in place(world.capacity, gang(pods)).nodes[ONE]:
            world.runs(f"c{number}-{node}", node, count, end=end, sure=True)
        reservation = record_passing(reservation, passing, taken)
        again = reserved(world, 0.0, reservation)
        assert again.shadow is not None
        assert again.shadow <= reservation.shadow
