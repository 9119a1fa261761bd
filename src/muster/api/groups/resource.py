# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`resource.k8s.io/v1`: devices, and claims on them. Kept; nothing here allocates devices by them."""

import builtins
from datetime import datetime
from typing import Annotated, Any

from muster.api.core.scheduling import NodeSelector
from muster.api.kinds import Kind
from muster.api.markers import ATOMIC, Default, Required, Strings, map_by, merged_by
from muster.api.meta import Condition, ObjectMeta, Struct
from muster.api.values.quantity import Quantity


class Counter(Struct):
    """An amount of something.

    value: how much.
    """

    value: Required[Quantity] = "0"


class CounterSet(Struct):
    """Amounts that devices share.

    name: name of the set.
    counters: the amounts.
    """

    name: Required[str] = ""
    counters: dict[str, Counter] = {}


class ResourcePool(Struct):
    """The pool of devices that a slice is a part of.

    name: name of the pool.
    generation: counts the changes of the pool.
    resource_slice_count: how many slices it has.
    """

    name: Required[str] = ""
    generation: Required[int] = 0
    resource_slice_count: Required[int] = 0


class DeviceAttribute(Struct):
    """A fact about a device; exactly one form.

    int: a number.
    bool: a truth.
    string: a text.
    version: a semantic version.
    """

    int: builtins.int | None = None
    bool: builtins.bool | None = None
    string: str | None = None
    version: str | None = None


class CapacityRequestPolicyRange(Struct):
    """Amounts that may be asked for, as a range.

    min: the least.
    max: the most.
    step: between two of them.
    """

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Struct):
    """Amounts that may be asked for.

    default: for whom says nothing.
    valid_values: the amounts one by one.
    valid_range: the amounts as a range.
    """

    default: Quantity | None = None
    valid_values: Annotated[tuple[Quantity, ...], ATOMIC] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Struct):
    """How much a device has of something.

    value: how much.
    request_policy: how much of it may be asked for.
    """

    value: Required[Quantity] = "0"
    request_policy: CapacityRequestPolicy | None = None


class DeviceCounterConsumption(Struct):
    """What a device takes of amounts that devices share.

    counter_set: name of the set.
    counters: how much.
    """

    counter_set: Required[str] = ""
    counters: dict[str, Counter] = {}


class DeviceTaint(Struct):
    """Keeps claims that do not tolerate it off a device.

    key: its key.
    value: its value.
    effect: NoSchedule or NoExecute.
    time_added: when it was added.
    """

    key: Required[str] = ""
    value: str = ""
    effect: Required[str] = ""
    time_added: datetime | None = None


class Device(Struct):
    """A device.

    name: unique in its pool.
    attributes: facts about it.
    capacity: what it has.
    consumes_counters: what it takes of amounts that devices share.
    node_name: the node that it is on.
    node_selector: nodes that can use it.
    all_nodes: whether all nodes can use it.
    taints: what a claim must tolerate.
    binds_to_node: whether who is given it must stay on that node.
    binding_conditions: conditions that must be True before a pod is bound.
    binding_failure_conditions: conditions that mean that it failed.
    allow_multiple_allocations: whether several claims may have it.
    """

    name: Required[str] = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: Annotated[tuple[DeviceCounterConsumption, ...], ATOMIC] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: Annotated[tuple[DeviceTaint, ...], ATOMIC] = ()
    binds_to_node: bool | None = None
    binding_conditions: Strings = ()
    binding_failure_conditions: Strings = ()
    allow_multiple_allocations: bool | None = None


class ResourceSliceSpec(Struct):
    """Some devices of a pool.

    driver: name of the driver.
    pool: the pool.
    node_name: the node that they are on.
    node_selector: nodes that can use them.
    all_nodes: whether all nodes can use them.
    devices: the devices.
    per_device_node_selection: whether each device says which nodes can use it.
    shared_counters: amounts that devices share.
    """

    driver: Required[str] = ""
    pool: Required[ResourcePool] = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: Annotated[tuple[Device, ...], ATOMIC] = ()
    per_device_node_selection: bool | None = None
    shared_counters: Annotated[tuple[CounterSet, ...], ATOMIC] = ()


