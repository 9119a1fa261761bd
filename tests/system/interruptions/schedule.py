"""A schedule: which orders run, what interrupts them, and at which moments of their lives. One number makes it."""

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random as Chance

from tests.system.interruptions.deeds import DEEDS, QUEUE_DEEDS, Undo
from tests.system.interruptions.kinds import GROWN, KINDS, SIZE, Order
from tests.system.interruptions.laws import Watch, check_end, check_rest, is_over
from tests.system.interruptions.scene import QUEUE, Delays, Scene, scene

from muster.api.batch import JOB
from muster.api.status import ApiError
from muster.jobs.jobset.start.group import find_started_member
from muster.runtime.clock import run_virtual

ALL_DEEDS = {**DEEDS, **QUEUE_DEEDS}
# What may last: the rest of the cluster goes on meanwhile, and comes to rest.
_LASTING = ("drain", "lose", "partition", "shut down", "stop queue", "stop local queue", "hold")
_LONG_SECONDS = 1200.0
_BEFORE_SECONDS = 5.0  # before the first of those is undone, all is looked at
_MOMENT_SECONDS = 60.0  # so long a moment is waited for; some never come
# After the last interruption each order runs once more, and has so long to start.
_START_AGAIN_SECONDS = 60.0
_STOP_WAITING_SECONDS = 1200.0


# The moments of an order's life.


def _waits(scene: Scene, order: Order) -> bool:
    return bool(scene.members(order) or scene.workloads_of(order))


def _is_half_bound(scene: Scene, order: Order) -> bool:
    return 0 < len(scene.bound(order)) < order.kind.start


def _starts(scene: Scene, order: Order) -> bool:
    return any(pod.status.phase == "Pending" for pod in scene.bound(order))


def _is_at_barrier(scene: Scene, order: Order) -> bool:
    return any(find_started_member(pod) is not None and pod.status.phase == "Pending" for pod in scene.bound(order))


def _runs(scene: Scene, order: Order) -> bool:
    return sum(pod.status.phase == "Running" for pod in scene.bound(order)) >= order.kind.start


def _grows(scene: Scene, order: Order) -> bool:
    return len(scene.members(order)) > SIZE


def _ends(scene: Scene, order: Order) -> bool:
    return any(pod.status.phase == "Succeeded" for pod in scene.members(order))


MOMENTS: Mapping[str, Callable[[Scene, Order], bool]] = {
    "waiting": _waits,
    "half bound": _is_half_bound,
    "starting": _starts,
    "at the barrier": _is_at_barrier,
    "running": _runs,
    "growing": _grows,
    "ending": _ends,
    "at once": lambda _, __: True,
}


@dataclass(frozen=True, slots=True)
class Blow:
    """One interruption. delay: seconds after the moment. lasts: seconds until what it took is given back."""

    deed: str
    moment: str
    delay: float
    lasts: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """What is played. The first order is the one whose moments count."""

    seed: int
    orders: tuple[Order, ...]
    blows: tuple[Blow, ...]
    delays: Delays
    spread: float

    def __str__(self) -> str:
        """Say it in a few lines."""
        orders = [f"{one.name}: {one.kind.name}, queue {one.queue or 'none'}, runs {one.run} s" for one in self.orders]
        blows = [f"{one.moment} + {one.delay} s: {one.deed} for {one.lasts} s" for one in self.blows]
        return "\n".join([f"schedule {self.seed}", *orders, *blows, f"{self.delays}, ends spread by {self.spread} s"])


