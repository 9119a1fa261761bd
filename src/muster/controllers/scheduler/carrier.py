"""Read facts about a gang from its carrier: the Job or PodGroup that defines how many pods the gang has. Read-only."""

from collections.abc import Callable, Collection
from typing import Any

from msgspec import Struct

from muster.api.batch import Job
from muster.api.core import ObjectReference, Pod
from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta
from muster.controllers.gangs import (
    PATIENCE_SECONDS,
    DueTurns,
    Gang,
    GangSource,
    Members,
    is_preempted,
    one_by_one,
)
from muster.controllers.intents import find_unfinished_start
from muster.controllers.scheduler.roster import Roster
from muster.gang.order.ends import EndTime
from muster.gang.quorum import Quorum
from muster.runtime.objects import make_reference, meta_of


class Carrier(Struct, frozen=True):
    """The object that records the size of a gang and gets its events, such as a Job or a PodGroup."""

    kind: Kind[Any]
    object: Any

    @property
    def meta(self) -> ObjectMeta:
        """The object's metadata."""
        return meta_of(self.object)

    @property
    def reference(self) -> ObjectReference:
        """The reference to the object, for events."""
        return make_reference(self.kind, self.object)


class Carriers:
    """A reader of the carriers of gangs.

    find: returns a gang's carrier from the cache, by source and key; None if there is none. A stale carrier causes at
    most a conflict.
    jobs: returns the Jobs that count done pods of a gang, by the gang's key; none if the carrier counts them itself.
    """

    def __init__(
        self, find: Callable[[GangSource[Any], str], Carrier | None], jobs: Callable[[str], Collection[Job]]
    ) -> None:
        self._find = find
        self._jobs = jobs

    def of(self, key: str, gang: Gang) -> Carrier | None:
        """Return the carrier of a gang; None if the gang has none, or it is deleted."""
        return self._find(gang.source, key) if gang.source is not None else None

    def due(self, key: str, roster: Roster) -> tuple[Carrier | None, DueTurns]:
        """Return the carrier of a gang, and the gang's turns: sets of pods to place now, each of them together.

        The carrier is None if the cache contains none, or if no pod of the gang waits for a node.
        """
        gang = roster.gangs.get(key)
        if gang is None or not gang.unbound:
            return None, DueTurns()
        if gang.source is None:
            return None, one_by_one(gang.unbound.values())
        carrier = self.of(key, gang)
        bound = [pod for pod in gang.bound.values() if not is_preempted(pod)]
        members = Members(gang.unbound.values(), bound, roster.others(key), self._jobs(key))
        return carrier, gang.source.due(carrier.object if carrier is not None else None, members)

    def needs(self, key: str, gang: Gang) -> tuple[Quorum, ...]:
        """Return the quorums that a gang needs to keep running; () if it needs all its pods."""
        carrier = self.of(key, gang)
        if gang.source is None or carrier is None:
            return ()
        return gang.source.needs(carrier.object, gang.bound.values())

    def end(self, key: str, gang: Gang, started: float) -> EndTime | None:
        """Return when a gang that started at `started` ends, by its carrier; None if the carrier does not define it."""
        carrier = self.of(key, gang)
        return gang.source.end(carrier.object, started) if gang.source is not None and carrier is not None else None

    def patience(self, key: str, gang: Gang) -> float:
        """Return for how many seconds a half-bound gang may wait for room for its unbound pods."""
        carrier = self.of(key, gang)
        if gang.source is None or carrier is None:
            return PATIENCE_SECONDS
        return gang.source.patience(carrier.object)

    def half_bound(self, key: str, gang: Gang, carrier: Carrier | None = None) -> list[Pod]:
        """Return the bound pods of a gang that cannot run, because pods of the same start are not bound.

        carrier: the carrier from the server; by default, from the cache.
        """
        if gang.source is None or not gang.bound or not gang.unbound:
            return []
        needed = self.needs(key, gang)
        if needed and all(len(quorum.pods) >= quorum.least for quorum in needed):
            return []
        carrier = carrier or self.of(key, gang)
        members = gang.source.members(carrier.object, gang.pods) if carrier is not None else gang.pods
        bound = [pod for pod in members if pod.metadata.uid in gang.bound]
        unbound = [pod for pod in members if pod.metadata.uid in gang.unbound]
        return find_unfinished_start(carrier.meta if carrier is not None else None, bound, unbound)
