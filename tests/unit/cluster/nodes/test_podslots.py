"""Places of a node: namespaces take turns, within one pods do, and a pod that hangs holds up no other."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from muster.api.core import Pod
from muster.api.meta import ObjectMeta
from muster.cluster.nodes.podslots import PodSlots
from muster.runtime.clock import run_virtual


def pod(namespace, name):
    return Pod(metadata=ObjectMeta(namespace=namespace, name=name, uid=f"{namespace}-{name}"))


def test_namespaces_take_turns_and_within_one_pods_do():
    async def body():
        slots, order = PodSlots(1), []

        async def work(of, number):
            async with slots.hold(of):
                order.append(f"{of.metadata.uid}-{number}")
                await asyncio.sleep(0.1)

        many = [work(pod("a", "wide"), number) for number in range(5)]
        few = [work(pod("a", "small"), 0), work(pod("b", "small"), 0), work(pod("b", "small"), 1)]
        await asyncio.gather(*many, *few)
        assert order == [
            *("a-wide-0", "a-wide-1", "b-small-0", "a-small-0", "b-small-1"),
            *("a-wide-2", "a-wide-3", "a-wide-4"),
        ]

    run_virtual(body())


def test_what_hangs_has_its_place_for_a_second():
    async def body():
        slots, loop = PodSlots(2), asyncio.get_running_loop()

        async def hang():
            async with slots.hold(pod("bad", "p")):
                await asyncio.sleep(1000)

        hanging = [asyncio.create_task(hang()) for _ in range(4)]
        await asyncio.sleep(0)
        async with slots.hold(pod("good", "p")):
            assert loop.time() == 1.0
        await asyncio.gather(*hanging)
        assert slots._free_slots == 2

    run_virtual(body())


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 3), st.booleans()), max_size=12))
def test_no_place_is_lost_and_no_more_are_lent(steps):
    async def body():
        slots, having, most = PodSlots(2), 0, 0

        async def work(namespace, name, seconds):
            nonlocal having, most
            async with slots.hold(pod(namespace, name), None):
                having += 1
                most = max(most, having)
                try:
                    await asyncio.sleep(seconds)
                finally:
                    having -= 1

        tasks = []
        for namespace, name, seconds, is_cancelled in steps:
            tasks.append(asyncio.create_task(work(namespace, name, seconds)))
            await asyncio.sleep(0.5)
            if is_cancelled:
                tasks[len(tasks) // 2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert most <= 2
        assert (slots._free_slots, having, len(slots._waiting)) == (2, 0, 0)

    run_virtual(body())