def draw(seed: int) -> Schedule:
    """Draw a schedule.

    Kinds and first deeds go round, so that a few schedules have each of them, and not many more every pair.
    """
    chance = Chance(seed)
    kinds, deeds = len(KINDS), [*ALL_DEEDS]
    kind, first = KINDS[seed % kinds], deeds[(seed % kinds + seed // kinds) % len(deeds)]
    queued = kind.queues and (first in QUEUE_DEEDS or chance.random() < 0.7)
    orders = [_order("a", seed % kinds, chance, queued=queued)]
    if chance.random() < 0.5:
        other = chance.randrange(kinds)
        orders.append(_order("b", other, chance, queued=KINDS[other].queues and queued))
    possible = deeds if queued else [*DEEDS]
    names = [first if first in possible else chance.choice(possible)]
    names += [chance.choice(possible) for _ in range(chance.choice((0, 0, 1, 2)))]
    blows = [_blow(name, number, orders[0], chance) for number, name in enumerate(names)]
    return Schedule(seed, tuple(orders), tuple(blows), _delays(chance), chance.choice((0.0, 0.0, 5.0)))


def _order(name: str, kind: int, chance: Chance, *, queued: bool) -> Order:
    run, start, stop = chance.choice((20, 40)), chance.choice((0, 0, 3)), chance.choice((0, 0, 4))
    return Order(name, KINDS[kind], QUEUE if queued else "", run, start, stop, chance.choice((5, 5, None)))


def _blow(deed: str, number: int, order: Order, chance: Chance) -> Blow:
    usual = [name for name in MOMENTS if name not in ("at the barrier", "growing", "at once")]
    usual += ["growing"] * 2 if order.kind.grows else []
    usual += ["at the barrier"] if order.kind.name in ("run", "group start") else []
    usual += ["at once"] * 3 if number else []
    moment = chance.choice(usual)
    delay = chance.choice((0.0, 0.0, round(chance.uniform(0.0, 1.0), 3), round(chance.uniform(0.0, 15.0), 1)))
    lasts = chance.choice((1.0, 5.0, 20.0, 60.0))
    if deed == "partition":
        lasts = chance.choice((5.0, 45.0, 60.0, 90.0))
    if deed in _LASTING and chance.random() < 0.3:
        lasts = _LONG_SECONDS
    return Blow(deed, moment, delay, lasts)


def _delays(chance: Chance) -> Delays:
    late = chance.choice((0.0, 0.0, 0.2, 1.0))
    watched = {kind: round(late * chance.random(), 3) for kind in ("jobs", "pods", "workloads", "nodes", "jobsets")}
    lost = frozenset(chance.randrange(60) for _ in range(chance.choice((0, 0, 1, 3))))
    return Delays(watched if late else {}, chance.choice((0.0, 0.0, 0.01, 0.1)), lost)


@dataclass(slots=True)
class Outcome:
    """What came of a schedule. seconds: from the last thing done until all had ended."""

    findings: list[str]
    log: list[str]
    seconds: float


def play(schedule: Schedule) -> Outcome:
    """Play a schedule in virtual time."""
    return run_virtual(_play(schedule))


async def _play(schedule: Schedule) -> Outcome:
    async with scene(schedule.seed, schedule.delays, schedule.spread) as on:
        watch = Watch(on)
        try:
            return await _Player(schedule, on, watch).play()
        finally:
            watch.stop()


class _Player:
    def __init__(self, schedule: Schedule, on: Scene, watch: Watch) -> None:
        self._schedule, self._scene, self._watch = schedule, on, watch
        self._undoing: list[asyncio.Task[None]] = []
        self._findings: list[str] = []
        self._grown = False

    async def play(self) -> Outcome:
        scene, schedule = self._scene, self._schedule
        for order in schedule.orders:
            await scene.submit(order)
        rest = math.inf
        for blow in schedule.blows:
            await self._await_moment(blow.moment)
            await scene.clock.sleep(blow.delay)
            self._watch.disturbed = scene.clock.monotonic()
            if blow.lasts == _LONG_SECONDS:
                rest = min(rest, scene.clock.monotonic() + _LONG_SECONDS - _BEFORE_SECONDS)
            undo = await ALL_DEEDS[blow.deed](scene, schedule.orders[0])
            self._undoing.append(asyncio.create_task(self._undo_later(blow, undo)))
        if rest < math.inf:
            await scene.clock.sleep(rest - scene.clock.monotonic())
            if not self._is_engine_off():
                self._findings += await check_rest(scene)
        await asyncio.gather(*self._undoing)
        return await self._end()

    def _is_engine_off(self) -> bool:
        return self._scene.engine.wire.writes_left is not None

    async def _undo_later(self, blow: Blow, undo: Undo) -> None:
        await self._scene.clock.sleep(blow.lasts)
        self._watch.disturbed = self._scene.clock.monotonic()
        self._scene.say(f"{blow.deed} is over")
        await undo()
        self._watch.disturbed = self._scene.clock.monotonic()

    async def _await_moment(self, name: str) -> None:
        scene, order = self._scene, self._schedule.orders[0]
        if name == "growing":
            await self._wait_for("running")
            await self._grow()
        await self._wait_for(name)
        scene.say(f"{order.name} is {name}")

    async def _wait_for(self, name: str) -> None:
        scene, order, holds = self._scene, self._schedule.orders[0], MOMENTS[name]
        try:
            async with asyncio.timeout(_MOMENT_SECONDS):
                while not holds(scene, order):
                    await scene.changed()
        except TimeoutError:
            scene.say(f"{order.name} has not been {name}")

    async def _grow(self) -> None:
        """Play the user: the order is to have more pods."""
        order = self._schedule.orders[0]
        if self._grown or not order.kind.grows:
            return
        self._grown = True
        self._scene.say(f"{order.name} is scaled to {GROWN}")
        try:
            await self._scene.client.patch(
                JOB, order.name, {"spec": {"parallelism": GROWN, "completions": GROWN}}, "default"
            )
        except ApiError as error:  # it has ended meanwhile
            self._scene.say(str(error))

    async def _end(self) -> Outcome:
        scene = self._scene
        begun = scene.clock.monotonic()
        limit = begun + _STOP_WAITING_SECONDS
        while not is_over(scene) and scene.clock.monotonic() < limit:
            await scene.clock.sleep(1.0)
        took = scene.clock.monotonic() - begun
        await scene.clock.sleep(30.0)
        findings = [*self._watch.findings, *self._findings, *await check_end(scene)]
        if not findings and took > (most := self._most_seconds()):
            findings.append(f"time: it took {took:g} s, and at most {most:g} s were to be expected")
        return Outcome(findings, scene.log, took)

    def _most_seconds(self) -> float:
        """Return in how many seconds all have ended, one after another if need be."""
        runs = sum(
            order.kind.rounds * (order.run + order.start) + order.stop + _START_AGAIN_SECONDS
            for order in self._schedule.orders
        )
        return runs + len(self._scene.urgent) * 20.0
