"""Which refusals still answer for a class of gangs once something has happened."""

from datetime import UTC, datetime

from tests.unit.gang.conftest import make_pod

from muster.controllers.scheduler.pending import OrderCriteria, PendingGangs
from muster.controllers.scheduler.roster import Roster
from muster.gang.nodes.capacity import Strategy
from muster.gang.order.ledger import GangLedger
from muster.gang.placement import Placement, Refusal
from muster.gang.shapes import shape_of

OF_ROOM = Refusal(shape_of(make_pod()), 2, 1, proven=True)
PORT = {"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}
OF_OTHERS = Refusal(shape_of(make_pod(containers=[PORT])), 2, 1, proven=True)

CREATED = datetime(2026, 1, 5, tzinfo=UTC)
FIRST = OrderCriteria(broken=False, priority=0, tenant="", created=CREATED)


class Asked(Refusal, frozen=True):
    """A refusal that counts how often it is asked what it is about."""

    times: list[int]

    @property
    def is_of_room(self) -> bool:
        self.times.append(1)
        return super().is_of_room


def pending() -> PendingGangs:
    return PendingGangs(Roster([], (), Strategy.TIGHT), lambda now: GangLedger())


def test_other_pods_help_those_who_look_at_them_alone() -> None:
    gangs = pending()
    gangs.record_refusal("room", OF_ROOM)
    gangs.record_refusal("others", OF_OTHERS)
    assert gangs.drop_refusals_by_other_pods()
    assert (gangs.get_refusal("room"), gangs.get_refusal("others")) == (OF_ROOM, None)
    assert not gangs.drop_refusals_by_other_pods()


def test_what_comes_free_may_help_all() -> None:
    gangs = pending()
    gangs.record_refusal("room", OF_ROOM)
    gangs.record_refusal("others", OF_OTHERS)
    gangs.drop_refusals()
    assert (gangs.get_refusal("room"), gangs.get_refusal("others")) == (None, None)
    assert not gangs.drop_refusals_by_other_pods()


def test_room_that_is_no_longer_nominated_may_help_all() -> None:
    gangs = pending()
    gangs.record_refusal("others", OF_OTHERS)
    gangs.nominate("gang", FIRST, Placement({}))
    assert gangs.withdraw("gang")
    assert gangs.get_refusal("others") is None
    assert not gangs.drop_refusals_by_other_pods()


def test_the_last_refusal_of_a_class_counts() -> None:
    gangs = pending()
    gangs.record_refusal("one", OF_OTHERS)
    gangs.record_refusal("one", OF_ROOM)
    assert not gangs.drop_refusals_by_other_pods()
    assert gangs.get_refusal("one") == OF_ROOM


def test_a_pod_that_moves_costs_nothing_for_those_that_lack_room() -> None:
    gangs, times = pending(), list[int]()
    for number in range(100):
        gangs.record_refusal(number, Asked(OF_ROOM.shape, 2, 1, proven=True, times=times))
    before = len(times)
    for _ in range(100):
        gangs.drop_refusals_by_other_pods()
    assert len(times) == before
