"""The controller of CronJobs is killed after any write, misses answers, and sees late: no start is lost or doubled."""

import asyncio
from collections.abc import Callable

import pytest
from tests.system.jobs.job_cluster import Wire
from tests.system.jobs.test_cronjobs import HOUR, create, events, get, hours, jobs
from tests.system.plane import World, running

from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.controllers.cronjob import CronJobController
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual
from muster.runtime.control.manager import Manager
from muster.runtime.ids import Random

LOOK = 600.0
STARTS = {"Allow": [1, 2, 3], "Forbid": [1], "Replace": [3]}


def wire_that(disturb: Callable[[Wire], None], world: World) -> Wire:
    wire = Wire(InProcessTransport(world.plane.server))
    disturb(wire)
    return wire


async def live(world: World, disturb: Callable[[Wire], None]) -> None:
    """Run the controller for three and a half hours; a dead one is replaced within ten minutes, by a healthy one."""
    wire = wire_that(disturb, world)
    left = 3 * HOUR + 3 * LOOK
    while left > 0:
        manager = Manager(Client(wire), world.clock, Random(3))
        manager.add(CronJobController(manager, world.plane.events.recorder("cronjob-controller")))
        run = asyncio.create_task(manager.run())
        while left > 0 and wire.writes_left != 0:
            await world.elapse(min(LOOK, left))
            left -= LOOK
        await manager.stop()
        await run
        wire = wire_that(lambda _: None, world)


def play(policy: str, disturb: Callable[[Wire], None]) -> None:
    async def story() -> None:
        async with running(controllers=False) as plane:
            world = World(plane)
            await create(world, concurrencyPolicy=policy)
            await live(world, disturb)
            assert await hours(world) == STARTS[policy]
            active = {each.uid for each in (await get(world)).status.active}
            assert active == {job.metadata.uid for job in await jobs(world)}
            assert "UnexpectedJob" not in await events(world)

    run_virtual(story())


@pytest.mark.parametrize("policy", STARTS)
@pytest.mark.parametrize("writes", range(1, 9))
def test_killed_after_a_write(policy: str, writes: int) -> None:
    def die(wire: Wire) -> None:
        wire.writes_left = writes

    play(policy, die)


@pytest.mark.parametrize("policy", STARTS)
@pytest.mark.parametrize("number", range(6))
def test_an_answer_is_lost(policy: str, number: int) -> None:
    def lose(wire: Wire) -> None:
        wire.lost_answers = {number}

    play(policy, lose)


@pytest.mark.parametrize("policy", STARTS)
@pytest.mark.parametrize("resource", ["cronjobs", "jobs"])
def test_watches_come_late(policy: str, resource: str) -> None:
    def lag(wire: Wire) -> None:
        wire.lags = {resource: 30.0}

    play(policy, lag)
