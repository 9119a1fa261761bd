"""Jobs whose pods the platform ends: they use up no retry, and start again at once where there is room."""

import asyncio
from typing import Any, Self

import pytest
from tests.system.plane import World, virtual

from muster.api.batch import JOB
from muster.api.core import EVENT, POD
from muster.api.groups.scheduling import PRIORITY_CLASS, PriorityClass
from muster.api.jobset import JOB_SET, names
from muster.api.meta import ObjectMeta
from muster.api.ours.embedded import SERVER_MACHINE
from muster.api.ours.simulated import RUN_TIME
from muster.api.pods import is_active
from muster.api.status import ApiError, Status
from muster.cluster.nodes.simulated.nodes import SimulatedNodes
from muster.controllers.integrations.table import gang_sources
from muster.controllers.scheduler.scheduler import Scheduler
from muster.jobs.job.conditions import finish
from muster.runtime.client import Client
from muster.runtime.control.manager import Manager
from muster.runtime.transport import Request, Response, Transport

pytestmark = pytest.mark.slow

# Nodes of four CPUs that one urgent job fills.
USUAL_NODES, LONG_NODES = 40, 100

# A scheduler of its own, far from its server: what it writes takes its time.
FAR = "far"
SECONDS_AWAY = 0.1


class Far:
    """A way to the server that takes a while."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner

    async def request(self, request: Request) -> Response:
        await asyncio.sleep(SECONDS_AWAY)
        return await self.inner.request(request)

    def stream(self, request: Request) -> Any:
        return self.inner.stream(request)

    async def close(self) -> None:
        pass


class Unyielding(Far):
    """A way to a server where a budget wants one pod to stay, however often it is to be evicted."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.stays = ""

    async def request(self, request: Request) -> Response:
        if request.path.endswith(f"/pods/{self.stays}/eviction"):
            raise ApiError(
                Status(status="Failure", code=429, reason="TooManyRequests", message="the budget is used up")
            )
        return await self.inner.request(request)


def template(*, run_time: str = "", priority: str = "", scheduler: str = "default-scheduler") -> dict[str, Any]:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {"restartPolicy": "Never", "schedulerName": scheduler, "containers": [container]}
    if priority:
        spec["priorityClassName"] = priority
    return {"metadata": {"annotations": {RUN_TIME: run_time} if run_time else {}}, "spec": spec}


class Cluster:
    """Simulated nodes of four CPUs each, beside a world."""

    def __init__(self, world: World, count: int, *, far: Far | bool = False) -> None:
        plane = world.plane
        inputs = plane.inputs
        way = Far(world.client.transport) if far is True else far
        client = Client(way) if way else plane.client()
        self.managers = [Manager(plane.client(), inputs.clock, inputs.random)]
        node_names = [f"n-{number:03}" for number in range(count)]
        self.nodes = SimulatedNodes(
            self.managers[0], node_names, resources={"cpu": "4", "pods": "110"}, labels={SERVER_MACHINE: "true"}
        )
        self.managers[0].add(self.nodes)
        if far:
            manager = Manager(client, inputs.clock, inputs.random)
            recorder = plane.events.recorder(FAR)
            manager.add(Scheduler(manager, recorder, gang_sources(), names=frozenset({FAR})))
            self.managers.append(manager)
        self.tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self.tasks = [asyncio.create_task(manager.run()) for manager in self.managers]
        await self.nodes.ready.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        for manager, task in zip(self.managers, self.tasks, strict=True):
            await manager.stop()
            await task


async def running(world: World, job: str) -> int:
    return sum(pod.status.phase == "Running" for pod in await world.pods(job))


async def jobset(world: World, name: str, pods: int, **spec: Any) -> None:
    job = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", **spec.pop("job", {})}
    role = {"name": "w", "replicas": 1, "template": {"spec": job | {"template": spec.pop("template")}}}
    document = {"metadata": {"name": name}, "spec": {"replicatedJobs": [role], **spec}}
    await world.client.create(JOB_SET.seen_as(dict), document, "default")


