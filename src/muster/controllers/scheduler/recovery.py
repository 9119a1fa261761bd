"""Tracks broken gangs that find no room for the members they lost, and lets them give back their nodes in time.

A gang that is not whole again in time gives all its nodes back: its pods are evicted and recreated. Pods without a
controller would be lost, so their gangs stay as they are. Gangs with a queue also stay if the queue takes their quota
back in time (`waitForPodsReady.recoveryTimeout`). A scheduler that starts counts from its start. Waiting times are
measured by the monotonic clock; the time of day is only shown.
"""

from datetime import datetime, timedelta

from muster.api.kueue.names import CLUSTER_QUEUE_NAME_LABEL, LOCAL_QUEUE_NAME_LABEL, QUEUE_NAME_LABEL
from muster.api.values import durations
from muster.controllers.scheduler.agenda import Agenda
from muster.controllers.scheduler.ask import Ask
from muster.controllers.scheduler.binding import come_again
from muster.controllers.scheduler.decisions import PlacementRecorder
from muster.controllers.scheduler.pending import PendingGangs
from muster.controllers.scheduler.preemption import Preemptor
from muster.controllers.scheduler.telling import Teller
from muster.gang.order.recovery import gives_back_at
from muster.runtime.clock import Clock

_QUEUE_LABELS = (QUEUE_NAME_LABEL, LOCAL_QUEUE_NAME_LABEL, CLUSTER_QUEUE_NAME_LABEL)


class Recovery:
    """The waiting times of broken gangs, and the eviction of those that have waited too long."""

    def __init__(
        self,
        pending: PendingGangs,
        agenda: Agenda,
        preemptor: Preemptor,
        teller: Teller,
        records: PlacementRecorder,
        clock: Clock,
        timeout: int,
        *,
        queues_recover: bool,
    ) -> None:
        """Start without gangs.

        timeout: in nanoseconds. queues_recover: whether gangs with a queue are left to their queue.
        """
        self._pending = pending
        self._agenda = agenda
        self._preemptor = preemptor
        self._teller = teller
        self._records = records
        self._clock = clock
        self._timeout = timeout
        self._queues_recover = queues_recover
        # By gang: since when it waits (monotonic), and the time of day at which it gives its nodes back.
        self._since: dict[str, tuple[float, datetime]] = {}

    def forget(self, key: str) -> None:
        """Forget a gang that is whole, or lacks something other than room."""
        self._since.pop(key, None)

    def look_at(self, ask: Ask) -> str:
        """Let a broken gang without room give its nodes back if it is time to; return what to publish about that."""
        now, timeout = self._clock.monotonic(), self._timeout / durations.SECOND
        since, moment = self._since.setdefault(ask.key, (now, self._clock.now() + timedelta(seconds=timeout)))
        at = gives_back_at(since, timeout)
        if at is None or self._is_left_alone(ask):
            return ""
        if now < at:
            self._agenda.gang_after(ask.key, at - now, ask.gang.priority)
        elif not self._pending.is_nominated(ask.key):
            self._give_back(ask)
        return f" It gives all its nodes back at {moment:%Y-%m-%dT%H:%M:%SZ}, unless it is whole by then."

    def _is_left_alone(self, ask: Ask) -> bool:
        metas = [pod.metadata for pod in ask.turn.pods[:1]] + ([ask.carrier.meta] if ask.carrier is not None else [])
        queued = any(label in meta.labels for meta in metas for label in _QUEUE_LABELS)
        return (queued and self._queues_recover) or not come_again(ask.gang.bound.values())

    def _give_back(self, ask: Ask) -> None:
        lost, limit = len(ask.turn.pods), durations.format(self._timeout)
        message = f"The gang found no room for {lost} of its pods within {limit}, and gives its nodes back"
        self._preemptor.give_back(ask.key, message)
        self._records.gives_back(ask, self._timeout)
        self._agenda.evict()
        if ask.carrier is not None:
            self._teller.say("GangTakenBack", ask.carrier, f"{message}: starting over")
