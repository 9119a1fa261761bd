"""Handle half-bound gangs: a pod whose binding was refused gets another node, or the bound pods are deleted.

Bound pods that a controller recreates are deleted as soon as the rest of their gang no longer fits. Other pods would be
lost, so their rest, which is placed before all other gangs, first gets some time to find room. A loss is then recorded
on the carrier, whose status shows it as long as it lasts, and in events on the pods.
"""

from collections.abc import Iterable, Sequence

from muster.api.core import Pod
from muster.controllers.scheduler.agenda import Agenda
from muster.controllers.scheduler.ask import Ask
from muster.controllers.scheduler.binding import Binder, Refusals, come_again
from muster.controllers.scheduler.carrier import Carrier, Carriers
from muster.controllers.scheduler.pending import PendingGangs
from muster.controllers.scheduler.roster import Roster
from muster.controllers.scheduler.telling import Teller
from muster.runtime.clock import Clock

# The number of refused bindings of a pod after which its gang starts over.
MOST_REFUSED = 3
REST_SECONDS = 60.0


class Halves:
    """The state of half-bound gangs.

    It has the nodes closed to pods, gangs that pause, and since when the rest of other gangs lacks room.
    """

    def __init__(
        self,
        roster: Roster,
        pending: PendingGangs,
        said: Carriers,
        agenda: Agenda,
        binder: Binder,
        teller: Teller,
        clock: Clock,
    ) -> None:
        self._roster = roster
        self._pending = pending
        self._said = said
        self._agenda = agenda
        self._binder = binder
        self._teller = teller
        self._clock = clock
        # By pod UID, nodes whose binding was refused, and until when they stay closed.
        self._closed: dict[str, dict[str, float]] = {}
        self._resting: dict[str, float] = {}  # gangs that started over, and until when they pause
        self._since: dict[str, float] = {}  # gangs whose bound pods would be lost, and since when their rest lacks room

    def forget(self, key: str) -> None:
        """Forget the pause of a gang and since when it lacks room, because it no longer waits."""
        self._resting.pop(key, None)
        self._since.pop(key, None)

    def forget_pod(self, uid: str) -> None:
        """Forget the closed nodes of a deleted pod."""
        self._closed.pop(uid, None)

    def node_changed(self, name: str) -> None:
        """Open a changed node again for pods whose binding was refused there."""
        for nodes in self._closed.values():
            nodes.pop(name, None)

    def rest(self, key: str) -> float:
        """Return how many seconds a gang still pauses."""
        return self._resting.get(key, 0.0) - self._clock.monotonic()

    def closed(self, pods: Iterable[Pod]) -> frozenset[str]:
        """Return the nodes to which the server recently refused to bind some of the pods."""
        now = self._clock.monotonic()
        nodes = (self._closed.get(pod.metadata.uid, {}).items() for pod in pods)
        return frozenset(node for closed in nodes for node, until in closed if until > now)

    async def replan(self, ask: Ask, refusals: Refusals) -> None:
        """Place pods whose binding was refused on other nodes, or let their gang start over."""
        for uid, (node, _) in refusals.items():
            self._roster.unassume(uid)
            self._closed.setdefault(uid, {})[node] = self._clock.monotonic() + REST_SECONDS
        self._pending.freed()
        self._agenda.sweep()
        refused = [pod for pod in ask.turn.pods if pod.metadata.uid in refusals]
        node, why = refusals[refused[0].metadata.uid]
        sentence = f"{refused[0].metadata.name} could not be bound to {node}: {why}"
        self._teller.warn("FailedBinding", refused[0], ask.carrier, sentence)
        if max(len(self._closed.get(uid, ())) for uid in refusals) < MOST_REFUSED:
            self._agenda.repair(ask.key)
            return
        self._resting[ask.key] = self._clock.monotonic() + REST_SECONDS
        for uid in refusals:
            self._closed.pop(uid, None)
        self._agenda.gang_after(ask.key, REST_SECONDS)
        await self.look_at(ask.key, ask.carrier, sentence)

    async def look_at(self, key: str, carrier: Carrier | None, why: str, *, may_change: bool = False) -> None:
        """Delete the bound pods of a half-bound gang whose rest cannot be placed now, at once or after some time.

        may_change: missing pods of the gang may still be created.
        """
        gang = self._roster.gangs.get(key)
        half = self._said.half_bound(key, gang) if gang is not None else []
        if gang is None or not half:
            self._since.pop(key, None)
            return
        again, message = come_again(half), f"{len(half)} pods of the gang were bound, and {why}"
        if not again or may_change:
            now, patience = self._clock.monotonic(), self._said.patience(key, gang)
            remaining = self._since.setdefault(key, now) + patience - now
            if remaining > 0:
                self._agenda.gang_after(key, remaining)
                return
        # The carrier shows that a start is complete only after that was written.
        if carrier is not None and not self._said.half_bound(key, gang, await self._binder.read(carrier)):
            return
        await self._take_back(half, carrier, message, again=again)

    async def _take_back(self, pods: Sequence[Pod], carrier: Carrier | None, message: str, *, again: bool) -> None:
        """Delete the bound pods of a gang. again: their controllers recreate them."""
        if again:
            if carrier is not None:
                self._teller.say("GangTakenBack", carrier, f"{message}: starting over")
        else:
            message = (
                f"{message}: they were deleted, as a gang is bound whole or not at all; no controller recreates them"
            )
            if carrier is not None:
                await self._binder.record_loss(carrier, message)
                self._teller.say("GangTakenBack", carrier, message)
            for pod in pods:
                self._teller.warn("GangTakenBack", pod, None, message)
        await self._binder.take_back(pods)
