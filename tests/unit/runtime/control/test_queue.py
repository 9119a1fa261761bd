"""The work queue: tables for each rule, and hypothesis against a plain model."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.queue import WorkQueue
from muster.runtime.ids import Random


class Ear:
    """An observer that writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def added(self) -> None:
        self.heard.append("added")

    def retried(self) -> None:
        self.heard.append("retried")

    def started(self, waited_seconds: float) -> None:
        self.heard.append(("started", waited_seconds))

    def finished(self, worked_seconds: float) -> None:
        self.heard.append(("finished", worked_seconds))


def run(test: Callable[[WorkQueue, VirtualClock], Awaitable[None]], observer: Ear | None = None) -> None:
    async def main() -> None:
        clock = VirtualClock()
        await test(WorkQueue(clock, Random(seed=1), name="test", observer=observer), clock)

    run_virtual(main())


async def take(queue: WorkQueue) -> str:
    key = await queue.get()
    assert key is not None
    return key


async def take_all(queue: WorkQueue) -> list[str]:
    """The keys that are ready, each done at once."""
    keys = []
    while len(queue):
        keys.append(await take(queue))
        queue.done(keys[-1])
    return keys


def test_key_added_often_waits_once() -> None:
    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        for key in ("a", "b", "a", "c", "a"):
            queue.add(key)
        assert len(queue) == 3
        assert await take_all(queue) == ["a", "b", "c"]

    run(test)


def test_key_added_while_worked_on_comes_back_after_done() -> None:
    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        queue.add("a")
        assert await take(queue) == "a"
        queue.add("a")
        queue.add("a")
        assert len(queue) == 0
        queue.done("a")
        assert len(queue) == 1
        assert await take_all(queue) == ["a"]

    run(test)


def test_higher_priority_first_then_in_order() -> None:
    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        for key, priority in (("low1", -5), ("a", 0), ("high", 10), ("b", 0), ("low2", -5)):
            queue.add(key, priority)
        assert await take_all(queue) == ["high", "a", "b", "low1", "low2"]

    run(test)


def test_namespaces_take_turns() -> None:
    """Whoever has ten thousand keys makes nobody else wait for more than one of them."""

    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        for number in range(10_000):
            queue.add(f"many/{number}")
        for key in ("few/a", "few/b", "node", "other/c"):
            queue.add(key)
        order = [await take(queue) for _ in range(10)]
        assert order == [
            *("many/0", "few/a", "node", "other/c"),
            *("many/1", "few/b", "many/2", "many/3", "many/4", "many/5"),
        ]
        queue.add("few/z")
        assert [await take(queue) for _ in range(2)] == ["many/6", "few/z"]

    run(test)


def test_a_higher_priority_goes_before_every_turn() -> None:
    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        for key, priority in (("a/1", 0), ("a/2", 5), ("a/3", 5), ("b/1", 0), ("b/2", 5), ("a/1", 5)):
            queue.add(key, priority)
        assert await take_all(queue) == ["a/2", "b/2", "a/3", "a/1", "b/1"]

    run(test)


def test_lanes_are_what_the_owner_says() -> None:
    async def main() -> None:
        queue = WorkQueue(VirtualClock(), Random(seed=1), lane=lambda key: (key[-1],))
        for key in ("1a", "2a", "3a", "4b"):
            queue.add(key)
        assert await take_all(queue) == ["1a", "4b", "2a", "3a"]

    run_virtual(main())


def test_families_take_turns_within_their_namespace() -> None:
    """However many owners a namespace has, it has one turn in each round."""

    async def main() -> None:
        queue = WorkQueue(VirtualClock(), Random(seed=1), lane=lambda key: (key[0], key[1]))
        for key in ("ax1", "ax2", "ay1", "az1", "bx1", "bx2"):
            queue.add(key)
        assert await take_all(queue) == ["ax1", "bx1", "ay1", "bx2", "az1", "ax2"]

    run_virtual(main())


@given(st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=40))
def test_a_namespace_gets_its_second_turn_once_all_others_had_one(namespaces: list[str]) -> None:
    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        for number, namespace in enumerate(namespaces):
            queue.add(f"{namespace}/{number}")
        order = await take_all(queue)
        rounds = Counter[str]()
        turns = []
        for key in order:
            namespace = key.partition("/")[0]
            rounds[namespace] += 1
            turns.append(rounds[namespace])
        assert turns == sorted(turns)
        for namespace in rounds:  # within one, the order stays
            numbers = [int(key.partition("/")[2]) for key in order if key.startswith(f"{namespace}/")]
            assert numbers == sorted(numbers)

    run(test)


def test_adding_again_raises_the_priority_and_never_lowers_it() -> None:
    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        for key, priority in (("a", 0), ("b", 0), ("b", 7), ("c", 5), ("c", 0)):
            queue.add(key, priority)
        assert await take_all(queue) == ["b", "c", "a"]

    run(test)


