# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`resource.k8s.io/v1`: devices and claims on them, by which the scheduler allocates devices."""

import builtins
from datetime import datetime
from typing import Any

from muster.api.core.scheduling import NodeSelector
from muster.api.kinds import Kind
from muster.api.markers import Required
from muster.api.meta import Condition, ObjectMeta, Struct
from muster.api.values.quantity import Quantity


class Counter(Struct):
    """The amount of a counter."""

    value: Required[Quantity] = "0"


class CounterSet(Struct):
    """Amounts that devices share."""

    name: Required[str] = ""
    counters: dict[str, Counter] = {}


class ResourcePool(Struct):
    """The pool to which a slice belongs."""

    name: Required[str] = ""
    generation: Required[int] = 0
    resource_slice_count: Required[int] = 0


class DeviceAttribute(Struct):
    """A fact about a device. Exactly one field is set."""

    int: builtins.int | None = None
    bool: builtins.bool | None = None
    string: str | None = None
    version: str | None = None


class CapacityRequestPolicyRange(Struct):
    """A range of amounts that a claim may request."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Struct):
    """The amounts that a claim may request."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Struct):
    """The amount of a capacity that a device has."""

    value: Required[Quantity] = "0"
    request_policy: CapacityRequestPolicy | None = None


class DeviceCounterConsumption(Struct):
    """The shared amounts that a device consumes."""

    counter_set: Required[str] = ""
    counters: dict[str, Counter] = {}


class DeviceTaint(Struct):
    """A mark that keeps a claim without a matching toleration off a device."""

    key: Required[str] = ""
    value: str = ""
    effect: Required[str] = ""
    time_added: datetime | None = None


class Device(Struct):
    """A device of a slice."""

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
    """The devices of a slice, and the nodes that can use them."""

    driver: Required[str] = ""
    pool: Required[ResourcePool] = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Struct):
    """A list of some devices of a pool."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[ResourceSliceSpec] = ResourceSliceSpec()


class CELDeviceSelector(Struct):
    """A selector of devices by a CEL expression."""

    expression: Required[str] = ""


class DeviceSelector(Struct):
    """A selector of devices."""

    cel: CELDeviceSelector | None = None


class DeviceToleration(Struct):
    """A permission for a claim to get devices with a matching taint."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(Struct):
    """The requested capacity of a device."""

    requests: dict[str, Quantity] = {}


class ExactDeviceRequest(Struct):
    """A request for devices of one class."""

    device_class_name: Required[str] = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(Struct):
    """An alternative among several that meet a request."""

    name: Required[str] = ""
    device_class_name: Required[str] = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Struct):
    """A request for devices. Either `exactly` or `firstAvailable` is set."""

    name: Required[str] = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Struct):
    """A constraint on what the devices of some requests must have in common."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueDeviceConfiguration(Struct):
    """The configuration that a driver gets."""

    driver: Required[str] = ""
    parameters: Required[dict[str, Any]] = {}


class DeviceClaimConfiguration(Struct):
    """The configuration that drivers get for the devices of some requests."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Struct):
    """The devices that a claim requests."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Struct):
    """The desired devices of a claim, which never change."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Struct):
    """A device that was allocated."""

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
    """The configuration that drivers get, and its origin: the class or the claim."""

    source: Required[str] = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Struct):
    """The devices that were allocated."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Struct):
    """The result of an allocation: the devices, and the nodes that can use them."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: datetime | None = None


class ResourceClaimConsumerReference(Struct):
    """A consumer that may use the devices of a claim."""

    api_group: str = ""
    resource: Required[str] = ""
    name: Required[str] = ""
    uid: Required[str] = ""


class NetworkDeviceData(Struct):
    """The state of a network device."""

    interface_name: str = ""
    ips: tuple[str, ...] = ()
    hardware_address: str = ""


class AllocatedDeviceStatus(Struct):
    """The state of an allocated device, which its driver reports."""

    driver: Required[str] = ""
    pool: Required[str] = ""
    device: Required[str] = ""
    share_id: str | None = None
    conditions: tuple[Condition, ...] = ()
    data: dict[str, Any] | None = None
    network_data: NetworkDeviceData | None = None


class ResourceClaimStatus(Struct):
    """The observed state of a claim."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(Struct):
    """A claim on devices for pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[ResourceClaimSpec] = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Struct):
    """A template of claims that are created for pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[ResourceClaimSpec] = ResourceClaimSpec()


class ResourceClaimTemplate(Struct):
    """A template of claims that are created for pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[ResourceClaimTemplateSpec] = ResourceClaimTemplateSpec()


class DeviceClassConfiguration(Struct):
    """The configuration that drivers get for the devices of a class."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Struct):
    """The devices of a class."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Struct):
    """A class of devices that claims can request."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[DeviceClassSpec] = DeviceClassSpec()


_GROUP = "resource.k8s.io"
RESOURCE_CLAIM = Kind(_GROUP, "v1", "ResourceClaim", "resourceclaims", ResourceClaim)
RESOURCE_CLAIM_TEMPLATE = Kind(_GROUP, "v1", "ResourceClaimTemplate", "resourceclaimtemplates", ResourceClaimTemplate)
RESOURCE_SLICE = Kind(_GROUP, "v1", "ResourceSlice", "resourceslices", ResourceSlice, namespaced=False)
DEVICE_CLASS = Kind(_GROUP, "v1", "DeviceClass", "deviceclasses", DeviceClass, namespaced=False)
