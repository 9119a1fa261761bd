"""Hold the scheduler's state: observed objects, decisions, and writes whose effect was not observed yet.

A restart rebuilds the state from the cluster's objects, except how long gangs have waited. The decision functions of
this package read and change the state. They never await, so that no other task sees a half-changed state.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime

from msgspec import Struct, field

from muster.api.core import Pod
from muster.api.groups.policy import PodDisruptionBudget
from muster.api.ours.interruptions import PREEMPTED_ANNOTATION
from muster.controllers.gangs import is_preempted
from muster.controllers.scheduler.agenda import SWEEP_SECONDS, SchedulerAgenda
from muster.controllers.scheduler.carrier import Carriers
from muster.controllers.scheduler.pending import PendingGangs
from muster.controllers.scheduler.roster import Roster
from muster.controllers.scheduler.victims import Victims

# The seconds for which a node stays excluded for a pod whose binding there was refused, and for which a gang that
# starts over is not placed.
REST_SECONDS = 60.0


class Rules(Struct, frozen=True):
    """The settings of the decisions about broken gangs.

    recovery_timeout: the nanoseconds after which a broken gang gives its nodes back.
    queues_recover: whether the queue evicts a broken gang that has one, so that the scheduler does not.
    """

    recovery_timeout: int
    queues_recover: bool


class WaitReason(Struct, frozen=True):
    """The reason, other than room, for which a gang waits.

    since: the monotonic time since which it holds.
    published: the sentence of the last Event about it.
    """

    since: float
    sentence: str
    published: str


class VictimPod(Struct, frozen=True):
    """A pod to be evicted.

    gang: the pod's own gang.
    by: the gang for which the pod is evicted; "" if that is no longer known.
    message: the reason, for users.
    """

    gang: str
    pod: Pod
    by: str
    message: str


class HalfBound(Struct):
    """Facts about gangs of which only some pods are bound. All times are seconds on the monotonic clock.

    closed: the nodes to which the server refused to bind a pod, and the end of their exclusion, by the pod's UID.
    resting: the time until which a gang that started over is not placed, by the gang's key.
    since: the time since when a gang's unbound pods do not fit, by the gang's key; only gangs with bound pods that no
    controller recreates.
    """

    closed: dict[str, dict[str, float]] = field(default_factory=dict)
    resting: dict[str, float] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)

    def forget(self, key: str) -> None:
        """Drop the times of a gang that no longer waits."""
        self.resting.pop(key, None)
        self.since.pop(key, None)

    def open_node(self, name: str) -> None:
        """Allow a changed node again for the pods whose binding there was refused."""
        for nodes in self.closed.values():
            nodes.pop(name, None)

    def find_closed(self, pods: Iterable[Pod], now: float) -> frozenset[str]:
        """Return the nodes to which the server recently refused to bind some of the pods.

        now: the monotonic time in seconds.
        """
        nodes = (self.closed.get(pod.metadata.uid, {}).items() for pod in pods)
        return frozenset(node for closed in nodes for node, until in closed if until > now)


class Displaced(Struct):
    """The pods that were chosen as victims.

    chosen: the pods still to be evicted, by UID.
    spared: the pods that are no longer to be evicted, and whose marks must be removed, by UID.
    begun: the number of pods of each gang that were evicted, or are being evicted.
    """

    chosen: dict[str, VictimPod] = field(default_factory=dict)
    spared: dict[str, VictimPod] = field(default_factory=dict)
    begun: Counter[str] = field(default_factory=Counter)

    def choose(self, gang: str, pod: Pod, by: str, message: str) -> None:
        """Choose a pod as a victim.

        gang: the pod's gang.
        by: the gang for which it is evicted.
        message: the reason, for users.
        """
        self.chosen[pod.metadata.uid] = VictimPod(gang, pod, by, message)
        self.spared.pop(pod.metadata.uid, None)

    def spare_victims_of(self, by: str) -> bool:
        """Spare the pods chosen for a gang that no longer needs them, unless their own gang has lost a pod already.

        by: the gang that preempted.

        Return whether marks of spared pods must be removed.
        """
        for uid, victim in list(self.chosen.items()):
            if victim.by == by and not self.begun[victim.gang]:
                self.spared[uid] = self.chosen.pop(uid)
        return bool(self.spared)

    def forget_evicted(self) -> None:
        """Drop the counts of evicted pods of gangs without further victims."""
        self.begun &= Counter({victim.gang: self.begun[victim.gang] for victim in self.chosen.values()})


class SchedulerState(Struct):
    """The state of the scheduler.

    roster: the gangs, and the free amounts of the nodes.
    carriers: a reader of the gangs' carriers.
    pending: the gangs that wait for room, and the room that is reserved for them.
    victims: the running gangs as candidates for preemption.
    list_budgets: returns the PodDisruptionBudgets.
    agenda: the writer of the scheduler's work queue.
    rules: the settings for broken gangs.
    lacking: why gangs wait that lack something other than room, such as pods.
    shrunk: the gangs with fewer members than their carriers record.
    half_bound: the facts about gangs of which only some pods are bound.
    broken: since when broken gangs find no room (monotonic), and the time of day at which they give their nodes back.
    displaced: the pods chosen as victims.
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
        """Queue the half-bound gangs of an earlier scheduler, and the pods that it marked as victims."""
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
        """Drop all facts about a gang that no longer waits."""
        self.lacking.pop(key, None)
        self.half_bound.forget(key)
        self.broken.pop(key, None)
        self.stop_waiting(key)

    def stop_waiting(self, key: str) -> None:
        """Remove a gang from those that wait for room, because it starts or lacks something else.

        Spare its victims, and try the other waiting gangs again.
        """
        if self.pending.forget(key):
            self.agenda.sweep()
            self.agenda.queue_size_decisions()
        self.spare_victims(key)

    def spare_victims(self, key: str) -> None:
        """Spare the pods chosen as victims for a gang, except pods of gangs that have lost a pod already.

        key: the gang that preempted.
        """
        if self.displaced.spare_victims_of(key):
            self.agenda.evict()

    def is_waiting(self, key: str) -> bool:
        """Return whether pods of a gang wait for a node."""
        gang = self.roster.gangs.get(key)
        return gang is not None and bool(gang.unbound)

    def sweep(self) -> None:
        """Queue the first waiting gang of each equivalence class again."""
        for key in self.pending.sweep():
            self.agenda.gang(key)
        self.agenda.queue_size_decisions()

    def find_pause(self, key: str, now: float) -> float:
        """Return for how many seconds a gang must not be placed: it starts over, or its running pods are being evicted.

        now: the monotonic time in seconds.
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
