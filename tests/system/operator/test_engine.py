"""The engine part by part: each does what is its own, and leaves the rest to others."""

import pytest
from tests.system.plane import World, running
from tests.system.queueing.queueing_world import flavor, queue, workload

from muster.api.conditions import is_true
from muster.api.kueue import WORKLOAD
from muster.api.kueue.names import QUOTA_RESERVED
from muster.controllers.engine import Part
from muster.runtime.clock import run_virtual


async def look(parts: tuple[Part, ...]) -> dict[str, object]:
    """What becomes of a Job without a queue, and of a workload that waits for quota."""
    async with running(parts=parts) as plane:
        world = World(plane)
        await world.node("n")
        await flavor(world)
        await queue(world, "team", cpu=4)
        await world.job("j", 2)
        await workload(world, "w", "team")
        await world.settle()
        waiting = await world.client.get(WORKLOAD, "w", "default")
        return {
            "nodes": await world.nodes_of("j"),
            "quota": is_true(waiting.status.conditions, QUOTA_RESERVED),
        }


@pytest.mark.parametrize(
    ("parts", "seen"),
    [
        ((Part.JOBS,), {"nodes": ["", ""], "quota": False}),
        ((Part.QUEUEING,), {"nodes": [], "quota": True}),
        ((Part.SCHEDULING,), {"nodes": [], "quota": False}),
        ((Part.JOBS, Part.SCHEDULING), {"nodes": ["n", "n"], "quota": False}),
        (tuple(Part), {"nodes": ["n", "n"], "quota": True}),
    ],
)
def test_each_part_does_its_own_and_no_more(parts: tuple[Part, ...], seen: dict[str, object]) -> None:
    assert run_virtual(look(parts)) == seen
