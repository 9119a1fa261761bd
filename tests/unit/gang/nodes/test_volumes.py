"""Where volumes of bound claims let pods go: by the zone in the volume's labels (kube-scheduler's VolumeZone)."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.unit.gang.conftest import make_node, make_pod

from muster.api.core import PersistentVolume, PersistentVolumeClaim
from muster.gang.nodes.capacity import Capacity
from muster.gang.placement import Placement, Refusal, place
from muster.gang.shapes import shape_of

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


def outcome(node: dict[str, str], volume: dict[str, str]) -> tuple[Placement | Refusal, dict[str, int]]:
    """What becomes of a pod with a claim, on a cluster of one node; and why the node is closed."""
    capacity = Capacity()
    capacity.set_node(make_node("n", labels=node))
    bound: Any = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    claim = {"metadata": bound, "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}}
    capacity.set_claim("/data", msgspec.convert(claim, PersistentVolumeClaim))
    capacity.set_volume("v", msgspec.convert({"metadata": {"name": "v", "labels": volume}}, PersistentVolume))
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    shape = shape_of(make_pod(volumes=volumes))
    return place(capacity, {shape: 1}), dict(capacity.count_closed(shape))


@pytest.mark.parametrize(
    ("node", "volume", "goes"),
    [
        pytest.param({ZONE: "a"}, {ZONE: "a"}, True, id="its zone"),
        pytest.param({ZONE: "b"}, {ZONE: "a"}, False, id="another zone"),
        pytest.param({ZONE: "b"}, {ZONE: "a__b"}, True, id="one of its zones"),
        pytest.param({ZONE: "c"}, {ZONE: "a__b"}, False, id="none of its zones"),
        pytest.param({ZONE: "a"}, {OLD_ZONE: "a"}, True, id="the old name means the new one"),
        pytest.param({ZONE: "b"}, {OLD_ZONE: "a"}, False, id="another by the old name"),
        pytest.param({OLD_ZONE: "a"}, {OLD_ZONE: "a"}, True, id="both have the old name"),
        pytest.param({OLD_ZONE: "a"}, {ZONE: "a"}, False, id="a new name does not mean the old one"),
        pytest.param({REGION: "r"}, {ZONE: "a"}, False, id="a node that says its region alone"),
        pytest.param({}, {ZONE: "a"}, True, id="a node that says nothing of zones"),
        pytest.param({ZONE: "a"}, {}, True, id="a volume that says nothing of zones"),
        pytest.param({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False, id="another region"),
    ],
)
def test_a_volume_is_used_in_its_zone(node: dict[str, str], volume: dict[str, str], goes: bool) -> None:
    found, closed = outcome(node, volume)
    assert isinstance(found, Placement if goes else Refusal)
    assert closed == ({} if goes else {"node(s) had no available volume zone": 1})


CLAIM: dict[str, Any] = {
    "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
    "spec": {"volumeName": "v"},
    "status": {"phase": "Bound"},
}
LOST = 'persistentvolumeclaim "data" bound to non-existent persistentvolume "v"'
UNBOUND = 'persistentvolumeclaim "data" is not bound, and this scheduler binds none to a first consumer'


@pytest.mark.parametrize(
    ("claim", "unable"),
    [
        pytest.param(CLAIM, "", id="bound"),
        pytest.param(None, 'persistentvolumeclaim "data" not found', id="none"),
        pytest.param(CLAIM | {"status": {"phase": "Lost"}}, LOST, id="its volume is lost"),
        pytest.param(CLAIM | {"spec": {}}, UNBOUND, id="no volume"),
        pytest.param(CLAIM | {"metadata": {}}, UNBOUND, id="about to be bound"),
        pytest.param(
            CLAIM | {"metadata": CLAIM["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
            'persistentvolumeclaim "data" is being deleted',
            id="going",
        ),
    ],
)
def test_what_is_wrong_with_a_claim_closes_all_nodes(claim: Any, unable: str) -> None:
    capacity = Capacity()
    capacity.set_claim("/data", msgspec.convert(CLAIM, PersistentVolumeClaim))
    capacity.set_claim("/data", msgspec.convert(claim, PersistentVolumeClaim) if claim is not None else None)
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    shape = shape_of(make_pod(volumes=volumes))
    assert capacity.unable(shape) == unable
    assert capacity.unable(replace(shape, unable="it is so")) == "it is so"


def test_a_volume_that_is_gone_is_known_no_more() -> None:
    capacity = Capacity()
    capacity.set_node(make_node("n", labels={}))
    capacity.set_claim("/data", msgspec.convert(CLAIM, PersistentVolumeClaim))
    shape = shape_of(make_pod(volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]))
    volume = msgspec.convert({"metadata": {"name": "v"}}, PersistentVolume)
    for there in (volume, None, volume):
        capacity.set_volume("v", there)
        assert isinstance(place(capacity, {shape: 1}), Placement) is (there is not None)
