"""Count how much quota a request for devices uses, by the devices of the cluster (Kueue KEP-2941).

Two questions need the devices themselves:

- Do enough devices match a request with selectors?
- If quota counts a counter or a capacity instead of the device (`sources` of a mapping), how much is it?

Before allocation it is unknown which device a pod gets. So the largest amount of any matching device counts.
"""

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Final

from msgspec import Struct

from muster.api.config.types import DeviceClassSource
from muster.api.groups.resource import (
    CapacityRequestPolicy,
    Device,
    DeviceCapacity,
    DeviceClass,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaimSpec,
    ResourceSlice,
)
from muster.api.status import INTERNAL, INVALID, FieldError
from muster.api.values.quantity import Quantity, QuantityError, parse
from muster.gang.nodes.devicepools import Published, published_devices
from muster.gang.nodes.devices import Matcher

# An upper bound: no node offers as much of a resource, and thousands of such pods still add up in 64 bits.
MOST: Final = 1 << 48

# The maximum size of the cache, about 50 MB; the cache is cleared when it is reached.
_MOST_REMEMBERED: Final = 300_000


class Source(Struct, frozen=True):
    """A counter or a capacity of devices that quota counts in place of the devices themselves.

    resource: the name of the resource in quotas.
    name: the name of the counter or the capacity.
    driver, selector: the driver and the CEL expression that select the devices.
    """

    resource: str
    name: str
    driver: str
    selector: str
    is_counter: bool

    @classmethod
    def of(cls, resource: str, source: DeviceClassSource, *, is_counter: bool) -> "Source":
        """Return the source that the Configuration describes.

        resource: the resource under which quota counts it.
        is_counter: whether the source is a counter, and not a capacity.
        """
        cel = source.device_selector.cel
        expression = cel.expression if cel is not None else ""
        return cls(resource, source.name, source.driver, expression, is_counter)


class RememberedMatches:
    """A cache for matching devices with expressions. Each result is kept until the device changes.

    Drivers publish their devices slice by slice, and all devices are matched again after each slice.
    """

    def __init__(self, matches: Matcher) -> None:
        self._matches = matches
        self._known: dict[tuple[str, int], tuple[Device, bool]] = {}  # the entry holds the device, so its id is unique

    def __call__(self, expression: str, driver: str, device: Device) -> bool:
        """Return whether a device matches an expression."""
        entry = self._known.get((expression, id(device)))
        if entry is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            entry = self._known[expression, id(device)] = device, self._matches(expression, driver, device)
        return entry[1]


class Fleet:
    """The devices of a cluster. The caller creates a new instance when a ResourceSlice or a DeviceClass changes."""

    def __init__(self, slices: Iterable[ResourceSlice], classes: Iterable[DeviceClass], matches: Matcher) -> None:
        self._devices = list(published_devices(slices))
        self._classes = {one.metadata.name: one for one in classes}
        self._matches = matches
        self._matching_devices: dict[tuple[str, tuple[str, ...]], list[Published]] = {}

    def shortage(self, spec: ResourceClaimSpec) -> FieldError | None:
        """Return an error if a claim's selectors request more devices than match them; else None."""
        used: set[int] = set()
        for index, request in enumerate(spec.devices.requests):
            exactly, path = request.exactly, f"devices.requests[{index}]"
            if exactly is None or not _list_expressions(exactly.selectors):
                continue
            if (problem := self._check_class(path, exactly)) is not None:
                return problem
            matching = [
                one for one in self._find_matching("", self._list_selectors(exactly)) if id(one.device) not in used
            ]
            if len(matching) < exactly.count:
                sentence = (
                    f"insufficient matching devices for CEL selector in DeviceClass {exactly.device_class_name}: "
                    f"{len(matching)} device(s) match in the cluster but {exactly.count} requested"
                )
                return FieldError(f"{path}.exactly.selectors", INTERNAL, detail=sentence)
            used.update(id(one.device) for one in matching[: exactly.count])
        return None

    def charge(self, path: str, request: ExactDeviceRequest, source: Source) -> int | FieldError:
        """Return how much of one counter or capacity a request uses, or the error that prevents counting it.

        path: the field path of the request, for errors.
        """
        if (problem := self._check_class(path, request)) is not None:
            return problem
        expressions = (source.selector, *self._list_selectors(request))
        devices = [one.device for one in self._find_matching(source.driver, expressions)]
        if len(devices) < request.count:
            kind = "counter" if source.is_counter else "capacity"
            shortage = f"{len(devices)} device(s) match but {request.count} requested"
            return FieldError(path, INTERNAL, detail=f"insufficient matching devices for {kind} driver: {shortage}")
        try:
            if source.is_counter:
                return _count_counter(path, devices, request.count, source.name)
            return _count_capacity(path, devices, request, source.name)
        except QuantityError as error:  # an admitted workload keeps its quota even if its template is invalid
            return FieldError(path, INVALID, None, str(error))

    def _check_class(self, path: str, request: ExactDeviceRequest) -> FieldError | None:
        name = request.device_class_name
        if name in self._classes:
            return None
        not_found = f'DeviceClass.resource.k8s.io "{name}" not found'
        return FieldError(path, INTERNAL, detail=f"failed to get DeviceClass {name}: {not_found}")

    def _list_selectors(self, request: ExactDeviceRequest) -> tuple[str, ...]:
        return _list_expressions(self._classes[request.device_class_name].spec.selectors) + _list_expressions(
            request.selectors
        )

    def _find_matching(self, driver: str, expressions: tuple[str, ...]) -> list[Published]:
        devices = self._matching_devices.get((driver, expressions))
        if devices is None:
            devices = self._matching_devices[driver, expressions] = [
                one
                for one in self._devices
                if driver in ("", one.driver)
                and all(self._matches(expression, one.driver, one.device) for expression in expressions)
            ]
        return devices


