"""The embedded cluster with a real process node: who ends the containers, and who leaves them to the next server."""

import asyncio

import msgspec
import pytest

from muster.api.core import CONFIG_MAP, POD, ConfigMap, Pod
from muster.api.meta import ObjectMeta
from muster.cluster.embedded import cluster
from muster.cluster.nodes.leftovers import end_everything
from muster.cluster.nodespec import NodeSpec
from muster.cluster.store import MemoryJournal, StorageFailed


async def start_pod(client):
    container = {"name": "c", "image": "none", "command": ["sleep", "1000"]}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    document = {"metadata": {"name": "p"}, "spec": spec}
    await client.create(POD, msgspec.convert(document, Pod), "default")
    async with client.watch(POD, "default") as events:
        async for event in events:
            if event.object is not None and event.object.status.phase == "Running":
                return


def a_part_fails(running):
    def handler(old, new):
        if new is not None and new.metadata.name == "trouble":
            raise RuntimeError("a part has failed")

    running.plane.manager.informer(CONFIG_MAP).on_change(handler)


def the_disk_fails(running):
    running.plane.failed.set_exception(StorageFailed("a part has failed", "test"))


@pytest.mark.parametrize("trouble", [a_part_fails, the_disk_fails])
def test_a_cluster_in_trouble_leaves_its_containers_for_the_next(tmp_path, trouble):
    async def body():
        async with cluster(MemoryJournal(), tmp_path, (NodeSpec(),), adopt=True) as running:
            client = running.plane.client()
            await start_pod(client)
            trouble(running)
            await client.create(CONFIG_MAP, ConfigMap(metadata=ObjectMeta(name="trouble")), "default")
            await running.until(asyncio.Event().wait())

    with pytest.raises((RuntimeError, StorageFailed), match="a part has failed"):
        asyncio.run(body())
    assert asyncio.run(end_everything(tmp_path)) == 1


@pytest.mark.parametrize("adopt", [True, False])
def test_a_cluster_that_is_stopped_ends_them(tmp_path, adopt):
    async def body():
        async with cluster(MemoryJournal(), tmp_path, (NodeSpec(),), adopt=adopt) as running:
            await start_pod(running.plane.client())
        return await end_everything(tmp_path)

    assert asyncio.run(body()) == 0
