"""Decide which gangs of lower priority a gang preempts, whole or only their surplus, and as few as possible.

1. All pods that may be preempted are removed. If the gang does not fit even then, nothing is preempted.
2. Removed pods are restored as long as the gang still fits: first the pods that budgets protect, then the more
important pods, and the needed pods of a gang before its surplus. Pods that cannot be restored are the victims.
3. The same step decides the gang's placement, in the room that is free without the victims.

The strength of a gang is the priority of its weakest pod; its resistance is the priority of its strongest pod. A gang
preempts only gangs whose resistance is lower than its strength, so a gang never preempts a gang that preempted it.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from muster.api.core import Pod
from muster.api.pods import get_priority
from muster.api.values import durations
from muster.gang.arrays import Ints
from muster.gang.nodes.capacity import Capacity
from muster.gang.nodes.holdings import Holdings
from muster.gang.placement import Placement, Refusal, sum_placement_use
from muster.gang.quorum import Quorum
from muster.gang.shapes import Amounts, Shape

# Volcano's settings: the time for which a pod runs before it may be preempted, and "false" for never.
COOLDOWN_ANNOTATION = "volcano.sh/cooldown-time"
PREEMPTABLE = "volcano.sh/preemptable"  # a label or an annotation

# The maximum number of placements of the whole gang while bundles are restored.
_TRIES = 100


class Candidate(Struct, frozen=True):
    """A running gang, or a single pod, that may be preempted.

    pods: the UIDs of its pods, most important first.
    quorums: sets of pods, each with the minimum number of them that must keep running; empty if all pods must.
    resistance: the strength that a gang must exceed to preempt this one.
    started: the start time, in seconds.
    protected: the time before which the gang is not preempted, in seconds of the same clock.
    """

    key: str
    pods: Sequence[str]
    resistance: int
    started: float
    quorums: Sequence[Quorum] = ()
    protected: float = 0.0


class DisruptionBudget(Struct, frozen=True):
    """A PodDisruptionBudget with the UIDs of its pods, and the number of them that may be evicted now."""

    name: str
    allowed: int
    pods: Collection[str]


# Places a gang, given extra use of the nodes and the UIDs of pods that count as deleted.
Displacing = Callable[[Ints, frozenset[str]], Placement | Refusal]


class GangPreemption(Struct, frozen=True):
    """The result of a preemption: the victims by gang, and the placement of the preempting gang without them.

    If there are no victims, the gang only has to wait until pods that are being deleted are gone.
    """

    victims: Mapping[str, tuple[str, ...]]
    placement: Placement


class Protected(Struct, frozen=True):
    """The result that a gang could start only if pods that these budgets protect were evicted."""

    budgets: tuple[str, ...]


def preempt(
    capacity: Capacity,
    pods: Mapping[Shape, int],
    placing: Displacing,
    strength: int,
    candidates: Iterable[Candidate],
    now: float,
    *,
    extra_use: Ints,
    leaving: frozenset[str] = frozenset(),
    budgets: Sequence[DisruptionBudget] = (),
) -> GangPreemption | Protected | Refusal:
    """Return the victims whose eviction lets a gang start, and the gang's placement; or why preemption does not help.

    pods: the number of pods of each shape that the gang places.
    placing: places them, given extra use and the pods that count as deleted.
    strength: the gang's strength, from `compute_strength`.
    candidates: the gangs that may be preempted.
    extra_use: the room reserved for other gangs, minus the use of the pods in `leaving`.
    leaving: the UIDs of the pods that are being deleted already.
    budgets: the PodDisruptionBudgets to respect.
    """
    outcome = placing(extra_use, leaving)
    if isinstance(outcome, Placement):
        return GangPreemption({}, outcome)
    weaker = [one for one in candidates if one.resistance < strength and one.protected <= now]
    allowed = _Budgets(budgets)
    bundles = _order_bundles(_make_bundles(weaker), allowed)
    everything = extra_use + _sum_freed(capacity, bundles)
    by_room = not any(shape.meets_others for shape in pods)
    away = leaving if by_room else leaving | _collect_pods(bundles)
    outcome = placing(everything, away)
    if isinstance(outcome, Refusal):
        return outcome
    reprieve = _Reprieve(capacity, placing, everything, away, outcome, by_room=by_room)
    reprieve.run(bundles, _Room(capacity, pods, everything))
    victims = [bundle for bundle in bundles if bundle not in reprieve.kept]
    if over := allowed.list_exceeded(victims):
        return Protected(over)
    pods_by_gang: dict[str, tuple[str, ...]] = {}
    for bundle in victims:
        pods_by_gang[bundle.gang.key] = (*pods_by_gang.get(bundle.gang.key, ()), *bundle.pods)
    return GangPreemption(pods_by_gang, reprieve.placement)


def compute_strength(pods: Iterable[Pod]) -> int | None:
    """Return the strength of a gang with these pods; None if it preempts no gang.

    A gang preempts gangs whose resistance is lower than its strength.
    """
    pods = list(pods)
    if any(pod.spec.preemption_policy == "Never" for pod in pods):
        return None
    return min(map(get_priority, pods))


def compute_resistance(pods: Iterable[Pod]) -> int | None:
    """Return the strength that a gang must exceed to preempt these pods; None if they are never preempted."""
    pods = list(pods)
    if any(
        "false" in (pod.metadata.labels.get(PREEMPTABLE), pod.metadata.annotations.get(PREEMPTABLE)) for pod in pods
    ):
        return None
    return max(map(get_priority, pods))


def protected_until(pod: Pod, started: float, least: float) -> float:
    """Return the time before which a pod is not preempted.

    started: the time at which the pod started.
    least: the minimum run time of every pod, in seconds.
    """
    text = pod.metadata.annotations.get(COOLDOWN_ANNOTATION, "0s")
    try:
        return started + max(least, durations.parse_seconds(text))
    except durations.DurationError:
        return started + least


class _Bundle(Struct, frozen=True, eq=False):
    """Pods of one gang that are preempted together: one surplus pod, or all pods that the gang needs."""

    gang: Candidate
    pods: tuple[str, ...]
    surplus: bool

    @property
    def importance(self) -> tuple[int, float, str]:
        """The sort key by importance: greater resistance first, then longer running."""
        return -self.gang.resistance, self.gang.started, self.gang.key


def _make_bundles(gangs: Iterable[Candidate]) -> Iterator[_Bundle]:
    for gang in gangs:
        spare = _find_surplus(gang)
        if needed := tuple(pod for pod in gang.pods if pod not in spare):
            yield _Bundle(gang, needed, surplus=False)
        for pod in gang.pods:
            if pod in spare:
                yield _Bundle(gang, (pod,), surplus=True)


def _find_surplus(gang: Candidate) -> set[str]:
    """Return the UIDs of the least important pods that a gang can lose, all at the same time.

    A gang that is broken already needs none of its pods, so all of them are returned.
    """
    running = set(gang.pods)
    left = {quorum: len(quorum.pods & running) - quorum.least for quorum in gang.quorums}
    if any(number < 0 for number in left.values()):
        return running
    spare = set()
    for pod in reversed(gang.pods):
        concerned = [quorum for quorum in gang.quorums if pod in quorum.pods]
        if gang.quorums and all(left[quorum] > 0 for quorum in concerned):
            spare.add(pod)
            for quorum in concerned:
                left[quorum] -= 1
    return spare


class _Budgets:
    """An index from pods to the budgets that count them."""

    def __init__(self, budgets: Sequence[DisruptionBudget]) -> None:
        self._budgets = budgets
        self._of: defaultdict[str, list[int]] = defaultdict(list)
        for number, budget in enumerate(budgets):
            for pod in budget.pods:
                self._of[pod].append(number)

    def find_protected(self, bundles: Iterable[_Bundle]) -> set[_Bundle]:
        """Return the bundles that budgets protect from eviction, after the eviction of all earlier bundles."""
        used: Counter[int] = Counter()
        protected = set()
        for bundle in bundles:
            counts = self._count_budgets(bundle)
            if any(used[number] + count > self._budgets[number].allowed for number, count in counts.items()):
                protected.add(bundle)
            else:
                used.update(counts)
        return protected

    def list_exceeded(self, victims: Iterable[_Bundle]) -> tuple[str, ...]:
        """Return the names of the budgets that do not allow the eviction of these victims."""
        used: Counter[int] = Counter()
        for bundle in victims:
            used.update(self._count_budgets(bundle))
        return tuple(
            self._budgets[number].name for number in sorted(used) if used[number] > self._budgets[number].allowed
        )

    def _count_budgets(self, bundle: _Bundle) -> Counter[int]:
        return Counter(number for pod in bundle.pods for number in self._of.get(pod, ()))


def _order_bundles(bundles: Iterable[_Bundle], budgets: _Budgets) -> list[_Bundle]:
    """Return the bundles in the order in which they are restored.

    The least important bundles are the first to use up what the budgets allow.
    """
    ordered = sorted(bundles, key=lambda bundle: (bundle.surplus, bundle.importance))
    protected = budgets.find_protected(reversed(ordered))
    return sorted(ordered, key=lambda bundle: (bundle.surplus, bundle not in protected))


def _collect_pods(bundles: Iterable[_Bundle]) -> frozenset[str]:
    return frozenset(pod for bundle in bundles for pod in bundle.pods)


def _sum_freed(capacity: Capacity, bundles: Iterable[_Bundle]) -> Ints:
    return Holdings.of(capacity, (bundle.pods for bundle in bundles)).freed()


class _Room:
    """The number of pods of each shape that fit on each node, updated while victims are restored.

    Each shape is counted as if it were the only one. The result "does not fit" is therefore certain, and "fits" is
    certain only for a single shape.
    """

    def __init__(self, capacity: Capacity, pods: Mapping[Shape, int], extra_use: Ints) -> None:
        free, rows = capacity.free() - extra_use, capacity.rows()
        wanted = {resource for shape in pods for resource, _ in shape.requests}
        self._free = {resource: free[rows[resource]].tolist() for resource in wanted}
        self._fits = {shape: capacity.count_fitting(shape, extra_use).tolist() for shape in pods}
        self._spare = {shape: sum(self._fits[shape]) - count for shape, count in pods.items()}

    def take(self, held: Sequence[tuple[int, Amounts]]) -> bool:
        """Restore pods with these nodes and requests, unless the gang would not fit then.

        Return whether they were restored.
        """
        self._add_usage(held, 1)
        lost = {shape: self._count_lost(shape, {node for node, _ in held}) for shape in self._fits}
        if any(sum(nodes.values()) > self._spare[shape] for shape, nodes in lost.items()):
            self._add_usage(held, -1)
            return False
        for shape, nodes in lost.items():
            self._spare[shape] -= sum(nodes.values())
            for node, count in nodes.items():
                self._fits[shape][node] -= count
        return True

    def _add_usage(self, held: Iterable[tuple[int, Amounts]], sign: int) -> None:
        for node, requests in held:
            for resource, amount in requests:
                if (free := self._free.get(resource)) is not None:
                    free[node] -= sign * amount

    def _count_lost(self, shape: Shape, nodes: Iterable[int]) -> dict[int, int]:
        """Return how many fewer pods of the shape fit now than at the last count, for each node that loses any."""
        fits, rows = self._fits[shape], [(self._free[resource], wanted) for resource, wanted in shape.requests]
        now = {node: max(0, min(free[node] // wanted for free, wanted in rows)) for node in nodes if fits[node]}
        return {node: fits[node] - count for node, count in now.items() if count < fits[node]}


class _Reprieve:
    """The part of a preemption that spares victims: it restores bundles as long as the gang can be placed.

    Invariant: the gang has a placement alongside the kept bundles, and `_extra_use` includes the kept bundles.
    """

    def __init__(
        self,
        capacity: Capacity,
        placing: Displacing,
        extra_use: Ints,
        away: frozenset[str],
        placement: Placement,
        *,
        by_room: bool,
    ) -> None:
        """Start from a placement of the gang without any of the candidates.

        extra_use: the room that others use in addition to what `capacity` counts.
        away: the UIDs of the pods that count as deleted.
        by_room: whether only free room matters to the gang, and not which pods run where.
        """
        self.kept: set[_Bundle] = set()
        self._away = away
        self._by_room = by_room
        self.placement = placement
        self._capacity = capacity
        self._placing = placing
        self._extra_use = extra_use
        self._gone: set[str] = set()  # gangs whose needed pods are not restored, so that their surplus is useless
        self._tries = _TRIES

    def run(self, bundles: Sequence[_Bundle], room: _Room) -> None:
        """Restore as many bundles as possible while the gang can still be placed.

        A quick check of each shape alone usually suffices. If the whole gang does not fit after it, the first bundles
        that leave room for the gang are restored, and the whole gang is checked with each further bundle.
        """
        quick = self._keep_quickly(bundles, room)
        if self._keep(quick):
            return
        held = Holdings.of(self._capacity, (bundle.pods for bundle in quick))
        first = bisect_left(
            range(len(quick)), True, key=lambda n: not self._fits(self._extra_use - held.freed(n + 1), quick[: n + 1])
        )
        self._keep(quick[:first])
        before = bundles.index(quick[first])
        self._gone = {one.gang.key for one in bundles[:before] if not one.surplus and one not in self.kept}
        self._keep_thoroughly(bundles[before:])

    def _keep_quickly(self, bundles: Sequence[_Bundle], room: _Room) -> list[_Bundle]:
        returning = []
        for bundle in self._list_alive(bundles):
            if room.take(list(self._capacity.held(bundle.pods))):
                returning.append(bundle)
            elif not bundle.surplus:
                self._gone.add(bundle.gang.key)
        return returning

    def _keep_thoroughly(self, bundles: Sequence[_Bundle]) -> None:
        """Restore all bundles if the gang then fits; otherwise try each half in the same way.

        When the tries are used up, restore no more bundles, or with `by_room` the bundles that fit beside the current
        placement.
        """
        alive = list(self._list_alive(bundles))
        if not alive:
            return
        if self._tries <= 0:
            if self._by_room:
                self._keep_beside(alive)
            return
        self._tries -= 1
        if self._keep(alive):
            return
        if len(alive) == 1:
            self._gone.update(one.gang.key for one in alive if not one.surplus)
            return
        needed = sum(not one.surplus for one in alive)
        middle = needed if 0 < needed < len(alive) else len(alive) // 2
        self._keep_thoroughly(alive[:middle])
        self._keep_thoroughly(alive[middle:])

    def _keep_beside(self, bundles: Sequence[_Bundle]) -> None:
        """Spare the bundles of candidate victims that fit alongside the gang's current placement."""
        rows = self._capacity.rows()
        free = (self._capacity.free() - self._extra_use - sum_placement_use(self._capacity, self.placement)).tolist()
        returning = []
        for bundle in self._list_alive(bundles):
            held = Counter[tuple[int, int]]()
            for node, requests in self._capacity.held(bundle.pods):
                for resource, amount in requests:
                    if (row := rows.get(resource)) is not None:
                        held[row, node] += amount
            if all(free[row][node] >= amount for (row, node), amount in held.items()):
                returning.append(bundle)
                for (row, node), amount in held.items():
                    free[row][node] -= amount
            elif not bundle.surplus:
                self._gone.add(bundle.gang.key)
        self.kept.update(returning)
        self._extra_use = self._extra_use - _sum_freed(self._capacity, returning)

    def _list_alive(self, bundles: Iterable[_Bundle]) -> Iterator[_Bundle]:
        return (bundle for bundle in bundles if not (bundle.surplus and bundle.gang.key in self._gone))

    def _keep(self, bundles: Sequence[_Bundle]) -> bool:
        """Restore all of these bundles if the gang can then be placed; return whether it can."""
        extra_use = self._extra_use - _sum_freed(self._capacity, bundles)
        away = self._find_away(bundles)
        outcome = self._placing(extra_use, away)
        if isinstance(outcome, Refusal):
            return False
        self.kept.update(bundles)
        self.placement, self._extra_use, self._away = outcome, extra_use, away
        return True

    def _fits(self, extra_use: Ints, back: Iterable[_Bundle]) -> bool:
        return isinstance(self._placing(extra_use, self._find_away(back)), Placement)

    def _find_away(self, back: Iterable[_Bundle]) -> frozenset[str]:
        """Return the pods that still count as deleted after these bundles are restored.

        If only room matters to the gang, the result is the same set as before.
        """
        return self._away if self._by_room else self._away - _collect_pods(back)
