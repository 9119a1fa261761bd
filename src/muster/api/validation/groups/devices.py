"""The rules of devices, their classes and claims on them (k8s.io/kubernetes/pkg/apis/resource/validation)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from muster.api.groups.resource import (
    Device,
    DeviceAttribute,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceSlice,
    ResourceSliceSpec,
)
from muster.api.status import TOO_LONG, FieldError
from muster.api.validation import names
from muster.api.validation.fields import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    make_errors,
    required,
    too_long,
    too_many,
    unsupported,
    validate_immutable,
    validate_not_negative,
    validate_positive,
)
from muster.api.validation.metadata import changed_metadata
from muster.api.validation.resources import validate_amount
from muster.api.validation.standard import Standard
from muster.api.values.quantity import Quantity

# Returns why an expression is invalid over a device, or "" if it is valid.
Compile = Callable[[str], str]

_MOST_REQUESTS: Final = 32
_MOST_CONSTRAINTS: Final = 32
_MOST_CONFIGURATIONS: Final = 32
_MOST_WAYS: Final = 8
_MOST_SELECTORS: Final = 32
_MOST_TOLERATIONS: Final = 16
_MOST_TAINTS: Final = 16
_MOST_USERS: Final = 256
_MOST_RESULTS: Final = 32
_MOST_DEVICES: Final = 128
_MOST_PROPERTIES: Final = 32
_MOST_VALUE: Final = 64
_MOST_DRIVER: Final = 63
_MOST_EXPRESSION: Final = 10 * 1024
# Muster's own limit: the server compiles some 50 KiB of expressions per second, and serves no request meanwhile.
_MOST_EXPRESSIONS: Final = 2 * _MOST_EXPRESSION
_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_MODES: Final = ("All", "ExactCount")
_OPERATORS: Final = ("Equal", "Exists")
_ONE_WAY: Final = "exactly one of `exactly` or `firstAvailable` is required"
_ONE_PLACE: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_ONE_VALUE: Final = "exactly one value must be specified"
_A_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


class Rules(NamedTuple):
    """The validation functions of each kind of `resource.k8s.io`."""

    claim: Standard
    template: Standard
    device_class: Standard
    slice: Standard


def make_rules(compile: Compile = lambda _: "") -> Rules:
    """Return the validation functions of each kind of `resource.k8s.io`.

    compile: returns the problem of an expression over a device.
    """
    return Rules(
        claim=Standard(partial(_validate_claim, compile), _validate_claim_change),
        template=Standard(partial(_validate_template, compile), _validate_claim_change),
        device_class=Standard(partial(_validate_device_class, compile), namespaced=False),
        slice=Standard(_validate_slice, _validate_slice_change, namespaced=False),
    )


def validate_claim_status_change(new: ResourceClaim, old: ResourceClaim) -> list[FieldError]:
    """Return the errors in a change of a claim's status."""
    return [*changed_metadata(new.metadata, old.metadata), *_validate_status(new, old)]


# Claims and templates.


def _validate_claim(compile: Compile, claim: ResourceClaim) -> Errors:
    yield from _validate_claim_spec("spec", claim.spec, compile)


def _validate_template(compile: Compile, template: ResourceClaimTemplate) -> Errors:
    yield from _validate_claim_spec("spec.spec", template.spec.spec, compile)


def _validate_claim_change(
    new: ResourceClaim | ResourceClaimTemplate, old: ResourceClaim | ResourceClaimTemplate
) -> Errors:
    yield from validate_immutable("spec", new.spec, old.spec)


def _validate_claim_spec(path: str, spec: ResourceClaimSpec, compile: Compile) -> Errors:
    path, requests = f"{path}.devices", spec.devices.requests
    yield from _validate_length(f"{path}.requests", requests, _MOST_REQUESTS)
    yield from _validate_distinct_keys(f"{path}.requests", (request.name for request in requests))
    if sum(map(len, set(_list_expressions(requests)))) > _MOST_EXPRESSIONS:
        sentence = f"the selectors of all requests together may not be more than {_MOST_EXPRESSIONS} bytes"
        yield FieldError(f"{path}.requests", TOO_LONG, detail=sentence)
        return
    for i, request in enumerate(requests):
        yield from _validate_request(f"{path}.requests[{i}]", request, compile)
    known = {request.name for request in requests}
    known |= {f"{request.name}/{way.name}" for request in requests for way in request.first_available}
    yield from _validate_length(f"{path}.constraints", spec.devices.constraints, _MOST_CONSTRAINTS)
    for i, constraint in enumerate(spec.devices.constraints):
        yield from _validate_constraint(f"{path}.constraints[{i}]", constraint, known)
    yield from _validate_length(f"{path}.config", spec.devices.config, _MOST_CONFIGURATIONS)
    for i, configuration in enumerate(spec.devices.config):
        yield from _validate_request_names(f"{path}.config[{i}].requests", configuration.requests, known)


def _list_expressions(requests: Iterable[DeviceRequest]) -> Iterator[str]:
    for request in requests:
        ways: list[ExactDeviceRequest | DeviceSubRequest] = [*request.first_available]
        if request.exactly is not None:
            ways.append(request.exactly)
        for way in ways:
            yield from (selector.cel.expression for selector in way.selectors if selector.cel is not None)


