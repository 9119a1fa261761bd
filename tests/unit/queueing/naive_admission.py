"""The admission cycle as it is defined, without any cache: `cycle` has to reach the same decisions.

Before each decision every head that fits is nominated again, and all heads are ordered again. A head that has to
preempt is nominated again only when it comes first, because the rule says so.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace
from tests.unit.queueing.admission_worlds import FLAVORS
from tests.unit.queueing.worlds import START

from muster.queueing.model import Assignment, Mode, Usage, WorkloadInfo
from muster.queueing.pending.ordering import place
from muster.queueing.pending.queue import make_class_key
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.scheduling.cycle import AdmissionSettings
from muster.queueing.scheduling.fairness import Contender, Tournament
from muster.queueing.scheduling.nomination import nominate
from muster.queueing.scheduling.preemption.candidates import Victim


@dataclass
class Look:
    workload: WorkloadInfo
    assignment: Assignment
    victims: tuple[Victim, ...]
    stale: bool = False

    @property
    def fits(self) -> bool:
        return self.assignment.mode == Mode.FIT


@dataclass
class Decisions:
    admitted: list[tuple[str, Usage]] = field(default_factory=list)
    preemptions: list[tuple[str, list[str]]] = field(default_factory=list)


@dataclass
class Claim:
    """A claim of a head.

    victims: the keys of the victims that it waits for.
    """

    key: str
    usage: Usage
    victims: tuple[str, ...] = ()


class Naive:
    def __init__(self, tree: Tree, settings: AdmissionSettings) -> None:
        self.tree = tree
        self.settings = settings
        self.waiting: dict[str, WorkloadInfo] = {}
        self.sticky: set[str] = set()
        self.aside: set[str] = set()
        self.tried: dict[str, str] = {}  # by ClusterQueue, the head
        self.claims: dict[str, Claim] = {}

    def add(self, workload: WorkloadInfo) -> None:
        self.waiting[workload.key] = workload
        self._add(workload)
        self._forget()

    def _add(self, workload: WorkloadInfo) -> None:
        alike = [other for other in self._alike(workload) if other.key in self.aside]
        if any(place(workload) > place(other) for other in alike):
            self.aside.add(workload.key)
        else:
            self.aside -= {other.key for other in alike}

    def wake(self, node: Node) -> None:
        names = {queue.name for queue in node.root.queues()}
        woken = {key for key, workload in self.waiting.items() if workload.queue in names}
        self.aside -= woken
        self.tried = {name: key for name, key in self.tried.items() if name not in names}

    def run(self) -> Decisions:
        self._lift()
        before = dict(self.claims)
        decisions = _Run(self).decide()
        for name, claim in before.items():
            if self.claims.get(name) is claim:
                continue
            now = self.claims.get(name)
            taken = dict(decisions.admitted).get(claim.key)
            if (now is None or now.usage != claim.usage) and taken != claim.usage and claim.usage:
                self.wake(self.tree.queues[name])
        return decisions

    def head(self, name: str) -> WorkloadInfo | None:
        mine = [one for one in self.waiting.values() if one.queue == name and one.key not in self.aside]
        return min(mine, key=lambda one: place(one, sticky=one.key in self.sticky), default=None)

    def set_aside(self, workload: WorkloadInfo) -> None:
        was_sticky = workload.key in self.sticky
        self.sticky.discard(workload.key)
        self.aside.add(workload.key)
        self.aside |= {other.key for other in self._alike(workload) if was_sticky or other.key not in self.sticky}

    def remove(self, key: str) -> None:
        del self.waiting[key]
        self.sticky.discard(key)
        self.aside.discard(key)
        self._forget()

    def _forget(self) -> None:
        """Who is no longer the head was not tried."""
        for name, key in list(self.tried.items()):
            if (head := self.head(name)) is None or head.key != key:
                del self.tried[name]

    def untried(self) -> list[str]:
        return [
            name
            for name in self.tree.queues
            if (head := self.head(name)) is not None and self.tried.get(name) != head.key
        ]

    def _lift(self) -> None:
        """Claims of those who are no longer the head end."""
        for name, claim in list(self.claims.items()):
            head = self.head(name)
            if head is None or head.key != claim.key:
                del self.claims[name]
                if claim.usage:
                    self.wake(self.tree.queues[name])

    def _alike(self, workload: WorkloadInfo) -> Iterator[WorkloadInfo]:
        for other in self.waiting.values():
            same = (other.queue, other.priority) == (workload.queue, workload.priority) and other is not workload
            if same and make_class_key(other.podsets) == make_class_key(workload.podsets):
                yield other


class _Run:
    def __init__(self, naive: Naive) -> None:
        self.naive = naive
        self.tree = naive.tree
        self.claimed: list[tuple[Node, Usage]] = []
        self.victims: list[WorkloadInfo] = []
        self.decisions = Decisions()
        self.looks: dict[str, Look] = {}
        self.done: set[str] = set()

    def decide(self) -> Decisions:
        roots = {self.tree.queues[name].root for name in self.naive.untried()}
        untried = set(self.naive.untried())
        live = [
            name
            for name, node in self.tree.queues.items()
            if node.root in roots and (name in untried or (name in self.naive.claims and self.naive.claims[name].usage))
        ]
        self.redeem(roots)
        while looks := self.heads(live):
            self.serve(self.first(looks))
        for node, usage in self.claimed:
            node.remove(usage)
        for victim in self.victims:
            self.tree.hold(victim)
        return self.decisions

    def redeem(self, roots: set[Node]) -> None:
        """Whose victims have gone comes first, and nobody has what is kept for the others."""
        kept = []
        for name, claim in sorted(self.naive.claims.items()):
            node = self.tree.queues[name]
            if claim.victims and node.root in roots and not any(map(self.tree.holder, claim.victims)):
                kept.append((node, claim.usage))
                node.add(claim.usage)
        self.claimed += kept
        for node, usage in kept:
            self.claimed.remove((node, usage))
            node.remove(usage)
            head = self.naive.head(node.name)
            assert head is not None
            look = self.look(head)
            if look.fits:
                self.serve_fitting(look)

    def heads(self, live: list[str]) -> dict[str, Look]:
        for name in live:
            while name not in self.done and (head := self.naive.head(name)) is not None:
                look = self.looks.get(name)
                if look is None or look.workload is not head or look.fits:
                    look = self.looks[name] = self.look(head)
                if self.possible(name, look):
                    break
                self.refuse(name, look)
        return {name: self.looks[name] for name in live if name not in self.done and self.naive.head(name) is not None}

    def look(self, workload: WorkloadInfo) -> Look:
        best = nominate(self.tree, workload, FLAVORS, self.naive.settings)
        return Look(workload, best.assignment, best.victims)

    def possible(self, name: str, look: Look) -> bool:
        strict = self.tree.queues[name].policy.strict
        return look.fits or bool(look.victims) or (strict and look.assignment.mode > Mode.NO_FIT)

    def refuse(self, name: str, look: Look) -> None:
        if self.tree.queues[name].policy.strict:
            self.park(look.workload, {})
        else:
            self.naive.set_aside(look.workload)
            claim = self.naive.claims.get(name)
            if claim is not None and claim.key == look.workload.key:
                del self.naive.claims[name]

    def first(self, looks: Mapping[str, Look]) -> Look:
        contenders = {
            Contender(
                self.tree.queues[name], look.workload, look.assignment.usage, look.workload.key in self.naive.sticky
            ): look
            for name, look in looks.items()
        }
        if self.naive.settings.fair is not None:
            winner = Tournament(contenders, self.naive.settings.fair).pop()
            assert winner is not None
            return contenders[winner]

        def key(look: Look) -> tuple[Any, ...]:
            workload = look.workload
            first = workload.key not in self.naive.sticky
            return first, look.assignment.level, -workload.priority, workload.queued, workload.uid

        return min(looks.values(), key=key)

    def serve(self, look: Look) -> None:
        workload = look.workload
        if look.stale and not look.fits:
            del self.looks[workload.queue]
            return
        if look.fits:
            self.serve_fitting(look)
        elif look.victims:
            self.decisions.preemptions.append((workload.key, [victim.workload.key for victim in look.victims]))
            gone = tuple(victim.workload.key for victim in look.victims)
            self.park(workload, look.assignment.usage, sticky=True, victims=gone)
            for victim in look.victims:
                self.victims.append(victim.workload)
                self.tree.release(victim.workload)
        else:
            self.park(workload, self.reservation(look))
        for other in self.looks.values():
            other.stale = True

    def serve_fitting(self, look: Look) -> None:
        workload, usage = look.workload, look.assignment.usage
        node = self.tree.queues[workload.queue]
        if self.victims and not self.now(node, usage):
            for victim in self.victims:
                self.tree.queues[victim.queue].add(victim.usage or {})
            other = self.look(workload)
            for victim in self.victims:
                self.tree.queues[victim.queue].remove(victim.usage or {})
            if not other.fits:
                self.park(workload, usage, sticky=True, victims=tuple(victim.key for victim in self.victims))
                return
            usage = other.assignment.usage
        assert node.fits(usage)
        self.tree.hold(replace(workload, usage=usage, reserved=START))
        self.naive.remove(workload.key)
        claim = self.naive.claims.get(workload.queue)
        if claim is not None and claim.key == workload.key:
            del self.naive.claims[workload.queue]
        self.decisions.admitted.append((workload.key, usage))

    def now(self, node: Node, usage: Usage) -> bool:
        for claimant, claim in self.claimed:
            claimant.remove(claim)
        for victim in self.victims:
            self.tree.queues[victim.queue].add(victim.usage or {})
        fits = node.fits(usage)
        for victim in self.victims:
            self.tree.queues[victim.queue].remove(victim.usage or {})
        for claimant, claim in self.claimed:
            claimant.add(claim)
        return fits

    def reservation(self, look: Look) -> Usage:
        node = self.tree.queues[look.workload.queue]
        if node.policy.preemption.within_cohort == "Any":
            return {}
        claim = {}
        for fr, amount in look.assignment.usage.items():
            quota, used = node.quota(fr), node.usage.get(fr, 0)
            if look.assignment.level == 0:
                claim[fr] = max(0, min(amount, quota.nominal - used))
            elif quota.borrowing is None:
                claim[fr] = amount
            else:
                claim[fr] = max(0, min(amount, quota.nominal + quota.borrowing - used))
        return {fr: amount for fr, amount in claim.items() if amount}

    def park(
        self, workload: WorkloadInfo, usage: Usage, *, sticky: bool = False, victims: tuple[str, ...] = ()
    ) -> None:
        node = self.tree.queues[workload.queue]
        if sticky and not node.policy.strict:
            self.naive.sticky.add(workload.key)
        self.naive.tried[workload.queue] = workload.key
        self.naive.claims[workload.queue] = Claim(workload.key, usage, victims)
        self.done.add(workload.queue)
        node.add(usage)
        self.claimed.append((node, usage))
