"""Count the devices that the pods of a workload claim, under the names in `resources.deviceClassMappings`.

The rules and the messages are Kueue's (Kueue KEP-2941). Claims made from templates count by device class. An extended
resource that a DeviceClass provides counts under the name of that class.

The input is podsets, templates, device classes and the devices of the cluster (`devicefleet`). The result is the
amounts of one pod of each podset, or the problem that prevents the count.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Self

from msgspec import Struct, field

from muster.api.config import Configuration
from muster.api.config.types import DeviceClassMapping
from muster.api.core import PodSpec
from muster.api.groups.resource import DeviceClass, ExactDeviceRequest, ResourceClaimSpec, ResourceClaimTemplate
from muster.api.kueue import PodSet, Workload
from muster.api.pods import all_containers, parse_amounts, pod_requests
from muster.api.status import INTERNAL, INVALID, NOT_FOUND, FieldError
from muster.api.validation.resources import is_extended
from muster.api.values.quantity import parse
from muster.queueing.devicefleet import MOST, Fleet, Source

NO_CLAIMS: Final = "KueueDRAIntegration feature does not support use of resource claims"
GATE_IS_OFF: Final = "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled"


class DeviceRules(Struct, frozen=True):
    """The settings of the Configuration for devices.

    counts: whether quota counts devices (gate KueueDRAIntegration).
    rejects: whether workloads with claims wait while devices do not count (KueueDRARejectWorkloadsWhenDRADisabled).
    extended: whether extended resources of device classes count (gate KueueDRAIntegrationExtendedResource).
    names: the resource in quotas, by device class.
    sources: the counters and capacities that quota counts in place of the devices, by device class.
    """

    counts: bool = False
    rejects: bool = False
    extended: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, tuple[Source, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, configuration: Configuration) -> Self:
        """Return the rules of a Configuration. If several mappings name a class, the first one applies."""
        names: dict[str, str] = {}
        sources: dict[str, tuple[Source, ...]] = {}
        mappings, enabled = configuration.resources.device_class_mappings, configuration.features.is_enabled
        for mapping in mappings:
            for name in mapping.device_class_names:
                names.setdefault(name, mapping.name)
                if class_sources := tuple(_convert_sources(mapping)):
                    sources[name] = sources.get(name, ()) + class_sources
        return cls(
            counts=enabled("KueueDRAIntegration"),
            rejects=enabled("KueueDRARejectWorkloadsWhenDRADisabled"),
            extended=enabled("KueueDRAIntegrationExtendedResource"),
            names=names,
            sources=sources,
        )


def _convert_sources(mapping: DeviceClassMapping) -> Iterator[Source]:
    for one in mapping.sources:
        if one.counter is not None:
            yield Source.of(mapping.name, one.counter, is_counter=True)
        if one.capacity is not None:
            yield Source.of(mapping.name, one.capacity, is_counter=False)


class PodDevices(Struct, frozen=True):
    """The quota that the devices of one pod use.

    added: the amounts to add to the pod's requests, by resource.
    replaced: the extended resources to remove from the pod's requests, because they are counted as devices.
    """

    added: Mapping[str, int] = field(default_factory=dict)
    replaced: frozenset[str] = frozenset()

    def apply(self, requests: Mapping[str, int]) -> dict[str, int]:
        """Return a pod's requests with `added` added and `replaced` removed."""
        counted = {resource: amount for resource, amount in requests.items() if resource not in self.replaced}
        for resource, amount in self.added.items():
            counted[resource] = counted.get(resource, 0) + amount
        return counted


class DeviceCount(Struct, frozen=True):
    """The quota that the devices of a workload use.

    by_podset: the devices of one pod of each podset.
    problem: why the devices cannot be counted; "" if they can.
    """

    by_podset: Mapping[str, PodDevices] = field(default_factory=dict)
    problem: str = ""


NO_DEVICES: Final = DeviceCount()


def claims_devices(podsets: Iterable[PodSet]) -> bool:
    """Return whether any pod names a ResourceClaim or a ResourceClaimTemplate."""
    return any(podset.template.spec.resource_claims for podset in podsets)