def test_delayed_key_comes_at_its_time() -> None:
    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        queue.add_after("later", 300)
        queue.add_after("sooner", 10)
        assert (len(queue), queue.delayed) == (0, 2)
        assert (await take(queue), clock.monotonic()) == ("sooner", 10)
        assert (await take(queue), clock.monotonic()) == ("later", 300)

    run(test)


def test_earliest_time_counts() -> None:
    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        queue.add_after("a", 100)
        queue.add_after("a", 20)
        queue.add_after("a", 50)
        assert (await take(queue), clock.monotonic()) == ("a", 20)
        queue.done("a")
        await clock.sleep(200)
        assert len(queue) == 0

    run(test)


def test_adding_now_ends_the_delay() -> None:
    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        queue.add_after("a", 100)
        queue.add("a")
        assert await take_all(queue) == ["a"]
        await clock.sleep(200)
        assert (len(queue), queue.delayed) == (0, 0)

    run(test)


def test_delay_asked_for_while_worked_on_counts_from_then() -> None:
    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        queue.add("a")
        await take(queue)
        queue.add_after("a", 30)
        await clock.sleep(10)
        queue.done("a")
        assert (await take(queue), clock.monotonic()) == ("a", 30)

    run(test)


@pytest.mark.parametrize("seconds", [0.0, -5.0])
def test_no_delay_is_now(seconds: float) -> None:
    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        queue.add_after("a", seconds)
        assert len(queue) == 1

    run(test)


def test_failures_double_the_delay_until_forgotten() -> None:
    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        delays = []
        for _ in range(20):
            delays.append(queue.add_rate_limited("a"))
            queue.done(await take(queue))
        assert queue.failures("a") == 20
        assert all(0.005 * 2**n <= delay < 0.005 * 2 ** (n + 1) for n, delay in enumerate(delays[:12]))
        assert all(30 <= delay <= 60 for delay in delays[13:])
        queue.forget("a")
        assert queue.failures("a") == 0
        assert queue.add_rate_limited("a") < 0.01
        assert queue.add_rate_limited("b", at_least=7.0) == 7.0

    run(test)


def test_waiting_workers_get_keys_in_turn() -> None:
    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        got: list[tuple[int, str | None]] = []

        async def worker(number: int) -> None:
            got.append((number, await queue.get()))

        workers = [asyncio.create_task(worker(n)) for n in range(3)]
        await clock.sleep(1)
        for key in ("a", "b", "c"):
            queue.add(key)
        await asyncio.gather(*workers)
        assert got == [(0, "a"), (1, "b"), (2, "c")]

    run(test)


def test_cancelled_worker_loses_no_key() -> None:
    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        first = asyncio.create_task(queue.get())
        second = asyncio.create_task(queue.get())
        await clock.sleep(1)
        queue.add("a")  # wakes the first worker, which is cancelled before it runs
        first.cancel()
        assert await second == "a"
        third = asyncio.create_task(queue.get())
        await clock.sleep(1)
        third.cancel()  # nothing was meant for it
        await clock.sleep(1)
        queue.add("b")
        assert await take(queue) == "b"

    run(test)


@pytest.mark.parametrize("meanwhile", [WorkQueue.shut_down, lambda queue: queue.add("a")])
def test_a_worker_that_is_cancelled_and_passed_over_before_it_runs_just_ends(
    meanwhile: Callable[[WorkQueue], None],
) -> None:
    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        worker = asyncio.create_task(queue.get())
        await clock.sleep(1)
        worker.cancel()
        meanwhile(queue)
        await asyncio.wait({worker})
        assert worker.cancelled()

    run(test)


def test_shut_down_hands_out_nothing_and_waits_for_work() -> None:
    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        queue.add("a")
        queue.add("b")
        queue.add_after("c", 5)
        await take(queue)
        waiter = asyncio.create_task(queue.drain())
        queue.shut_down()
        assert await queue.get() is None
        queue.add("d")
        assert queue.add_rate_limited("e") > 0
        assert (len(queue), queue.delayed) == (0, 0)
        await clock.sleep(10)
        assert not waiter.done()
        queue.add("a")
        queue.done("a")
        await waiter
        await queue.drain()
        assert await queue.get() is None

    run(test)


def test_shut_down_wakes_every_worker() -> None:
    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        workers = [asyncio.create_task(queue.get()) for _ in range(5)]
        await clock.sleep(1)
        queue.shut_down()
        assert await asyncio.gather(*workers) == [None] * 5

    run(test)


def test_observer_hears_adds_waits_and_work() -> None:
    ear = Ear()

    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        queue.add("a")
        await clock.sleep(3)
        await take(queue)
        await clock.sleep(4)
        assert queue.working == {"a": 4.0}
        queue.done("a")
        queue.add_after("b", 10)
        await take(queue)  # a delay that was asked for is no waiting
        queue.done("b")
        queue.add_rate_limited("a")

    run(test, ear)
    assert ear.heard == [
        *("added", ("started", 3.0), ("finished", 4.0)),
        *("added", ("started", 0.0), ("finished", 0.0)),
        *("retried", "added"),
    ]


