"""A namespace with much under way has little while another is active, and none waits for nothing."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cluster.apiserver.throttle import (
    CROWD,
    FEW,
    LONGEST_SECONDS,
    QUIET_SECONDS,
    REST_TURNS,
    USER_SECONDS,
    NamespaceThrottle,
    end_work,
)
from muster.runtime.clock import VirtualClock, run_virtual


class Writers:
    """Requests that take a second each, and the most that each namespace has had under way."""

    def __init__(self):
        self.clock = VirtualClock()
        self.throttle = NamespaceThrottle(self.clock.monotonic)
        self.under_way = {}
        self.most = {}

    async def write(self, namespace, seconds=1.0):
        async with self.throttle.of(namespace):
            count = self.under_way[namespace] = self.under_way.get(namespace, 0) + 1
            self.most[namespace] = max(self.most.get(namespace, 0), count)
            try:
                await self.clock.sleep(seconds)
            finally:
                self.under_way[namespace] -= 1


def test_alone_a_namespace_is_never_restrained():
    async def body():
        writers = Writers()
        await asyncio.gather(*(writers.write("a") for _ in range(100)))
        assert (writers.most, writers.clock.monotonic()) == ({"a": 100}, 1.0)

    run_virtual(body())


def test_beside_another_it_has_few_under_way_and_the_other_never_waits():
    async def body():
        writers = Writers()
        await writers.write("b", 0)
        many = [asyncio.create_task(writers.write("a", 0.2)) for _ in range(1000)]
        for _ in range(6):
            before = writers.clock.monotonic()
            await writers.write("b", 0.5)
            assert writers.clock.monotonic() == pytest.approx(before + 0.5)
        assert writers.most["a"] <= 2 * FEW  # those that were passed over have not ended
        await writers.clock.sleep(QUIET_SECONDS + 2)
        assert writers.most["a"] > 50  # the other is quiet
        await asyncio.gather(*many)

    run_virtual(body())


@pytest.mark.parametrize("users", [CROWD - 1, CROWD])
def test_beside_a_crowd_of_users_a_namespace_has_few_under_way(users):
    async def body():
        writers = Writers()

        async def ask():
            with writers.throttle.of_user():
                await writers.clock.sleep(0.2)

        asking = [asyncio.create_task(ask()) for _ in range(users)]
        await asyncio.sleep(0)
        many = [asyncio.create_task(writers.write("a", 0.1)) for _ in range(10 * FEW)]
        await writers.clock.sleep(0.05)
        assert writers.most["a"] == (FEW if users == CROWD else 10 * FEW)
        await asyncio.gather(*asking)
        await writers.clock.sleep(0.15)
        assert writers.most["a"] > 5 * FEW  # the users have their answers
        await asyncio.gather(*many)

    run_virtual(body())


def test_a_crowd_that_hangs_counts_no_more():
    async def body():
        writers = Writers()

        async def hang():
            with writers.throttle.of_user():
                await writers.clock.sleep(1000)

        hanging = [asyncio.create_task(hang()) for _ in range(CROWD)]
        await writers.clock.sleep(USER_SECONDS + 0.1)
        many = [asyncio.create_task(writers.write("a", 0.1)) for _ in range(10 * FEW)]
        await writers.clock.sleep(0.05)
        assert writers.most["a"] == 10 * FEW
        await asyncio.gather(*many, *hanging)

    run_virtual(body())


def test_what_hangs_counts_no_more():
    async def body():
        writers = Writers()
        await writers.write("b", 0)
        hanging = [asyncio.create_task(writers.write("a", 1000)) for _ in range(FEW)]
        await asyncio.sleep(0)
        await writers.write("a", 0)
        assert writers.clock.monotonic() == LONGEST_SECONDS
        await asyncio.gather(*hanging)

    run_virtual(body())


def test_what_waits_for_the_disk_alone_counts_no_more():
    async def body():
        writers, durable, waiting = Writers(), asyncio.Event(), []

        async def write_and_wait(number):
            async with writers.throttle.of("a"):
                await writers.clock.sleep(0.001)
                end_work()
                waiting.append(number)
                await durable.wait()

        await writers.write("b", 0)
        many = [asyncio.create_task(write_and_wait(number)) for number in range(10 * FEW)]
        await writers.clock.sleep(0.0025)
        assert len(waiting) == 2 * FEW
        await writers.clock.sleep(0.01)
        assert len(waiting) == 10 * FEW
        durable.set()
        await asyncio.gather(*many)

    run_virtual(body())


def test_another_has_many_turns_between_two_of_its_requests():
    async def body():
        writers, done = Writers(), []

        async def write(number):
            async with writers.throttle.of("a"):
                await asyncio.sleep(0)
                done.append(number)

        await writers.write("b", 0)
        many = [asyncio.create_task(write(number)) for number in range(4 * FEW)]
        for turn in range(3 * REST_TURNS):
            await asyncio.sleep(0)
            assert len(done) <= FEW * (turn // REST_TURNS + 1)
        await asyncio.gather(*many)
        assert done == list(range(4 * FEW))

    run_virtual(body())


def test_one_end_of_work_lets_on_one_request():
    async def body():
        writers = Writers()
        await writers.write("b", 0)
        hanging = [asyncio.create_task(writers.write("a", 0.2)) for _ in range(2 * FEW)]
        await asyncio.sleep(0)
        async with writers.throttle.of("b"):
            end_work()
            end_work()
        end_work()  # of no request
        await asyncio.sleep(0)
        assert writers.most == {"a": FEW, "b": 1}
        await asyncio.gather(*hanging)

    run_virtual(body())


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 2), st.booleans()), max_size=60))
def test_all_get_on_and_nothing_is_left(requests):
    async def body():
        writers, tasks = Writers(), []
        for number, (namespace, seconds, is_cancelled) in enumerate(requests):
            tasks.append(asyncio.create_task(writers.write(namespace, seconds)))
            if number % 3 == 0:
                await writers.clock.sleep(0.1)
            if is_cancelled:
                tasks[number // 2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert writers.throttle._shares == {}
        assert not any(writers.under_way.values())

    run_virtual(body())
