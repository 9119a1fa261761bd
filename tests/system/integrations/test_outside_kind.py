"""A kind from outside queues with nothing but what docs/integrations.md shows: its code is run as it stands there."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.system.plane import World, running
from tests.system.queueing.queueing_world import admitted, flavor, get, is_, queue, why

from muster.api.batch import JOB, Job
from muster.api.config import EMBEDDED
from muster.api.config.types import Integrations
from muster.api.core import EVENT, POD, Pod
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD
from muster.api.kueue.names import POD_SET_LABEL, QUEUE_NAME_LABEL
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.api.status import ApiError
from muster.cluster import controlplane
from muster.cluster.apiserver.objects import views
from muster.cluster.apiserver.registry.builtin import make_builtin_resources
from muster.cluster.apiserver.registry.resources import Registry, Resource, Rules, Subresource, View
from muster.cluster.controlplane import control_plane
from muster.cluster.store import MemoryJournal
from muster.controllers.gangs import read_recorded_size
from muster.controllers.integrations.table import list_enabled
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.manager import Manager
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random

DOCUMENT = Path(__file__).parents[3] / "docs" / "integrations.md"


def documented() -> SimpleNamespace:
    """What the code in the document defines."""
    names: dict[str, Any] = {"__name__": "documented"}
    blocks = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    for block in blocks:
        exec(block, names)
    return SimpleNamespace(**names)


CODE = documented()
SWEEP: Kind[Any] = CODE.SweepIntegration.kind


def served() -> Resource:
    """Stands in for a CustomResourceDefinition."""
    status = View(SWEEP, take=views.take_status)
    return Resource(
        SWEEP,
        SWEEP,
        View(SWEEP, take=views.take_main),
        Rules(has_generation=True),
        subresources=(Subresource("status", SWEEP, ("get", "patch", "update"), status),),
    )


@pytest.fixture
def in_a_world(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[World], Awaitable[None]]], None]:
    """Runs a scenario on a control plane that serves Sweeps and has their integration."""
    monkeypatch.setattr(
        controlplane, "make_builtin_resources", lambda *asked: Registry((*make_builtin_resources(*asked), served()))
    )

    async def body(scenario: Callable[[World], Awaitable[None]]) -> None:
        async with running() as plane:
            manager = Manager(plane.client(), plane.inputs.clock, plane.inputs.random)
            CODE.add_sweeps(manager, plane.events.recorder("sweeps"), plane.configuration)
            run = asyncio.create_task(manager.run())
            world = World(plane)
            await flavor(world, nodeLabels={"disk": "ssd"})
            await queue(world, "team", cpu=4)
            await scenario(world)
            await manager.stop()
            await run

    return lambda scenario: run_virtual(body(scenario))


async def sweep(world: World, name: str, workers: int, *, suspend: bool = True, labels: Any = None) -> None:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    document = {
        "metadata": {"name": name, "labels": {QUEUE_NAME_LABEL: "team"} if labels is None else labels},
        "spec": {"suspend": suspend, "workers": workers, "template": {"spec": {"containers": [container]}}},
    }
    await world.client.create(SWEEP, msgspec.convert(document, CODE.Sweep), "default")


async def see(world: World, name: str) -> Any:
    return await world.client.get(SWEEP, name, "default")


async def report(world: World, name: str, **status: int) -> None:
    """Play the kind's own controller."""
    await world.client.patch(SWEEP, name, {"status": status}, "default", subresource="status")


async def workload_of(world: World, name: str) -> str:
    page = await world.client.list(WORKLOAD, "default")
    (found,) = [one.metadata.name for one in page.items if one.metadata.owner_references[0].name == name]
    return found


def test_it_waits_starts_whole_and_ends(in_a_world: Any) -> None:
    async def scenario(world: World) -> None:
        await sweep(world, "first", 3)
        await world.settle()
        await sweep(world, "second", 2)
        await world.settle()
        started = await see(world, "first")
        assert not started.spec.suspend
        assert started.spec.template.spec.node_selector == {"disk": "ssd"}
        assert started.spec.template.metadata.labels[POD_SET_LABEL] == "main"
        assert (await see(world, "second")).spec.suspend
        first, second = await workload_of(world, "first"), await workload_of(world, "second")
        assert first.startswith("sweep-first-")
        assert await admitted(world) == [first]
        await report(world, "first", running=3, ready=3)
        await world.settle()
        assert await is_(world, first, "PodsReady")
        await report(world, "first", running=2, ready=2, done=1)
        await world.settle()
        assert [one.count for one in (await get(world, first)).status.reclaimable_pods] == [1]
        assert not (await see(world, "second")).spec.suspend, "there is room since a worker is done"
        await report(world, "first", running=0, ready=0, done=3)
        await world.settle()
        assert await why(world, first, "Finished") == ("Succeeded", "all is done")
        assert await admitted(world) == [second]

    in_a_world(scenario)


