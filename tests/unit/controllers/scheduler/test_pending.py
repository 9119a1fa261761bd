"""Which refusals still answer for a class of gangs, and which gangs come first, once something has happened."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace
from tests.unit.gang.conftest import make_node, make_pod

from muster.controllers.scheduler.order import OrderCriteria
from muster.controllers.scheduler.pending import PendingGangs, Waiter
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


@pytest.mark.parametrize(
    ("shares", "starts", "overtaken"),
    [
        ({"of-head": 1, "other": 2}, "of-head", False),
        ({"of-head": 3, "other": 2}, "of-head", True),
        ({"of-head": 3, "other": 2}, "other", False),
    ],
    ids=["it uses less", "it uses more now", "another tenant uses more now"],
)
def test_the_head_is_overtaken_once_its_tenant_uses_more(shares, starts, overtaken) -> None:
    gangs = reserve_for_head(shares)
    gangs.wait("other", Waiter("other", replace(FIRST, tenant="other")))
    assert gangs.may_overtake_head(starts) == overtaken


def test_a_gang_that_never_fits_does_not_overtake_the_head_again_and_again() -> None:
    gangs = reserve_for_head({"of-head": 3, "other": 2})
    never = Waiter("never", replace(FIRST, tenant="other"))
    gangs.wait("never", never)
    gangs.record_refusal("never", OF_ROOM)
    assert gangs.may_overtake_head("of-head")
    assert gangs.reserve_for("never", never, lambda taken: OF_ROOM, 0.0) == OF_ROOM
    assert not gangs.may_overtake_head("of-head")
    gangs.drop_refusals()
    assert gangs.may_overtake_head("of-head")


def reserve_for_head(held: Mapping[str, int]) -> PendingGangs:
    """Return gangs that wait for a node of four CPUs, the first of which is the head. held: the CPUs of each tenant."""
    roster = Roster([], (), Strategy.TIGHT)
    roster.capacity.set_node(make_node("n", resources={"cpu": "4"}))
    for tenant, cpus in held.items():
        roster.shares.hold(tenant, tenant, (("cpu", 1000 * cpus),))
    gangs = PendingGangs(roster, lambda now: GangLedger())
    head = Waiter("head", replace(FIRST, tenant="of-head"))
    assert gangs.reserve_for("head", head, lambda taken: Placement({}), 0.0) is None
    gangs.wait("head", head)
    return gangs


def test_between_two_sweeps_each_gang_is_tried_once() -> None:
    gangs = pending()
    for second, (key, alike) in enumerate([("a", "x"), ("b", "x"), ("c", "y"), ("d", "x")]):
        gangs.wait(key, Waiter(alike, replace(FIRST, created=CREATED + timedelta(seconds=second))))
    assert gangs.sweep() == ["a", "c"]
    gangs.forget("a")  # it starts
    assert gangs.next_alike("x") == "b"
    gangs.wait("new", Waiter("x", FIRST))
    assert [gangs.next_alike("x") for _ in range(2)] == ["d", None]
    assert gangs.next_alike("y") is None
    assert gangs.sweep() == ["new", "c"]


def test_a_gang_whose_class_changes_is_swept_in_its_new_one() -> None:
    gangs = pending()
    gangs.wait("a", Waiter("x", FIRST))
    gangs.wait("b", Waiter("x", FIRST))
    gangs.wait("b", Waiter("y", FIRST))
    assert gangs.sweep() == ["a", "b"]
    assert gangs.next_alike("x") is None
