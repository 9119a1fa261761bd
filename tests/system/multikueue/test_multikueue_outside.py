"""A kind from outside (that of docs/integrations.md) runs in another cluster, with nothing said of it but its name."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
from tests.system.integrations.queued_jobs import Queued
from tests.system.integrations.test_outside_kind import CODE, SWEEP
from tests.system.multikueue.federation import Federation, federated
from tests.system.multikueue.test_multikueue_leave import leaves

from muster.api.config import EMBEDDED
from muster.api.config.types import MultiKueue, MultiKueueExternalFramework
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER, QUEUE_NAME_LABEL
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.runtime.control.manager import Manager

KIND = SWEEP.seen_as(dict)
NAMED = MultiKueue(external_frameworks=(MultiKueueExternalFramework(name="Sweep.v1.example.com"),))
CONFIGURATION = msgspec.structs.replace(EMBEDDED, multi_kueue=NAMED)

SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
VERSION = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": SCHEMA},
    "subresources": {"status": {}},
}
NAMES = {"plural": "sweeps", "singular": "sweep", "kind": "Sweep", "listKind": "SweepList"}
DEFINITION: dict[str, Any] = {
    "metadata": {"name": "sweeps.example.com"},
    "spec": {"group": "example.com", "scope": "Namespaced", "names": NAMES, "versions": [VERSION]},
}


@asynccontextmanager
async def integrated(q: Queued, required: tuple[str, ...] = (), **status: Any) -> AsyncIterator[None]:
    """Its definition, and its integration in a program of its own. status: what is said of fields of its status.

    required: those that a status has to have.
    """
    plane = q.world.plane
    version = VERSION | {
        "schema": {
            "openAPIV3Schema": SCHEMA
            | {"properties": {"status": SCHEMA | {"properties": status, "required": [*required]}}}
        }
    }
    definition = DEFINITION | {"spec": DEFINITION["spec"] | {"versions": [version]}}
    await q.client.create(CUSTOM_RESOURCE_DEFINITION.seen_as(dict), definition)
    await q.world.settle()
    manager = Manager(plane.client(), plane.inputs.clock, plane.inputs.random)
    CODE.add_sweeps(manager, plane.events.recorder("sweeps"), EMBEDDED)
    run = asyncio.create_task(manager.run())
    try:
        yield
    finally:
        await manager.stop()
        await run


async def sweep(f: Federation, workers: int = 2) -> None:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {"suspend": True, "workers": workers, "template": {"spec": {"containers": [container]}}, "more": {"x": 1}}
    document = {
        "metadata": {"name": "s", "labels": {QUEUE_NAME_LABEL: "cq"}},
        "spec": {**spec, "managedBy": MULTI_KUEUE_CONTROLLER},
    }
    await f.here.client.create(KIND, document, "default")
    await f.settle(60)


async def found(f: Federation) -> dict[str, Any]:
    """By cluster, as it is there."""
    lists = {name: (await q.client.list(KIND, "default")).items for name, q in f.workers.items()}
    return {name: one for name, items in lists.items() for one in items}


async def here(f: Federation) -> Any:
    return await f.here.client.get(KIND, "s", "default")


async def report(f: Federation, cluster: str, **status: int) -> None:
    """Play the kind's own controller there."""
    await f.workers[cluster].client.patch(KIND, "s", {"status": status}, "default", subresource="status")
    await f.settle()


@federated(configuration=CONFIGURATION)
async def test_it_runs_in_one_cluster_is_shown_here_and_ends(f: Federation) -> None:
    async with AsyncExitStack() as stack:
        for q in (f.here, *f.workers.values()):
            await stack.enter_async_context(integrated(q))
        await f.queues()
        await sweep(f)
        ((home, copy),) = (await found(f)).items()
        assert (copy["spec"]["suspend"], copy["spec"]["more"], "managedBy" in copy["spec"]) == (False, {"x": 1}, False)
        assert (await here(f))["spec"]["suspend"] is False
        await report(f, home, running=2, ready=2)
        assert (await here(f))["status"] == {"running": 2, "ready": 2}
        assert (await f.here.state("s"))["PodsReady"] == "True Started"
        await report(f, home, running=0, ready=0, done=2)
        await f.settle(60)
        assert (await f.here.state("s"))["Finished"] == "True Succeeded"
        assert list(await found(f)) == [home]
        assert (await here(f))["status"] == {"running": 0, "ready": 0, "done": 2}
        await f.here.client.delete(KIND, "s", "default")
        await f.settle(20)
        assert await found(f) == {}


@federated(configuration=CONFIGURATION)
async def test_a_status_that_the_server_here_never_takes_holds_up_no_end(f: Federation) -> None:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(integrated(f.here, done={"type": "integer", "maximum": 1}))
        for q in f.workers.values():
            await stack.enter_async_context(integrated(q))
        await f.queues()
        await sweep(f)
        (home,) = await found(f)
        await report(f, home, running=0, ready=0, done=2)
        await f.settle(60)
        assert (await f.here.state("s"))["Finished"] == "True Succeeded"
        assert "done" not in (await here(f)).get("status", {})


@federated(configuration=CONFIGURATION)
async def test_in_a_cluster_that_is_lost_for_good_it_runs_no_more_and_begins_anew(f: Federation) -> None:
    async with AsyncExitStack() as stack:
        for q in (f.here, *f.workers.values()):
            await stack.enter_async_context(integrated(q))
        await f.queues()
        await sweep(f)
        (home,) = await found(f)
        await report(f, home, running=2, ready=2)
        f.lines[home].cut()
        await f.settle(1200)
        assert sorted(await found(f)) == ["a", "b"]
        assert (await here(f)).get("status", {}) == {}
        f.lines[home].mend()
        await f.settle(600)
        assert list(await found(f)) == ["b" if home == "a" else "a"]


@federated(configuration=CONFIGURATION)
async def test_it_goes_from_a_cluster_that_leaves(f: Federation) -> None:
    async with AsyncExitStack() as stack:
        for q in (f.here, *f.workers.values()):
            await stack.enter_async_context(integrated(q))
        await f.queues()
        await sweep(f)
        (home,) = await found(f)
        await report(f, home, running=0, ready=0, done=2)
        await f.settle(60)
        await leaves(f, home)
        await f.settle(20)
        assert await found(f) == {}


@federated(configuration=CONFIGURATION)
async def test_what_is_left_in_a_cluster_goes_where_the_server_here_takes_no_empty_status(f: Federation) -> None:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(integrated(f.here, ("ready",), ready={"type": "integer"}))
        for q in f.workers.values():
            await stack.enter_async_context(integrated(q))
        await f.queues()
        await sweep(f)
        (home,) = await found(f)
        await report(f, home, running=2, ready=2)
        f.lines[home].cut()
        await f.settle(1200)
        f.lines[home].mend()
        await f.settle(600)
        assert home not in await found(f)
