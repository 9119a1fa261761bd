"""Simulate the driver of resource claims on simulated nodes. Pure.

Each node has a fixed number of devices without properties, and publishes a ResourceSlice for each driver. As a kubelet
does, it starts a pod when the pod's claims have devices and are reserved for the pod. The simulation prepares no
devices.
"""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from muster.api.core import NODE, Node, Pod
from muster.api.groups.resource import (
    CELDeviceSelector,
    Device,
    DeviceAttribute,
    DeviceClass,
    DeviceClassSpec,
    DeviceSelector,
    ResourceClaim,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from muster.api.meta import ObjectMeta
from muster.api.ours.embedded import NODE_KIND_LABEL, SIMULATED


def class_for(driver: str) -> DeviceClass:
    """Return the DeviceClass of a simulated driver. The class has the driver's name and selects all its devices."""
    selector = DeviceSelector(cel=CELDeviceSelector(expression=f'device.driver == "{driver}"'))
    return DeviceClass(metadata=ObjectMeta(name=driver), spec=DeviceClassSpec(selectors=(selector,)))


def slice_for(node: Node, driver: str, count: int, known: ResourceSlice | None) -> ResourceSlice:
    """Return the ResourceSlice with a node's devices.

    known: the existing slice, which is returned if it is up to date; None if there is none.
    """
    name = node.metadata.name
    generation = known.spec.pool.generation + 1 if known is not None else 1
    devices = tuple(
        Device(name=f"device-{number}", attributes={"index": DeviceAttribute(int=number)}) for number in range(count)
    )
    pool = ResourcePool(name=name, generation=generation, resource_slice_count=1)
    spec = ResourceSliceSpec(driver=driver, pool=pool, node_name=name, devices=devices)
    if known is not None and replace(known.spec, pool=pool) == spec:
        return known
    owner = NODE.refer_to_owner(node.metadata)
    meta = ObjectMeta(name=slice_name(name, driver), labels={NODE_KIND_LABEL: SIMULATED}, owner_references=(owner,))
    return ResourceSlice(metadata=meta, spec=spec)


def slice_name(node: str, driver: str) -> str:
    """Return the name of the ResourceSlice with a node's devices of a driver."""
    return f"{node}-{driver}"


def stale_slices(slices: Iterable[ResourceSlice], nodes: frozenset[str], drivers: Iterable[str]) -> list[ResourceSlice]:
    """Return the ResourceSlices of these nodes whose drivers the nodes no longer simulate."""
    playing = frozenset(drivers)
    return [
        one
        for one in slices
        if one.metadata.labels.get(NODE_KIND_LABEL) == SIMULATED
        and one.spec.node_name in nodes
        and one.spec.driver not in playing
    ]


def is_prepared(pod: Pod, find: Callable[[str], ResourceClaim | None]) -> bool:
    """Return whether every claim of a pod has devices and is reserved for the pod.

    find: returns a claim by `namespace/name`.
    """
    claim_names = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name or claim_names.get(entry.name, "")
        if name is None:
            continue  # the entry needs no claim
        claim = find(f"{pod.metadata.namespace}/{name}")
        if claim is None or claim.status.allocation is None:
            return False
        if all(one.uid != pod.metadata.uid for one in claim.status.reserved_for):
            return False
    return True
