"""Tests of what quotas count of the cluster's devices (Kueue KEP-2941: selectors, counters, capacities)."""

from typing import Any

import msgspec
import pytest

from muster.api.groups.resource import Device, DeviceClass, ExactDeviceRequest, ResourceClaimSpec, ResourceSlice
from muster.api.status import FieldError
from muster.queueing.devicefleet import MOST, Fleet, RememberedMatches, Source

COUNTER = Source("memory", "memory", "d", "true", is_counter=True)
CAPACITY = Source("memory", "memory", "d", "true", is_counter=False)


def fleet(*devices: dict[str, Any], driver: str = "d", parts: int = 1) -> Fleet:
    """Return devices of class gpu. An expression is "true" or the name of an attribute."""
    named = [{"name": f"d{number}"} | device for number, device in enumerate(devices)]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": parts}
    slice_ = {"metadata": {"name": "s"}, "spec": {"driver": driver, "nodeName": "n", "pool": pool, "devices": named}}
    one = {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "true"}}]}}
    return Fleet(
        [msgspec.convert(slice_, ResourceSlice)],
        [msgspec.convert(one, DeviceClass)],
        lambda expression, _, device: expression == "true" or expression in device.attributes,
    )


def request(count: int = 1, selector: str = "", device_class: str = "gpu", **more: Any) -> dict[str, Any]:
    selectors = [{"cel": {"expression": selector}}] if selector else []
    return {"deviceClassName": device_class, "count": count, "selectors": selectors} | more


def takes(amount: str, counter: str = "memory") -> dict[str, Any]:
    return {"consumesCounters": [{"counterSet": "s", "counters": {counter: {"value": amount}}}]}


def has(amount: str, **policy: Any) -> dict[str, Any]:
    return {"capacity": {"memory": {"value": amount} | ({"requestPolicy": policy} if policy else {})}}


def find_charge(devices: Fleet, source: Source, **of: Any) -> int | str:
    result = devices.charge("r", msgspec.convert(request(**of), ExactDeviceRequest), source)
    return str(result) if isinstance(result, FieldError) else result


LARGE = {"attributes": {"large": {"bool": True}}}


@pytest.mark.parametrize(
    ("requests", "short"),
    [
        ([request(5)], ""),  # without selectors nothing is looked at
        ([request(2, "large")], ""),
        ([request(3, "large")],
         ("devices.requests[0].exactly.selectors: Internal error: insufficient matching devices for CEL selector in "
          "DeviceClass gpu: 2 device(s) match in the cluster but 3 requested")),
        ([request(1, "large"), request(2, "large")],
         ("devices.requests[1].exactly.selectors: Internal error: insufficient matching devices for CEL selector in "
         "DeviceClass gpu: 1 device(s) match in the cluster but 2 requested")),
        ([request(1, "large", "other")], ("devices.requests[0]: Internal error: failed to get DeviceClass other: "
                                         'DeviceClass.resource.k8s.io "other" not found')),
    ],
    ids=["no selector", "enough", "too few", "too few for both", "no class"],
)  # fmt: skip
def test_requests_with_selectors_find_as_many_devices_as_they_ask_for(requests, short):
    named = [{"name": f"r{number}", "exactly": one} for number, one in enumerate(requests)]
    spec = msgspec.convert({"devices": {"requests": named}}, ResourceClaimSpec)
    problem = fleet(LARGE, {}, LARGE).shortage(spec)
    assert (str(problem) if problem is not None else "") == short


@pytest.mark.parametrize(
    ("devices", "asked", "charge"),
    [
        (fleet(takes("10Gi"), takes("20Gi")), {}, 20 << 30),
        (fleet(takes("10"), takes("20")), {"count": 2}, 40),
        (fleet(takes("10") | LARGE, takes("20")), {"selector": "large"}, 10),
        (fleet(takes("1500m")), {}, 2),
        (fleet(takes("-5")), {}, 0),
        (fleet(takes("1Ei"), takes("1Ei")), {"count": 2}, MOST),
        (fleet(takes("10")), {"count": 2},
         "r: Internal error: insufficient matching devices for counter driver: 1 device(s) match but 2 requested"),
        (fleet(takes("10"), driver="e"), {},
         "r: Internal error: insufficient matching devices for counter driver: 0 device(s) match but 1 requested"),
        (fleet(takes("10"), parts=2), {},
         "r: Internal error: insufficient matching devices for counter driver: 0 device(s) match but 1 requested"),
        (fleet(takes("10", "cores")), {},
         'r: Internal error: matched devices have no consumesCounters entry for counter "memory"'),
        (fleet(takes("10")), {"device_class": "other"},
         'r: Internal error: failed to get DeviceClass other: DeviceClass.resource.k8s.io "other" not found'),
    ],
    ids=["the most", "two", "a selector", "a part", "less than nothing", "more than there can be", "too few",
         "another driver", "half a pool", "another counter", "no class"],
)  # fmt: skip
def test_counters(devices, asked, charge):
    assert find_charge(devices, COUNTER, **asked) == charge