def test_it_gives_back_what_it_holds_once_it_has_stopped(in_a_world: Any) -> None:
    async def scenario(world: World) -> None:
        await sweep(world, "one", 4)
        await world.settle()
        await report(world, "one", running=4)
        name = await workload_of(world, "one")
        await world.client.patch(WORKLOAD, name, {"spec": {"active": False}}, "default")
        await world.settle()
        assert (await see(world, "one")).spec.suspend
        assert await admitted(world) == [name], "its workers have not ended"
        await report(world, "one", running=0)
        await world.settle()
        assert await admitted(world) == []
        template = (await see(world, "one")).spec.template
        assert (template.metadata.labels, template.spec.node_selector) == ({}, {})

    in_a_world(scenario)


def test_one_that_was_not_suspended_is_and_one_without_a_queue_is_left_alone(in_a_world: Any) -> None:
    async def scenario(world: World) -> None:
        await sweep(world, "eager", 5, suspend=False)
        await sweep(world, "free", 5, suspend=False, labels={})
        await world.settle()
        assert (await see(world, "eager")).spec.suspend
        assert not (await see(world, "free")).spec.suspend
        before = world.plane.store.revision
        await world.settle(600)
        assert world.plane.store.revision == before

    in_a_world(scenario)


# The kind in the table of kinds, beside those that come with the engine.
OUTSIDE = Integrations(frameworks=("batch/job", "pod"), external_frameworks=("Sweep.v1.example.com",))
ON = msgspec.structs.replace(EMBEDDED, integrations=OUTSIDE)


@pytest.fixture
def in_the_table(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[World], Awaitable[None]]], None]:
    """Runs a scenario on a control plane whose table has Sweeps, with the LocalQueue `default`."""
    monkeypatch.setattr(
        controlplane, "make_builtin_resources", lambda *asked: Registry((*make_builtin_resources(*asked), served()))
    )

    async def body(scenario: Callable[[World], Awaitable[None]]) -> None:
        async with running(configuration=ON, integrations=CODE.WITH_SWEEPS) as plane:
            world = World(plane)
            await flavor(world, nodeLabels={"disk": "ssd"})
            await queue(world, "default", cpu=4)
            await scenario(world)

    return lambda scenario: run_virtual(body(scenario))


def test_in_the_table_it_gets_its_queue_on_the_way_in(in_the_table: Any) -> None:
    async def scenario(world: World) -> None:
        await sweep(world, "any", 3, suspend=False, labels={})
        made = await see(world, "any")
        assert made.spec.suspend
        assert made.metadata.labels == {QUEUE_NAME_LABEL: "default", "example.com/waited": "true"}
        await world.settle()
        assert await admitted(world) == [await workload_of(world, "any")]
        assert not (await see(world, "any")).spec.suspend

    in_the_table(scenario)


def test_in_the_table_what_is_wrong_with_it_is_refused(in_the_table: Any) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(ApiError) as none:
            await sweep(world, "none", 0)
        said = 'admission webhook "vsweep.kb.io" denied the request: spec.workers: Invalid value: 0: should be greater'
        assert none.value.code == 403
        assert str(none.value).startswith(said)
        await sweep(world, "one", 1, labels={})
        await world.settle()
        with pytest.raises(ApiError, match=r"queue-name.*field is immutable"):
            await world.client.patch(SWEEP, "one", {"metadata": {"labels": {QUEUE_NAME_LABEL: "other"}}}, "default")

    in_the_table(scenario)


def test_in_the_table_jobs_and_pods_that_it_owns_follow_it(in_the_table: Any) -> None:
    async def scenario(world: World) -> None:
        await sweep(world, "runs", 4, labels={})
        await sweep(world, "waits", 2, labels={})
        await world.settle()
        for name in ("runs", "waits"):
            parent = (await see(world, name)).metadata
            owner = {"apiVersion": "example.com/v1", "kind": "Sweep", "name": name, "uid": parent.uid}
            container = {"name": "c", "image": "none"}
            metadata = {
                "name": name,
                "labels": {QUEUE_NAME_LABEL: "default"},
                "ownerReferences": [owner | {"controller": True}],
            }
            template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
            job = {"metadata": metadata, "spec": {"template": template}}
            await world.client.create(JOB, msgspec.convert(job, Job), "default")
            pod = {"metadata": metadata | {"name": f"{name}-pod"}, "spec": template["spec"]}
            made = await world.client.create(POD, msgspec.convert(pod, Pod), "default")
            assert made.spec.scheduling_gates == ()
        await world.settle()
        assert len((await world.client.list(WORKLOAD, "default")).items) == 2, "those of the Sweeps"
        suspended = [(await world.client.get(JOB, name, "default")).spec.suspend for name in ("runs", "waits")]
        assert suspended == [False, True]

    in_the_table(scenario)


