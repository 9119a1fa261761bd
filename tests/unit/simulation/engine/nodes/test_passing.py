"""What is known of gangs behind the head without a try agrees with a try."""

import pytest
from tests.unit.controllers.scheduler.test_deciding import CREATED, ONE, Cluster
from tests.unit.gang.conftest import make_pod

from muster.controllers.scheduler.deciding import KeptRoom
from muster.controllers.scheduler.order import OrderCriteria
from muster.gang.order.ends import EndTime
from muster.gang.shapes import shape_of
from muster.simulation.engine.nodes.passing import Passing


def test_a_gang_is_behind_the_head_while_its_reservation_holds():
    cluster = Cluster()
    passing, late = Passing(cluster.pending, cluster.capacity), cluster.gang("b", 3, 1).criteria
    assert passing.is_behind_head("b", late, 0.0)
    assert not passing.is_behind_head("a", late, 0.0), "the head renews its reservation"
    assert not passing.is_behind_head("b", OrderCriteria(False, 1, "", CREATED), 0.0), "it takes the reservation"
    assert not passing.is_behind_head("b", late, 100.0), "the head is late"
    cluster.pending.drop_refusals()
    assert not passing.is_behind_head("b", late, 0.0)


@pytest.mark.parametrize("room", [4, 6])
def test_what_would_delay_the_head_is_known_without_a_search(room):
    """The head needs 4 CPUs at 100. Beside it there is room for as many more as its node has."""
    cluster = Cluster(room)
    passing = Passing(cluster.pending, cluster.capacity)
    for cpus in (1, 2):
        for lasts in (50, 100, 500):
            late = EndTime(lasts, is_enforced=True)
            would = passing.would_delay_head((ONE, 4), ONE, cpus, late)
            assert would == (lasts > 100 and cpus > room - 4)
            assert would == isinstance(Cluster(room).decide("b", cpus, lasts), KeptRoom), "a search agrees"
    other = shape_of(make_pod(cpu="2"))
    assert not passing.would_delay_head((ONE, 4), other, 2, EndTime(500, is_enforced=True)), (
        "of other pods it is not known"
    )
