"""Tests of nominations, and of how long they hold while usage grows elsewhere in the tree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.queueing.worlds import tree_of, workload

from muster.queueing.model import Assignment, FlavorResource, Mode
from muster.queueing.quota.tree import UNLIMITED, Node, Tree
from muster.queueing.scheduling.nomination import BestAssignment, compute_slack
from muster.queueing.scheduling.preemption.candidates import Reason, Victim

CPU = FlavorResource("default", "cpu")


def level(tree: Tree, amount: int) -> int:
    """Return how far up the tree the ClusterQueue `mine` borrows for the amount; -1 if the amount does not fit."""
    node, rest = tree.queues["mine"], amount
    if not node.fits({CPU: amount}):
        return -1
    nodes: list[Node] = [node, *node.ancestors()]
    for height, each in enumerate(nodes):
        if not each.borrows(CPU, rest):
            return height
        rest -= each.local_available(CPU)
    return len(nodes)


@pytest.mark.parametrize(
    ("mine", "amount", "room"),
    [
        pytest.param("cpu=4", 3, UNLIMITED, id="without a Cohort nobody else counts"),
        pytest.param("in=all cpu=4", 3, 5, id="within its quota: all that the Cohort has beside"),
        pytest.param("in=all cpu=4", 6, 2, id="borrowing: what is left then"),
        pytest.param("in=all cpu=4,b9,l1", 3, 5, id="what it does not lend is its own"),
        pytest.param("in=all cpu=4,b9,l1", 4, 4, id="one more than it does not lend"),
    ],
)
def test_slack(mine: str, amount: int, room: int) -> None:
    tree = tree_of({"queues": {"mine": mine, "other": "in=all cpu=4"}})
    assert compute_slack(tree.queues["mine"], CPU, amount) == room


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.none() | st.integers(0, 6), st.integers(1, 12))
def test_while_usage_grows_by_no_more_than_its_slack_an_amount_fits_at_the_same_level(
    mine: int, near: int, far: int, lends: int | None, amount: int
) -> None:
    limit = "" if lends is None else f",b99,l{lends}"
    tree = tree_of(
        {
            "cohorts": {"street": "in=town", "town": "cpu=0"},
            "queues": {
                "mine": f"in=street cpu={mine}{limit}", "near": f"in=street cpu={near}", "far": f"in=town cpu={far}",
            },
        }
    )  # fmt: skip
    before = level(tree, amount)
    if before < 0:
        return
    room = compute_slack(tree.queues["mine"], CPU, amount)
    for more in range(near + far + 2):
        tree.queues["near"].add({CPU: more})
        if more <= room:
            assert level(tree, amount) == before
        tree.queues["near"].remove({CPU: more})


@pytest.mark.parametrize(
    ("reasons", "migrates"),
    [
        ((), False),
        (("FlavorMigration",), True),
        (("InClusterQueue",), False),
        (("FlavorMigration", "InClusterQueue"), False),
    ],
)
def test_it_migrates_where_it_displaces_its_own_variant_alone(reasons: tuple[Reason, ...], migrates: bool) -> None:
    victims = tuple(Victim(workload("w", "q cpu=1"), reason) for reason in reasons)
    assert BestAssignment(Assignment((), {}), Mode.FIT, victims).migrates == migrates