def wants(amount: str) -> dict[str, Any]:
    return {"capacity": {"requests": {"memory": amount}}}


BETWEEN = {"validRange": {"min": "10", "max": "40", "step": "10"}}
NOT_ALLOWED = (
    "r: Invalid value: null: capacity request cannot be satisfied by any matched device's RequestPolicy for "
    'dimension "memory"'
)


@pytest.mark.parametrize(
    ("devices", "asked", "charge"),
    [
        (fleet(has("80")), {}, 80),
        (fleet(has("80"), has("40")), {"count": 2}, 160),
        (fleet(has("80")), wants("15"), 15),
        (fleet(has("80", default="5")), {}, 5),
        (fleet(has("80", default="5")), wants("15"), 15),
        (fleet(has("80", validRange={"min": "10", "max": "40"})), wants("15"), 15),
        (fleet(has("80", validRange={"min": "10", "max": "40"})), wants("5"), 10),
        (fleet(has("80", validRange={"max": "40"})), wants("40"), 40),
        (fleet(has("80", validRange={"max": "40"})), wants("41"), NOT_ALLOWED),
        (fleet(has("80", validValues=["10", "20", "40"])), wants("15"), 20),
        (fleet(has("80", validValues=["10", "20"])), wants("30"), NOT_ALLOWED),
        (fleet(has("80", **BETWEEN)), wants("1"), 10),
        (fleet(has("80", **BETWEEN)), wants("11"), 20),
        (fleet(has("80", **BETWEEN)), wants("40"), 40),
        (fleet(has("80", **BETWEEN)), wants("41"), NOT_ALLOWED),
        (fleet(has("80", **BETWEEN), has("80", validValues=["50"])), wants("41"), 50),
        (fleet({}), {}, 'r: Internal error: matched devices have no capacity dimension "memory"'),
        (fleet(), {}, ("r: Internal error: insufficient matching devices for capacity driver: "
                      "0 device(s) match but 1 requested")),
    ],
    ids=["all of it", "of two", "what is asked for", "what is usual", "asked for, not the usual", "in steps of nothing",
         "at least so much, in steps of nothing", "the most, and no least", "above the most, and no least",
         "the next value",
         "above all values", "at least so much", "the next step", "the most", "above the most",
         "what one device allows", "no such capacity", "no device"],
)  # fmt: skip
def test_capacities(devices, asked, charge):
    assert find_charge(devices, CAPACITY, **asked) == charge


def test_an_expression_is_evaluated_once_for_a_device():
    requests: list[tuple[str, str]] = []

    def matches(expression: str, driver: str, device: Device) -> bool:
        requests.append((expression, device.name))
        return expression == device.name

    remembered = RememberedMatches(matches)
    one, other = Device(name="one"), Device(name="other")
    for _ in range(2):
        assert remembered("one", "d", one)
        assert not remembered("one", "d", other)
    assert requests == [("one", "one"), ("one", "other")]
    assert remembered("one", "d", Device(name="one"))
    assert len(requests) == 3


@pytest.mark.parametrize(
    ("devices", "source", "asked"),
    [(has("10"), CAPACITY, wants("many")), (has("much"), CAPACITY, {}), (takes("much"), COUNTER, {})],
)
def test_an_amount_that_is_none_is_a_problem_of_the_request(
    devices: dict[str, Any], source: Source, asked: dict[str, Any]
) -> None:
    assert str(find_charge(fleet(devices), source, **asked)).startswith("r: Invalid value: null: quantities must match")
