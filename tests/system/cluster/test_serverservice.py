"""The service `kubernetes`."""

import asyncio

from tests.system.plane import World, running

from muster.api.core import SERVICE
from muster.cluster.controllers.endpoints.serverservice import ServerService
from muster.runtime.clock import run_virtual


def test_it_says_the_port_and_comes_back():
    async def body():
        async with running() as plane:
            world = World(plane)
            part = ServerService(plane.manager, 6443)
            task = asyncio.create_task(part.run())
            await world.settle()
            made = await world.client.get(SERVICE, "kubernetes", "default")
            assert [(p.name, p.port, p.target_port) for p in made.spec.ports] == [("https", 443, 6443)]
            assert made.metadata.labels == {"component": "apiserver", "provider": "kubernetes"}
            # What somebody changes in it stays, as upstream has it.
            await world.client.patch(SERVICE, "kubernetes", {"metadata": {"labels": {"mine": "x"}}}, "default")
            await world.settle()
            assert (await world.client.get(SERVICE, "kubernetes", "default")).metadata.labels["mine"] == "x"
            await world.client.delete(SERVICE, "kubernetes", "default")
            await world.settle()
            again = await world.client.get(SERVICE, "kubernetes", "default")
            assert (again.spec.ports, again.metadata.uid != made.metadata.uid) == (made.spec.ports, True)
            await part.stop()
            await task

    run_virtual(body())
