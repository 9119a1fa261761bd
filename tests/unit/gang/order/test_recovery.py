"""Which broken gangs give back for which, and when."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gang.conftest import make_pod
from tests.unit.gang.order.test_preemption import World

from muster.gang.order.preemption import Candidate, GangPreemption
from muster.gang.order.recovery import gives_back_at, make_rivals
from muster.gang.shapes import guest_of


def test_the_last_of_the_broken_gangs_goes_first_and_whole() -> None:
    world = World(1, 1, 1, 1, 1, 1)
    world.runs("second", [0, 1], priority=5, protected=100.0)
    world.runs("third", [2, 3], priority=5, least=1)
    world.runs("weak", [4, 5], priority=0)
    behind = make_rivals([world.gangs["second"], world.gangs["third"]])
    found = world.preempt(2, gangs=[*behind, world.gangs["weak"]], strength=5)
    assert isinstance(found, GangPreemption)
    assert found.victims == {"third": ("third0", "third1")}, "before weaker ones that are whole"
    found = world.preempt(3, gangs=[*behind, world.gangs["weak"]], strength=5)
    assert isinstance(found, GangPreemption)
    assert set(found.victims) == {"second", "third"}


def test_what_makes_no_gang_whole_takes_nothing() -> None:
    world = World(1, 1).runs("second", [0]).runs("whole", [1], priority=5)
    assert not isinstance(world.preempt(2, gangs=make_rivals([world.gangs["second"]])), GangPreemption)


@pytest.mark.parametrize(("timeout", "at"), [(300.0, 310.0), (0.0, None)])
def test_in_time(timeout: float, at: float | None) -> None:
    assert gives_back_at(10.0, timeout) == at


class Broken:
    """Gangs on nodes with one CPU each, of which some were lost: they are completed in order, until none can be."""

    def __init__(self, nodes: int, sizes: Sequence[int], lost: frozenset[int]) -> None:
        self.world = World(*(1 for _ in range(nodes)))
        self.sizes = {f"g{number}": size for number, size in enumerate(sizes)}
        self.held: dict[str, list[str]] = {name: [] for name in self.sizes}
        self.taken: list[tuple[str, str]] = []  # who took from whom
        place = 0
        for name, size in self.sizes.items():
            for member in range(size):
                if place < nodes and place not in lost:
                    self.world.capacity.assign(uid := f"{name}-{member}", f"n{place}", guest_of(make_pod(uid, cpu="1")))
                    self.held[name].append(uid)
                place += 1
        self.order = [name for name, held in self.held.items() if 0 < len(held) < self.sizes[name]]
        for node in sorted(lost & set(range(nodes))):
            self.world.capacity.remove_node(f"n{node}")

    def come_to_rest(self) -> None:
        while any(self.complete(name) for name in list(self.order)):
            pass

    def complete(self, name: str) -> bool:
        behind = [
            Candidate(other, tuple(self.held[other]), 0, 0.0) for other in self.order[self.order.index(name) + 1 :]
        ]
        found = self.world.preempt(self.sizes[name] - len(self.held[name]), strength=0, gangs=make_rivals(behind))
        if not isinstance(found, GangPreemption):
            return False
        for other, uids in found.victims.items():
            assert list(uids) == self.held[other], "whole or not at all"
            self.taken.append((name, other))
            for uid in uids:
                self.world.capacity.release(uid)
            self.held[other].clear()
            self.order.remove(other)
        for number, node in enumerate(node for nodes in found.placement.nodes.values() for node in nodes):
            uid = f"{name}-again-{number}"
            self.world.capacity.assign(uid, node[0], guest_of(make_pod(uid, cpu="1")))
            self.held[name].append(uid)
        self.order.remove(name)
        return True

    @property
    def free(self) -> int:
        return int(self.world.capacity.free_of("cpu").clip(0).sum()) // 1000


@given(
    st.integers(1, 12),
    st.lists(st.integers(1, 5), min_size=1, max_size=5),
    st.frozensets(st.integers(0, 11), max_size=8),
)
def test_at_rest_no_broken_gang_could_be_whole_at_the_expense_of_later_ones(
    nodes: int, sizes: list[int], lost: frozenset[int]
) -> None:
    gangs = Broken(nodes, sizes, lost)
    gangs.come_to_rest()
    for number, name in enumerate(gangs.order):
        behind = sum(len(gangs.held[other]) for other in gangs.order[number + 1 :])
        assert gangs.sizes[name] - len(gangs.held[name]) > gangs.free + behind
    for name, held in gangs.held.items():
        assert name in gangs.order or len(held) in (0, gangs.sizes[name])
    assert not any((loser, winner) in gangs.taken for winner, loser in gangs.taken), "no two take from each other"
