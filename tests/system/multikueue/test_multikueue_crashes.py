"""What dispatches killed after every single write, here or in a worker; answers lost: the job runs once, to its end."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace
from tests.system.multikueue.federation import Federation, federated, federation
from tests.system.workers.worker_world import status

from muster.api.conditions import is_true
from muster.api.config import EMBEDDED
from muster.api.managed.dispatch import home_of
from muster.api.values.durations import SECOND
from muster.runtime.clock import run_virtual
from muster.runtime.transport import Request, Response, TransportError

IMPATIENT = replace(EMBEDDED, multi_kueue=replace(EMBEDDED.multi_kueue, worker_lost_timeout=5 * SECOND))


async def dispatched(f: Federation) -> None:
    """A job goes to one of two clusters that both have room, and ends there."""
    await f.queues()
    await f.job("j", 2, seconds=100)
    await f.settle(30)


async def evicted(f: Federation) -> None:
    """It is evicted here while it runs there."""
    await dispatched(f)
    await f.here.evict()
    await f.settle(30)


async def lost(f: Federation) -> None:
    """Its cluster is lost, for less than it may be."""
    await dispatched(f)
    for line in f.lines.values():
        line.cut()
    await f.settle(300)
    for line in f.lines.values():
        line.mend()


@federated("a")
async def test_a_home_is_left_once_no_request_to_make_the_job_can_arrive_there_any_more(f: Federation) -> None:
    late: list[Request] = []

    def delay(request: Request) -> None:
        if request.method == "POST" and request.path.endswith("/jobs"):
            late.append(request)
            raise TransportError("no answer")

    await f.queues()
    f.lines["a"].spoil = delay
    await f.job("j", 2)
    f.lines["a"].spoil = lambda _: None
    await f.here.evict()
    await f.settle(30)
    assert await f.clones() == []
    assert home_of((await f.here.workload()).metadata) == "a"
    assert (await f.lines["a"].server.request(late[0])).status == 201
    await f.settle(20)
    assert (await f.where(), await f.clones()) == ({}, []), "it was seen, and never ran"
    await f.settle(60)
    assert await f.where() == {"a": 2}


@federated("a", configuration=IMPATIENT)
async def test_a_home_that_was_lost_and_is_one_again_is_not_left_before_what_it_was_asked_then_can_arrive(
    f: Federation,
) -> None:
    asked: list[Request] = []

    def refuse(request: Request) -> Response | None:
        if request.method == "POST" and request.path.endswith("/jobs"):
            asked.append(request)
            if len(asked) == 1:
                raise TransportError("no answer")
            return status(403, "Forbidden")
        return None

    await f.queues()
    await f.settle(60)
    f.lines["a"].spoil = refuse
    await f.job("j", 2)
    f.lines["a"].cut()
    await f.settle(8)
    f.lines["a"].mend()
    await f.settle(15)
    await f.here.evict()
    await f.settle(15)
    assert len(asked) > 1, "it was its home again"
    assert home_of((await f.here.workload()).metadata) == "a"


@federated("a", "b", configuration=IMPATIENT)
async def test_a_manager_that_starts_again_gives_up_a_cluster_that_it_does_not_reach_after_the_timeout(
    f: Federation,
) -> None:
    await f.queues(b=0)
    await f.job("j", 2)
    await f.settle(20)
    assert home_of((await f.here.workload()).metadata) == "a"
    f.lines["a"].cut()
    await f.stop()
    await f.begin()
    assert home_of((await f.here.workload()).metadata) == "", "within ten seconds of the start"


async def watch(f: Federation, seen: list[dict[str, int]]) -> None:
    """Note where it has pods, all the time."""
    while True:
        await f.here.world.clock.sleep(2)
        seen.append({cluster: pods for cluster, pods in (await f.where()).items() if cluster != "here"})


@pytest.mark.timeout(600)  # each write that it is killed after is a story in three clusters
@pytest.mark.parametrize("story", [dispatched, evicted, lost])
def test_killed_after_each_write(story: Callable[[Federation], Awaitable[None]], long: bool) -> None:
    if story is lost and not long:
        pytest.skip("the long form has it")

    async def scenario(writes: int) -> bool:
        async with federation(EMBEDDED, ("a", "b"), writes) as f:
            seen: list[dict[str, int]] = []
            watching = asyncio.create_task(watch(f, seen))
            await story(f)
            killed = f.dispatch.budget.left == 0
            await f.restart()
            await f.settle(400)
            watching.cancel()
            await asyncio.wait((watching,))
            assert is_true((await f.here.now()).status.conditions, "Complete"), f"after {writes} writes"
            assert await f.clones() == [(await f.here.workload()).status.cluster_name], f"after {writes} writes"
            assert all(len(where) <= 1 for where in seen), f"after {writes} writes"
            return killed

    writes = 2
    while run_virtual(scenario(writes)):
        writes += 1 if long else 8
    assert writes >= 8
