"""The selectors of DeviceClasses and ResourceClaims: expressions over one device.

The only variable is `device`, with the fields `driver`, `attributes` and `capacity` (both by domain), and
`allowMultipleAllocations`. An attribute that names no domain belongs to the domain of the driver.
"""

from collections import defaultdict
from typing import Any, Final, TypeVar

from muster.api.groups.resource import Device, DeviceAttribute
from muster.cluster.apiserver.cel.conditions import compile_condition
from muster.cluster.apiserver.cel.errors import CompileError
from muster.cluster.apiserver.cel.values import CelError, CostLimitError

DEVICE_VARIABLES: Final = ("device",)

# The most that an expression may cost for one device. The scheduler evaluates the expression for every device and does
# nothing else meanwhile, so the limit is a hundredth of upstream's: at most 0.4 ms for each device. The longest
# expression without loops stays below the limit.
COST_LIMIT: Final = 10_000

T = TypeVar("T")


def device_matches(expression: str, driver: str, device: Device) -> bool:
    """Return whether a device matches an expression.

    A device does not match if the evaluation fails or costs more than `COST_LIMIT`.
    """
    try:
        value = compile_condition(expression, DEVICE_VARIABLES, COST_LIMIT)(
            {"device": _make_device_value(driver, device)}
        )
    except (CelError, CompileError, CostLimitError):
        return False
    return value is True


def _make_device_value(driver: str, device: Device) -> dict[str, Any]:
    from muster.cluster.apiserver.cel.library.quantities import parse_quantity

    attributes = {name: _convert_attribute(one) for name, one in device.attributes.items()}
    capacity = {name: parse_quantity(str(one.value)) for name, one in device.capacity.items()}
    return {
        "driver": driver,
        "attributes": _group_by_domain(driver, attributes),
        "capacity": _group_by_domain(driver, capacity),
        "allowMultipleAllocations": bool(device.allow_multiple_allocations),
    }


def _convert_attribute(attribute: DeviceAttribute) -> Any:
    if attribute.version is not None:
        from muster.cluster.apiserver.cel.library.semver import parse_semver

        return parse_semver(attribute.version)
    for value in (attribute.bool, attribute.int, attribute.string):
        if value is not None:
            return value
    return None


def _group_by_domain(driver: str, values: dict[str, T]) -> dict[str, dict[str, T]]:
    by_domain: defaultdict[str, dict[str, T]] = defaultdict(dict)
    for name, value in values.items():
        domain, slash, identifier = name.partition("/")
        by_domain[domain if slash else driver][identifier if slash else name] = value
    return dict(by_domain)