class ResourceSlice(Struct):
    """Says which devices there are.

    metadata: what every object carries.
    spec: some devices of a pool.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[ResourceSliceSpec] = ResourceSliceSpec()


class CELDeviceSelector(Struct):
    """Selects devices by an expression.

    expression: in CEL, on `device`.
    """

    expression: Required[str] = ""


class DeviceSelector(Struct):
    """Selects devices.

    cel: by an expression.
    """

    cel: CELDeviceSelector | None = None


class DeviceToleration(Struct):
    """Lets a claim have devices with a matching taint.

    key: key of the taint; all if empty.
    operator: Exists, or Equal, the default.
    value: value of the taint, for Equal.
    effect: effect of the taint; all if empty.
    toleration_seconds: how long a NoExecute taint is borne.
    """

    key: str = ""
    operator: Annotated[str, Default("Equal")] = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(Struct):
    """How much of a device is asked for.

    requests: how much, by name.
    """

    requests: dict[str, Quantity] = {}


class ExactDeviceRequest(Struct):
    """Devices of one class.

    device_class_name: the class.
    selectors: which of them; all must match.
    allocation_mode: ExactCount or All.
    count: how many, for ExactCount; 1 if absent.
    admin_access: whether they are only looked at.
    tolerations: taints that are borne.
    capacity: how much of each.
    """

    device_class_name: Required[str] = ""
    selectors: Annotated[tuple[DeviceSelector, ...], ATOMIC] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: Annotated[tuple[DeviceToleration, ...], ATOMIC] = ()
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(Struct):
    """One of several ways to meet a request.

    name: unique in the request.
    device_class_name: the class.
    selectors: which of them; all must match.
    allocation_mode: ExactCount or All.
    count: how many, for ExactCount; 1 if absent.
    tolerations: taints that are borne.
    capacity: how much of each.
    """

    name: Required[str] = ""
    device_class_name: Required[str] = ""
    selectors: Annotated[tuple[DeviceSelector, ...], ATOMIC] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: Annotated[tuple[DeviceToleration, ...], ATOMIC] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Struct):
    """Devices that are asked for; exactly one way.

    name: unique in the claim.
    exactly: devices of one class.
    first_available: the first of several ways that can be met.
    """

    name: Required[str] = ""
    exactly: ExactDeviceRequest | None = None
    first_available: Annotated[tuple[DeviceSubRequest, ...], ATOMIC] = ()


class DeviceConstraint(Struct):
    """What the devices of some requests must have in common.

    requests: the requests; all if empty.
    match_attribute: an attribute whose values must be equal.
    distinct_attribute: an attribute whose values must differ.
    """

    requests: Strings = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueDeviceConfiguration(Struct):
    """What a driver is told.

    driver: name of the driver.
    parameters: what it is told, in words of its own.
    """

    driver: Required[str] = ""
    parameters: Required[dict[str, Any]] = {}


class DeviceClaimConfiguration(Struct):
    """What drivers are told of the devices of some requests.

    requests: the requests; all if empty.
    opaque: what is told.
    """

    requests: Strings = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Struct):
    """Which devices are claimed.

    requests: the devices.
    constraints: what they must have in common.
    config: what drivers are told.
    """

    requests: Annotated[tuple[DeviceRequest, ...], ATOMIC] = ()
    constraints: Annotated[tuple[DeviceConstraint, ...], ATOMIC] = ()
    config: Annotated[tuple[DeviceClaimConfiguration, ...], ATOMIC] = ()


class ResourceClaimSpec(Struct):
    """What is claimed; never changes.

    devices: devices.
    """

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Struct):
    """A device that was given.

    request: the request that it meets.
    driver: name of the driver.
    pool: name of the pool.
    device: name of the device.
    admin_access: whether it is only looked at.
    tolerations: taints that are borne.
    binding_conditions: conditions that must be True before a pod is bound.
    binding_failure_conditions: conditions that mean that it failed.
    share_id: which share of the device.
    consumed_capacity: how much of the device.
    """

    request: Required[str] = ""
    driver: Required[str] = ""
    pool: Required[str] = ""
    device: Required[str] = ""
    admin_access: bool | None = None
    tolerations: Annotated[tuple[DeviceToleration, ...], ATOMIC] = ()
    binding_conditions: Strings = ()
    binding_failure_conditions: Strings = ()
    share_id: str | None = None
    consumed_capacity: dict[str, Quantity] = {}


class DeviceAllocationConfiguration(Struct):
    """What drivers are told, and who says it.

    source: FromClass or FromClaim.
    requests: the requests; all if empty.
    opaque: what is told.
    """

    source: Required[str] = ""
    requests: Strings = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Struct):
    """The devices that were given.

    results: the devices.
    config: what drivers are told.
    """

    results: Annotated[tuple[DeviceRequestAllocationResult, ...], ATOMIC] = ()
    config: Annotated[tuple[DeviceAllocationConfiguration, ...], ATOMIC] = ()


class AllocationResult(Struct):
    """What was given to a claim.

    devices: the devices.
    node_selector: nodes that can use them; all if absent.
    allocation_timestamp: when.
    """

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: datetime | None = None


class ResourceClaimConsumerReference(Struct):
    """Who may use what was given to a claim.

    api_group: group of its kind.
    resource: resource of its kind.
    name: its name.
    uid: the very object.
    """

    api_group: str = ""
    resource: Required[str] = ""
    name: Required[str] = ""
    uid: Required[str] = ""


class NetworkDeviceData(Struct):
    """State of a device of a network.

    interface_name: name of the interface.
    ips: its addresses.
    hardware_address: its hardware address.
    """

    interface_name: str = ""
    ips: Strings = ()
    hardware_address: str = ""


class AllocatedDeviceStatus(Struct):
    """State of a device that was given, as its driver says.

    driver: name of the driver.
    pool: name of the pool.
    device: name of the device.
    share_id: which share of the device.
    conditions: observed aspects.
    data: whatever else the driver says.
    network_data: state of a device of a network.
    """

    driver: Required[str] = ""
    pool: Required[str] = ""
    device: Required[str] = ""
    share_id: str | None = None
    conditions: Annotated[tuple[Condition, ...], map_by("type")] = ()
    data: dict[str, Any] | None = None
    network_data: NetworkDeviceData | None = None


class ResourceClaimStatus(Struct):
    """What has become of a claim.

    allocation: what was given to it.
    reserved_for: who may use it.
    devices: state of the devices.
    """

    allocation: AllocationResult | None = None
    reserved_for: Annotated[tuple[ResourceClaimConsumerReference, ...], merged_by("uid")] = ()
    devices: Annotated[tuple[AllocatedDeviceStatus, ...], map_by("driver", "device", "pool", "shareID")] = ()


class ResourceClaim(Struct):
    """Claims devices for pods.

    metadata: what every object carries.
    spec: what is claimed.
    status: what has become of it.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[ResourceClaimSpec] = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Struct):
    """Describes claims that are made for pods.

    metadata: labels and annotations of the claims.
    spec: what is claimed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[ResourceClaimSpec] = ResourceClaimSpec()


class ResourceClaimTemplate(Struct):
    """Describes claims that are made for pods.

    metadata: what every object carries.
    spec: the claims; never changes.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[ResourceClaimTemplateSpec] = ResourceClaimTemplateSpec()


