"""The rules of LimitRanges (k8s.io/kubernetes/pkg/apis/core/validation)."""

from collections.abc import Iterator, Mapping

from muster.api.core.quota import LimitRange, LimitRangeItem
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.fields import Errors, duplicate, forbidden, invalid, make_errors, required
from muster.api.validation.metadata import changed_metadata, new_metadata
from muster.api.validation.resources import (
    may_overcommit,
    validate_amount,
    validate_container_resource_name,
    validate_resource_name,
)
from muster.api.values.quantity import Quantity, format_canonical, parse

TYPES = ("Container", "PersistentVolumeClaim", "Pod")

Amounts = Mapping[str, Quantity]


def validate_create(limits: LimitRange) -> list[FieldError]:
    """Return the errors in a new LimitRange with its defaults."""
    return [*new_metadata(limits.metadata, names.dns_subdomain), *_validate_limits(limits)]


def validate_update(new: LimitRange, old: LimitRange) -> list[FieldError]:
    """Return the errors in a change of a LimitRange."""
    return [*changed_metadata(new.metadata, old.metadata), *_validate_limits(new)]


def _validate_limits(limits: LimitRange) -> Errors:
    seen: set[str] = set()
    for i, item in enumerate(limits.spec.limits):
        path = f"spec.limits[{i}]"
        yield from _validate_type(f"{path}.type", item.type)
        if item.type in seen:
            yield duplicate(f"{path}.type", item.type)
        seen.add(item.type)
        yield from _validate_item(path, item)


def _validate_type(path: str, name: str) -> Errors:
    messages = names.label_key(name)
    yield from make_errors(path, name, messages)
    if not messages and "/" not in name and name not in TYPES:
        yield invalid(path, name, "must be a standard limit type or fully qualified")


def _validate_item(path: str, item: LimitRangeItem) -> Errors:
    if item.type == "Pod":
        for field, given in (("default", item.default), ("defaultRequest", item.default_request)):
            if given:
                yield forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
    if item.type == "PersistentVolumeClaim" and "storage" not in item.min and "storage" not in item.max:
        sentence = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{path}.limits", sentence)
    rule = validate_container_resource_name if item.type in ("Container", "Pod") else validate_resource_name
    broken = False
    for place, resource, quantity in _list_amounts(path, item):
        for error in (*rule(place, resource), *validate_amount(place, resource, quantity)):
            broken = True
            yield error
    if not broken:
        for resource in sorted({resource for _, resource, _ in _list_amounts(path, item)}):
            yield from _validate_order(path, item, resource)


def _list_amounts(path: str, item: LimitRangeItem) -> Iterator[tuple[str, str, Quantity]]:
    lists: tuple[tuple[str, Amounts], ...] = (
        ("max", item.max),
        ("min", item.min),
        ("default", item.default),
        ("defaultRequest", item.default_request),
        ("maxLimitRequestRatio", item.max_limit_request_ratio),
    )
    for field, amounts in lists:
        for resource, quantity in amounts.items():
            yield f"{path}.{field}[{resource}]", resource, quantity


def _validate_order(path: str, item: LimitRangeItem, resource: str) -> Errors:
    """Check that the amounts of a resource are consistent."""
    least, most = item.min.get(resource), item.max.get(resource)
    default, request = item.default.get(resource), item.default_request.get(resource)
    at_default, at_request = f"{path}.default[{resource}]", f"{path}.defaultRequest[{resource}]"
    yield from _validate_maximum(
        f"{path}.min[{resource}]", least, most, least, "min value {} is greater than max value {}"
    )
    yield from _validate_maximum(
        at_request, least, request, request, "min value {} is greater than default request value {}"
    )
    yield from _validate_maximum(
        at_request, request, most, request, "default request value {} is greater than max value {}"
    )
    yield from _validate_maximum(
        at_request, request, default, request, "default request value {} is greater than default limit value {}"
    )
    yield from _validate_maximum(at_default, least, default, least, "min value {} is greater than default value {}")
    yield from _validate_maximum(at_default, default, most, most, "default value {} is greater than max value {}")
    yield from _validate_ratio(
        f"{path}.maxLimitRequestRatio[{resource}]", item.max_limit_request_ratio.get(resource), least, most
    )
    if default is None or request is None or may_overcommit(resource):
        return
    if parse(default) != parse(request):
        detail = (
            f"default value {format_canonical(default)} must equal to defaultRequest value {format_canonical(request)}"
        )
        yield invalid(at_default, format_canonical(default), f"{detail} in {resource}")


def _validate_maximum(
    path: str, small: Quantity | None, big: Quantity | None, value: Quantity | None, sentence: str
) -> Errors:
    if small is not None and big is not None and value is not None and parse(small) > parse(big):
        yield invalid(path, format_canonical(value), sentence.format(format_canonical(small), format_canonical(big)))


def _validate_ratio(path: str, ratio: Quantity | None, least: Quantity | None, most: Quantity | None) -> Errors:
    if ratio is None:
        return
    number = parse(ratio)
    if number < 1:
        yield invalid(path, format_canonical(ratio), f"ratio {format_canonical(ratio)} is less than 1")
    if least is not None and most is not None and parse(least) > 0:
        possible = parse(most) / parse(least)
        if number > possible:
            sentence = f"ratio {format_canonical(ratio)} is greater than max/min = {float(possible):f}"
            yield invalid(path, format_canonical(ratio), sentence)
