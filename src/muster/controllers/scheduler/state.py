"""Hold what the scheduler knows: what it observed, what it decided, and what it has not seen done yet.

All of it is a cache that a restart makes anew, from the cluster and from what was written to it, except how long gangs
have waited. The modules beside this one decide from it. No function that decides waits for anything, so no other task
sees a state between two.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from msgspec import Struct

from muster.api.core import Pod
from muster.api.groups.policy import PodDisruptionBudget
from muster.api.ours.interruptions import PREEMPTED_ANNOTATION
from muster.controllers.gangs import is_preempted
from muster.controllers.scheduler.agenda import SWEEP_SECONDS, SchedulerAgenda
from muster.controllers.scheduler.carrier import Carriers
from muster.controllers.scheduler.pending import PendingGangs
from muster.controllers.scheduler.roster import Roster
from muster.controllers.scheduler.victims import Victims

# The seconds for which a node stays closed to a pod that it was refused, and for which a gang that starts over rests.
REST_SECONDS = 60.0


class Rules(Struct, frozen=True):
    """The settings of the decisions about broken gangs.

    recovery_timeout: the nanoseconds after which a broken gang gives its nodes back.
    queues_recover: whether gangs with a queue are left to their queue.
    """

    recovery_timeout: int
    queues_recover: bool


class WaitReason(Struct, frozen=True):
    """The reason, other than room, for which a gang waits. since: monotonic. published: the last Event's sentence."""

    since: float
    sentence: str
    published: str


class VictimPod(Struct, frozen=True):
    """A pod to be evicted. gang: its own gang. by: the gang for which it is evicted; "" if that is no longer known."""

    gang: str
    pod: Pod
    by: str
    message: str


@dataclass(slots=True)
class HalfBound:
    """The gangs of which a part is bound. All times are monotonic.

    closed: by the UID of a pod, the nodes whose binding was refused, and until when they stay closed.
    resting: the gangs that started over, and until when they rest.
    since: the gangs whose bound pods would be lost, and since when their rest lacks room.
    """

    closed: dict[str, dict[str, float]] = field(default_factory=dict)
    resting: dict[str, float] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)

    def forget(self, key: str) -> None:
        """Forget the rest of a gang and since when it lacks room, because it no longer waits."""
        self.resting.pop(key, None)
        self.since.pop(key, None)

    def open_node(self, name: str) -> None:
        """Open a changed node again for pods whose binding was refused there."""
        for nodes in self.closed.values():
            nodes.pop(name, None)

    def find_closed(self, pods: Iterable[Pod], now: float) -> frozenset[str]:
        """Return the nodes to which the server recently refused to bind some of the pods."""
        nodes = (self.closed.get(pod.metadata.uid, {}).items() for pod in pods)
        return frozenset(node for closed in nodes for node, until in closed if until > now)


@dataclass(slots=True)
class Displaced:
    """The pods that were chosen as victims.

    chosen: those still to be evicted, by UID.
    spared: those that were spared, and may still be marked as victims.
    begun: how many pods of each gang were evicted, or are about to be.
    """

    chosen: dict[str, VictimPod] = field(default_factory=dict)
    spared: dict[str, VictimPod] = field(default_factory=dict)
    begun: Counter[str] = field(default_factory=Counter)

    def choose(self, gang: str, pod: Pod, by: str, message: str) -> None:
        """Choose a pod as a victim."""
        self.chosen[pod.metadata.uid] = VictimPod(gang, pod, by, message)
        self.spared.pop(pod.metadata.uid, None)

    def spare_victims_of(self, by: str) -> bool:
        """Spare the victims of a gang that no longer needs them, if no pod of their gangs has been evicted.

        Return whether marks have to be removed.
        """
        for uid, victim in list(self.chosen.items()):
            if victim.by == by and not self.begun[victim.gang]:
                self.spared[uid] = self.chosen.pop(uid)
        return bool(self.spared)

    def forget_evicted(self) -> None:
        """Forget the gangs of which no victim is left."""
        self.begun &= Counter({victim.gang: self.begun[victim.gang] for victim in self.chosen.values()})


