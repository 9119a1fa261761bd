# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`resource.k8s.io/v1`: devices, and claims on them. The scheduler allocates devices by them."""

import builtins
from datetime import datetime
from typing import Any

from muster.api.core.scheduling import NodeSelector
from muster.api.kinds import Kind
from muster.api.markers import Required
from muster.api.meta import Condition, ObjectMeta, Struct
from muster.api.values.quantity import Quantity


class Counter(Struct):
    """An amount of something."""

    value: Required[Quantity] = "0"


class CounterSet(Struct):
    """Amounts that devices share."""

    name: Required[str] = ""
    counters: dict[str, Counter] = {}


class ResourcePool(Struct):
    """The pool of devices that a slice is a part of."""

    name: Required[str] = ""
    generation: Required[int] = 0
    resource_slice_count: Required[int] = 0


class DeviceAttribute(Struct):
    """A fact about a device; exactly one form."""

    int: builtins.int | None = None
    bool: builtins.bool | None = None
    string: str | None = None
    version: str | None = None


class CapacityRequestPolicyRange(Struct):
    """Amounts that may be asked for, as a range."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Struct):
    """Amounts that may be asked for."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Struct):
    """How much a device has of something."""

    value: Required[Quantity] = "0"
    request_policy: CapacityRequestPolicy | None = None


class DeviceCounterConsumption(Struct):
    """What a device takes of amounts that devices share."""

    counter_set: Required[str] = ""
    counters: dict[str, Counter] = {}


class DeviceTaint(Struct):
    """Keeps claims that do not tolerate it off a device."""

    key: Required[str] = ""
    value: str = ""
    effect: Required[str] = ""
    time_added: datetime | None = None


class Device(Struct):
    """A device."""

    name: Required[str] = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None


class ResourceSliceSpec(Struct):
    """Some devices of a pool."""

    driver: Required[str] = ""
    pool: Required[ResourcePool] = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Struct):
    """Says which devices there are."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[ResourceSliceSpec] = ResourceSliceSpec()


class CELDeviceSelector(Struct):
    """Selects devices by an expression."""

    expression: Required[str] = ""


class DeviceSelector(Struct):
    """Selects devices."""

    cel: CELDeviceSelector | None = None


class DeviceToleration(Struct):
    """Lets a claim have devices with a matching taint."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(Struct):
    """How much of a device is asked for."""

    requests: dict[str, Quantity] = {}


class ExactDeviceRequest(Struct):
    """Devices of one class."""

    device_class_name: Required[str] = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(Struct):
    """One of several ways to meet a request."""

    name: Required[str] = ""
    device_class_name: Required[str] = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Struct):
    """Devices that are asked for; exactly one way."""

    name: Required[str] = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Struct):
    """What the devices of some requests must have in common."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueDeviceConfiguration(Struct):
    """What a driver is told."""

    driver: Required[str] = ""
    parameters: Required[dict[str, Any]] = {}


class DeviceClaimConfiguration(Struct):
    """What drivers are told of the devices of some requests."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Struct):
    """Which devices are claimed."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Struct):
    """What is claimed; never changes."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Struct):
    """A device that was given."""

    request: Required[str] = ""
    driver: Required[str] = ""
    pool: Required[str] = ""
    device: Required[str] = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = None
    consumed_capacity: dict[str, Quantity] = {}


class DeviceAllocationConfiguration(Struct):
    """What drivers are told, and who says it."""

    source: Required[str] = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Struct):
    """The devices that were given."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Struct):
    """What was given to a claim."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: datetime | None = None


class ResourceClaimConsumerReference(Struct):
    """Who may use what was given to a claim."""

    api_group: str = ""
    resource: Required[str] = ""
    name: Required[str] = ""
    uid: Required[str] = ""


class NetworkDeviceData(Struct):
    """State of a device of a network."""

    interface_name: str = ""
    ips: tuple[str, ...] = ()
    hardware_address: str = ""


class AllocatedDeviceStatus(Struct):
    """State of a device that was given, as its driver says."""

    driver: Required[str] = ""
    pool: Required[str] = ""
    device: Required[str] = ""
    share_id: str | None = None
    conditions: tuple[Condition, ...] = ()
    data: dict[str, Any] | None = None
    network_data: NetworkDeviceData | None = None


class ResourceClaimStatus(Struct):
    """What has become of a claim."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(Struct):
    """Claims devices for pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[ResourceClaimSpec] = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Struct):
    """Describes claims that are made for pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[ResourceClaimSpec] = ResourceClaimSpec()


class ResourceClaimTemplate(Struct):
    """Describes claims that are made for pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[ResourceClaimTemplateSpec] = ResourceClaimTemplateSpec()


class DeviceClassConfiguration(Struct):
    """What drivers are told of the devices of a class."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Struct):
    """Which devices a class has."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Struct):
    """A class of devices that claims can ask for."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[DeviceClassSpec] = DeviceClassSpec()


_GROUP = "resource.k8s.io"
RESOURCE_CLAIM = Kind(_GROUP, "v1", "ResourceClaim", "resourceclaims", ResourceClaim)
RESOURCE_CLAIM_TEMPLATE = Kind(_GROUP, "v1", "ResourceClaimTemplate", "resourceclaimtemplates", ResourceClaimTemplate)
RESOURCE_SLICE = Kind(_GROUP, "v1", "ResourceSlice", "resourceslices", ResourceSlice, namespaced=False)
DEVICE_CLASS = Kind(_GROUP, "v1", "DeviceClass", "deviceclasses", DeviceClass, namespaced=False)