def _validate_request(path: str, request: DeviceRequest, compile: Compile) -> Errors:
    yield from _validate_label(f"{path}.name", request.name)
    if request.exactly is None and not request.first_available:
        yield required(path, _ONE_WAY)
    elif request.exactly is not None and request.first_available:
        yield invalid(path, None, f"{_ONE_WAY}, but multiple fields are set")
    elif request.exactly is not None:
        yield from _validate_exact_request(f"{path}.exactly", request.exactly, compile)
    yield from _validate_length(f"{path}.firstAvailable", request.first_available, _MOST_WAYS)
    yield from _validate_distinct_keys(f"{path}.firstAvailable", (way.name for way in request.first_available))
    for i, way in enumerate(request.first_available):
        yield from _validate_label(f"{path}.firstAvailable[{i}].name", way.name)
        yield from _validate_exact_request(f"{path}.firstAvailable[{i}]", way, compile)


def _validate_exact_request(path: str, way: ExactDeviceRequest | DeviceSubRequest, compile: Compile) -> Errors:
    if not way.device_class_name:
        yield required(f"{path}.deviceClassName")
    else:
        yield from make_errors(
            f"{path}.deviceClassName", way.device_class_name, names.dns_subdomain(way.device_class_name)
        )
    yield from _validate_selectors(f"{path}.selectors", way.selectors, compile)
    match way.allocation_mode:
        case "All":
            if way.count:
                yield invalid(f"{path}.count", way.count, "must not be specified when allocationMode is 'All'")
        case "ExactCount":
            yield from validate_positive(f"{path}.count", way.count)
        case mode:
            yield unsupported(f"{path}.allocationMode", mode, _MODES)
    for name, quantity in (way.capacity.requests if way.capacity is not None else {}).items():
        yield from _validate_amount(f"{path}.capacity.requests[{name}]", quantity)
    yield from _validate_length(f"{path}.tolerations", way.tolerations, _MOST_TOLERATIONS)
    for i, toleration in enumerate(way.tolerations):
        yield from _validate_toleration(f"{path}.tolerations[{i}]", toleration)


def _validate_selectors(path: str, selectors: Sequence[DeviceSelector], compile: Compile) -> Errors:
    yield from _validate_length(path, selectors, _MOST_SELECTORS)
    for i, selector in enumerate(selectors):
        if selector.cel is None:
            yield required(f"{path}[{i}].cel")
            continue
        place, expression = f"{path}[{i}].cel.expression", selector.cel.expression
        if len(expression) > _MOST_EXPRESSION:
            yield too_long(place, _MOST_EXPRESSION)
        elif why := compile(expression):
            yield invalid(place, expression, f"compilation failed: {why}")


def _validate_toleration(path: str, toleration: DeviceToleration) -> Errors:
    if toleration.key:
        yield from make_errors(f"{path}.key", toleration.key, names.label_key(toleration.key))
    if toleration.operator == "Exists" and toleration.value:
        yield invalid(f"{path}.value", toleration.value, "must be empty for operator `Exists`")
    elif toleration.operator == "Equal":
        yield from make_errors(f"{path}.value", toleration.value, names.label_value(toleration.value))
    elif toleration.operator != "Exists":
        yield unsupported(f"{path}.operator", toleration.operator, _OPERATORS)
    if toleration.effect and toleration.effect not in _EFFECTS:
        yield unsupported(f"{path}.effect", toleration.effect, _EFFECTS)


def _validate_constraint(path: str, constraint: DeviceConstraint, known: Collection[str]) -> Errors:
    yield from _validate_request_names(f"{path}.requests", constraint.requests, known)
    if constraint.match_attribute is None and constraint.distinct_attribute is None:
        yield required(f"{path}.matchAttribute")


def _validate_request_names(path: str, requests: Sequence[str], known: Collection[str]) -> Errors:
    yield from _validate_length(path, requests, _MOST_REQUESTS)
    yield from _validate_distinct_keys(path, requests, suffix="")
    for i, name in enumerate(requests):
        if name not in known:
            yield invalid(f"{path}[{i}]", name, _A_REQUEST)


def _validate_status(new: ResourceClaim, old: ResourceClaim) -> Errors:
    users, allocation = new.status.reserved_for, new.status.allocation
    yield from _validate_length("status.reservedFor", users, _MOST_USERS)
    yield from _validate_distinct_keys("status.reservedFor", (one.uid for one in users), suffix=".uid")
    if users and allocation is None:
        yield forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    elif new.metadata.deletion_timestamp is not None and not set(users) <= set(old.status.reserved_for):
        sentence = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        yield forbidden("status.reservedFor", sentence)
    if allocation is not None:
        yield from _validate_length("status.allocation.devices.results", allocation.devices.results, _MOST_RESULTS)
    if allocation is not None and old.status.allocation is not None:
        yield from validate_immutable("status.allocation", allocation, old.status.allocation)


# Classes and slices.


