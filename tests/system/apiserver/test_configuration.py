"""What a configuration changes in the API server: the rule for resizing Indexed Jobs (KEP-3715, cases E2 and E16)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.system.apiserver.harness import JOBS, Api, job
from tests.system.plane import World

from muster.api.batch import JOB
from muster.api.config import load
from muster.cluster.controlplane import ControlPlane, control_plane
from muster.cluster.store import MemoryJournal
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random

TANDEM = "can only be modified in tandem with spec.parallelism, and only if the two are equal before the change"
FINISHED = "field is immutable once the job is finished"


@asynccontextmanager
async def plane_under(text: str) -> AsyncIterator[ControlPlane]:
    """A control plane whose controllers run, under a file of settings."""
    head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    inputs = ExternalInputs(VirtualClock(), Ids(1), Random(1))
    async with control_plane(MemoryJournal(), inputs, load(head + text)) as plane:
        plane.add_controllers()
        run = asyncio.create_task(plane.manager.run())
        await plane.manager.ready.wait()
        try:
            yield plane
        finally:
            await plane.manager.stop()
            await run


def under(text: str, test: Callable[[ControlPlane], Awaitable[None]]) -> None:
    async def body() -> None:
        async with plane_under(text) as plane:
            await test(plane)

    run_virtual(body())


def size(completions: int, parallelism: int) -> dict[str, Any]:
    return {"spec": {"completions": completions, "parallelism": parallelism}}


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("", TANDEM),
        ("muster: {elasticIndexedJobs: KEP}", TANDEM),
        ("muster: {elasticIndexedJobs: Upstream}", ""),
    ],
)
def test_a_job_whose_numbers_are_not_equal_before(text, refusal):
    async def test(plane: ControlPlane) -> None:
        api = Api(plane)
        await api.made(JOBS, job(completionMode="Indexed", completions=1, parallelism=2, suspend=True))
        answer = await api.merge(f"{JOBS}/j", size(3, 3))
        if refusal:
            assert (answer.status, answer.json["reason"]) == (422, "Invalid")
            assert answer.message == f'Job.batch "j" is invalid: spec.completions: Invalid value: 3: {refusal}'
        else:
            assert answer.status == 200
            assert answer.json["spec"]["completions"] == answer.json["spec"]["parallelism"] == 3
        # What both rules refuse.
        await api.made(JOBS, job("k", completionMode="Indexed", completions=2, parallelism=2, suspend=True))
        answer = await api.merge(f"{JOBS}/k", size(3, 4))
        assert answer.message.endswith("can only be modified in tandem with spec.parallelism")

    under(text, test)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [("muster: {elasticIndexedJobs: KEP}", FINISHED), ("muster: {elasticIndexedJobs: Upstream}", "")],
)
@pytest.mark.parametrize("by_scale", [False, True])
def test_a_job_that_is_finished(text, refusal, by_scale):
    async def test(plane: ControlPlane) -> None:
        api, world = Api(plane), World(plane)
        await world.node("n", cpu="8")
        await world.job("j", 3)
        await world.settle()
        for pod in await world.pods():
            await world.finish(pod)
        await world.settle()
        before = await world.client.get(JOB, "j", "default")
        assert any(c.type == "Complete" for c in before.status.conditions)
        pods = {pod.metadata.uid for pod in await world.pods()}
        path, change = (f"{JOBS}/j/scale", {"spec": {"replicas": 5}}) if by_scale else (f"{JOBS}/j", size(5, 5))
        answer = await api.merge(path, change)
        await world.settle()
        after = await world.client.get(JOB, "j", "default")
        if refusal:
            assert answer.status == 422
            assert f"spec.completions: Invalid value: 5: {refusal}" in answer.message
            assert after.spec == before.spec
        else:
            assert answer.status == 200
            assert (after.spec.completions, after.spec.parallelism) == (5, 5)
        # Either way what has ended stays as it ended.
        assert after.status == before.status
        assert {pod.metadata.uid for pod in await world.pods()} == pods

    under(text, test)


def test_the_control_plane_hands_on_what_it_was_given():
    async def test(plane: ControlPlane) -> None:
        assert plane.configuration.namespace == "ours"

    under("namespace: ours", test)
