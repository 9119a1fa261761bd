"""Shims that are made before their time wait for their turn like all others, and are made for those who still wait."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from muster.api.core import Pod
from muster.cluster.nodes.pod.reserves import Reserves
from muster.cluster.nodes.podslots import PodSlots


async def moments():
    for _ in range(5):
        await asyncio.sleep(0)


def kit(kind="none", accounts=None) -> Any:
    isolation = SimpleNamespace(kind=kind, own_pids=False)
    return SimpleNamespace(
        isolation=isolation, lifeline=-1, fence_of=lambda _: (-1, 0.0), start_slots=PodSlots(1), accounts=accounts
    )


POD = Pod()


@pytest.mark.parametrize("waits", [True, False])
def test_one_is_made_when_its_turn_has_come_if_it_is_still_waited_for(waits):
    async def body():
        node = kit()
        reserves = Reserves(node)
        async with node.start_slots.hold(POD):
            task = asyncio.create_task(reserves.make(POD, "main", lambda: waits))
            await moments()
            assert "main" not in reserves
        await task
        assert ("main" in reserves) is waits
        reserves.close()
        assert reserves.take("main") is None

    asyncio.run(body())


def test_it_is_taken_once():
    async def body():
        reserves = Reserves(kit())
        await reserves.make(POD, "main", lambda: True)
        taken = reserves.take("main")
        assert taken is not None
        taken.close()
        assert (reserves.take("main"), "main" in reserves) == (None, False)

    asyncio.run(body())


@pytest.mark.parametrize("node", [kit("bubblewrap"), kit(accounts={})])
def test_what_has_to_know_all_before_is_not_reserved(node):
    async def body():
        reserves = Reserves(node)
        await reserves.make(POD, "main", lambda: True)
        assert "main" not in reserves

    asyncio.run(body())
