"""What is written to a claim about its devices."""

from datetime import UTC, datetime

import msgspec

from muster.api.groups.resource import DeviceClass, ResourceClaim
from muster.gang.nodes.allocation import allocation_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def opaque(number: int) -> dict[str, object]:
    return {"opaque": {"driver": "d", "parameters": {"number": number}}}


def test_an_allocation_names_the_devices_the_node_and_what_drivers_are_told():
    toleration = {"key": "ill", "operator": "Exists"}
    exactly = {"deviceClassName": "gpu", "count": 2, "tolerations": [toleration]}
    devices = {
        "requests": [{"name": "r", "exactly": exactly}, {"name": "s", "exactly": {"deviceClassName": "nic"}}],
        "config": [{"requests": ["r"], **opaque(2)}],
    }
    claim = msgspec.convert({"metadata": {"name": "c"}, "spec": {"devices": devices}}, ResourceClaim)
    gpu = msgspec.convert({"metadata": {"name": "gpu"}, "spec": {"config": [opaque(1)]}}, DeviceClass)
    picks = [("r", ("d", "pool", "a")), ("r", ("d", "pool", "b")), ("s", ("e", "pool", "x"))]
    found = msgspec.json.decode(msgspec.json.encode(allocation_of(claim, picks, "n", {"gpu": gpu}.get, NOW)))
    assert found == {
        "devices": {
            "results": [
                {"request": "r", "driver": "d", "pool": "pool", "device": "a", "tolerations": [toleration]},
                {"request": "r", "driver": "d", "pool": "pool", "device": "b", "tolerations": [toleration]},
                {"request": "s", "driver": "e", "pool": "pool", "device": "x"},
            ],
            "config": [
                {"source": "FromClass", "requests": ["r"], **opaque(1)},
                {"source": "FromClaim", "requests": ["r"], **opaque(2)},
            ],
        },
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
        },
        "allocationTimestamp": "2026-01-01T00:00:00Z",
    }
