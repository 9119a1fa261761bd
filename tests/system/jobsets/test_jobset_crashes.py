"""The JobSet controller killed after every single write it makes, its answers lost, its watches late: the end is the
same, and nothing is restarted twice."""

import asyncio
from typing import Any

import pytest
from tests.system.jobs.job_cluster import JobCluster, Wire
from tests.system.jobsets.jobset_cluster import Words, role

from muster.api.jobset import JobSet, names
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.controllers.integrations.jobset.integration import JobSetIntegration
from muster.controllers.jobset import JobSetController
from muster.jobs.job.conditions import finish
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.manager import Manager
from muster.runtime.events.recorder import EventSink
from muster.runtime.ids import Ids, Random

QUEUED = JobSetIntegration()


class Cluster(Words, JobCluster):
    """A server with a JobSet controller and garbage collection. The test plays the Job controller."""

    clock: VirtualClock

    async def start_controller(self) -> None:
        """Start one, with a wire of its own."""
        self.wire = Wire(InProcessTransport(self._server))
        manager = Manager(Client(self.wire), self.clock, Random(3), registry=self.registry)
        sink = EventSink(self.client, self.clock, Ids(4), Random(4))
        manager.add(sink)
        manager.add(JobSetController(manager, sink.recorder("jobset")))
        await self._start(manager)


async def live(cluster: Cluster) -> JobSet:
    """One Job fails, everything restarts, it is suspended and resumed, and all Jobs succeed."""
    await cluster.jobset(role("a", 2), role("b", 1), failurePolicy={"maxRestarts": 1})
    await cluster.settle(60)
    await cluster.fail("js-a-1")
    await cluster.settle(60)
    await cluster.change(suspend=True)
    await cluster.settle(60)
    await cluster.change(suspend=False)
    await cluster.settle(60)
    assert dict(await cluster.attempts()) == {"1": 3}
    await cluster.complete(*[name for name, job in (await cluster.jobs()).items() if not finish(job)])
    await cluster.settle(60)
    return await cluster.seen()


def check(jobset: JobSet) -> None:
    assert jobset.status.terminal_state == "Completed"
    assert (jobset.status.restarts, jobset.status.restarts_count_towards_max) == (1, 1)
    assert [(record.name, record.succeeded) for record in jobset.status.replicated_jobs_status] == [("a", 2), ("b", 1)]
    kinds = {condition.type: condition.status for condition in jobset.status.conditions}
    assert kinds == {names.RESTARTING: "False", names.SUSPENDED: "False", names.COMPLETED: "True"}


async def killed_after(writes: int) -> None:
    async with Cluster(collector=True) as cluster:
        cluster.wire.writes_left = writes

        async def restarted() -> None:
            while cluster.wire.writes_left:
                await cluster.clock.sleep(0.5)
            await cluster.kill_controller()
            await cluster.start_controller()

        phoenix = asyncio.create_task(restarted())
        check(await live(cluster))
        phoenix.cancel()


# As many writes as a history without troubles has.
@pytest.mark.parametrize("writes", range(1, 25))
def test_killed_after_any_write(writes: int) -> None:
    run_virtual(killed_after(writes))


async def suspended_after(writes: int, **spec: Any) -> bool:
    """Resumed, and suspended again after so many writes of its controller; whether a Job ran by then."""
    async with Cluster(collector=True) as cluster:
        await cluster.jobset(role("a", 2), role("b", 2), suspend=True, **spec)
        cluster.wire.writes_left = writes
        await cluster.change(suspend=False)
        await cluster.kill_controller()
        await cluster.change(suspend=True)
        run = any(not job.spec.suspend for job in (await cluster.jobs()).values())
        assert not run or QUEUED.is_active(await cluster.seen())
        await cluster.start_controller()
        await cluster.settle(60)
        assert all(job.spec.suspend for job in (await cluster.jobs()).values())
        assert not QUEUED.is_active(await cluster.seen())
        return run


@pytest.mark.parametrize("order", ["AnyOrder", "InOrder"])
def test_one_that_is_suspended_while_its_first_jobs_are_written_is_known_to_run(order: str) -> None:
    policy = {"startupPolicyOrder": order}
    found = [run_virtual(suspended_after(writes, startupPolicy=policy)) for writes in range(4)]
    assert found == [False, False, True, True]


@pytest.mark.parametrize("writes", range(1, 5))
def test_one_that_begins_says_so_before_its_first_job_is_there(writes: int) -> None:
    async def body() -> None:
        async with Cluster(collector=True) as cluster:
            cluster.wire.writes_left = writes
            await cluster.jobset(role("a", 2))
            await cluster.kill_controller()
            await cluster.change(suspend=True)
            assert QUEUED.is_active(await cluster.seen()) or not await cluster.jobs()

    run_virtual(body())


def test_answers_are_lost() -> None:
    async def body() -> None:
        async with Cluster(collector=True) as cluster:
            cluster.wire.lost_answers = set(range(0, 100, 2))
            check(await live(cluster))

    run_virtual(body())


def test_watches_are_late() -> None:
    async def body() -> None:
        async with Cluster(collector=True) as cluster:
            cluster.wire.lags = {"jobs": 2.0, "jobsets": 3.0}
            check(await live(cluster))
            created = [request for request in cluster.wire.writes if request.path.endswith("/jobs")]
            assert len(created) == 6
            assert cluster.wire.count("DELETE") == 3

    run_virtual(body())