@dataclass(slots=True)
class SchedulerState:
    """The state of the scheduler.

    roster: the gangs, and the free amounts of the nodes.
    carriers: a reader of the gangs' carriers.
    pending: the gangs that wait for room, and what is reserved for them.
    victims: the running gangs as candidates for preemption.
    list_budgets: returns the PodDisruptionBudgets.
    agenda: what is reconciled next.
    lacking: what gangs lack that is not room.
    shrunk: the gangs with fewer members than their carriers record.
    broken: since when broken gangs find no room (monotonic), and the time of day at which they give their nodes back.
    """

    roster: Roster
    carriers: Carriers
    pending: PendingGangs
    victims: Victims
    list_budgets: Callable[[], Iterable[PodDisruptionBudget]]
    agenda: SchedulerAgenda
    rules: Rules
    lacking: dict[str, WaitReason] = field(default_factory=dict)
    shrunk: set[str] = field(default_factory=set)
    half_bound: HalfBound = field(default_factory=HalfBound)
    broken: dict[str, tuple[float, datetime]] = field(default_factory=dict)
    displaced: Displaced = field(default_factory=Displaced)

    def resume(self) -> None:
        """Queue what an earlier scheduler left: half-bound gangs, and victims that it marked."""
        for key, gang in self.roster.gangs.items():
            if self.carriers.half_bound(key, gang):
                self.agenda.repair(key)
            if marked := [pod for pod in gang.bound.values() if PREEMPTED_ANNOTATION in pod.metadata.annotations]:
                message = marked[0].metadata.annotations[PREEMPTED_ANNOTATION]
                for pod in self.victims.with_rest(key, gang, marked):
                    self.displaced.choose(key, pod, "", message)
        if self.displaced.chosen:
            self.agenda.evict()

    def retry_waiting(self) -> None:
        """Retry the waiting gangs, after room became free or another change that could help."""
        self.pending.drop_refusals()
        self.agenda.sweep()

    def forget(self, key: str) -> None:
        """Forget what is known of a gang that no longer waits."""
        self.lacking.pop(key, None)
        self.half_bound.forget(key)
        self.broken.pop(key, None)
        self.stop_waiting(key)

    def stop_waiting(self, key: str) -> None:
        """Remove from the waiting gangs a gang that starts, or that waits for something other than room.

        Spare its victims.
        """
        if self.pending.forget(key):
            self.agenda.sweep()
            self.agenda.queue_size_decisions()
        self.spare_victims(key)

    def spare_victims(self, key: str) -> None:
        """Spare the victims of a gang, except those whose gang is already partly evicted."""
        if self.displaced.spare_victims_of(key):
            self.agenda.evict()

    def is_waiting(self, key: str) -> bool:
        """Return whether pods of a gang wait for a node."""
        gang = self.roster.gangs.get(key)
        return gang is not None and bool(gang.unbound)

    def sweep(self) -> None:
        """Queue the first gang of each class again."""
        for key in self.pending.sweep():
            self.agenda.gang(key)
        self.agenda.queue_size_decisions()

    def find_pause(self, key: str, now: float) -> float:
        """Return how many seconds a gang is left alone: it rests, or its running pods are being evicted.

        now: monotonic.
        """
        rest = self.half_bound.resting.get(key, 0.0) - now
        if rest > 0:
            return rest
        return SWEEP_SECONDS if self._is_leaving(key) else 0.0

    def _is_leaving(self, key: str) -> bool:
        """Return whether pods of a gang were chosen as victims and their deletion is not observed yet."""
        gang, chosen = self.roster.gangs.get(key), self.displaced.chosen
        if gang is None or not chosen:
            return False
        return any(uid in chosen and not is_preempted(pod) for uid, pod in gang.bound.items())