def test_forgotten_delays_take_no_room() -> None:
    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        for _ in range(10_000):
            queue.add_after("a", 300)
            queue.add("a")
            queue.done(await take(queue))
        assert len(queue._delayed) < 200
        for priority in range(10_000):
            queue.add("a", priority)
        assert queue._ready_entries == sum(map(len, queue._ready.values())) < 200
        assert len(queue._priorities) == len(queue._ready) < 200
        assert await take_all(queue) == ["a"]

    run(test)


class Model:
    """What the queue promises, in the plainest way: a sorted list."""

    def __init__(self) -> None:
        self.waiting: dict[str, tuple[float, int]] = {}  # key -> ready at, priority
        self.ready_order: list[str] = []
        self.working: dict[str, tuple[float, int] | None] = {}

    def add(self, key: str, at: float, priority: int, now: float) -> None:
        known = self.working[key] if key in self.working else self.waiting.get(key)
        if known is not None:
            if known[1] >= priority and known[0] <= at:
                return
            at, priority = min(known[0], at), max(known[1], priority)
        if key in self.working:
            self.working[key] = (at, priority)
            return
        self.waiting[key] = (at, priority)
        if key in self.ready_order:
            self.ready_order.remove(key)
        if at <= now:
            self.ready_order.append(key)

    def pass_time(self, now: float) -> None:
        due = [(at, key) for key, (at, _) in self.waiting.items() if at <= now and key not in self.ready_order]
        self.ready_order += [key for _, key in sorted(due, key=lambda item: item[0])]

    def ready(self) -> list[str]:
        return sorted(self.ready_order, key=lambda key: -self.waiting[key][1])

    def take(self, key: str) -> None:
        self.ready_order.remove(key)
        del self.waiting[key]
        self.working[key] = None

    def done(self, key: str, now: float) -> None:
        again = self.working.pop(key)
        if again is not None:
            self.add(key, *again, now)


_KEYS = st.sampled_from("abcde")
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), _KEYS, st.integers(0, 2), st.just(0)),
        # Different numbers for different keys, so that no two are due at the same moment.
        st.tuples(st.just("after"), _KEYS, st.integers(0, 2), st.integers(1, 40)),
        st.tuples(st.just("take"), st.just(""), st.just(0), st.just(0)),
        st.tuples(st.just("done"), _KEYS, st.just(0), st.just(0)),
        st.tuples(st.just("sleep"), st.just(""), st.just(0), st.integers(1, 30)),
    ),
    max_size=60,
)


@given(_STEPS)
def test_queue_does_what_the_model_does(steps: list[tuple[str, str, int, int]]) -> None:
    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        model = Model()
        for number, (step, key, priority, amount) in enumerate(steps):
            now = clock.monotonic()
            if step == "add":
                queue.add(key, priority)
                model.add(key, now, priority, now)
            elif step == "after":
                delay = amount + number / 1000
                queue.add_after(key, delay, priority)
                model.add(key, now + delay, priority, now)
            elif step == "take" and len(queue):
                expected = model.ready()[0]
                assert await take(queue) == expected
                model.take(expected)
            elif step == "done" and key in model.working:
                queue.done(key)
                model.done(key, now)
            elif step == "sleep":
                await clock.sleep(amount)
                model.pass_time(clock.monotonic())
            assert len(queue) == len(model.ready_order)
            assert queue.delayed == len(model.waiting) - len(model.ready_order)
            assert sorted(queue.working) == sorted(model.working)

    run(test)


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 40))
def test_no_key_is_lost_or_worked_on_twice_at_once(seed: int, workers: int, adds: int) -> None:
    """After the last add of each key, that key is worked on once more, and never by two workers."""

    async def test(queue: WorkQueue, clock: VirtualClock) -> None:
        random = Random(seed)
        last_added: dict[str, float] = {}
        last_started: dict[str, float] = {}
        busy: set[str] = set()

        async def work() -> None:
            while (key := await queue.get()) is not None:
                assert key not in busy
                busy.add(key)
                last_started[key] = clock.monotonic()
                await clock.sleep(random.fraction() * 3)
                busy.remove(key)
                queue.done(key)

        tasks = [asyncio.create_task(work()) for _ in range(workers)]
        for _ in range(adds):
            key = "abcd"[int(random.fraction() * 4)]
            last_added[key] = clock.monotonic()
            if random.fraction() < 0.5:
                queue.add(key)
            else:
                queue.add_after(key, random.fraction() * 5)
            await clock.sleep(random.fraction())
        await clock.sleep(1000)
        assert all(last_started[key] >= added for key, added in last_added.items())
        queue.shut_down()
        await asyncio.gather(*tasks)

    run(test)