def _validate_device_class(compile: Compile, device_class: DeviceClass) -> Errors:
    yield from _validate_selectors("spec.selectors", device_class.spec.selectors, compile)
    yield from _validate_length("spec.config", device_class.spec.config, _MOST_CONFIGURATIONS)


def _validate_slice(slice_: ResourceSlice) -> Errors:
    spec = slice_.spec
    if not spec.driver:
        yield required("spec.driver")
    elif len(spec.driver) > _MOST_DRIVER:
        yield too_long("spec.driver", _MOST_DRIVER)
    else:
        yield from make_errors("spec.driver", spec.driver, names.dns_subdomain(spec.driver.lower()))
    if not spec.pool.name:
        yield required("spec.pool.name")
    for part in filter(None, spec.pool.name.split("/")):
        yield from make_errors("spec.pool.name", part, names.dns_subdomain(part))
    yield from validate_positive("spec.pool.resourceSliceCount", spec.pool.resource_slice_count)
    yield from validate_not_negative("spec.pool.generation", spec.pool.generation)
    places = list(_list_node_fields(spec))
    if not places:
        yield required("spec", _ONE_PLACE)
    elif len(places) > 1:
        yield invalid("spec", f"{{{', '.join(places)}}}", f"{_ONE_PLACE}, but multiple fields are set")
    yield from _validate_length("spec.devices", spec.devices, _MOST_DEVICES)
    yield from _validate_distinct_keys("spec.devices", (device.name for device in spec.devices))
    for i, device in enumerate(spec.devices):
        yield from _validate_device(f"spec.devices[{i}]", device)


def _validate_slice_change(new: ResourceSlice, old: ResourceSlice) -> Errors:
    yield from validate_immutable("spec.pool.name", new.spec.pool.name, old.spec.pool.name)
    yield from validate_immutable("spec.driver", new.spec.driver, old.spec.driver)
    yield from validate_immutable("spec.nodeName", new.spec.node_name, old.spec.node_name)


def _list_node_fields(spec: ResourceSliceSpec) -> Iterator[str]:
    """Yield the fields that select the nodes for the devices."""
    said: dict[str, Any] = {
        "nodeName": spec.node_name,
        "nodeSelector": spec.node_selector,
        "allNodes": spec.all_nodes,
        "perDeviceNodeSelection": spec.per_device_node_selection,
    }
    yield from (f"`{field}`" for field, value in said.items() if value)


def _validate_device(path: str, device: Device) -> Errors:
    yield from _validate_label(f"{path}.name", device.name)
    if (number := len(device.attributes) + len(device.capacity)) > _MOST_PROPERTIES:
        yield invalid(path, number, f"the total number of attributes and capacities must not exceed {_MOST_PROPERTIES}")
    for name, attribute in device.attributes.items():
        yield from _validate_attribute(f"{path}.attributes[{name}]", attribute)
    for name, capacity in device.capacity.items():
        yield from _validate_amount(f"{path}.capacity[{name}].value", capacity.value)
    for i, consumption in enumerate(device.consumes_counters):
        for name, counter in consumption.counters.items():
            yield from _validate_amount(f"{path}.consumesCounters[{i}].counters[{name}].value", counter.value)
    yield from _validate_length(f"{path}.taints", device.taints, _MOST_TAINTS)
    for i, taint in enumerate(device.taints):
        yield from _validate_taint(f"{path}.taints[{i}]", taint)


def _validate_attribute(path: str, attribute: DeviceAttribute) -> Errors:
    if sum(value is not None for value in (attribute.bool, attribute.int, attribute.string, attribute.version)) != 1:
        yield invalid(path, "", _ONE_VALUE)
    for field, text in (("string", attribute.string), ("version", attribute.version)):
        if text is not None and len(text.encode()) > _MOST_VALUE:
            yield too_long(f"{path}.{field}", _MOST_VALUE)


def _validate_amount(path: str, quantity: Quantity) -> Errors:
    """Check the amount of a part of a device, which may be a fraction, unlike an amount of a pod's resource."""
    yield from validate_amount(path, "", quantity)


def _validate_taint(path: str, taint: DeviceTaint) -> Errors:
    yield from make_errors(f"{path}.key", taint.key, names.label_key(taint.key))
    yield from make_errors(f"{path}.value", taint.value, names.label_value(taint.value))
    if not taint.effect:
        yield required(f"{path}.effect")
    elif taint.effect not in _EFFECTS:
        yield unsupported(f"{path}.effect", taint.effect, _EFFECTS)


# Rules that several kinds share.


def _validate_label(path: str, name: str) -> Errors:
    if not name:
        yield required(path)
    else:
        yield from make_errors(path, name, names.dns_label(name))


def _validate_length(path: str, items: Sequence[object], limit: int) -> Errors:
    if len(items) > limit:
        yield too_many(path, len(items), limit)


def _validate_distinct_keys(path: str, keys: Iterable[str], suffix: str = ".name") -> Errors:
    seen: set[str] = set()
    for i, key in enumerate(keys):
        if key in seen:
            yield duplicate(f"{path}[{i}]{suffix}", key)
        seen.add(key)