class DeviceClassConfiguration(Struct):
    """What drivers are told of the devices of a class.

    opaque: what is told.
    """

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Struct):
    """Which devices a class has.

    selectors: which; all must match.
    config: what drivers are told.
    extended_resource_name: a resource of containers that stands for such a device.
    """

    selectors: Annotated[tuple[DeviceSelector, ...], ATOMIC] = ()
    config: Annotated[tuple[DeviceClassConfiguration, ...], ATOMIC] = ()
    extended_resource_name: str | None = None


class DeviceClass(Struct):
    """A class of devices that claims can ask for.

    metadata: what every object carries.
    spec: which devices.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[DeviceClassSpec] = DeviceClassSpec()


_GROUP = "resource.k8s.io"
RESOURCE_CLAIM = Kind(_GROUP, "v1", "ResourceClaim", "resourceclaims", ResourceClaim)
RESOURCE_CLAIM_TEMPLATE = Kind(_GROUP, "v1", "ResourceClaimTemplate", "resourceclaimtemplates", ResourceClaimTemplate)
RESOURCE_SLICE = Kind(_GROUP, "v1", "ResourceSlice", "resourceslices", ResourceSlice, namespaced=False)
DEVICE_CLASS = Kind(_GROUP, "v1", "DeviceClass", "deviceclasses", DeviceClass, namespaced=False)
