"""The pods of a JobSet that asks for it are one gang over its Jobs: all of a stage get nodes, or none does."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.system.gangs.test_half_bound import taken
from tests.system.plane import World, virtual
from tests.system.scheduler.test_binding import bury, reasons, start, stop, tells

from muster.api.core import NODE, POD, Pod
from muster.api.jobset import JOB_SET, JobSet, names
from muster.api.pods import is_active
from muster.controllers.gangs import PATIENCE_SECONDS
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

WHOLE = {"muster.dev/gang": "true"}
CPU = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}


def role(name: str, replicas: int = 1, pods: int = 1, *, scheduler: str = "", **more: Any) -> dict[str, Any]:
    spec = {"restartPolicy": "Never", "containers": [CPU]} | ({"schedulerName": scheduler} if scheduler else {})
    sizes = {"parallelism": pods, "completions": pods, "backoffLimit": 6}
    return {"name": name, "replicas": replicas, "template": {"spec": sizes | {"template": {"spec": spec}}}, **more}


async def jobset(world: World, *roles: dict[str, Any], annotations: Any = None, **spec: Any) -> None:
    metadata = {"name": "g", "annotations": annotations or {}}
    document = {"metadata": metadata, "spec": {"replicatedJobs": roles, **spec}}
    await world.client.create(JOB_SET, msgspec.convert(document, JobSet), "default")
    await world.settle()


async def pods(world: World, of: str = "") -> list[Pod]:
    selector = f"{names.JOBSET_NAME}=g" + (f",{names.REPLICATED_JOB_NAME}={of}" if of else "")
    return (await world.client.list(POD, "default", labels=selector)).items


async def bound(world: World, of: str = "") -> int:
    return sum(bool(pod.spec.node_name) for pod in await pods(world, of))


async def finish(world: World, of: str) -> None:
    for pod in await pods(world, of):
        await world.finish(pod)
    await world.settle()


@virtual
async def test_on_request_all_its_jobs_are_one_gang(world: World) -> None:
    await world.node("a", cpu="2")
    await jobset(world, role("workers", 2), role("driver"), annotations=WHOLE)
    assert await bound(world) == 0
    told = (await reasons(world))["FailedScheduling"]
    assert "0/1 nodes" in told
    await world.node("b", cpu="1")
    await world.settle()
    assert await bound(world) == 3


@virtual
async def test_without_a_word_each_job_goes_by_itself(world: World) -> None:
    await world.node("a", cpu="2")
    await jobset(world, role("workers", 2), role("driver"))
    assert await bound(world) == 2


@virtual
async def test_of_a_group_that_starts_together_only_the_targets_are(world: World) -> None:
    await world.node("a", cpu="2")
    config = {"targetReplicatedJobs": ["workers"]}
    await jobset(world, role("workers", 3), role("driver"), annotations=WHOLE, groupSchedulingConfig=config)
    assert (await bound(world, "workers"), await bound(world, "driver")) == (0, 1)


@virtual
async def test_those_that_wait_for_others_are_a_gang_when_their_turn_comes(world: World) -> None:
    await world.node("a", cpu="2")
    after = [{"name": "prep", "status": "Complete"}]
    train, server = role("train", 2, dependsOn=after), role("server", dependsOn=after)
    await jobset(world, role("prep"), train, server, annotations=WHOLE)
    assert await bound(world) == 1
    await finish(world, "prep")
    assert len(await pods(world)) == 4
    assert await bound(world, "train") + await bound(world, "server") == 0, "three do not fit"
    await world.node("b", cpu="1")
    await world.settle()
    assert await bound(world, "train") + await bound(world, "server") == 3


async def run_pods(world: World, of: str) -> None:
    """Play the nodes: the pods of a role that have nodes run, and are ready."""
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for pod in await pods(world, of):
        if pod.spec.node_name:
            name = pod.metadata.name
            await world.client.patch(
                POD, name, {"status": status}, "default", type=STRATEGIC_MERGE_PATCH, subresource="status"
            )
    await world.settle()


@virtual
async def test_a_gang_that_is_not_whole_starts_no_later_stage(world: World) -> None:
    """What the later stage would take, the earlier one may need."""
    for name in ("a", "b"):
        await world.node(name, cpu="2")
    workers, later = role("workers", 1, 2), role("later", dependsOn=[{"name": "workers", "status": "Ready"}])
    container = CPU | {"resources": {"requests": {"cpu": "2"}}}
    workers["template"]["spec"]["template"]["spec"]["containers"] = [container]
    await jobset(world, workers, later, annotations=WHOLE)
    await run_pods(world, "workers")
    assert (await bound(world, "workers"), len(await pods(world, "later")), await bound(world, "later")) == (2, 1, 0)
    await world.client.patch(NODE, "a", {"spec": {"unschedulable": True}})
    [lost] = [pod for pod in await pods(world, "workers") if pod.spec.node_name == "a"]
    await world.finish(lost, "Failed")
    await world.settle(30)
    await world.node("small", cpu="1")
    await world.settle(30)
    live = [pod for pod in await pods(world, "workers") if is_active(pod)]
    assert sorted(pod.spec.node_name for pod in live) == ["", "b"]
    assert await bound(world, "later") == 0, "it would fit"
    await world.node("large", cpu="2")
    await world.settle(30)
    live = [pod for pod in await pods(world, "workers") if is_active(pod)]
    assert sorted(pod.spec.node_name for pod in live) == ["b", "large"]
    assert await bound(world, "later") == 1


@virtual
async def test_a_pod_that_is_made_anew_goes_alone(world: World) -> None:
    await world.node("a", cpu="3")
    await jobset(world, role("workers", 1, 2), role("driver"), annotations=WHOLE)
    (first, _) = await pods(world, "workers")
    await world.finish(first, "Failed")
    await world.settle(60)
    live = [pod for pod in await pods(world, "workers") if pod.status.phase == "Pending"]
    assert [bool(pod.spec.node_name) for pod in live] == [True, True]


@pytest.mark.parametrize("after", [1, 2])
def test_half_of_it_is_taken_back_where_the_rest_no_longer_fits(after: int) -> None:
    @virtual
    async def scenario(world: World) -> None:
        for name in ("a", "b", "c"):
            await world.node(name, cpu="1")
        left = [after]

        def fate(_pod: str, _node: str) -> str:
            left[0] -= 1
            return "" if left[0] >= 0 else "lost"

        _, _manager, run = start(world, fate)
        roles = role("workers", 2, scheduler="test"), role("driver", scheduler="test")
        await jobset(world, *roles, annotations=WHOLE)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        assert await bound(world) == after
        for name in {"a", "b", "c"} - {pod.spec.node_name for pod in await pods(world)}:
            await taken(world, name)
        _, *scheduler = start(world, lambda _pod, _node: "")
        await world.settle(PATIENCE_SECONDS + 20)
        await bury(world)
        await world.settle(20)
        assert await bound(world) == 0
        assert await tells(world, "GangTakenBack", f"{after} pods of the gang were bound")
        await stop(*scheduler)

    scenario()


@pytest.mark.parametrize("after", [1, 2])
def test_half_of_a_later_stage_is_taken_back_and_the_earlier_stage_stays(after: int) -> None:
    @virtual
    async def scenario(world: World) -> None:
        for name in ("first", "a", "b", "c"):
            await world.node(name, cpu="1")
        left = [after]

        def fate(pod: str, _node: str) -> str:
            left[0] -= "workers" in pod
            return "" if left[0] >= 0 else "lost"

        _, _manager, run = start(world, fate)
        waiting = [{"name": "driver", "status": "Ready"}]
        roles = role("driver", scheduler="test"), role("workers", 3, scheduler="test", dependsOn=waiting)
        await jobset(world, *roles, annotations=WHOLE)
        (driver,) = await pods(world, "driver")
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await world.client.patch(POD, driver.metadata.name, {"status": status}, "default", subresource="status")
        await world.settle(20)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        assert (await bound(world, "driver"), await bound(world, "workers")) == (1, after)
        for name in {"first", "a", "b", "c"} - {pod.spec.node_name for pod in await pods(world)}:
            await taken(world, name)
        _, *scheduler = start(world, lambda _pod, _node: "")
        await world.settle(PATIENCE_SECONDS + 20)
        await bury(world)
        await world.settle(20)
        assert (await bound(world, "driver"), await bound(world, "workers")) == (1, 0)
        assert await tells(world, "GangTakenBack", f"{after} pods of the gang were bound")
        await stop(*scheduler)

    scenario()


@virtual
async def test_half_of_a_jobset_that_was_deleted_without_its_jobs_is_taken_back(world: World) -> None:
    for name in ("a", "b", "c"):
        await world.node(name, cpu="1")
    left = [1]

    def fate(_pod: str, _node: str) -> str:
        left[0] -= 1
        return "" if left[0] >= 0 else "lost"

    _, _manager, run = start(world, fate)
    await jobset(world, role("workers", 2, scheduler="test"), role("driver", scheduler="test"), annotations=WHOLE)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    assert await bound(world) == 1
    await world.client.delete(JOB_SET, "g", "default", propagation="Orphan")
    await world.settle(20)
    _, *scheduler = start(world, lambda _pod, _node: "")
    await world.settle(PATIENCE_SECONDS + 20)
    await bury(world)
    await world.settle(20)
    assert await bound(world) == 0
    await stop(*scheduler)


@virtual
async def test_half_of_a_later_stage_is_taken_back_though_a_next_wave_waits(world: World) -> None:
    for name in ("first", "second"):
        await world.node(name, cpu="1")
        await world.client.patch(NODE, name, {"metadata": {"labels": {"for": "driver"}}})
    left = [1]

    def fate(pod: str, _node: str) -> str:
        left[0] -= "workers" in pod
        return "" if left[0] >= 0 else "lost"

    _, _manager, run = start(world, fate)
    waves = role("driver", pods=2, scheduler="test")
    waves["template"]["spec"] |= {"completions": 4}
    waves["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"for": "driver"}
    waiting = [{"name": "driver", "status": "Ready"}]
    await jobset(world, waves, role("workers", 2, scheduler="test", dependsOn=waiting), annotations=WHOLE)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    one, other = await pods(world, "driver")
    await world.client.patch(NODE, one.spec.node_name, {"spec": {"unschedulable": True}})
    await world.finish(one)
    await world.settle()
    await world.client.patch(POD, other.metadata.name, {"status": status}, "default", subresource="status")
    await world.settle()
    assert len(await pods(world, "workers")) == 2
    for name in ("a", "b"):
        await world.node(name, cpu="1")
    await world.settle(20)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    assert await bound(world, "workers") == 1
    (free,) = {"a", "b"} - {pod.spec.node_name for pod in await pods(world)}
    await taken(world, free)
    _, *scheduler = start(world, lambda _pod, _node: "")
    await world.settle(20)
    await bury(world)
    await world.settle(20)
    assert await bound(world, "workers") == 0
    await world.client.delete(POD, f"other-{free}", "default", grace_period_seconds=0)
    for _ in range(3):
        await world.settle(PATIENCE_SECONDS + 20)
        await bury(world)
    assert await bound(world, "workers") == 2, "once it has started, the wave that waits is not its rest"
    (driver,) = [pod for pod in await pods(world, "driver") if pod.spec.node_name and is_active(pod)]
    assert driver.metadata.uid == other.metadata.uid
    await stop(*scheduler)
