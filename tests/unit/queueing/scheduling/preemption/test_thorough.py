"""Tests that other orders of candidates are tried if the usual order finds no victims."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.queueing.random_worlds import built
from tests.unit.queueing.random_worlds import worlds as random_worlds
from tests.unit.queueing.slow_preemption import SlowClassical, SlowFair
from tests.unit.queueing.worlds import state, world

from muster.queueing.quota.tree import Node
from muster.queueing.scheduling.fairness import FairSharing
from muster.queueing.scheduling.preemption.classical import Preemptor
from muster.queueing.scheduling.preemption.thorough import STEPS

FEW = 6  # candidates: all orders of more take too long
MANY = 450  # candidates: more than a search has steps
FAIR = (
    None,
    FairSharing(),
    FairSharing(within_nominal=False),
    FairSharing(strategies=("LessThanOrEqualToFinalShare",)),
    FairSharing(strategies=("LessThanInitialShare",)),
)


@given(random_worlds(most=FEW), st.sampled_from(FAIR))
def test_where_any_set_of_victims_would_do_one_is_found(case: dict[str, Any], fair: FairSharing | None):
    here, again = built(case), built(case)
    preemptor = Preemptor(here.tree, here.incoming, fair=fair)
    before = state(here.tree)
    victims = preemptor.victims(here.assignment)
    assert not preemptor.gave_up
    assert state(here.tree) == before
    if fair is None:
        assert bool(victims) == SlowClassical(again.tree, again.incoming, again.assignment).any_set()
    else:
        assert bool(victims) == SlowFair(again.tree, again.incoming, again.assignment).any_set(fair)


def test_a_search_that_is_too_long_gives_up() -> None:
    here = world(
        {
            "cohorts": {"all": "cpu=86"},
            "queues": {"ann": "in=all cpu=0 within=lower reclaim=any", "bob": "in=all cpu=0"},
            "admitted": {f"a{size}": f"ann cpu={size} p=-1" for size in range(1, 9)} | {"b": "bob cpu=50"},
            "incoming": "ann cpu=40",
        }
    )
    before = state(here.tree)
    preemptor = Preemptor(here.tree, here.incoming, fair=FairSharing())
    assert preemptor.victims(here.assignment) == ()
    assert preemptor.gave_up == "The search for workloads to preempt ended after 400 steps without a result"
    assert state(here.tree) == before


def many_borrowers(resources: str) -> dict[str, Any]:
    """Return a world in which Bob borrows 300 in small workloads and Cid the rest.

    To give Ann 400 of her own, Bob would have to give back too much.
    """
    quota = resources.replace("=", "={}")
    return {
        "queues": {
            "ann": f"in=all {quota.replace('{}', '1000')} reclaim=lower",
            "bob": f"in=all {quota.replace('{}', '150')}",
            "cid": "in=all",
        },
        "admitted": {f"b{number}": f"bob {quota.replace('{}', '1')}" for number in range(MANY)}
        | {"c": f"cid {quota.replace('{}', '700')} p=100"},
        "incoming": f"ann {quota.replace('{}', '400')} p=10",
    }


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> list[Node]:
    """Return a list that collects the ClusterQueue of each workload that is put back."""
    nodes: list[Node] = []
    add = Node.add

    def count(node: Node, usage: Any) -> None:
        nodes.append(node)
        add(node, usage)

    monkeypatch.setattr(Node, "add", count)
    return nodes


def test_without_hope_no_other_order_is_tried(moves: list[Node]) -> None:
    here = world(many_borrowers("cpu="))
    moves.clear()
    preemptor = Preemptor(here.tree, here.incoming)
    assert preemptor.victims(here.assignment) == ()
    assert not preemptor.gave_up
    assert len(moves) <= 2 * 300 + 20  # two attempts, without and with borrowing


@pytest.mark.parametrize("fair", FAIR)
def test_a_long_search_puts_back_no_more_than_it_has_steps(fair: FairSharing | None, moves: list[Node]) -> None:
    here = world(many_borrowers("cpu= memory="))
    moves.clear()
    preemptor = Preemptor(here.tree, here.incoming, fair=fair)
    before = state(here.tree)
    assert preemptor.victims(here.assignment) == ()
    assert ("ended after 400 steps" if fair is None else "left out the others") in preemptor.gave_up
    assert state(here.tree) == before
    assert len(moves) <= 2 * (MANY + STEPS)  # two attempts at most


@pytest.mark.parametrize("fair", [None, FairSharing()])
def test_where_all_could_be_taken_no_other_order_is_tried(fair: FairSharing | None) -> None:
    here = world(
        {
            "queues": {"ann": f"cpu={MANY} within=lower"},
            "admitted": {f"a{number}": "ann cpu=1 p=-1" for number in range(MANY)},
            "incoming": "ann cpu=20",
        }
    )
    looks: list[None] = []

    def has_places() -> bool:
        looks.append(None)
        return False

    preemptor = Preemptor(here.tree, here.incoming, fair=fair)
    assert preemptor.victims(here.assignment, has_places) == ()
    assert not preemptor.gave_up
    assert len(looks) <= 2 * MANY


def test_under_fair_sharing_who_has_quota_left_takes_no_more_than_is_borrowed() -> None:
    here = world(
        {
            "queues": {"ann": "in=all cpu=10 reclaim=lower", "bob": "in=all cpu=2", "cid": "in=all"},
            "admitted": {f"b{number}": "bob cpu=1" for number in range(5)} | {"c": "cid cpu=7 p=100"},
            "incoming": "ann cpu=4 p=10",
        }
    )
    assert Preemptor(here.tree, here.incoming, fair=FairSharing()).victims(here.assignment) == ()
