"""Choose which free devices of a node the claims of a pod get. Pure.

Within a claim, the scarcest request is served first and gets the devices that the fewest other selections match. If
devices of some requests must share an attribute (`matchAttribute`), the values of that attribute are tried one by one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, product
from typing import TypeAlias

from muster.api.groups.resource import Device
from muster.gang.nodes.devicerequests import MOST_DEVICES, ClaimWants, Constraint, DeviceDemand, Selection

# A device, identified by its driver, its pool and its name.
DeviceId: TypeAlias = tuple[str, str, str]

# The chosen devices of a claim, each with the name of the request that it satisfies.
Choice: TypeAlias = tuple[tuple[str, DeviceId], ...]

Matching: TypeAlias = Callable[[Selection], frozenset[DeviceId]]

# The maximum number of combinations of a claim's shared attribute values to try on a node.
_MOST_WAYS = 256


def choose_devices(
    claims: Mapping[str, ClaimWants], free: Sequence[DeviceId], matching: Matching, devices: Mapping[DeviceId, Device]
) -> dict[str, Choice] | None:
    """Return the chosen devices of each claim; None if some claim gets too few.

    free: the unallocated devices, those that the fewest selections match first.
    matching: returns all devices that a selection matches.
    """
    left, chosen = list(free), dict[str, Choice]()

    def scarcity(key: str) -> tuple[bool, int]:
        wants = claims[key]
        return not wants.constraints, min((len(matching(one.selection)) for one in wants.requests), default=0)

    for key in sorted(claims, key=scarcity):
        ways = islice(_list_ways(claims[key], left, devices), _MOST_WAYS)
        choices = (_choose(claims[key].requests, allowed, matching) for allowed in ways)
        choice = next((one for one in choices if one is not None), None)
        if choice is None:
            return None
        chosen[key] = choice
        used = {device for _, device in choice}
        left = [one for one in left if one not in used]
    return chosen


# Returns the devices that a request may use.
_Allowed: TypeAlias = Callable[[str], list[DeviceId]]


def _list_ways(wants: ClaimWants, free: Sequence[DeviceId], devices: Mapping[DeviceId, Device]) -> Iterator[_Allowed]:
    """Yield, for each combination of a claim's shared attribute values, the devices that each request may use."""
    values = [
        list(
            dict.fromkeys(value for one in free if (value := _read_attribute(one, devices[one], constraint.attribute)))
        )
        for constraint in wants.constraints
    ]
    for way in product(*values):
        yield partial(_filter_allowed, list(zip(wants.constraints, way, strict=True)), free, devices)


def _filter_allowed(
    pairs: Sequence[tuple[Constraint, str]],
    free: Sequence[DeviceId],
    devices: Mapping[DeviceId, Device],
    request: str,
) -> list[DeviceId]:
    rules = [(one.attribute, value) for one, value in pairs if one.covers(request)]
    return [one for one in free if all(_read_attribute(one, devices[one], name) == value for name, value in rules)]


def _choose(requests: Sequence[DeviceDemand], allowed: _Allowed, matching: Matching) -> Choice | None:
    chosen: list[tuple[str, DeviceId]] = []
    taken: set[DeviceId] = set()
    for one in sorted(requests, key=lambda one: len(matching(one.selection))):
        all_of_them = matching(one.selection)
        fitting = [device for device in allowed(one.request) if device in all_of_them and device not in taken]
        count = len(all_of_them) if one.selection.whole else one.count
        if len(fitting) < count or not count:
            return None
        taken.update(fitting[:count])
        chosen += [(one.request, device) for device in fitting[:count]]
    return tuple(chosen) if len(chosen) <= MOST_DEVICES else None


def _read_attribute(device: DeviceId, about: Device, name: str) -> str:
    """Return the value of a device's attribute, with its type; "" if the device does not have the attribute.

    name: the full name of the attribute.
    """
    domain, _, identifier = name.rpartition("/")
    attribute = about.attributes.get(name)
    if attribute is None and domain == device[0]:
        attribute = about.attributes.get(identifier)
    return repr(attribute) if attribute is not None else ""