async def evict(world: World, pod: str) -> None:
    """As `kubectl drain` does."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "default"}}
    await world.client.post(POD, pod, "default", "eviction", body)


async def urgent_class(world: World) -> None:
    await world.client.create(PRIORITY_CLASS, PriorityClass(metadata=ObjectMeta(name="urgent"), value=2000))


@pytest.mark.parametrize(("pods", "spec"), [(32, {}), (64, {}), (16, {"backoffLimit": 0})])
def test_a_gang_that_the_scheduler_preempts_waits_and_then_runs(pods: int, spec: dict[str, Any], *, long: bool) -> None:
    nodes = LONG_NODES if long else USUAL_NODES

    @virtual
    async def scenario(world: World) -> None:
        await urgent_class(world)
        async with Cluster(world, nodes, far=True):
            await world.job("victim", pods, template=template(run_time="300s", scheduler=FAR), **spec)
            await world.until(lambda: _all_run(world, "victim", pods))
            await world.job("big", 4 * nodes, template=template(run_time="60s", priority="urgent", scheduler=FAR))
            await world.until(lambda: _all_run(world, "big", 4 * nodes))
            assert await running(world, "victim") == 0
            await world.until(lambda: _has_ended(world, "big"))
            ended = world.clock.monotonic()
            await world.until(lambda: _all_run(world, "victim", pods))
            assert world.clock.monotonic() - ended < 10, "it waits in a back-off"
            assert (await world.client.get(JOB, "victim", "default")).status.failed == 0
            await world.until(lambda: _has_ended(world, "victim"), 600)
            end = finish(await world.client.get(JOB, "victim", "default"))
            assert end is not None
            assert end.type == "Complete"

    scenario()


async def _all_run(world: World, job: str, pods: int) -> bool:
    return await running(world, job) == pods


async def _has_ended(world: World, job: str) -> bool:
    return finish(await world.client.get(JOB, job, "default")) is not None


@virtual
async def test_a_pod_that_a_budget_keeps_does_not_keep_its_job_from_replacing_the_others(world: World) -> None:
    """The budget may wait for the replacements: where the pod stayed marked, none came, and nothing moved again."""
    await urgent_class(world)
    way = Unyielding(world.client.transport)
    async with Cluster(world, 1, far=way):
        await world.job("victim", 4, template=template(run_time="1000s", scheduler=FAR), backoffLimit=0)
        await world.until(lambda: _all_run(world, "victim", 4))
        way.stays = (await world.pods("victim"))[0].metadata.name
        await world.job("big", 4, template=template(run_time="60s", priority="urgent", scheduler=FAR))
        await world.settle(60)
        assert await running(world, "victim") == 1
        assert sum(is_active(pod) for pod in await world.pods("victim")) == 4, "three have been made again"
        way.stays = ""
        await world.until(lambda: _has_ended(world, "big"), 600)
        await world.until(lambda: _has_ended(world, "victim"), 3000)
        job = await world.client.get(JOB, "victim", "default")
        assert (job.status.succeeded, job.status.failed) == (4, 0)


def test_a_jobset_that_the_scheduler_preempts_uses_up_no_restart(long: bool) -> None:
    nodes = LONG_NODES if long else USUAL_NODES

    @virtual
    async def scenario(world: World) -> None:
        await urgent_class(world)
        async with Cluster(world, nodes, far=True):
            pods = template(run_time="100s", scheduler=FAR)
            await jobset(world, "victim", 64, template=pods, job={"backoffLimit": 0}, failurePolicy={"maxRestarts": 0})
            await world.until(lambda: _all_run(world, "victim-w-0", 64))
            await world.job("big", 4 * nodes, template=template(run_time="60s", priority="urgent", scheduler=FAR))
            await world.until(lambda: _all_run(world, "big", 4 * nodes))
            await world.until(lambda: _all_run(world, "victim-w-0", 64))
            status = (await world.client.get(JOB_SET, "victim", "default")).status
            assert (status.restarts, status.restarts_count_towards_max) == (1, 0)
            await world.elapse(120)
            assert (await world.client.get(JOB_SET, "victim", "default")).status.terminal_state == names.COMPLETED

    scenario()


@virtual
async def test_the_gang_of_a_drained_pod_starts_again_whole_and_its_survivors_failures_do_not_count(
    world: World,
) -> None:
    async with Cluster(world, 4):
        pods = template()
        start = {"groupSchedulingConfig": {}, "job": {"backoffLimit": 0}, "template": pods}
        await jobset(world, "gang", 4, **start)
        await world.until(lambda: _count(world, "gang-w-0", 4))
        before = await world.pods("gang-w-0")
        await evict(world, before[0].metadata.name)
        await world.finish(before[1], "Failed")
        await world.settle(30)
        after = await world.pods("gang-w-0")
        assert not {pod.metadata.uid for pod in after} & {pod.metadata.uid for pod in before}
        assert len(after) == 4
        status = (await world.client.get(JOB_SET, "gang", "default")).status
        assert (status.restarts, status.restarts_count_towards_max, status.terminal_state) == (1, 0, "")
        events = (await world.client.list(EVENT, "default")).items
        of_jobset = {event.reason: event.message for event in events if event.involved_object.kind == "JobSet"}
        assert of_jobset["Interrupted"].startswith(f"Pod default/{before[0].metadata.name} was evicted from node n-")


async def _count(world: World, job: str, pods: int) -> bool:
    return sum(bool(pod.spec.node_name) for pod in await world.pods(job)) == pods


@virtual
async def test_trials_that_are_drained_are_tried_again_at_once_and_the_others_go_on(world: World) -> None:
    async with Cluster(world, 2):
        await world.job("sweep", 8, template=template(run_time="100s"), backoffLimitPerIndex=0)
        await world.until(lambda: _all_run(world, "sweep", 8))
        before = await world.pods("sweep")
        node = before[0].spec.node_name
        drained = [pod for pod in before if pod.spec.node_name == node]
        for pod in drained:
            await evict(world, pod.metadata.name)
        await world.settle(5)
        assert await running(world, "sweep") == 8
        stayed = {pod.metadata.uid for pod in before} - {pod.metadata.uid for pod in drained}
        assert stayed <= {pod.metadata.uid for pod in await world.pods("sweep")}
        await world.elapse(120)
        status = (await world.client.get(JOB, "sweep", "default")).status
        assert (status.succeeded, status.failed, status.failed_indexes) == (8, 0, "")


@virtual
async def test_a_pod_that_a_user_deletes_has_failed_as_upstream(world: World) -> None:
    async with Cluster(world, 1):
        await world.job("job", 1, template=template(), backoffLimit=0)
        await world.until(lambda: _all_run(world, "job", 1))
        [pod] = await world.pods("job")
        await world.client.delete(POD, pod.metadata.name, "default")
        await world.until(lambda: _has_ended(world, "job"))
        end = finish(await world.client.get(JOB, "job", "default"))
        assert end is not None
        assert end.reason == "BackoffLimitExceeded"