def class_by_extended_resource(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Return which DeviceClass provides each extended resource.

    If several classes provide one resource, the newest one is chosen, then the first by name (kubernetes KEP-5004).
    """
    by_resource: dict[str, DeviceClass] = {}
    for one in sorted(classes, key=lambda one: one.metadata.name):
        name, current = one.spec.extended_resource_name, by_resource.get(one.spec.extended_resource_name or "")
        if name and (current is None or _get_creation_time(one) > _get_creation_time(current)):
            by_resource[name] = one
    return by_resource


def count_devices(
    podsets: Sequence[PodSet],
    rules: DeviceRules,
    templates: Mapping[str, ResourceClaimTemplate],
    extended: Mapping[str, DeviceClass],
    fleet: Fleet | None = None,
) -> DeviceCount:
    """Return the quota that the devices of a workload use. Raises `QuantityError`.

    templates: the templates of the workload's namespace, by name.
    extended: the DeviceClasses by extended resource.
    fleet: the devices of the cluster; None if the count may not depend on them.
    """
    claiming = claims_devices(podsets)
    if not rules.counts:
        return DeviceCount(problem=GATE_IS_OFF) if claiming and rules.rejects else NO_DEVICES
    if any(claim.resource_claim_name is not None for one in podsets for claim in one.template.spec.resource_claims):
        return DeviceCount(problem=NO_CLAIMS)
    by_podset: dict[str, PodDevices] = {}
    for index, podset in enumerate(podsets):
        path = f"spec.podSets[{index}].template.spec"
        counted = _count_templates(path, podset, rules, templates, fleet)
        devices = (
            counted if isinstance(counted, FieldError) else _count_extended(path, podset, rules, extended, counted)
        )
        if isinstance(devices, FieldError):
            return DeviceCount(problem=str(devices))
        if devices.added or devices.replaced:
            by_podset[podset.name] = devices
    return DeviceCount(by_podset)


def devices_by_status(workload: Workload) -> dict[str, PodDevices]:
    """Return the devices of a waiting workload by podset, as admission wrote them to the workload's status.

    Callers that do not know the Configuration use this function. Before admission has written why the workload waits,
    the result is empty. Raises `QuantityError`.
    """
    podsets = {podset.name: podset for podset in workload.spec.pod_sets if podset.template.spec.resource_claims}
    by_podset = {}
    for request in workload.status.resource_requests:
        podset = podsets.get(request.name)
        if podset is None or not podset.count:
            continue
        own = pod_requests(podset.template.spec)
        per_pod = {resource: total // podset.count for resource, total in parse_amounts(request.resources).items()}
        by_podset[request.name] = PodDevices({name: number for name, number in per_pod.items() if name not in own})
    return by_podset


# Claims made from templates.


def _count_templates(
    path: str,
    podset: PodSet,
    rules: DeviceRules,
    templates: Mapping[str, ResourceClaimTemplate],
    fleet: Fleet | None,
) -> dict[str, int] | FieldError:
    """Return the devices that each pod of a podset claims by templates, by resource; or the first error.

    path: the path of the pod spec, for errors.
    fleet: the devices of the cluster; None to count without them.
    """
    added: dict[str, int] = {}
    for index, claim in enumerate(podset.template.spec.resource_claims):
        place, name = f"{path}.resourceClaims[{index}]", claim.resource_claim_template_name
        if name is None:
            continue
        if (template := templates.get(name)) is None:
            not_found = f'ResourceClaimTemplate.resource.k8s.io "{name}" not found'
            sentence = f"failed to get claim spec for ResourceClaimTemplate {name} in podset {podset.name}: {not_found}"
            return FieldError(place, INTERNAL, detail=sentence)
        spec = template.spec.spec
        counted = _count_by_class(spec)
        if not isinstance(counted, FieldError) and fleet is not None:
            counted = fleet.shortage(spec) or counted
        if isinstance(counted, FieldError):
            sentence = f"ResourceClaimTemplate {name}: {counted.detail}"
            return FieldError(f"{place}.{counted.path}", counted.type, counted.value, sentence)
        for device_class, count in counted.items():
            if (resource := rules.names.get(device_class)) is None:
                sentence = f"DeviceClass {device_class} is not mapped in DRA configuration for podset {podset.name}"
                return FieldError(f"{place}.resourceClaimTemplateName", NOT_FOUND, sentence)
            if device_class not in rules.sources:
                _add(added, resource, count)
        problem = _add_sources(place, spec, rules, fleet, added)
        if problem is not None:
            return problem
    return added


def _add_sources(
    place: str, spec: ResourceClaimSpec, rules: DeviceRules, fleet: Fleet | None, added: dict[str, int]
) -> FieldError | None:
    """Add to `added` the counters and capacities that a claim's devices use.

    Return the error that prevents it, or None.
    """
    for index, request in enumerate(spec.devices.requests):
        if (exactly := request.exactly) is None or exactly.admin_access:
            continue
        path = f"{place}.devices.requests[{index}]"
        for source in rules.sources.get(exactly.device_class_name, ()):
            if fleet is None:
                return FieldError(path, INTERNAL, detail="the devices of the cluster are not known here")
            charge = fleet.charge(path, exactly, source)
            if isinstance(charge, FieldError):
                return charge
            _add(added, source.resource, charge)
    return None


def _add(added: dict[str, int], resource: str, amount: int) -> None:
    added[resource] = min(MOST, added.get(resource, 0) + amount)


def _count_by_class(spec: ResourceClaimSpec) -> dict[str, int] | FieldError:
    """Return how many devices of each class a claim requests, or the problem (without the claim's path)."""
    counted: dict[str, int] = {}
    for index, request in enumerate(spec.devices.requests):
        path = f"devices.requests[{index}]"
        if request.first_available:
            return FieldError(path, INVALID, None, "FirstAvailable device selection is not supported")
        if request.exactly is None:
            return FieldError(path, INVALID, None, "Exactly must be set if FirstAvailable is nil")
        if request.exactly.admin_access:
            continue
        if (problem := _check_mode(f"{path}.exactly.allocationMode", request.exactly)) is not None:
            return problem
        name = request.exactly.device_class_name
        _add(counted, name, request.exactly.count)
    return counted


def _check_mode(path: str, request: ExactDeviceRequest) -> FieldError | None:
    match request.allocation_mode:
        case "ExactCount":
            return None
        case "All":
            return FieldError(path, INVALID, "All", "AllocationMode 'All' is not supported")
        case mode:
            return FieldError(path, INVALID, mode, f"unsupported allocation mode: {mode}")


# Extended resources that a DeviceClass provides.


def _count_extended(
    path: str, podset: PodSet, rules: DeviceRules, extended: Mapping[str, DeviceClass], added: dict[str, int]
) -> PodDevices | FieldError:
    if not rules.extended or not extended:
        return PodDevices(added)
    spec = podset.template.spec
    replaced = {
        resource: amount
        for resource, amount in pod_requests(spec).items()
        if amount > 0 and resource in extended and is_extended(resource)
    }
    for resource, amount in replaced.items():
        device_class = extended[resource].metadata.name
        if (problem := _check_extended(path, spec, resource, device_class, rules)) is not None:
            return problem
        name = rules.names.get(device_class, resource)
        _add(added, name, amount)
    return PodDevices(added, frozenset(replaced))


def _check_extended(
    path: str, spec: PodSpec, resource: str, device_class: str, rules: DeviceRules
) -> FieldError | None:
    if sources := rules.sources.get(device_class):
        place = next((place for place, _ in _find_requests(path, spec, resource)), path)
        return FieldError(place, INVALID, resource, _advise_templates(resource, device_class, sources[0]))
    for place, quantity in _find_requests(path, spec, resource):
        if parse(quantity).denominator != 1:
            place_path = f"{place}.resources.requests.{resource}"
            return FieldError(place_path, INVALID, quantity, "extended resource quantity must be an integer")
    return None


def _advise_templates(resource: str, device_class: str, source: Source) -> str:
    parts, use, quota = (
        ("counters", "CEL selectors", "counter-based") if source.is_counter
        else ("capacity sources", "capacity.requests", "capacity-based")
    )  # fmt: skip
    resolved = f"extended resource {resource} resolves to DeviceClass {device_class} with {parts} configured"
    return f"{resolved}; use ResourceClaimTemplates with {use} for {quota} quota"


def _find_requests(path: str, spec: PodSpec, resource: str) -> Iterator[tuple[str, str]]:
    """Yield, for each container that requests the resource, the path of the request and its quantity."""
    init = len(spec.init_containers)
    for index, container in enumerate(all_containers(spec)):
        quantity = container.resources.requests.get(resource, container.resources.limits.get(resource))
        if quantity is not None:
            place = f"initContainers[{index}]" if index < init else f"containers[{index - init}]"
            yield f"{path}.{place}", str(quantity)


def _get_creation_time(device_class: DeviceClass) -> float:
    stamp = device_class.metadata.creation_timestamp
    return stamp.timestamp() if stamp is not None else 0.0
