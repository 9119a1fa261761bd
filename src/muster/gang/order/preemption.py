"""Whom a gang displaces: gangs of lower priority, whole or what they have above their minimum, and as few as can be.

1. All that may be displaced is taken away. If the gang does not fit even then, none is.
2. What was taken away comes back as long as the gang still fits: first what budgets protect, then the more important,
   the rest of a gang before its surplus. What cannot come back has to go.
3. Where the gang goes is decided in the same turn, on what is free once the victims are gone.

A gang is as strong as the least of its pods, and resists as the greatest of its pods. Only who is stronger than another
resists may displace it; so a gang never displaces one that displaced it.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from muster.api.core import Pod
from muster.api.pods import priority
from muster.api.values import durations
from muster.gang.nodes.capacity import Capacity, Ints
from muster.gang.nodes.holdings import Holdings
from muster.gang.placement import Placement, Refusal, taken_by
from muster.gang.quorum import Quorum
from muster.gang.shapes import Amounts, Shape

# Of Volcano: how long a pod may run undisturbed; and "false" if it is never displaced.
COOLDOWN_ANNOTATION = "volcano.sh/cooldown-time"
PREEMPTABLE = "volcano.sh/preemptable"  # a label or an annotation

# So often a whole gang of several shapes, or that keeps together, is placed to see who may stay.
_TRIES = 100


class Candidate(Struct, frozen=True):
    """A gang that runs, or a pod alone.

    pods: their UIDs, the worthiest first.
    quorums: what it needs to go on, as far as it runs; none: all of its pods.
    resistance: what a gang must be stronger than to displace it.
    protected: before this time it is left alone.
    """

    key: str
    pods: Sequence[str]
    resistance: int
    started: float
    quorums: Sequence[Quorum] = ()
    protected: float = 0.0


class Budget(Struct, frozen=True):
    """A PodDisruptionBudget: so many of its pods may go now. Its pods by UID."""

    name: str
    allowed: int
    pods: Collection[str]


# Where a gang goes beside what is taken, as if some pods had gone.
Displacing = Callable[[Ints, frozenset[str]], Placement | Refusal]


class Preemption(Struct, frozen=True):
    """The pods that have to go, by gang, and where the gang then goes. No victims: it is enough to wait."""

    victims: Mapping[str, tuple[str, ...]]
    placement: Placement


class Protected(Struct, frozen=True):
    """The gang would fit, but pods would have to go that these budgets protect."""

    budgets: tuple[str, ...]


def preempt(
    capacity: Capacity,
    pods: Mapping[Shape, int],
    placing: Displacing,
    strength: int,
    candidates: Iterable[Candidate],
    now: float,
    *,
    taken: Ints,
    leaving: frozenset[str] = frozenset(),
    budgets: Sequence[Budget] = (),
) -> Preemption | Protected | Refusal:
    """Who has to go so that a gang can start, and where it then goes; or why there is no way.

    pods: what must be placed. placing: where that goes. strength: see `strength`.
    taken: what is kept for others, less what those hold that are leaving already.
    """
    outcome = placing(taken, leaving)
    if isinstance(outcome, Placement):
        return Preemption({}, outcome)
    weaker = [one for one in candidates if one.resistance < strength and one.protected <= now]
    allowed = _Budgets(budgets)
    bundles = _in_order(_bundles(weaker), allowed)
    everything = taken + _freed(capacity, bundles)
    by_room = not any(shape.meets_others for shape in pods)
    away = leaving if by_room else leaving | _pods(bundles)
    outcome = placing(everything, away)
    if isinstance(outcome, Refusal):
        return outcome
    reprieve = _Reprieve(capacity, placing, everything, away, outcome, by_room=by_room)
    reprieve.run(bundles, _Room(capacity, pods, everything))
    victims = [bundle for bundle in bundles if bundle not in reprieve.kept]
    if over := allowed.exceeded(victims):
        return Protected(over)
    gone: dict[str, tuple[str, ...]] = {}
    for bundle in victims:
        gone[bundle.gang.key] = (*gone.get(bundle.gang.key, ()), *bundle.pods)
    return Preemption(gone, reprieve.placement)


def strength(pods: Iterable[Pod]) -> int | None:
    """What a gang of these pods may displace: all that resists less. None if it displaces none."""
    pods = list(pods)
    if any(pod.spec.preemption_policy == "Never" for pod in pods):
        return None
    return min(map(priority, pods))


def resistance(pods: Iterable[Pod]) -> int | None:
    """What a gang must be stronger than to displace these pods; None if they are never displaced."""
    pods = list(pods)
    if any(
        "false" in (pod.metadata.labels.get(PREEMPTABLE), pod.metadata.annotations.get(PREEMPTABLE)) for pod in pods
    ):
        return None
    return max(map(priority, pods))


def protected_until(pod: Pod, started: float, least: float) -> float:
    """Until when a pod runs undisturbed. least: how long all may run, in seconds."""
    text = pod.metadata.annotations.get(COOLDOWN_ANNOTATION, "0s")
    try:
        return started + max(least, durations.seconds(text))
    except durations.DurationError:
        return started + least


class _Bundle(Struct, frozen=True, eq=False):
    """Pods of a gang that go together: one of its surplus, or all that it needs."""

    gang: Candidate
    pods: tuple[str, ...]
    surplus: bool

    @property
    def importance(self) -> tuple[int, float, str]:
        """The more important first: those that resist more, then those that have run for longer."""
        return -self.gang.resistance, self.gang.started, self.gang.key


def _bundles(gangs: Iterable[Candidate]) -> Iterator[_Bundle]:
    for gang in gangs:
        spare = _surplus(gang)
        if needed := tuple(pod for pod in gang.pods if pod not in spare):
            yield _Bundle(gang, needed, surplus=False)
        for pod in gang.pods:
            if pod in spare:
                yield _Bundle(gang, (pod,), surplus=True)


def _surplus(gang: Candidate) -> set[str]:
    """The least worthy pods that it can do without, all together. What is broken already needs none of them."""
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
    """Which budgets count which pods."""

    def __init__(self, budgets: Sequence[Budget]) -> None:
        self._budgets = budgets
        self._of: defaultdict[str, list[int]] = defaultdict(list)
        for number, budget in enumerate(budgets):
            for pod in budget.pods:
                self._of[pod].append(number)

    def protected(self, bundles: Iterable[_Bundle]) -> set[_Bundle]:
        """Those that could not go as well if all before them went."""
        gone: Counter[int] = Counter()
        protected = set()
        for bundle in bundles:
            counts = self._counts(bundle)
            if any(gone[number] + count > self._budgets[number].allowed for number, count in counts.items()):
                protected.add(bundle)
            else:
                gone.update(counts)
        return protected

    def exceeded(self, victims: Iterable[_Bundle]) -> tuple[str, ...]:
        """The names of those that do not allow these victims."""
        gone: Counter[int] = Counter()
        for bundle in victims:
            gone.update(self._counts(bundle))
        return tuple(
            self._budgets[number].name for number in sorted(gone) if gone[number] > self._budgets[number].allowed
        )

    def _counts(self, bundle: _Bundle) -> Counter[int]:
        return Counter(number for pod in bundle.pods for number in self._of.get(pod, ()))


def _in_order(bundles: Iterable[_Bundle], budgets: _Budgets) -> list[_Bundle]:
    """Those that come back first are first. The least important are the first to use what budgets allow."""
    ordered = sorted(bundles, key=lambda bundle: (bundle.surplus, bundle.importance))
    protected = budgets.protected(reversed(ordered))
    return sorted(ordered, key=lambda bundle: (bundle.surplus, bundle not in protected))


def _pods(bundles: Iterable[_Bundle]) -> frozenset[str]:
    return frozenset(pod for bundle in bundles for pod in bundle.pods)


def _freed(capacity: Capacity, bundles: Iterable[_Bundle]) -> Ints:
    return Holdings.of(capacity, (bundle.pods for bundle in bundles)).freed()


class _Room:
    """How many pods of each shape of a gang find room on each node, while others come back to the nodes.

    Each shape is looked at as if it was alone, so what has no room is known, and what has is so for a single shape.
    """

    def __init__(self, capacity: Capacity, pods: Mapping[Shape, int], taken: Ints) -> None:
        free, rows = capacity.free() - taken, capacity.rows()
        wanted = {resource for shape in pods for resource, _ in shape.requests}
        self._free = {resource: free[rows[resource]].tolist() for resource in wanted}
        self._fits = {shape: capacity.fitting(shape, taken).tolist() for shape in pods}
        self._spare = {shape: sum(self._fits[shape]) - count for shape, count in pods.items()}

    def take(self, held: Sequence[tuple[int, Amounts]]) -> bool:
        """Let pods with these nodes and requests come back, unless there is no room for the gang then."""
        self._use(held, 1)
        lost = {shape: self._lost(shape, {node for node, _ in held}) for shape in self._fits}
        if any(sum(nodes.values()) > self._spare[shape] for shape, nodes in lost.items()):
            self._use(held, -1)
            return False
        for shape, nodes in lost.items():
            self._spare[shape] -= sum(nodes.values())
            for node, count in nodes.items():
                self._fits[shape][node] -= count
        return True

    def _use(self, held: Iterable[tuple[int, Amounts]], sign: int) -> None:
        for node, requests in held:
            for resource, amount in requests:
                if (free := self._free.get(resource)) is not None:
                    free[node] -= sign * amount

    def _lost(self, shape: Shape, nodes: Iterable[int]) -> dict[int, int]:
        """How many pods fewer find room on these nodes."""
        fits, asked = self._fits[shape], [(self._free[resource], wanted) for resource, wanted in shape.requests]
        now = {node: max(0, min(free[node] // wanted for free, wanted in asked)) for node in nodes if fits[node]}
        return {node: fits[node] - count for node, count in now.items() if count < fits[node]}


class _Reprieve:
    """Lets bundles come back, in their order, as long as the gang can be placed.

    Invariant: the gang has its placement with those that are kept there, who are counted in what is taken.
    """

    def __init__(
        self,
        capacity: Capacity,
        placing: Displacing,
        taken: Ints,
        away: frozenset[str],
        placement: Placement,
        *,
        by_room: bool,
    ) -> None:
        """`away`: the pods that are as if gone. `by_room`: room is all that the gang looks at."""
        self.kept: set[_Bundle] = set()
        self._away = away
        self._by_room = by_room
        self.placement = placement
        self._capacity = capacity
        self._placing = placing
        self._taken = taken
        self._gone: set[str] = set()  # gangs whose surplus is of no use, as the rest does not come back
        self._tries = _TRIES

    def run(self, bundles: Sequence[_Bundle], room: _Room) -> None:
        """What each shape alone allows is quickly known, and most often all that matters.

        Where it is not, those of the others are kept that come first, and the rest is looked at with the whole gang.
        """
        quick = self._quickly(bundles, room)
        if self._keep(quick):
            return
        held = Holdings.of(self._capacity, (bundle.pods for bundle in quick))
        first = bisect_left(
            range(len(quick)), True, key=lambda n: not self._fits(self._taken - held.freed(n + 1), quick[: n + 1])
        )
        self._keep(quick[:first])
        before = bundles.index(quick[first])
        self._gone = {one.gang.key for one in bundles[:before] if not one.surplus and one not in self.kept}
        self._thoroughly(bundles[before:])

    def _quickly(self, bundles: Sequence[_Bundle], room: _Room) -> list[_Bundle]:
        found = []
        for bundle in self._alive(bundles):
            if room.take(list(self._capacity.held(bundle.pods))):
                found.append(bundle)
            elif not bundle.surplus:
                self._gone.add(bundle.gang.key)
        return found

    def _thoroughly(self, bundles: Sequence[_Bundle]) -> None:
        """All of them at once if that goes, else half by half; after many tries, those with room beside it."""
        alive = list(self._alive(bundles))
        if not alive:
            return
        if self._tries <= 0:
            if self._by_room:
                self._beside(alive)
            return
        self._tries -= 1
        if self._keep(alive):
            return
        if len(alive) == 1:
            self._gone.update(one.gang.key for one in alive if not one.surplus)
            return
        needed = sum(not one.surplus for one in alive)
        middle = needed if 0 < needed < len(alive) else len(alive) // 2
        self._thoroughly(alive[:middle])
        self._thoroughly(alive[middle:])

    def _beside(self, bundles: Sequence[_Bundle]) -> None:
        """Those that leave the gang where it is now placed."""
        rows = self._capacity.rows()
        free = (self._capacity.free() - self._taken - taken_by(self._capacity, self.placement)).tolist()
        back = []
        for bundle in self._alive(bundles):
            held = Counter[tuple[int, int]]()
            for node, requests in self._capacity.held(bundle.pods):
                for resource, amount in requests:
                    if (row := rows.get(resource)) is not None:
                        held[row, node] += amount
            if all(free[row][node] >= amount for (row, node), amount in held.items()):
                back.append(bundle)
                for (row, node), amount in held.items():
                    free[row][node] -= amount
            elif not bundle.surplus:
                self._gone.add(bundle.gang.key)
        self.kept.update(back)
        self._taken = self._taken - _freed(self._capacity, back)

    def _alive(self, bundles: Iterable[_Bundle]) -> Iterator[_Bundle]:
        return (bundle for bundle in bundles if not (bundle.surplus and bundle.gang.key in self._gone))

    def _keep(self, bundles: Sequence[_Bundle]) -> bool:
        """Let them all come back, if the gang can then be placed."""
        taken = self._taken - _freed(self._capacity, bundles)
        away = self._without(bundles)
        outcome = self._placing(taken, away)
        if isinstance(outcome, Refusal):
            return False
        self.kept.update(bundles)
        self.placement, self._taken, self._away = outcome, taken, away
        return True

    def _fits(self, taken: Ints, back: Iterable[_Bundle]) -> bool:
        return isinstance(self._placing(taken, self._without(back)), Placement)

    def _without(self, back: Iterable[_Bundle]) -> frozenset[str]:
        """Who is still away if these are back, as far as it matters."""
        return self._away if self._by_room else self._away - _pods(back)
