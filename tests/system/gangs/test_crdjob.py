"""A controller from outside starts its pods together (row 3.25 of KEP-34's checklist).

It is that of docs/podgroup-controllers.md, as it stands there.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from tests.system.plane import World, running

from muster.api.core import POD
from muster.api.podgroups import kep
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.runtime.clock import run_virtual
from muster.runtime.control.manager import Manager

PAGE = (Path(__file__).parents[3] / "docs" / "podgroup-controllers.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def documented() -> SimpleNamespace:
    """What the code on the page defines."""
    names: dict[str, Any] = {"__name__": "documented"}
    for block in blocks("python"):
        exec(block, names)
    return SimpleNamespace(**names)


CODE = documented()
(DEFINITION,) = (yaml.load(block, yaml.CSafeLoader) for block in blocks("yaml"))


@asynccontextmanager
async def controller(world: World) -> AsyncIterator[None]:
    """Its controller runs, in a process of its own as it were."""
    inputs = world.plane.inputs
    manager = Manager(world.plane.client(), inputs.clock, inputs.random)
    manager.add(CODE.CRDJobController(manager))
    run = asyncio.create_task(manager.run())
    await manager.ready.wait()
    yield
    await manager.stop()
    await run


def scenario(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    async def body() -> None:
        async with running() as plane:
            world = World(plane)
            await world.node("a", cpu="3")
            await test(world)

    def run() -> None:
        run_virtual(body())

    run.__name__ = getattr(test, "__name__", "run")
    return run


async def define(world: World) -> None:
    await world.client.create(CUSTOM_RESOURCE_DEFINITION.seen_as(dict), DEFINITION)
    await world.settle(1)


async def submit(world: World, name: str, workers: int) -> None:
    document = {"metadata": {"name": name}, "spec": {"workers": workers, "command": ["true"]}}
    await world.client.create(CODE.CRD_JOB.seen_as(dict), document, "default")


async def bound(world: World, name: str) -> int:
    return sum(bool(pod.spec.node_name) for pod in await world.pods() if pod.metadata.name.startswith(f"{name}-"))


@scenario
async def test_all_of_a_crdjob_starts_or_none(world: World) -> None:
    await define(world)
    async with controller(world):
        await submit(world, "first", 2)
        await submit(world, "second", 2)
        await world.settle()
        assert sorted([await bound(world, "first"), await bound(world, "second")]) == [0, 2]
        winner = "first" if await bound(world, "first") else "second"
        for number in range(2):
            await world.finish(await world.client.get(POD, f"{winner}-{number}", "default"))
        await world.settle()
        assert (await bound(world, "first"), await bound(world, "second")) == (2, 2)
        assert (await world.client.get(CODE.CRD_JOB, winner, "default")).status.succeeded == 2


@scenario
async def test_what_it_made_goes_with_it(world: World) -> None:
    await define(world)
    async with controller(world):
        await submit(world, "job", 2)
        await world.settle()
        assert (await world.client.get(kep.POD_GROUP, "job", "default")).spec.min_members == 2
        await world.client.delete(CODE.CRD_JOB, "job", "default")
        await world.settle(120)
        assert (await world.client.list(kep.POD_GROUP, "default")).items == []
        left = [pod.metadata.name for pod in await world.pods() if pod.metadata.deletion_timestamp is None]
        assert left == []


@scenario
async def test_a_controller_that_is_there_before_its_kind_waits_for_it(world: World) -> None:
    async with controller(world):
        await world.settle(10)
        await define(world)
        await submit(world, "late", 2)
        await world.settle(60)
        assert await bound(world, "late") == 2


@pytest.mark.parametrize("cut", range(1, 5))
def test_a_controller_that_dies_between_any_two_writes_leaves_nothing_half_done(cut: int) -> None:
    @scenario
    async def run(world: World) -> None:
        await define(world)
        await submit(world, "job", 3)
        job = await world.client.get(CODE.CRD_JOB, "job", "default")
        for kind, document in CODE.documents(job)[:cut]:  # what a first controller wrote
            await world.client.create(kind.seen_as(dict), document, "default")
        await world.settle()
        assert await bound(world, "job") == (3 if cut == 4 else 0)
        async with controller(world):
            await world.settle()
            assert await bound(world, "job") == 3

    run()
