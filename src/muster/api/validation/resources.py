"""The rules of requests, limits and other amounts of resources."""

from collections.abc import Callable, Collection, Mapping
from fractions import Fraction

from muster.api.core import ResourceClaim, ResourceRequirements
from muster.api.validation import names
from muster.api.validation.fields import (
    NOT_NEGATIVE,
    Errors,
    duplicate,
    forbidden,
    invalid,
    make_errors,
    not_found,
    required,
    unsupported,
)
from muster.api.values.quantity import Quantity, QuantityError, format_canonical, parse

_CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_QUOTA_RESOURCES = frozenset({
    "requests.cpu", "requests.memory", "requests.ephemeral-storage", "limits.cpu", "limits.memory",
    "limits.ephemeral-storage", "requests.storage", "storage",
})  # fmt: skip
_COUNTED = frozenset({
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims",
    "services.nodeports", "services.loadbalancers",
})  # fmt: skip
STANDARD_RESOURCES = _CONTAINER_RESOURCES | _QUOTA_RESOURCES | _COUNTED
HUGE_PAGES = "hugepages-"
LIMIT_NEEDED = "Limit must be set for non overcommitable resources"

Amounts = Mapping[str, Quantity]


def validate_amount(path: str, resource: str, quantity: Quantity) -> Errors:
    """Check one amount of a resource. Amounts of indivisible resources are whole numbers."""
    try:
        number = parse(quantity)
    except QuantityError as error:
        yield invalid(path, quantity, str(error))
        return
    if number.numerator < 0:
        yield invalid(path, format_canonical(quantity), NOT_NEGATIVE)
    if (resource in _COUNTED or is_extended(resource)) and number.denominator != 1:
        yield invalid(path, quantity, "must be an integer")


def validate_container_resources(path: str, requirements: ResourceRequirements, claims: Collection[str]) -> Errors:
    """Yield the errors in the requests and limits of a container.

    claims: the names of the pod's resource claims.
    """
    yield from _validate_requirements(path, requirements, validate_container_resource_name, claims)


def validate_pod_resources(path: str, requirements: ResourceRequirements, claims: Collection[str]) -> Errors:
    """Yield the errors in the requests and limits of a pod as a whole."""
    yield from _validate_requirements(path, requirements, _validate_pod_level_resource_name, claims)


def is_extended(resource: str) -> bool:
    """Return whether a resource is not defined by Kubernetes, such as example.com/gpu."""
    return (
        "/" in resource
        and "kubernetes.io/" not in resource
        and not resource.startswith("requests.")
        and not names.label_key(f"requests.{resource}")
    )


def may_overcommit(resource: str) -> bool:
    """Return whether a limit may be above the request."""
    return ("/" not in resource or "kubernetes.io/" in resource) and not resource.startswith(HUGE_PAGES)


def _validate_requirements(
    path: str, requirements: ResourceRequirements, name_rule: Callable[[str, str], Errors], claims: Collection[str]
) -> Errors:
    limits, requests = requirements.limits, requirements.requests
    for resource, quantity in limits.items():
        place = f"{path}.limits[{resource}]"
        yield from name_rule(place, resource)
        yield from validate_amount(place, resource, quantity)
        yield from _validate_whole_pages(place, resource, quantity)
    for resource, quantity in requests.items():
        place = f"{path}.requests[{resource}]"
        yield from name_rule(place, resource)
        yield from validate_amount(place, resource, quantity)
        yield from _validate_request_and_limit(path, resource, quantity, limits)
        yield from _validate_whole_pages(place, resource, quantity)
    asked = limits.keys() | requests.keys()
    if any(resource.startswith(HUGE_PAGES) for resource in asked) and not asked & {"cpu", "memory"}:
        yield forbidden(path, "HugePages require cpu or memory")
    yield from _validate_claims(f"{path}.claims", requirements.claims, claims)


def _validate_request_and_limit(path: str, resource: str, request: Quantity, limits: Amounts) -> Errors:
    if resource not in limits:
        if not may_overcommit(resource):
            yield required(f"{path}.limits", LIMIT_NEEDED)
        return
    wanted, most = _parse_number(request), _parse_number(limits[resource])
    if wanted is None or most is None or wanted == most:
        return
    rule = "less than or equal to" if may_overcommit(resource) else "equal to"
    if rule == "equal to" or wanted > most:
        sentence = f"must be {rule} {resource} limit of {format_canonical(limits[resource])}"
        yield invalid(f"{path}.requests", format_canonical(request), sentence)


def _parse_number(quantity: Quantity) -> Fraction | None:
    try:
        return parse(quantity)
    except QuantityError:
        return None  # the rule of quantities reports the error


def _validate_whole_pages(path: str, resource: str, quantity: Quantity) -> Errors:
    if not resource.startswith(HUGE_PAGES):
        return
    size, number = _parse_number(resource.removeprefix(HUGE_PAGES)), _parse_number(quantity)
    if number is not None and (not size or size < 0 or number % size):
        yield invalid(
            path,
            format_canonical(quantity),
            f"{format_canonical(quantity)} is not positive integer multiple of {resource}",
        )


def validate_resource_name(path: str, resource: str) -> Errors:
    """Yield the errors in the name of a resource."""
    messages = names.label_key(resource)
    yield from make_errors(path, resource, messages)
    if not messages and "/" not in resource:
        standard = resource in STANDARD_RESOURCES or resource.removeprefix("requests.").startswith(HUGE_PAGES)
        if not standard:
            yield invalid(path, resource, "must be a standard resource type or fully qualified")


def validate_container_resource_name(path: str, resource: str) -> Errors:
    """Yield the errors in the name of a resource that a container can request."""
    yield from validate_resource_name(path, resource)
    if "/" not in resource:
        if resource not in _CONTAINER_RESOURCES and not resource.startswith(HUGE_PAGES):
            yield invalid(path, resource, "must be a standard resource for containers")
    elif "kubernetes.io/" not in resource and not is_extended(resource):
        yield invalid(path, resource, "doesn't follow extended resource name standard")


def _validate_pod_level_resource_name(path: str, resource: str) -> Errors:
    errors = list(validate_resource_name(path, resource))
    yield from errors
    if not errors and resource not in ("cpu", "memory") and not resource.startswith(HUGE_PAGES):
        yield unsupported(path, resource, ("cpu", "hugepages-", "memory"))


def _validate_claims(path: str, claims: tuple[ResourceClaim, ...], known: Collection[str]) -> Errors:
    seen: set[str] = set()
    for i, claim in enumerate(claims):
        place = f"{path}[{i}]"
        if not claim.name:
            yield required(place)
            continue
        key = f"{claim.name}/{claim.request}" if claim.request else claim.name
        if claim.request:
            yield from make_errors(f"{place}.request", claim.request, names.dns_label(claim.request))
        if claim.name in seen:
            yield duplicate(place, claim.name)
        elif key in seen:
            yield duplicate(place, key)
        elif not claim.request and any(other.startswith(f"{claim.name}/") for other in seen):
            yield duplicate(place, claim.name)
        seen.add(key)
        if claim.name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            yield not_found(place, claim.name, f"must be one of the names in pod.spec.resourceClaims{listed}")
