"""Devices that pods claim, on a control plane in virtual time: counted in quotas, allocated, and given back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from tests.system.plane import World, under, virtual
from tests.system.queueing.queueing_world import admitted, flavor, get, local_queue, why

from muster.api.batch import JOB, Job
from muster.api.core import EVENT, NODE, POD, Pod
from muster.api.groups.resource import (
    DEVICE_CLASS,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    DeviceClass,
    ResourceClaimTemplate,
    ResourceSlice,
)
from muster.api.groups.scheduling import PRIORITY_CLASS, PriorityClass
from muster.api.kueue import CLUSTER_QUEUE, WORKLOAD, ClusterQueue, Workload
from muster.api.ours.elastic import ELASTIC_ANNOTATION
from muster.api.ours.embedded import SERVER_MACHINE
from muster.api.pods import find_condition
from muster.cluster.nodes.simulated.nodes import SimulatedNodes
from muster.runtime.control.manager import Manager

MAPPED = """
resources:
  deviceClassMappings: [{name: gpus, deviceClassNames: [gpu.example.com]}]
"""


async def device_queue(world: World, devices: int) -> None:
    """A queue `team` with a quota of devices."""
    await flavor(world)
    resources = [{"name": "cpu", "nominalQuota": 8}, {"name": "gpus", "nominalQuota": devices}]
    group = {"coveredResources": ["cpu", "gpus"], "flavors": [{"name": "default", "resources": resources}]}
    document = {"metadata": {"name": "team"}, "spec": {"namespaceSelector": {}, "resourceGroups": [group]}}
    await world.client.create(CLUSTER_QUEUE, msgspec.convert(document, ClusterQueue))
    await local_queue(world, "team", "team")


async def device_template(
    world: World,
    name: str,
    count: int = 1,
    device_class: str = "gpu.example.com",
    *,
    constraints: Any = (),
    **exactly: Any,
) -> None:
    exactly |= {"deviceClassName": device_class} | ({"count": count} if count else {})
    requests = [{"name": "gpu", "exactly": exactly}]
    document = {
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": requests, "constraints": constraints}}},
    }
    await world.client.create(RESOURCE_CLAIM_TEMPLATE, msgspec.convert(document, ResourceClaimTemplate), "default")


def claiming(template: str) -> dict[str, Any]:
    """What a pod says that claims devices by a template."""
    container = {"name": "c", "image": "none", "command": ["x"], "resources": {"claims": [{"name": "gpu"}]}}
    claim = {"name": "gpu", "resourceClaimTemplateName": template}
    return {"restartPolicy": "Never", "containers": [container], "resourceClaims": [claim]}


async def claiming_workload(world: World, name: str, template: str, count: int, **metadata: Any) -> None:
    podset = {"name": "main", "count": count, "template": {"spec": claiming(template)}}
    document = {"metadata": {"name": name, **metadata}, "spec": {"queueName": "team", "podSets": [podset]}}
    await world.client.create(WORKLOAD, msgspec.convert(document, Workload), "default")


@under(MAPPED)
async def test_devices_count_in_quotas(world: World) -> None:
    await device_queue(world, 8)
    await device_template(world, "two", count=2)
    for name in ("first", "second"):
        await claiming_workload(world, name, "two", count=3)
        await world.settle()
    assert await admitted(world) == ["first"]
    (assignment,) = (await get(world, "first")).status.admission.pod_set_assignments
    assert (assignment.flavors, assignment.resource_usage) == ({"gpus": "default"}, {"gpus": "6"})
    assert await why(world, "second") == (
        "WaitingForQuota",
        "couldn't assign flavors to pod set main: insufficient unused quota for gpus in flavor default, 4 more needed",
    )


@under(MAPPED)
async def test_a_workload_waits_for_its_template(world: World) -> None:
    await device_queue(world, 8)
    await claiming_workload(world, "early", "two", count=2)
    await world.settle()
    reason, message = await why(world, "early")
    assert (reason, message) == (
        "Misconfigured",
        (
            "spec.podSets[0].template.spec.resourceClaims[0]: Internal error: failed to get claim spec for "
            'ResourceClaimTemplate two in podset main: ResourceClaimTemplate.resource.k8s.io "two" not found'
        ),
    )
    await device_template(world, "two", count=2)
    await world.settle()
    assert await admitted(world) == ["early"]


@under(MAPPED)
async def test_a_workload_does_not_grow_while_its_devices_cannot_be_counted(world: World) -> None:
    await device_queue(world, 8)
    await device_template(world, "two", count=2)
    await claiming_workload(world, "w", "two", count=2, annotations={ELASTIC_ANNOTATION: "1:4"})
    await world.settle()
    await world.client.delete(RESOURCE_CLAIM_TEMPLATE, "two", "default")
    await world.settle()
    larger = [{"op": "replace", "path": "/spec/podSets/0/count", "value": 4}]
    await world.client.edit_object(WORKLOAD, await get(world, "w"), larger)
    await world.settle()
    (before,) = (await get(world, "w")).status.admission.pod_set_assignments
    assert (before.count, before.resource_usage) == (2, {"gpus": "4"})
    await device_template(world, "two", count=2)
    await world.settle()
    (after,) = (await get(world, "w")).status.admission.pod_set_assignments
    assert (after.count, after.resource_usage) == (4, {"gpus": "8"})


@under(MAPPED)
async def test_a_workload_with_a_class_that_is_not_mapped_waits(world: World) -> None:
    await device_queue(world, 8)
    await device_template(world, "other", device_class="other.example.com")
    await claiming_workload(world, "w", "other", count=1)
    await world.settle()
    reason, message = await why(world, "w")
    assert reason == "Misconfigured"
    assert message.endswith('"DeviceClass other.example.com is not mapped in DRA configuration for podset main"')


@under(MAPPED)
async def test_a_workload_waits_for_devices_that_match_its_selectors(world: World) -> None:
    await device_queue(world, 8)
    await gpu_class(world)
    await device_node(world, "a", 4)
    large = [{"cel": {"expression": "has(device.attributes['gpu.example.com'].large)"}}]
    await device_template(world, "large", selectors=large)
    await claiming_workload(world, "w", "large", count=1)
    await world.settle()
    reason, message = await why(world, "w")
    assert reason == "Misconfigured"
    assert message.endswith(
        "insufficient matching devices for CEL selector in DeviceClass gpu.example.com: "
        "0 device(s) match in the cluster but 1 requested"
    )
    await publish(world, "a", [{"name": "gpu-9", "attributes": {"large": {"bool": True}}}], pool="more")
    await world.settle()
    assert await admitted(world) == ["w"]


COUNTED = """
resources:
  deviceClassMappings:
  - name: gpus
    deviceClassNames: [gpu.example.com]
    sources:
    - counter: {name: memory, driver: gpu.example.com, deviceSelector: {cel: {expression: "true"}}}
