"""Reconcilers killed after each single write: other projects' jobs and groups that serve come to the same state."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from tests.system.integrations.external_kinds import make, report, see, serve, template
from tests.system.integrations.queued_jobs import Queued
from tests.system.integrations.test_queued_jobs_crashes import Reconcilers, cluster, resume
from tests.system.integrations.test_serving_kinds import held, pod_of, stateful
from tests.system.plane import settings
from tests.system.queueing.queueing_world import admitted

from muster.api.core import POD
from muster.api.kueue import WORKLOAD
from muster.api.kueue.names import POD_SET_LABEL
from muster.controllers.integrations.external.kinds import PYTORCH_JOB
from muster.controllers.integrations.serving.kinds import STATEFUL_SET
from muster.runtime.clock import run_virtual

SETTINGS = settings(f"integrations: {{frameworks: [batch/job, pod, statefulset, {PYTORCH_JOB.name}]}}")
SIZE = 2


async def play_operator(q: Queued) -> None:
    """Play the operator: the job has as many active pods as it may have."""
    while True:
        await q.world.clock.sleep(1)
        job = await see(q.world, PYTORCH_JOB.kind, "one")
        suspended = job["spec"].get("runPolicy", {}).get("suspend", False)
        conditions = [{"type": "Suspended" if suspended else "Running", "status": "True"}]
        active = {"Worker": {"active": 0 if suspended else SIZE}}
        await report(q.world, PYTORCH_JOB.kind, "one", replicaStatuses=active, conditions=conditions)


async def play_stateful_sets(q: Queued) -> None:
    """Play the controller: pods that are missing are made."""
    while True:
        await q.world.clock.sleep(1)
        there = {pod.metadata.name for pod in await q.world.pods()}
        for name in {f"one-{number}" for number in range(SIZE)} - there:
            await pod_of(q.world, STATEFUL_SET.kind, "one", name)


async def external(q: Queued) -> None:
    await serve(q.world, PYTORCH_JOB.kind)
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": SIZE, "template": template()}}}
    await make(q.world, PYTORCH_JOB.kind, "one", spec, queue="cq")


async def runs(q: Queued) -> bool:
    job = await see(q.world, PYTORCH_JOB.kind, "one")
    worker = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    return not job["spec"]["runPolicy"]["suspend"] and worker["metadata"]["labels"][POD_SET_LABEL] == "worker"


async def group(q: Queued) -> None:
    await make(q.world, STATEFUL_SET.kind, "one", stateful(SIZE), queue="cq")


async def is_let_go(q: Queued) -> bool:
    return await held(q.world) == {f"one-{number}": False for number in range(SIZE)}


Story = tuple[
    Callable[[Queued], Awaitable[None]],
    Callable[[Queued], Coroutine[Any, Any, None]],
    Callable[[Queued], Awaitable[bool]],
]
STORIES: dict[str, Story] = {
    "external": (external, play_operator, runs),
    "group": (group, play_stateful_sets, is_let_go),
}


@pytest.mark.parametrize("name", STORIES)
def test_killed_after_each_write(name: str, long: bool) -> None:
    begin, play, is_well = STORIES[name]

    async def scenario(writes: int) -> bool:
        async with cluster(SETTINGS) as q:
            await q.queue(cpu=SIZE)
            first = Reconcilers(q.world.plane, writes, SETTINGS)
            await begin(q)
            playing = asyncio.create_task(play(q))
            await q.world.settle(20)
            await resume(q, "HoldAndDrain")
            await first.stop()
            second = Reconcilers(q.world.plane, configuration=SETTINGS)
            await q.world.settle(20)
            assert await admitted(q.world) == [], f"after {writes} writes: drained"
            await resume(q, "None")
            await q.world.settle(60)
            playing.cancel()
            await second.stop()
            assert await is_well(q), f"after {writes} writes"
            assert len(await admitted(q.world)) == 1, f"after {writes} writes"
            assert len((await q.client.list(WORKLOAD, "default")).items) == 1, f"after {writes} writes"
            assert len((await q.client.list(POD, "default")).items) == (SIZE if name == "group" else 0)
            return first.wire.writes_left == 0

    writes = 0
    while run_virtual(scenario(writes)):
        writes += 1 if long else 3
    assert writes >= 3
