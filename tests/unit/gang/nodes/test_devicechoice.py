"""Which of a node's free devices claims get."""

from typing import Any

import msgspec
import pytest

from muster.api.groups.resource import Device
from muster.gang.nodes.devicechoice import DeviceId, choose_devices
from muster.gang.nodes.devicerequests import ClaimWants, Constraint, DeviceDemand, Selection

ANY, BIG, ALL = Selection("any"), Selection("big"), Selection("any", whole=True)
# Each device is of class any; those with a capital letter are of class big, too.
ROOTS = {"a": "x", "b": "y", "C": "x", "D": "y", "e": ""}


def device_id(name: str) -> DeviceId:
    return "d", "p", name


def devices() -> dict[DeviceId, Device]:
    found = {}
    for name, root in ROOTS.items():
        attributes: dict[str, Any] = {"root": {"string": root}, "o/side": {"int": len(name)}} if root else {}
        found[device_id(name)] = msgspec.convert({"name": name, "attributes": attributes}, Device)
    return found


def matching(selection: Selection) -> frozenset[DeviceId]:
    return frozenset(device_id(name) for name in ROOTS if selection.device_class == "any" or name.isupper())


def wants(*requests: tuple[Selection, int], **attributes: tuple[str, ...]) -> ClaimWants:
    wanted = tuple(DeviceDemand(f"r{number}", *one) for number, one in enumerate(requests))
    return ClaimWants(wanted, tuple(Constraint(f"d/{name}", of) for name, of in attributes.items()))


def chosen(free: str, **claims: ClaimWants) -> dict[str, str] | None:
    """What each claim gets: the names of its devices, in the order of its requests."""
    found = choose_devices(claims, [device_id(name) for name in free], matching, devices())
    if found is None:
        return None
    return {key: "".join(one[2] for _, one in sorted(choice)) for key, choice in found.items()}


@pytest.mark.parametrize(
    ("free", "claims", "gets"),
    [
        ("abCDe", {"c": wants((ANY, 2))}, {"c": "ab"}),
        ("abCDe", {"c": wants((ANY, 6))}, None),
        ("aC", {"c": wants((ANY, 1), (BIG, 1))}, {"c": "aC"}),
        ("Ca", {"c": wants((ANY, 1), (BIG, 1))}, {"c": "aC"}),
        ("ab", {"c": wants((BIG, 1))}, None),
        ("Ca", {"first": wants((ANY, 1)), "second": wants((BIG, 1))}, {"first": "a", "second": "C"}),
        ("aC", {"first": wants((ANY, 1)), "second": wants((ANY, 2))}, None),
        ("abCDe", {"c": wants((ALL, 1))}, {"c": "CDabe"}),
        ("abCD", {"c": wants((ALL, 1))}, None),
        ("abCD", {"c": wants((ANY, 2), root=())}, {"c": "Ca"}),
        ("bCaD", {"c": wants((ANY, 1), (BIG, 1), root=())}, {"c": "bD"}),
        ("eab", {"c": wants((ANY, 2), root=())}, None),
        ("eaC", {"c": wants((ANY, 1), (ANY, 2), root=("r1",))}, {"c": "eCa"}),
        ("abCD", {"c": wants((ANY, 3), root=())}, None),
        ("abCD", {"loose": wants((ANY, 2)), "tied": wants((ANY, 2), root=())}, {"loose": "Db", "tied": "Ca"}),
        ("", {"c": wants()}, {"c": ""}),
    ],
    ids=["in order", "too few", "one that is big", "the scarcest first", "none that is big", "scarce claims first",
         "too few for both", "all of the node", "not all are free", "in common", "in common, the second value",
         "one without it", "some in common", "too few in common", "tied claims first", "nothing"],
)  # fmt: skip
def test_choice(free, claims, gets):
    assert chosen(free, **claims) == gets


def test_attributes_have_a_domain_and_a_type():
    tied = ClaimWants((DeviceDemand("r", ANY, 2),), (Constraint("o/side"),))
    assert chosen("ab", c=tied) == {"c": "ab"}
    assert chosen("aC", c=ClaimWants((DeviceDemand("r", ANY, 2),), (Constraint("o/root"),))) is None
