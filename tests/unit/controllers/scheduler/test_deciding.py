"""Which answers about waiting gangs still hold, without another look at the nodes."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from msgspec import Struct
from tests.unit.gang.conftest import make_node, make_pod

from muster.controllers.scheduler.deciding import KeptRoom, decide_start
from muster.controllers.scheduler.order import OrderCriteria
from muster.controllers.scheduler.pending import PendingGangs, Waiter
from muster.gang.nodes.capacity import Capacity
from muster.gang.order.ends import EndTime
from muster.gang.order.ledger import GangLedger, RunningGang
from muster.gang.order.shares import Shares
from muster.gang.placement import Placement, place
from muster.gang.quorum import Chosen
from muster.gang.shapes import Shape, guest_like, shape_of

ONE = shape_of(make_pod())
CREATED = datetime(2026, 1, 5, tzinfo=UTC)


class Asked(Struct, frozen=True, eq=False):
    """A gang that counts how often its nodes are searched."""

    key: str
    shapes: Mapping[Shape, int]
    lasts: float
    searches: list[str]
    tenant: str = ""

    @property
    def alike(self):
        return frozenset(self.shapes.items())

    @property
    def criteria(self):
        return OrderCriteria(False, 0, self.tenant, CREATED)

    def place(self, capacity, extra_use=None):
        self.searches.append(self.key)
        outcome = place(capacity, self.shapes, extra_use=extra_use)
        return Chosen((), outcome) if isinstance(outcome, Placement) else outcome

    def end(self, now):
        return EndTime(now + self.lasts, is_enforced=True)


class Cluster:
    """Four CPUs on one node, or more. All but two are taken until 100; the head waits for that, as it needs four."""

    def __init__(self, cpus=4):
        self.capacity, self.shares, self.ledger = Capacity(), Shares(), GangLedger()
        self.capacity.set_node(make_node("n", resources={"cpu": str(cpus)}))
        self.pending = PendingGangs(self, lambda _: self.ledger)
        self.searches: list[str] = []
        self.run("running", cpus - 2, 100)
        head = self.gang("a", 4, 10)
        assert not isinstance(decide_start(self.pending, head, self.capacity, 0.0), Chosen)
        waiter = Waiter(head.alike, head.criteria)
        self.pending.wait("a", waiter)
        self.pending.reserve_for(
            "a", waiter, lambda extra_use: place(self.capacity, head.shapes, extra_use=extra_use), 0.0
        )
        assert self.pending.head.reservation.shadow == 100
        self.searches.clear()

    def gang(self, key, cpus, lasts):
        return Asked(key, {ONE: cpus}, lasts, self.searches)

    def run(self, key, cpus, end):
        pods = [f"{key}-{number}" for number in range(cpus)]
        for pod in pods:
            self.capacity.assign(pod, "n", guest_like(ONE))
        self.ledger.set(key, RunningGang(pods, 0.0, EndTime(end, is_enforced=True)), self.capacity)

    def decide(self, key, cpus, lasts):
        return decide_start(self.pending, self.gang(key, cpus, lasts), self.capacity, 0.0)


def test_a_gang_like_one_that_is_kept_waiting_is_not_placed_again():
    cluster = Cluster()
    outcomes = [cluster.decide(key, 1, 500) for key in ("b", "c")]
    assert [type(one) for one in outcomes] == [KeptRoom, KeptRoom]
    assert [one.head.key for one in outcomes] == ["a", "a"]
    assert cluster.searches == ["b"]


def test_a_gang_like_one_that_is_kept_waiting_starts_if_it_ends_in_time():
    cluster = Cluster()
    assert isinstance(cluster.decide("b", 1, 500), KeptRoom)
    assert isinstance(cluster.decide("c", 1, 100), Chosen)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda cluster: cluster.capacity.set_node(make_node("more")), id="a node comes"),
        pytest.param(lambda cluster: cluster.capacity.release("running-0"), id="a pod goes"),
        pytest.param(lambda cluster: cluster.pending.drop_refusals(), id="anything may have changed"),
        pytest.param(lambda cluster: cluster.decide("d", 1, 50), id="a gang passes"),
    ],
)
def test_an_answer_does_not_outlive_a_change(change):
    cluster = Cluster()
    assert isinstance(cluster.decide("b", 1, 500), KeptRoom)
    change(cluster)
    cluster.searches.clear()
    cluster.decide("c", 1, 500)
    assert cluster.searches == ["c"]


def test_the_head_keeps_nothing_from_a_gang_whose_tenant_uses_less_by_now():
    """The head has no tenant, and no pod of it ran when the room was kept for it."""
    cluster = Cluster()
    other = Asked("b", {ONE: 1}, 1000, cluster.searches, tenant="other")
    assert isinstance(decide_start(cluster.pending, other, cluster.capacity, 0.0), KeptRoom)
    cluster.shares.hold("running-0", "", guest_like(ONE).requests)
    assert isinstance(decide_start(cluster.pending, other, cluster.capacity, 0.0), Chosen)