"""


@under(COUNTED)
async def test_what_devices_take_of_a_counter_counts_in_quotas(world: World) -> None:
    await device_queue(world, 100)
    await gpu_class(world)
    await world.node("a")
    taken = [{"counterSet": "gpu-0", "counters": {"memory": {"value": "20"}}}]
    await publish(world, "a", [{"name": f"part-{number}", "consumesCounters": taken} for number in range(4)])
    await device_template(world, "two", count=2)
    for name in ("first", "second"):
        await claiming_workload(world, name, "two", count=2)
        await world.settle()
    assert await admitted(world) == ["first"]
    (assignment,) = (await get(world, "first")).status.admission.pod_set_assignments
    assert assignment.resource_usage == {"gpus": "80"}


@under("featureGates: {KueueDRAIntegration: false, KueueDRAIntegrationExtendedResource: false,"
       " KueueDRAIntegrationPartitionableDevices: false}")  # fmt: skip
async def test_without_the_feature_workloads_with_claims_wait(world: World) -> None:
    await device_queue(world, 8)
    await device_template(world, "two")
    await claiming_workload(world, "w", "two", count=1)
    await world.settle()
    message = "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled"
    assert await why(world, "w") == ("Misconfigured", message)


@under(MAPPED)
async def test_extended_resources_count_as_their_class_once_it_is_there(world: World) -> None:
    await device_queue(world, 8)
    container = {"name": "c", "image": "none", "resources": {"limits": {"example.com/gpu": "3"}}}
    podset = {"name": "main", "count": 2, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
    document = {"metadata": {"name": "w"}, "spec": {"queueName": "team", "podSets": [podset]}}
    await world.client.create(WORKLOAD, msgspec.convert(document, Workload), "default")
    await world.settle()
    assert await admitted(world) == []  # no quota is said for example.com/gpu
    document = {"metadata": {"name": "gpu.example.com"}, "spec": {"extendedResourceName": "example.com/gpu"}}
    await world.client.create(DEVICE_CLASS, msgspec.convert(document, DeviceClass))
    await world.settle()
    assert await admitted(world) == ["w"]
    (assignment,) = (await get(world, "w")).status.admission.pod_set_assignments
    assert assignment.resource_usage == {"gpus": "6"}


async def device_node(world: World, name: str, devices: int) -> None:
    """A node with devices of the driver gpu.example.com."""
    await world.node(name)
    await publish(world, name, [{"name": f"gpu-{number}"} for number in range(devices)])


@asynccontextmanager
async def simulated(world: World, **devices: int) -> AsyncIterator[None]:
    """Two simulated nodes with devices of these drivers of example.com."""
    manager = Manager(world.client, world.clock, world.random)
    drivers = {f"{name}.example.com": count for name, count in devices.items()}
    nodes = SimulatedNodes(manager, ["sim-0", "sim-1"], devices=drivers, labels={SERVER_MACHINE: "true"})
    manager.add(nodes)
    running = asyncio.create_task(manager.run())
    await nodes.ready.wait()
    try:
        yield
    finally:
        await manager.stop()
        await running


async def told(world: World, job: str) -> set[str]:
    """Why the pods of a job have no node; of one pod what was said last."""
    return {find_condition(pod, "PodScheduled").message for pod in await world.pods(job)}


async def publish(world: World, name: str, devices: list[dict[str, Any]], pool: str = "gpu") -> None:
    """What a driver says of a node."""
    slice_ = {
        "metadata": {"name": f"{name}-{pool}"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": name,
            "pool": {"name": f"{name}/{pool}", "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }
    await world.client.create(RESOURCE_SLICE, msgspec.convert(slice_, ResourceSlice))


async def gpu_class(world: World) -> None:
    selector = {"cel": {"expression": "device.driver == 'gpu.example.com'"}}
    document = {"metadata": {"name": "gpu.example.com"}, "spec": {"selectors": [selector]}}
    await world.client.create(DEVICE_CLASS, msgspec.convert(document, DeviceClass))


async def claiming_job(
    world: World,
    name: str,
    workers: int,
    template: str,
    *,
    annotations: dict[str, str] | None = None,
    job_annotations: dict[str, str] | None = None,
    **spec: Any,
) -> None:
    """A gang of pods that each claim devices."""
    document = {
        "metadata": {"name": name, "annotations": job_annotations or {}},
        "spec": {
            "parallelism": workers,
            "completions": workers,
            "completionMode": "Indexed",
            "backoffLimit": 100,
            "template": {"metadata": {"annotations": annotations or {}}, "spec": claiming(template) | spec},
        },
    }
    await world.client.create(JOB, msgspec.convert(document, Job), "default")


async def allocations(world: World) -> list[tuple[str, list[str], list[str]]]:
    """For each claim with devices: the node, the devices, and the pods that it is reserved for; sorted."""
    found = []
    for claim in (await world.client.list(RESOURCE_CLAIM, "default")).items:
        if (allocation := claim.status.allocation) is not None:
            (term,) = allocation.node_selector.node_selector_terms
            devices = [one.device for one in allocation.devices.results]
            found.append((term.match_fields[0].values[0], devices, [one.name for one in claim.status.reserved_for]))
    return sorted(found)


@virtual
async def test_a_gang_gets_its_devices_whole_and_the_next_waits_for_them(world: World) -> None:
    await gpu_class(world)
    for node in ("a", "b"):
        await device_node(world, node, 4)
    await device_template(world, "two", count=2)
    await claiming_job(world, "first", 4, "two")
    await world.settle()
    assert await world.nodes_of("first") == ["a", "a", "b", "b"]
    held = await allocations(world)
    assert [(node, devices) for node, devices, _ in held] == [
        ("a", ["gpu-0", "gpu-1"]), ("a", ["gpu-2", "gpu-3"]), ("b", ["gpu-0", "gpu-1"]), ("b", ["gpu-2", "gpu-3"])
    ]  # fmt: skip
    users = {pod.metadata.name: pod.spec.node_name for pod in await world.pods("first")}
    assert all([users[name] for name in names] == [node] for node, _, names in held)
    await claiming_job(world, "second", 4, "two")
    await world.settle()
    assert await world.nodes_of("second") == ["", "", "", ""]
    sentence = (
        "0/2 nodes are available: 2 Insufficient devices of class gpu.example.com. 0 of 4 identical pods fit now, and "
        "the gang of 4 starts whole. Each pod asks for devices of class gpu.example.com 2 "
        "(most free on one node: 0 of 4)."
    )
    assert sentence in await told(world, "second")
    for pod in await world.pods("first"):
        await world.finish(pod)
    await world.settle()
    assert await world.nodes_of("second") == ["a", "a", "b", "b"]
    second = {pod.metadata.name for pod in await world.pods("second")}
    assert {name for _, _, names in await allocations(world) for name in names} == second
    assert len((await world.client.list(RESOURCE_CLAIM, "default")).items) == 4  # those of the first have gone


@virtual
async def test_devices_are_chosen_by_selectors(world: World) -> None:
    await gpu_class(world)
    await world.node("a")
    devices = [
        {"name": f"gpu-{number}", "attributes": {"model": {"string": model}}, "capacity": {"memory": {"value": memory}}}
        for number, (model, memory) in enumerate([("a", "40Gi"), ("b", "80Gi"), ("a", "80Gi"), ("a", "80Gi")])
    ]
    await publish(world, "a", devices)
    where = [
        'device.attributes["gpu.example.com"].model == "a"',
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("64Gi")) >= 0',
    ]
    await device_template(world, "large", selectors=[{"cel": {"expression": one}} for one in where])
    await claiming_job(world, "j", 2, "large")
    await world.settle()
    assert [devices for _, devices, _ in await allocations(world)] == [["gpu-2"], ["gpu-3"]]


@virtual
async def test_devices_of_a_pod_have_in_common_what_its_claim_says(world: World) -> None:
    await gpu_class(world)
    roots = {"a": "xxyy", "b": "xyz", "c": "zz"}
    for node, kinds in roots.items():
        await world.node(node)
        listed = [
            {"name": f"gpu-{number}", "attributes": {"root": {"string": root}}} for number, root in enumerate(kinds)
        ]
        await publish(world, node, listed)
    constraint = {"matchAttribute": "gpu.example.com/root"}
    await device_template(world, "pair", count=2, constraints=[constraint])
    await claiming_job(world, "j", 3, "pair")
    await world.settle()
    given = [(node, {roots[node][int(one[-1])] for one in devices}) for node, devices, _ in await allocations(world)]
    assert sorted((node, *kinds) for node, kinds in given) == [("a", "x"), ("a", "y"), ("c", "z")]
    await claiming_job(world, "k", 1, "pair")
    await world.settle()
    assert await world.nodes_of("k") == [""]
    sentence = "0/3 nodes are available: no node has free devices that suit a claim together."
    assert sentence in await told(world, "k")
    for pod in await world.pods("j"):
        await world.finish(pod)
    await world.settle()
    assert await world.nodes_of("k") != [""]


@virtual
async def test_all_devices_of_a_node_go_to_one_pod(world: World) -> None:
    await gpu_class(world)
    for node, number in (("a", 3), ("b", 2)):
        await device_node(world, node, number)
    await device_template(world, "one")
    await device_template(world, "all", count=0, allocationMode="All")
    await claiming_job(world, "small", 1, "one")
    await world.settle()
    await claiming_job(world, "whole", 1, "all")
    await world.settle()
    (small,), (whole,) = await world.nodes_of("small"), await world.nodes_of("whole")
    assert {small, whole} == {"a", "b"}
    counts = {node: len(devices) for node, devices, _ in await allocations(world)}
    assert counts == {small: 1, whole: {"a": 3, "b": 2}[whole]}


@virtual
async def test_pods_wait_for_their_template_and_their_class(world: World) -> None:
    await device_node(world, "a", 2)
    await claiming_job(world, "j", 2, "one")
    await world.settle()
    assert await told(world, "j") == {
        '0/1 nodes are available: cannot allocate the resource claim of "gpu": ResourceClaim not created yet.'
    }
    events = {one.reason: one.message for one in (await world.client.list(EVENT, "default")).items}
    assert events["FailedResourceClaimCreation"] == (
        'PodResourceClaim gpu: resource claim template "one": resourceclaimtemplate.resource.k8s.io "one" not found'
    )
    await device_template(world, "one")
    await world.settle()
    sentence = "device class gpu.example.com does not exist"
    assert f'0/1 nodes are available: cannot allocate the resource claim of "gpu": {sentence}.' in await told(
        world, "j"
    )
    await gpu_class(world)
    await world.settle()
    assert await world.nodes_of("j") == ["a", "a"]


@virtual
async def test_devices_of_a_gang_that_was_displaced_go_to_the_one_it_went_for(world: World) -> None:
    async with simulated(world, gpu=4):
        await device_template(world, "two", count=2)
        await claiming_job(world, "low", 4, "two")
        await world.settle()
        assert len(await allocations(world)) == 4
        document = {"metadata": {"name": "high"}, "value": 1000}
        await world.client.create(PRIORITY_CLASS, msgspec.convert(document, PriorityClass))
        await claiming_job(world, "high", 3, "two", priorityClassName="high")
        await world.settle(120)
        assert {pod.status.phase for pod in await world.pods("high")} == {"Running"}
        high = {pod.metadata.name for pod in await world.pods("high")}
        assert {name for _, _, names in await allocations(world) for name in names} == high


@virtual
async def test_an_elastic_job_takes_the_devices_that_there_are(world: World) -> None:
    async with simulated(world, gpu=4):
        await device_template(world, "two", count=2)
        annotations = {ELASTIC_ANNOTATION: "2:6"}
        await claiming_job(world, "j", 6, "two", job_annotations=annotations)
        await world.settle(30)
        assert len([node for node in await world.nodes_of("j") if node]) == 4
        assert (await world.client.get(JOB, "j", "default")).spec.completions == 4
        await publish(world, "sim-0", [{"name": f"more-{number}"} for number in range(2)], pool="more")
        await world.settle(30)
        assert (await world.client.get(JOB, "j", "default")).spec.completions == 5
        assert len(await allocations(world)) == 5


@virtual
async def test_a_simulated_node_that_is_deleted_comes_back_with_its_devices(world: World) -> None:
    async with simulated(world, gpu=4):
        await world.client.delete(NODE, "sim-0")
        await world.settle(30)
        found = {(node, driver, count) for node, driver, _, count in await slices(world)}
        assert found == {("sim-0", "gpu.example.com", 4), ("sim-1", "gpu.example.com", 4)}
        node = await world.client.get(NODE, "sim-0")
        owners = [one.metadata.owner_references for one in (await world.client.list(RESOURCE_SLICE)).items]
        assert node.metadata.uid in {owner.uid for (owner,) in owners}


async def slices(world: World) -> list[tuple[str, str, int, int]]:
    """Of each slice the node, the driver, the generation and how many devices it has."""
    specs = [one.spec for one in (await world.client.list(RESOURCE_SLICE)).items]
    return sorted((one.node_name or "", one.driver, one.pool.generation, len(one.devices)) for one in specs)


@virtual
async def test_simulated_nodes_play_a_driver_and_start_what_has_its_devices(world: World) -> None:
    async with simulated(world, gpu=4):
        assert await slices(world) == [("sim-0", "gpu.example.com", 1, 4), ("sim-1", "gpu.example.com", 1, 4)]
        await device_template(world, "two", count=2)
        for name in ("first", "second"):
            await claiming_job(world, name, 4, "two", annotations={"muster.dev/run-time": "60s"})
            await world.settle()
        assert {pod.status.phase for pod in await world.pods("first")} == {"Running"}
        assert await world.nodes_of("second") == ["", "", "", ""]
        await world.elapse(60)
        assert {pod.status.phase for pod in await world.pods("second")} == {"Running"}
        await world.elapse(60)
        assert {pod.status.phase for pod in await world.pods()} == {"Succeeded"}
        assert (await world.client.list(RESOURCE_CLAIM, "default")).items == []
        # A pod that is put on a node by hand gets no devices, and does not start.
        spec = claiming("two") | {"nodeName": "sim-0"}
        await world.client.create(POD, msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod), "default")
        await world.settle()
        assert (await world.client.get(POD, "p", "default")).status.phase == "Pending"


@virtual
async def test_simulated_nodes_that_come_back_with_other_devices_say_so(world: World) -> None:
    async with simulated(world, gpu=4):
        pass
    async with simulated(world, gpu=2, nic=1):
        assert await slices(world) == [
            ("sim-0", "gpu.example.com", 2, 2), ("sim-0", "nic.example.com", 1, 1),
            ("sim-1", "gpu.example.com", 2, 2), ("sim-1", "nic.example.com", 1, 1),
        ]  # fmt: skip
    async with simulated(world):
        assert await slices(world) == []
