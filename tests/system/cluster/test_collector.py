"""Owners and dependents, namespaces, and pods whose node is gone: what a cluster does by itself."""

import asyncio

import msgspec
import pytest
from tests.system.jobs.job_cluster import Wire
from tests.system.plane import World, running, virtual

from muster.api.batch import JOB
from muster.api.core import (
    CONFIG_MAP,
    NAMESPACE,
    NODE,
    POD,
    SERVICE_ACCOUNT,
    ConfigMap,
    Container,
    Namespace,
    Pod,
    PodSpec,
)
from muster.api.meta import ObjectMeta, OwnerReference
from muster.api.status import ApiError
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.controllers.lifetimes.collector import GarbageCollector
from muster.jobs.interruption import count_interruptions
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual
from muster.runtime.control.manager import Manager


async def make(world, name, *owners, block=True):
    references = tuple(
        OwnerReference(
            api_version="v1", kind="ConfigMap", name=o.metadata.name, uid=o.metadata.uid, block_owner_deletion=block
        )
        for o in owners
    )
    meta = ObjectMeta(name=name, owner_references=references)
    return await world.client.create(CONFIG_MAP, ConfigMap(metadata=meta), "default")


async def names(world):
    return {m.metadata.name for m in (await world.client.list(CONFIG_MAP, "default")).items}


@pytest.mark.parametrize(
    ("propagation", "left"), [("Background", set()), ("Foreground", set()), ("Orphan", {"child", "grandchild"})]
)
def test_what_becomes_of_dependents(propagation, left):
    @virtual
    async def scenario(world):
        parent = await make(world, "parent")
        child = await make(world, "child", parent)
        await make(world, "grandchild", child)
        await world.client.delete(CONFIG_MAP, "parent", "default", propagation=propagation)
        await world.settle()
        assert await names(world) == left
        for item in (await world.client.list(CONFIG_MAP, "default")).items:
            assert all(owner.name != "parent" for owner in item.metadata.owner_references)

    scenario()


@virtual
async def test_an_object_of_another_namespace_is_no_owner(world):
    parent = await make(world, "parent")
    await world.client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name="other")))
    references = (OwnerReference(api_version="v1", kind="ConfigMap", name="parent", uid=parent.metadata.uid),)
    meta = ObjectMeta(name="stranger", owner_references=references)
    await world.client.create(CONFIG_MAP, ConfigMap(metadata=meta), "other")
    await world.settle()
    assert await world.client.find(CONFIG_MAP, "stranger", "other") is None
    assert await names(world) == {"parent"}


@virtual
async def test_foreground_waits_for_a_dependent_that_is_held(world):
    parent = await make(world, "parent")
    await make(world, "child", parent)
    await world.client.patch(CONFIG_MAP, "child", {"metadata": {"finalizers": ["example.com/hold"]}}, "default")
    await world.client.delete(CONFIG_MAP, "parent", "default", propagation="Foreground")
    await world.settle()
    assert await names(world) == {"parent", "child"}
    await world.client.patch(CONFIG_MAP, "child", {"metadata": {"finalizers": None}}, "default")
    await world.settle()
    assert await names(world) == set()


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_circle_of_owners_that_is_deleted_goes(size):
    @virtual
    async def scenario(world):
        members = [await make(world, f"m{number}") for number in range(size)]
        for number, member in enumerate(members):
            owner = members[number - 1].metadata
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner.name, "uid": owner.uid}
            patch = {"metadata": {"ownerReferences": [reference | {"blockOwnerDeletion": True}]}}
            await world.client.patch(CONFIG_MAP, member.metadata.name, patch, "default")
        await world.client.delete(CONFIG_MAP, "m0", "default", propagation="Foreground")
        await world.settle(30)
        assert await names(world) == set()

    scenario()


@virtual
async def test_a_dependent_of_two_loses_one_reference(world):
    one, two = await make(world, "one"), await make(world, "two")
    await make(world, "child", one, two)
    await world.client.delete(CONFIG_MAP, "one", "default")
    await world.settle()
    child = await world.client.get(CONFIG_MAP, "child", "default")
    assert [owner.name for owner in child.metadata.owner_references] == ["two"]


def test_a_dependent_that_was_given_another_owner_stays_if_the_collector_hears_of_that_late():
    async def scenario():
        async with running(controllers=False) as plane:
            world, wire = World(plane), Wire(InProcessTransport(plane.server))
            wire.lags = {"pods": 5.0}
            manager = Manager(Client(wire), world.clock, plane.inputs.random)
            manager.add(GarbageCollector(manager, [CONFIG_MAP, POD]))
            run = asyncio.create_task(manager.run())
            owners = [CONFIG_MAP.refer_to_owner((await make(world, name)).metadata) for name in ("one", "two")]
            meta = ObjectMeta(name="child", owner_references=(owners[0],))
            spec = PodSpec(containers=(Container(name="c", image="i"),))
            child = await world.client.create(POD, Pod(metadata=meta, spec=spec), "default")
            await world.settle(10)
            await world.client.patch_object(POD, child, {"metadata": {"ownerReferences": msgspec.to_builtins(owners)}})
            await world.client.delete(CONFIG_MAP, "one", "default")
            await world.settle(20)
            child = await world.client.get(POD, "child", "default")
            assert [owner.name for owner in child.metadata.owner_references] == ["two"]
            await manager.stop()
            await run

    run_virtual(scenario())


@virtual
async def test_an_owner_that_never_was_or_has_another_uid_counts_as_gone(world):
    one = await make(world, "one")
    stranger = msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, uid="other"))
    await make(world, "child", stranger)
    await world.settle()
    assert await names(world) == {"one"}