def _list_expressions(selectors: Iterable[DeviceSelector]) -> tuple[str, ...]:
    return tuple(one.cel.expression for one in selectors if one.cel is not None)


def _count_counter(path: str, devices: Iterable[Device], count: int, name: str) -> int | FieldError:
    consumed = [
        _round_up(consumption.counters[name].value)
        for device in devices
        for consumption in device.consumes_counters
        if name in consumption.counters
    ]
    if not consumed:
        sentence = f'matched devices have no consumesCounters entry for counter "{name}"'
        return FieldError(path, INTERNAL, detail=sentence)
    return _multiply(max(consumed), count)


def _count_capacity(path: str, devices: Iterable[Device], request: ExactDeviceRequest, name: str) -> int | FieldError:
    offered = [device.capacity[name] for device in devices if name in device.capacity]
    if not offered:
        return FieldError(path, INTERNAL, detail=f'matched devices have no capacity dimension "{name}"')
    requested: Mapping[str, Quantity] = request.capacity.requests if request.capacity is not None else {}
    rounded = [amount for one in offered if (amount := _count_capacity_of_device(one, requested.get(name))) is not None]
    if not rounded:
        sentence = f'capacity request cannot be satisfied by any matched device\'s RequestPolicy for dimension "{name}"'
        return FieldError(path, INVALID, None, sentence)
    return _multiply(max(rounded), request.count)


def _count_capacity_of_device(offered: DeviceCapacity, requested: Quantity | None) -> int | None:
    """Return the amount that one device uses, rounded by its request policy; None if the policy refuses the amount."""
    policy = offered.request_policy
    if requested is None and policy is not None:
        requested = policy.default
    amount = _round_up(requested if requested is not None else offered.value)
    return amount if policy is None else _round_by_policy(amount, policy)


def _round_by_policy(amount: int, policy: CapacityRequestPolicy) -> int | None:
    if policy.valid_values:
        return min((value for value in map(_round_up, policy.valid_values) if value >= amount), default=None)
    if (between := policy.valid_range) is None:
        return amount
    least = _round_up(between.min) if between.min is not None else None
    if least is not None:
        amount = max(amount, least)
        step = _round_up(between.step) if between.step is not None else 0
        if step > 0:
            amount = least - (least - amount) // step * step
    return None if between.max is not None and amount > _round_up(between.max) else amount


def _round_up(quantity: Quantity) -> int:
    return max(0, ceil(parse(quantity)))


def _multiply(amount: int, count: int) -> int:
    return min(MOST, amount * count)
