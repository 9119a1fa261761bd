"""Tests of behaviours of quota that are easy to get wrong and have no better place."""

from tests.unit.queueing.admission_worlds import tree

from muster.queueing.model import FlavorResource

CPU = FlavorResource("default", "cpu")


def test_pitfall_24_a_queue_without_quota_of_its_own_borrows_all() -> None:
    """Nominal 0 and a borrowing limit is the usual way to give a team only what others leave."""
    result = tree({"queues": {"rich": "in=co cpu=10", "poor": "in=co cpu=0,b4"}})
    assert result.queues["poor"].available(CPU) == 4
    result.queues["rich"].add({CPU: 8})
    assert result.queues["poor"].available(CPU) == 2


def test_pitfall_24_a_cohort_may_offer_to_lend_more_than_it_has() -> None:
    """Of a Cohort the limit is for all that is below it, so it may be above its own quota."""
    result = tree(
        {
            "cohorts": {"root": "", "sub": "in=root cpu=2,l6"},
            "queues": {"lender": "in=sub cpu=10", "taker": "in=root cpu=0"},
        }
    )
    assert result.cohorts["sub"].local[CPU] == 6
    assert result.queues["taker"].available(CPU) == 6
