"""The ConfigMap `cluster-info`."""

import asyncio

from tests.system.plane import World, running

from muster.api.core import CONFIG_MAP
from muster.cluster.controllers.endpoints.clusterinfo import ClusterInfo
from muster.runtime.clock import run_virtual


def test_it_says_how_the_server_is_reached_and_comes_back():
    async def body():
        async with running() as plane:
            world = World(plane)
            part = ClusterInfo(plane.manager, "where it is")
            task = asyncio.create_task(part.run())

            async def said():
                await world.settle()
                return (await world.client.get(CONFIG_MAP, "cluster-info", "kube-public")).data

            assert await said() == {"kubeconfig": "where it is"}
            patch = {"data": {"kubeconfig": "elsewhere", "mine": "x"}}
            await world.client.patch(CONFIG_MAP, "cluster-info", patch, "kube-public")
            assert await said() == {"kubeconfig": "where it is", "mine": "x"}
            await world.client.delete(CONFIG_MAP, "cluster-info", "kube-public")
            assert await said() == {"kubeconfig": "where it is"}
            await part.stop()
            await task

    run_virtual(body())
