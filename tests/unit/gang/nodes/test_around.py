"""What changes of namespaces, claims and volumes may matter to a pod: only then are waiting gangs looked at again."""

import msgspec
import pytest

from muster.api.core import PersistentVolume, PersistentVolumeClaim
from muster.gang.nodes.capacity import Capacity

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
ZONE = "topology.kubernetes.io/zone"


def claim(annotations=BOUND, *, volume="v", mode="ReadWriteOnce", phase="Bound", size="1Gi", **meta):
    spec = {"volumeName": volume, "accessModes": [mode], "resources": {"requests": {"storage": size}}}
    document = {"metadata": {"annotations": annotations, **meta}, "spec": spec, "status": {"phase": phase}}
    return msgspec.convert(document, PersistentVolumeClaim)


def volume(zone="a", *, host="n", phase="Bound", size="1Gi", **meta):
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]}
    document = {
        "metadata": {"labels": {ZONE: zone, **meta.pop("labels", {})}, **meta},
        "spec": {"capacity": {"storage": size}, "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}},
        "status": {"phase": phase},
    }
    return msgspec.convert(document, PersistentVolume)


@pytest.mark.parametrize(
    ("kind", "old", "new", "matters"),
    [
        ("namespace", {"a": "b"}, {"a": "b"}, False),
        ("namespace", {"a": "b"}, {"a": "c"}, True),
        ("namespace", None, {"a": "b"}, True),
        ("namespace", {"a": "b"}, None, True),
        ("namespace", {}, None, False),
        ("claim", claim(), claim(BOUND | {"note": "x"}, labels={"a": "b"}, size="2Gi"), False),
        ("claim", claim({}), claim(), True),
        ("claim", claim(), claim(volume="w"), True),
        ("claim", claim(), claim(phase="Lost"), True),
        ("claim", claim(), claim(mode="ReadWriteOncePod"), True),
        ("claim", claim(), claim(deletionTimestamp="2026-01-01T00:00:00Z"), True),
        ("claim", None, claim(), True),
        ("claim", claim(), None, True),
        ("volume", volume(), volume(labels={"a": "b"}, annotations={"a": "b"}, phase="Failed", size="2Gi"), False),
        ("volume", volume(), volume("b"), True),
        ("volume", volume(), volume(host="m"), True),
        ("volume", None, volume(), True),
        ("volume", volume(), None, True),
    ],
)
def test_whether_a_change_matters(kind, old, new, matters):
    capacity = Capacity()
    note = getattr(capacity, f"set_{kind}")
    if old is not None:
        note("x", old)
    assert note("x", new) is matters
