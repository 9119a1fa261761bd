"""Make the allocation of a ResourceClaim from the devices that were chosen for it."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from muster.api.core.scheduling import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from muster.api.groups.resource import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from muster.gang.nodes.devicechoice import DeviceId

Classes = Callable[[str], DeviceClass | None]


def allocation_of(
    claim: ResourceClaim, picks: Sequence[tuple[str, DeviceId]], node: str, classes: Classes, now: datetime
) -> AllocationResult:
    """Return the allocation of a claim on a node.

    picks: each chosen device, with the name of the request that it satisfies.
    classes: returns the DeviceClass with the given name.
    """
    requests = {one.name: one.exactly for one in claim.spec.devices.requests if one.exactly is not None}
    results = tuple(
        DeviceRequestAllocationResult(
            request=request, driver=driver, pool=pool, device=device, tolerations=requests[request].tolerations
        )
        for request, (driver, pool, device) in picks
    )
    here = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
    return AllocationResult(
        devices=DeviceAllocationResult(results=results, config=tuple(_list_configuration(claim, classes))),
        node_selector=NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(here,)),)),
        allocation_timestamp=now,
    )


def _list_configuration(claim: ResourceClaim, classes: Classes) -> Iterator[DeviceAllocationConfiguration]:
    """Yield the configuration for drivers: first from the DeviceClass of each request, then from the claim."""
    for request in claim.spec.devices.requests:
        device_class = classes(request.exactly.device_class_name) if request.exactly is not None else None
        for one in device_class.spec.config if device_class is not None else ():
            yield DeviceAllocationConfiguration(source="FromClass", requests=(request.name,), opaque=one.opaque)
    for config in claim.spec.devices.config:
        yield DeviceAllocationConfiguration(source="FromClaim", requests=config.requests, opaque=config.opaque)
