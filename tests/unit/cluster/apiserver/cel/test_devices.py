"""Selectors of devices, as the documents of Kubernetes write them."""

import msgspec
import pytest

from muster.api.groups.resource import Device
from muster.cluster.apiserver.cel import device_matches

DRIVER = "gpu.example.com"
GPU = msgspec.convert(
    {
        "name": "gpu-0",
        "attributes": {
            "model": {"string": "a100"},
            "index": {"int": 0},
            "ecc": {"bool": False},
            "driverVersion": {"version": "1.10.0"},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    },
    Device,
)


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ('device.driver == "gpu.example.com"', True),
        ('device.driver == "other.example.com"', False),
        ('device.attributes["gpu.example.com"].model == "a100"', True),
        ('device.attributes["gpu.example.com"].model.startsWith("h")', False),
        ('device.attributes["gpu.example.com"].index == 0', True),
        ('device.attributes["gpu.example.com"].ecc', False),
        ('device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("1.9.0"))', True),
        ('device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:00"', True),
        ('device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0', True),
        ('device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("80Gi"))', False),
        ("device.allowMultipleAllocations", False),
        ('device.attributes["gpu.example.com"].colour == "red"', False),
        ('device.attributes["other.example.com"].model == "a100"', False),
        ('"model" in device.attributes["gpu.example.com"]', True),
        ('"colour" in device.attributes["gpu.example.com"]', False),
        ("device.driver", False),
        ("device.", False),
    ],
)
def test_which_devices_match(expression, matches):
    assert device_matches(expression, DRIVER, GPU) is matches


def _loops(depth: int) -> str:
    """Return an expression that is true after ten turns to the power of the depth."""
    inner = "true"
    for level in range(depth):
        inner = f"[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(x{level}, {inner})"
    return inner


@pytest.mark.parametrize(("depth", "matches"), [(2, True), (4, False)])
def test_an_expression_that_takes_too_long_for_one_of_many_devices_matches_none(depth, matches):
    assert device_matches(_loops(depth), DRIVER, GPU) is matches


def test_long_lists_of_devices_are_within_the_limit():
    serials = " || ".join(f'device.attributes["{DRIVER}"].model == "{number:036d}"' for number in range(100))
    assert device_matches(f'{serials} || device.driver == "{DRIVER}"', DRIVER, GPU)
