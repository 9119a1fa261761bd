"""The objects of gangs, and what they say of them: pure but for how one is found."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from muster.api.core import ObjectReference, Pod
from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta
from muster.controllers.gangs import (
    PATIENCE_SECONDS,
    Due,
    Gang,
    GangSource,
    Members,
    binding_since,
    bound_since,
    made_by,
    one_by_one,
)
from muster.controllers.scheduler.roster import Roster
from muster.gang.order.ends import End
from muster.gang.quorum import Quorum
from muster.runtime.objects import meta_of, reference


@dataclass(frozen=True, slots=True)
class Carrier:
    """The object on which the intent to bind a gang is recorded, and that is told why it waits: a Job, a PodGroup."""

    kind: Kind[Any]
    object: Any

    @property
    def meta(self) -> ObjectMeta:
        """Its metadata."""
        return meta_of(self.object)

    @property
    def reference(self) -> ObjectReference:
        """Names it, for events."""
        return reference(self.kind, self.object)


class Carriers:
    """What the carriers of gangs say. find: that of a key from a source, as last seen; None if there is none.

    An older one than there is costs no more than a conflict.
    """

    def __init__(self, find: Callable[[GangSource[Any], str], Carrier | None]) -> None:
        self._find = find

    def of(self, key: str, gang: Gang) -> Carrier | None:
        """The carrier of a gang."""
        return self._find(gang.source, key) if gang.source is not None else None

    def due(self, key: str, roster: Roster) -> tuple[Carrier | None, Due]:
        """What of a gang is to be placed now, and its carrier."""
        gang = roster.gangs.get(key)
        if gang is None or not gang.unbound:
            return None, Due()
        if gang.source is None:
            return None, one_by_one(gang.unbound.values())
        carrier = self.of(key, gang)
        members = Members(gang.unbound.values(), gang.bound.values(), roster.others(key))
        return carrier, gang.source.due(carrier.object if carrier is not None else None, members)

    def needs(self, key: str, gang: Gang) -> tuple[Quorum, ...]:
        """What a gang needs to go on; none: all its pods."""
        carrier = self.of(key, gang)
        if gang.source is None or carrier is None:
            return ()
        return gang.source.needs(carrier.object, gang.bound.values())

    def end(self, key: str, gang: Gang, started: float) -> End | None:
        """When a gang that started then ends, as far as its carrier says."""
        carrier = self.of(key, gang)
        return gang.source.end(carrier.object, started) if gang.source is not None and carrier is not None else None

    def patience(self, key: str, gang: Gang) -> float:
        """For how many seconds a gang that is half bound may wait for room for its rest."""
        carrier = self.of(key, gang)
        if gang.source is None or carrier is None:
            return PATIENCE_SECONDS
        return gang.source.patience(carrier.object)

    def half_bound(self, key: str, gang: Gang) -> list[Pod]:
        """The bound pods of a gang that cannot go on without others, which were meant to be bound with them."""
        if gang.source is None or not gang.bound or not gang.unbound:
            return []
        # What no object carries shows by its pods alone that it was meant to be bound together.
        carrier = self.of(key, gang)
        since = binding_since(carrier.meta) if carrier is not None else None
        if not gang.source.kinds:
            since = bound_since(gang.bound.values())
        needed = self.needs(key, gang)
        if needed and all(len(quorum.pods) >= quorum.least for quorum in needed):
            return []
        if since is None or not any(made_by(pod, since) for pod in gang.unbound.values()):
            return []
        return [pod for pod in gang.bound.values() if made_by(pod, since)]