def test_in_the_table_its_pods_are_a_gang(in_the_table: Any) -> None:
    async def scenario(world: World) -> None:
        await sweep(world, "wide", 3)
        parent = (await see(world, "wide")).metadata
        owner = {"apiVersion": "example.com/v1", "kind": "Sweep", "name": "wide", "uid": parent.uid, "controller": True}

        async def pod(name: str) -> None:
            container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
            document = {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": {"containers": [container]}}
            await world.client.create(POD, msgspec.convert(document, Pod), "default")

        async def told() -> list[str]:
            page = await world.client.list(EVENT, "default")
            return [event.reason for event in page.items if event.involved_object.kind == "Sweep"]

        await world.node("small", cpu="2")
        await pod("a")
        await pod("b")
        await world.settle()
        assert await world.nodes_of("") == ["", ""], "the third is not there"
        await pod("c")
        await world.settle()
        assert await world.nodes_of("") == ["", "", ""], "there is no room for three"
        assert "FailedScheduling" in await told()
        await world.node("other", cpu="2")
        await world.settle()
        assert "" not in await world.nodes_of("")
        assert read_recorded_size((await see(world, "wide")).metadata) == 3
        assert "Scheduled" in await told()

    in_the_table(scenario)


DEFINITION = {
    "metadata": {"name": "sweeps.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "sweeps", "kind": "Sweep"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def test_in_the_table_what_its_integration_cannot_read_is_refused_whatever_its_definition_allows() -> None:
    async def scenario() -> None:
        async with running(controllers=False, configuration=ON, integrations=CODE.WITH_SWEEPS) as plane:
            client, plain = plane.client(), SWEEP.seen_as(dict)
            definition = msgspec.convert(DEFINITION, CUSTOM_RESOURCE_DEFINITION.type)
            await client.create(CUSTOM_RESOURCE_DEFINITION, definition)
            for name, spec in (("good", {"workers": 2}), ("nulls", {"workers": 2, "template": None})):
                made = await client.create(plain, {"metadata": {"name": name}, "spec": spec}, "default")
                assert made["spec"] == spec
            said = 'Sweep in version "v1" cannot be handled as a Sweep: Expected `int`, got `str`'
            with pytest.raises(ApiError, match=said):
                await client.create(plain, {"metadata": {"name": "bad"}, "spec": {"workers": "many"}}, "default")
            with pytest.raises(ApiError, match=said):
                await client.patch(plain, "good", {"status": {"done": "all"}}, "default", subresource="status")

    run_virtual(scenario())


def test_in_the_table_a_kind_that_is_not_on_need_not_be_served() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(60), running(integrations=CODE.WITH_SWEEPS) as plane:
            world = World(plane)
            await world.job("plain", 1)
            await world.settle()
            assert len(await world.pods("plain")) == 1

    run_virtual(scenario())


def test_in_the_table_it_is_followed_again_when_its_definition_comes_back() -> None:
    async def scenario() -> None:
        inputs = ExternalInputs(VirtualClock(), Ids(1), Random(1))
        async with control_plane(MemoryJournal(), inputs, ON, integrations=CODE.WITH_SWEEPS) as plane:
            world, definition = World(plane), msgspec.convert(DEFINITION, CUSTOM_RESOURCE_DEFINITION.type)
            await world.client.create(CUSTOM_RESOURCE_DEFINITION, definition)
            plane.add_controllers()
            run = asyncio.create_task(plane.manager.run())
            await plane.manager.ready.wait()
            await flavor(world, nodeLabels={"disk": "ssd"})
            await queue(world, "default", cpu=4)
            await sweep(world, "first", 1, labels={})
            await world.settle()
            assert await admitted(world) == [await workload_of(world, "first")]
            await world.client.delete(CUSTOM_RESOURCE_DEFINITION, SWEEP.resource)
            await world.settle(60)
            await world.client.create(CUSTOM_RESOURCE_DEFINITION, definition)
            await world.settle(60)
            await sweep(world, "second", 1, labels={})
            await world.settle()
            assert await admitted(world) == [await workload_of(world, "second")]
            await plane.manager.stop()
            await run

    run_virtual(scenario())


def test_a_kind_in_the_table_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"two integrations of sweeps\.example\.com: example\.com/sweep"):
        list_enabled((*CODE.WITH_SWEEPS, CODE.SweepIntegration()), ON)


def test_the_example_is_short() -> None:
    (first, *_) = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    assert len(first.splitlines()) < 75
