"""The request of a simulated gang for nodes, in the form that the scheduler's decisions need."""

from collections.abc import Hashable, Mapping
from datetime import UTC, datetime

from msgspec import Struct

from muster.api.ours.decisions import Subject
from muster.controllers.scheduler.order import OrderCriteria
from muster.gang.arrays import Ints
from muster.gang.fit.packing import Effort
from muster.gang.nodes.capacity import Capacity
from muster.gang.order.ends import EndTime
from muster.gang.placement import Placement, Refusal, find_refusal, place
from muster.gang.quorum import Chosen
from muster.gang.shapes import Shape
from muster.gang.topology import TopologyConstraint, place_near
from muster.simulation.engine.nodes.displacement import PRECEDES_NONE, Precedence
from muster.simulation.engine.nodes.pinning import Pins, place_pinned


class GangAsk(Struct, frozen=True, eq=False):
    """A gang's request for nodes.

    alike: a key that is equal for gangs with equal pods. One refusal applies to all of them, whenever they end.
    shapes: the number of pods by shape.
    lasts: when the gang ends, from its start; None if unknown.
    precedence: the gangs that it may preempt, and that may preempt it.
    pins: the nodes that admission chose; None if it chose none.
    has_places: whether admission chose nodes or domains.
    subject: the job, for records.
    uniform: the shape and number of its pods, if they have one shape without rules about other pods and no pins.
    near: how close together the pods must be, including the gang's running pods; None if they may be anywhere.
    running: the node of each running pod, if it matters.
    is_elastic: whether single pods may be removed later.
    """

    key: str
    alike: Hashable
    criteria: OrderCriteria
    shapes: Mapping[Shape, int]
    lasts: EndTime | None
    precedence: Precedence = PRECEDES_NONE
    pins: Pins | None = None
    has_places: bool = False
    subject: Subject = Subject("")
    uniform: tuple[Shape, int] | None = None
    near: TopologyConstraint | None = None
    running: tuple[str, ...] = ()
    is_elastic: bool = False

    @classmethod
    def of(
        cls,
        key: str,
        criteria: OrderCriteria,
        shapes: Mapping[Shape, int],
        lasts: EndTime | None,
        precedence: Precedence = PRECEDES_NONE,
        pins: Pins | None = None,
        *,
        has_places: bool = False,
        subject: Subject = Subject(""),  # noqa: B008  (it is frozen)
        near: TopologyConstraint | None = None,
        running: tuple[str, ...] = (),
        is_elastic: bool = False,
    ) -> "GangAsk":
        """Return the request of a gang for nodes, including the fields that follow from the others."""
        alike: Hashable = frozenset(shapes.items() if pins is None else pins.items())
        uniform = next(iter(shapes.items())) if len(shapes) == 1 and pins is None and near is None else None
        if uniform is not None and uniform[0].meets_others:
            uniform = None
        if near is not None:
            alike = alike, near, running
        given = (key, alike, criteria, shapes, lasts, precedence, pins, has_places, subject, uniform)
        return cls(*given, near, running, is_elastic)

    @property
    def equivalence(self) -> Hashable:
        """The key of the request's equivalence class.

        It includes the gang's end, which decides whether the gang may pass the first waiting gang.
        """
        return self.alike, self.lasts

    def place(self, capacity: Capacity, extra_use: Ints | None = None) -> Chosen | Refusal:
        """Return a decision to start the gang, with nodes for all its pods; or why there are no such nodes.

        extra_use: additional use of the nodes to leave room for; None for none.
        """
        outcome = self.find_placement(capacity, extra_use)
        return Chosen((), outcome) if isinstance(outcome, Placement) else outcome

    def find_placement(
        self, capacity: Capacity, extra_use: Ints | None, effort: Effort | None = None
    ) -> Placement | Refusal:
        """Return nodes for all pods, without a decision to start the gang; or why there are no such nodes.

        extra_use: additional use of the nodes to leave room for; None for none.
        effort: as in `placement.place`.
        """
        if self.pins is not None:
            return place_pinned(capacity, self.pins, extra_use)
        if self.near is not None:
            return place_near(
                capacity, self.shapes, self.near, extra_use=extra_use, running=self.running, effort=effort
            )
        return place(capacity, self.shapes, extra_use=extra_use, effort=effort)

    def find_refusal(self, capacity: Capacity, extra_use: Ints) -> Refusal | None:
        """Return why the nodes lack room for all pods in addition to `extra_use`; None if they have room.

        extra_use: as in `placement.place`.
        """
        if self.pins is None and self.near is None:
            return find_refusal(capacity, self.shapes, extra_use)
        outcome = self.find_placement(capacity, extra_use)
        return outcome if isinstance(outcome, Refusal) else None

    def end(self, now: float) -> EndTime | None:
        """Return when the gang ends if it starts now; None if unknown."""
        return None if self.lasts is None else EndTime(now + self.lasts.at, self.lasts.is_enforced)


def make_criteria(priority: int, tenant: str, created: float, *, broken: bool = False) -> OrderCriteria:
    """Return the sort key of a gang among waiting gangs.

    created: the creation time, in seconds since the epoch.
    broken: whether the gang lacks only some of its pods.
    """
    return OrderCriteria(broken=broken, priority=priority, tenant=tenant, created=tell_moment(created))


def tell_moment(seconds: float) -> datetime:
    """Return the UTC time for a number of seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC)
