"""FairQueue of the loop stay short, nobody is forgotten, and the order is kept."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster.apiserver.fairqueue import FairQueue, Flow


class Clock:
    """Time passes only when somebody works."""

    def __init__(self):
        self.time = 0.0
        self.asked = 0

    def monotonic(self):
        self.asked += 1
        return self.time


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0, 0.01), max_size=200))
def test_turns(costs):
    async def body():
        clock = Clock()
        fair_queue = FairQueue(clock.monotonic, slice_seconds=0.004)
        order, longest, began = [], 0.0, 0.0

        async def work(number, cost):
            await fair_queue.take(Flow("a"))
            order.append(number)
            clock.time += cost

        async def other():
            nonlocal began, longest
            while len(order) < len(costs):
                await asyncio.sleep(0)
                longest = max(longest, clock.time - began)
                began = clock.time

        await asyncio.gather(other(), *(work(number, cost) for number, cost in enumerate(costs)))
        assert order == sorted(order)
        return longest

    longest = asyncio.run(body())
    # A slice, the request in which it ended, and one that had its turn.
    assert longest <= 0.004 + 0.01 + 0.01


def test_users_take_turns():
    async def body():
        clock = Clock()
        fair_queue = FairQueue(clock.monotonic, slice_seconds=0.004)
        order = []

        async def work(user, number):
            await fair_queue.take(Flow(user))
            order.append(f"{user}{number}")
            clock.time += 0.01

        await asyncio.gather(*(work(user, number) for user in "abc" for number in range(4 if user == "a" else 2)))
        assert order == ["a0", "a1", "b0", "c0", "a2", "b1", "c1", "a3"]

    asyncio.run(body())


def test_watches_keep_no_request_of_their_user_waiting():
    async def body():
        clock = Clock()
        fair_queue = FairQueue(clock.monotonic, slice_seconds=0.004)
        order = []

        async def work(flow, name):
            await fair_queue.take(flow)
            order.append(name)
            clock.time += 0.01

        watches = (work(Flow("a", watches=True), f"watch{number}") for number in range(4))
        await asyncio.gather(*watches, *(work(Flow("a"), f"write{number}") for number in range(2)))
        assert order == ["watch0", "watch1", "write0", "watch2", "write1", "watch3"]

    asyncio.run(body())


def test_few_are_called_in_vain():
    async def body():
        clock = Clock()
        fair_queue = FairQueue(clock.monotonic, slice_seconds=0.004)

        async def work():
            await fair_queue.take(Flow("a"))
            clock.time += 0.001

        await asyncio.gather(*(work() for _ in range(100)))
        return clock.asked

    # Who comes looks at the clock once, and again when it is called; so does each turn, in which four go on.
    assert asyncio.run(body()) <= 100 + 100 * 5 / 4 + 100 / 4 + 4


def test_who_goes_away_leaves_the_queue():
    async def body():
        clock = Clock()
        fair_queue = FairQueue(clock.monotonic, slice_seconds=0.004)
        await fair_queue.take(Flow("a"))
        clock.time += 1
        waiting = [asyncio.create_task(fair_queue.take(Flow("a"))) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        await asyncio.gather(waiting[0], waiting[2])
        async with asyncio.timeout(1):
            await fair_queue.take(Flow("a"))

    asyncio.run(body())


def test_a_quiet_server_keeps_nobody_waiting():
    async def body():
        clock = Clock()
        fair_queue = FairQueue(clock.monotonic)
        for _ in range(10):
            coroutine = fair_queue.take(Flow("a"))
            try:
                coroutine.send(None)
            except StopIteration:
                pass
            else:
                raise AssertionError("it waited")
            clock.time += 0.001
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    asyncio.run(body())


def test_of_the_clusters_own_parts_namespaces_take_turns():
    """One user does the work of all controllers: a namespace with much to do keeps no other waiting."""

    async def body():
        clock = Clock()
        fair_queue = FairQueue(clock.monotonic, slice_seconds=0.004)
        order = []

        async def work(namespace, number):
            await fair_queue.take(Flow("system:muster", part=namespace))
            order.append(f"{namespace}{number}")
            clock.time += 0.01

        many = (work("a", number) for number in range(6))
        await asyncio.gather(*many, work("b", 0))
        assert order.index("b0") == 2

    asyncio.run(body())
