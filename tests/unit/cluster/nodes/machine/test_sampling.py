"""Which containers are over their memory limits, by readings."""

import pytest

from muster.cluster.nodeconnection import Reading
from muster.cluster.nodes.machine.consumption import Metered
from muster.cluster.nodes.machine.sampling import Excess, find_excesses, find_thresholds

FREE, LIMITED = ("u", "free"), ("u", "limited")
CONTAINERS = {FREE: Metered(1), LIMITED: Metered(2, memory_limit=100)}


@pytest.mark.parametrize(
    ("used", "excesses"),
    [(99, []), (100, []), (101, [Excess(LIMITED, 101)])],
)
def test_a_container_may_hold_its_limit_and_no_more(used, excesses):
    readings = {FREE: Reading(0.0, 1 << 60), LIMITED: Reading(0.0, used)}
    assert list(find_excesses(CONTAINERS, readings)) == excesses


def test_memory_is_counted_exactly_where_the_answer_matters():
    peaks = {FREE: 30, LIMITED: 40}
    assert find_thresholds(CONTAINERS, peaks, exact=False) == {LIMITED: 100}  # the other one is not even read
    assert find_thresholds(CONTAINERS, peaks, exact=True) == {FREE: 30, LIMITED: 40}
    assert find_thresholds(CONTAINERS, {LIMITED: 400}, exact=True) == {FREE: 0, LIMITED: 100}