@virtual
async def test_the_pods_of_a_deleted_job_go(world):
    await world.node("a")
    await world.job("j", 2)
    await world.settle()
    await world.client.delete(JOB, "j", "default")
    await world.settle()
    for pod in await world.pods("j"):  # bound pods end gracefully: their node says when
        assert pod.metadata.deletion_timestamp is not None
        await world.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)
    await world.settle()
    assert await world.pods("j") == []


@virtual
async def test_the_pods_of_an_orphaned_job_stay_though_others_write_to_them(world):
    """The Job controller takes its finalizer off the same pods at the same time."""
    await world.node("a")
    await world.job("j", 3)
    await world.settle()
    await world.client.delete(JOB, "j", "default", propagation="Orphan")
    await world.settle()
    with pytest.raises(ApiError) as gone:
        await world.client.get(JOB, "j", "default")
    assert gone.value.code == 404
    pods = await world.pods()
    assert len(pods) == 3
    assert not any(pod.metadata.owner_references or pod.metadata.finalizers for pod in pods)


@virtual
async def test_a_deleted_namespace_is_emptied_and_goes(world):
    await world.client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name="team")))
    await world.settle()
    assert await world.client.get(SERVICE_ACCOUNT, "default", "team")
    await world.client.create(
        CONFIG_MAP, ConfigMap(metadata=ObjectMeta(name="m", finalizers=("example.com/x",))), "team"
    )
    await world.client.delete(NAMESPACE, "team")
    await world.settle()
    assert (await world.client.get(NAMESPACE, "team")).status.phase == "Terminating"
    with pytest.raises(ApiError) as refused:
        await world.client.create(CONFIG_MAP, ConfigMap(metadata=ObjectMeta(name="n")), "team")
    assert refused.value.code == 403
    await world.client.patch(CONFIG_MAP, "m", {"metadata": {"finalizers": None}}, "team")
    await world.settle()
    with pytest.raises(ApiError) as gone:
        await world.client.get(NAMESPACE, "team")
    assert gone.value.code == 404


@virtual
async def test_pods_go_before_what_they_live_by_and_the_namespace_says_what_it_waits_for(world):
    await world.client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name="team")))
    await world.settle()
    held = Pod(
        metadata=ObjectMeta(name="p", finalizers=("example.com/x",)),
        spec=PodSpec(containers=(Container(name="c", image="i"),)),
    )
    await world.client.create(POD, held, "team")
    await world.client.create(CONFIG_MAP, ConfigMap(metadata=ObjectMeta(name="m")), "team")
    await world.client.delete(NAMESPACE, "team")
    await world.settle(30)
    assert (await world.client.get(CONFIG_MAP, "m", "team")).metadata.deletion_timestamp is None
    said = {
        c.type: c.message for c in (await world.client.get(NAMESPACE, "team")).status.conditions if c.status == "True"
    }
    assert "pods. has 1 resource instances" in said["NamespaceContentRemaining"]
    assert said["NamespaceFinalizersRemaining"].endswith("remaining: example.com/x in 1 resource instances")
    await world.client.patch(POD, "p", {"metadata": {"finalizers": None}}, "team")
    await world.settle(1)
    assert "team" not in {found.metadata.name for found in (await world.client.list(NAMESPACE)).items}


class Listening:
    """Remembers what is asked to go."""

    def __init__(self, transport):
        self._transport = transport
        self.deleted = []

    async def request(self, request):
        if request.method == "DELETE":
            self.deleted.append(request.path)
        return await self._transport.request(request)

    def stream(self, request):
        return self._transport.stream(request)

    async def close(self):
        await self._transport.close()


@virtual
async def test_what_is_in_a_namespace_is_asked_to_go_once_and_waited_for(world):
    client = world.plane.manager.client
    listening = client.transport = Listening(client.transport)
    await world.client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name="team")))
    for name in ("a", "b"):
        meta = ObjectMeta(name=name, finalizers=("example.com/x",))
        await world.client.create(CONFIG_MAP, ConfigMap(metadata=meta), "team")
    await world.settle()
    await world.client.delete(NAMESPACE, "team")
    await world.settle(30)
    await world.client.patch(CONFIG_MAP, "a", {"metadata": {"finalizers": None}}, "team")
    await world.settle(30.1)
    assert sorted(listening.deleted) == [CONFIG_MAP.path("team"), SERVICE_ACCOUNT.path("team")]
    await world.client.patch(CONFIG_MAP, "b", {"metadata": {"finalizers": None}}, "team")
    await world.settle(0.1)
    assert "team" not in {found.metadata.name for found in (await world.client.list(NAMESPACE)).items}


@virtual
async def test_the_default_account_comes_back(world):
    await world.settle()
    await world.client.delete(SERVICE_ACCOUNT, "default", "default")
    await world.settle()
    assert await world.client.get(SERVICE_ACCOUNT, "default", "default")


@virtual
async def test_pods_of_a_node_that_is_gone_are_interrupted_and_replaced(world):
    await world.node("a")
    await world.job("j", 2)
    await world.settle()
    before = {pod.metadata.uid for pod in await world.pods("j")}
    await world.client.delete(NODE, "a")
    await world.settle(30)
    assert {pod.metadata.uid for pod in await world.pods("j")} == before, "a node may come back"
    await world.settle(30)
    after = await world.pods("j")
    assert before.isdisjoint(pod.metadata.uid for pod in after)
    job = await world.client.get(JOB, "j", "default")
    assert (job.status.failed, count_interruptions(job.status.conditions)) == (0, 2)
