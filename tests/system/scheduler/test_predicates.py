"""Pods that look at the pods around them, and at volumes: on a cluster, as events come."""

import msgspec
from msgspec.structs import replace
from tests.system.plane import World, running, virtual

from muster.api.config import EMBEDDED
from muster.api.config.types import Muster, Scheduling
from muster.api.core import (
    EVENT,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)
from muster.api.groups.scheduling import PRIORITY_CLASS, PriorityClass
from muster.api.meta import ObjectMeta
from muster.runtime.clock import run_virtual

CONTAINER = {"name": "c", "image": "none", "command": ["x"]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


async def labelled_node(world, name, **labels):
    await world.node(name)
    await world.client.patch(NODE, name, {"metadata": {"labels": {"kubernetes.io/hostname": name, **labels}}})


async def lone_pod(world, name, labels=None, **spec):
    document = {"metadata": {"name": name, "labels": labels or {}}, "spec": {"containers": [CONTAINER], **spec}}
    await world.client.create(POD, msgspec.convert(document, Pod), "default")


async def node_of(world, name):
    return (await world.client.get(POD, name, "default")).spec.node_name


async def told(world):
    return " ".join(event.message for event in (await world.client.list(EVENT, "default")).items)


def near(app, kind="podAffinity"):
    return {
        kind: {REQUIRED: [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}]}
    }


@virtual
async def test_a_gang_that_keeps_apart_waits_for_as_many_nodes(world):
    await labelled_node(world, "a")
    pod = {"restartPolicy": "Never", "containers": [CONTAINER], "affinity": near("x", "podAntiAffinity")}
    await world.job("j", 2, template={"metadata": {"labels": {"app": "x"}}, "spec": pod})
    await world.settle()
    assert await world.nodes_of("j") == ["", ""]
    assert "1 of 2 identical pods fit now" in await told(world)
    await labelled_node(world, "b")
    await world.settle()
    assert await world.nodes_of("j") == ["a", "b"]
    await lone_pod(world, "other", {"app": "x"})
    await world.settle()
    assert await node_of(world, "other") == ""
    assert "2 node(s) didn't satisfy existing pods anti-affinity rules" in await told(world)


@virtual
async def test_a_pod_follows_the_one_that_it_is_drawn_to(world):
    await labelled_node(world, "a")
    await labelled_node(world, "b")
    await lone_pod(world, "follower", affinity=near("x"))
    await world.settle()
    assert await node_of(world, "follower") == ""
    assert "2 node(s) didn't match pod affinity rules" in await told(world)
    await lone_pod(world, "leader", {"app": "x"}, nodeSelector={"kubernetes.io/hostname": "b"})
    await world.settle()
    assert await node_of(world, "follower") == "b"


@virtual
async def test_a_host_port_is_had_once_on_a_node_and_again_when_its_pod_has_ended(world):
    await labelled_node(world, "a")
    container = CONTAINER | {"ports": [{"hostPort": 8080, "containerPort": 8080}]}
    for name in ("first", "second"):
        await lone_pod(world, name, containers=[container])
        await world.settle()
    assert [await node_of(world, name) for name in ("first", "second")] == ["a", ""]
    assert "1 node(s) didn't have free ports for the requested pod ports" in await told(world)
    assert "would not fit either" not in await told(world), "the pod that has the port ends"
    await world.finish(await world.client.get(POD, "first", "default"))
    await world.settle()
    assert await node_of(world, "second") == "a"


@virtual
async def test_volume_bound_pods_wait_for_their_claim_and_go_where_the_volume_is(world):  # pitfall 35
    await labelled_node(world, "a", zone="x")
    await labelled_node(world, "b", zone="y")
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    await lone_pod(world, "p", volumes=volumes)
    await world.settle()
    assert await node_of(world, "p") == ""
    assert '0/2 nodes are available: persistentvolumeclaim "data" not found.' in await told(world)
    expression = {"key": "zone", "operator": "In", "values": ["y"]}
    volume = {
        "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/none"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        },
    }  # fmt: skip
    claim = {
        "metadata": {"name": "data", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeName": "disk", "resources": {"requests": {"storage": "1Gi"}}
        },
    }  # fmt: skip
    await world.client.create(PERSISTENT_VOLUME, msgspec.convert(volume, PersistentVolume))
    await world.client.create(PERSISTENT_VOLUME_CLAIM, msgspec.convert(claim, PersistentVolumeClaim), "default")
    await world.settle()
    assert await node_of(world, "p") == "b"


@virtual
async def test_device_claims_that_are_named_are_refused_in_words(world):  # pitfall 35
    await labelled_node(world, "a")
    await lone_pod(world, "p", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
    await world.settle()
    assert await node_of(world, "p") == ""
    assert "cannot allocate resource claim gpu: this scheduler allocates only claims that are made" in await told(world)


@virtual
async def test_a_gang_is_spread_evenly_over_zones(world):
    for number, zone in enumerate("xxxyyz"):
        await labelled_node(world, f"n{number}", zone=zone)
    spread = {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    pod = {"restartPolicy": "Never", "containers": [CONTAINER], "topologySpreadConstraints": [spread]}
    await world.job("j", 6, template={"metadata": {"labels": {"app": "x"}}, "spec": pod})
    await world.settle()
    zones = ["xxxyyz"[int(name[1:])] for name in await world.nodes_of("j")]
    assert sorted(zones) == ["x", "x", "y", "y", "z", "z"]


def test_the_scoring_strategy_is_that_of_the_configuration():
    async def body():
        configuration = replace(EMBEDDED, muster=Muster(scheduling=Scheduling(scoring_strategy="LeastAllocated")))
        async with running(configuration=configuration) as plane:
            world = World(plane)
            for name in ("a", "b"):
                await labelled_node(world, name)
            await world.job("j", 4)
            await world.settle()
            assert await world.nodes_of("j") == ["a", "a", "b", "b"]

    run_virtual(body())


@virtual
async def test_a_pod_that_goes_first_takes_a_port_from_one_that_resists_less(world):
    await labelled_node(world, "a")
    container = CONTAINER | {"ports": [{"hostPort": 8080, "containerPort": 8080}]}
    await lone_pod(world, "first", containers=[container], terminationGracePeriodSeconds=0)
    await lone_pod(world, "bystander")
    await world.settle()
    await world.client.create(PRIORITY_CLASS, PriorityClass(metadata=ObjectMeta(name="high"), value=10))
    await lone_pod(world, "urgent", containers=[container], priorityClassName="high")
    await world.settle(30)
    pods = {pod.metadata.name: pod for pod in await world.pods()}
    gone = "first" not in pods or pods["first"].metadata.deletion_timestamp is not None
    assert gone
    assert pods["bystander"].metadata.deletion_timestamp is None
