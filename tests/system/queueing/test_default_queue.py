"""The queue that a fresh cluster begins with, and quota that follows the nodes."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.system.apiserver.harness import Api
from tests.system.plane import World, running, virtual

from muster.api.core import CONFIG_MAP, NODE
from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR
from muster.api.ours.embedded import NODES_FLAVOR
from muster.api.status import ApiError
from muster.cluster.apiserver.identity.users import ADMIN
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.defaultqueue import MARKER, QUEUE, create_default_queue
from muster.cluster.embedded import run_cluster, start_control_plane
from muster.cluster.nodespec import parse
from muster.cluster.store import MemoryJournal
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual

EXAMPLE_GROUP = {
    "coveredResources": ["cpu"],
    "flavors": [{"name": "default-flavor", "resources": [{"name": "cpu", "nominalQuota": "9"}]}],
}


async def nominal(world, queue=QUEUE):
    (group,) = (await world.client.get(CLUSTER_QUEUE, queue)).spec.resource_groups
    return {quota.name: quota.nominal_quota for quota in group.flavors[0].resources}


async def made(world):
    await create_default_queue(world.client, (await world.client.list(NODE)).items)


@virtual
async def test_it_has_what_the_nodes_have_as_they_come_and_go(world: World):
    await world.node("a", cpu="4")
    await made(world)
    assert await nominal(world) == {"cpu": "4", "memory": "16Gi", "pods": "110"}
    await world.node("b", cpu="2500m")
    await world.settle()
    assert await nominal(world) == {"cpu": "6500m", "memory": "32Gi", "pods": "220"}
    await world.client.patch(NODE, "a", {"spec": {"unschedulable": True}})
    await world.settle()
    assert await nominal(world) == {"cpu": "2500m", "memory": "16Gi", "pods": "110"}
    await world.client.patch(NODE, "a", {"spec": {"unschedulable": False}})
    await world.client.patch(NODE, "b", {"status": {"allocatable": {"nvidia.com/gpu": "2"}}}, subresource="status")
    await world.settle()
    assert await nominal(world) == {"cpu": "6500m", "memory": "32Gi", "nvidia.com/gpu": "2", "pods": "220"}
    await world.client.delete(NODE, "b")
    await world.settle()
    assert await nominal(world) == {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "0", "pods": "110"}


@virtual
async def test_it_gives_up_what_a_team_is_given_and_gets_it_back(world: World):
    await world.node("a", cpu="4")
    gpus = {"status": {"allocatable": {"nvidia.com/gpu": "8"}}}
    await world.client.patch(NODE, "a", gpus, subresource="status")
    await made(world)
    before = await nominal(world)
    meta = {"name": "vision", "annotations": {"muster.dev/quota-of": QUEUE}}
    quota = {"name": "nvidia.com/gpu", "nominalQuota": "6"}
    group = {"coveredResources": [quota["name"]], "flavors": [{"name": NODES_FLAVOR, "resources": [quota]}]}
    document = {"metadata": meta, "spec": {"resourceGroups": [group]}}
    await world.client.create(CLUSTER_QUEUE.seen_as(dict), document)
    await world.settle()
    assert await nominal(world) == before | {"nvidia.com/gpu": "2"}
    assert await nominal(world, "vision") == {"nvidia.com/gpu": "6", "cpu": "0", "memory": "0", "pods": "0"}
    await world.client.patch(NODE, "a", {"status": {"allocatable": {"nvidia.com/gpu": "7"}}}, subresource="status")
    await world.settle()
    assert await nominal(world) == before | {"nvidia.com/gpu": "1"}
    await world.client.delete(CLUSTER_QUEUE, "vision")
    await world.settle()
    assert await nominal(world) == before | {"nvidia.com/gpu": "7"}


@virtual
async def test_who_sets_the_quota_by_hand_takes_the_annotation_away(world: World):
    await world.node("a")
    await made(world)
    queue = await world.client.get(CLUSTER_QUEUE, QUEUE)
    groups = msgspec.to_builtins(queue.spec.resource_groups)
    groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = "1"
    await world.client.patch(CLUSTER_QUEUE, QUEUE, {"spec": {"resourceGroups": groups}})
    await world.settle()
    assert (await nominal(world))["cpu"] == "4"
    annotations = {"muster.dev/quota-from-nodes": None}
    patch = {"metadata": {"annotations": annotations}, "spec": {"resourceGroups": groups}}
    await world.client.patch(CLUSTER_QUEUE, QUEUE, patch)
    await world.node("b")
    await world.settle()
    assert (await nominal(world))["cpu"] == "1"


@virtual
async def test_an_idle_system_writes_nothing(world: World):
    await world.node("a")
    await made(world)
    await world.settle()
    before = (await world.client.get(CLUSTER_QUEUE, QUEUE)).metadata.resource_version
    heartbeat = {"type": "Ready", "status": "True", "reason": "again", "message": "m"}
    await world.client.patch(NODE, "a", {"status": {"conditions": [heartbeat]}}, subresource="status")
    await world.settle()
    assert (await world.client.get(CLUSTER_QUEUE, QUEUE)).metadata.resource_version == before


@virtual
async def test_who_deletes_it_is_respected(world: World):
    await made(world)
    await world.client.delete(LOCAL_QUEUE, "default", "default")
    await made(world)
    with pytest.raises(ApiError, match="not found"):
        await world.client.get(LOCAL_QUEUE, "default", "default")


@virtual
async def test_nothing_of_it_has_the_name_of_an_example_of_kueue(world: World):
    """Whoever deletes the first of them would wait for a flavor that the queue of the cluster uses."""
    await made(world)
    spec = {"namespaceSelector": {}, "resourceGroups": [EXAMPLE_GROUP]}
    await world.client.create(RESOURCE_FLAVOR.seen_as(dict), {"metadata": {"name": "default-flavor"}})
    await world.client.create(CLUSTER_QUEUE.seen_as(dict), {"metadata": {"name": "cluster-queue"}, "spec": spec})
    await world.settle()
    await world.client.delete(RESOURCE_FLAVOR, "default-flavor")
    await world.client.delete(CLUSTER_QUEUE, "cluster-queue")
    await world.settle()
    assert [one.metadata.name for one in (await world.client.list(CLUSTER_QUEUE)).items] == [QUEUE]
    assert [one.metadata.name for one in (await world.client.list(RESOURCE_FLAVOR)).items] == [NODES_FLAVOR]
    assert (await world.client.get(LOCAL_QUEUE, "default", "default")).spec.cluster_queue == QUEUE


async def begun_by_an_older_version(world):
    await world.client.create(RESOURCE_FLAVOR.seen_as(dict), {"metadata": {"name": "default-flavor"}})
    old = {"metadata": {"name": "default", "annotations": {"muster.dev/quota-from-nodes": "true"}}}
    await world.client.create(CLUSTER_QUEUE.seen_as(dict), old | {"spec": {"resourceGroups": [EXAMPLE_GROUP]}})


async def has_the_old_names(world):
    assert [one.metadata.name for one in (await world.client.list(CLUSTER_QUEUE)).items] == ["default"]
    assert [one.metadata.name for one in (await world.client.list(RESOURCE_FLAVOR)).items] == ["default-flavor"]
    assert (await world.client.get(LOCAL_QUEUE, "default", "default")).spec.cluster_queue == "default"


@virtual
async def test_a_store_of_an_older_version_keeps_its_names(world: World):
    await begun_by_an_older_version(world)
    local = {"metadata": {"name": "default"}, "spec": {"clusterQueue": "default"}}
    await world.client.create(LOCAL_QUEUE.seen_as(dict), local, "default")
    await world.client.create(CONFIG_MAP.seen_as(dict), {"metadata": {"name": MARKER}}, "kube-system")
    await made(world)
    await has_the_old_names(world)


@virtual
async def test_what_an_older_version_was_killed_in_the_middle_of_is_made_whole_under_its_names(world: World):
    await begun_by_an_older_version(world)
    await made(world)
    await has_the_old_names(world)


class KilledError(Exception):
    """The process ends here."""


class Dying(InProcessTransport):
    """Passes so many writes on, and is killed before the next."""

    def __init__(self, server, user, writes):
        super().__init__(server, user)
        self.writes = writes

    async def request(self, request):
        if request.method == "POST":
            if not self.writes:
                raise KilledError
            self.writes -= 1
        return await super().request(request)


@pytest.mark.parametrize("writes", range(4))
def test_a_start_that_is_killed_between_any_two_writes_is_made_up_for(writes):
    async def body():
        async with running() as plane:
            world = World(plane)
            with pytest.raises(KilledError):
                await create_default_queue(Client(Dying(plane.server, ADMIN, writes)), ())
            with pytest.raises(ApiError):
                await world.client.get(CONFIG_MAP, MARKER, "kube-system")
            await made(world)
            kinds: tuple[Kind[Any], ...] = (RESOURCE_FLAVOR, CLUSTER_QUEUE, LOCAL_QUEUE)
            for kind in kinds:
                assert len((await world.client.list(kind)).items) == 1

    run_virtual(body())


def test_a_server_is_ready_once_it_is_there_and_the_host_has_recorded_the_start(tmp_path):
    async def body():
        nodes = (parse("simulated:3,cpu=8,memory=32Gi"),)
        async with start_control_plane(MemoryJournal(), tmp_path, nodes, adopt=False) as running:
            api, client = Api(running.plane), running.plane.client()
            assert b"[-]start failed: it goes on" in (await api.get("/readyz", accept="*/*")).body
            await running.wait_until_started(default_queue=True)
            assert await client.find(LOCAL_QUEUE, "default", "default") is not None
            assert (await api.get("/readyz", accept="*/*")).status == 500
            running.complete.set()
            assert (await api.get("/readyz", accept="*/*")).status == 200

    asyncio.run(body())


def test_a_cluster_has_it_from_its_first_moment_if_it_is_to_have_one(tmp_path):
    async def queues(wanted):
        nodes = (parse("simulated:3,cpu=8,memory=32Gi"),)
        async with run_cluster(MemoryJournal(), tmp_path, nodes, adopt=False, default_queue=wanted) as running:
            client = running.plane.client()
            queues = (await client.list(CLUSTER_QUEUE)).items
            return [quota for queue in queues for quota in queue.spec.resource_groups[0].flavors[0].resources]

    assert {quota.name: quota.nominal_quota for quota in asyncio.run(queues(True))}.items() >= {
        "cpu": "24",
        "memory": "96Gi",
    }.items()
    assert asyncio.run(queues(False)) == []
