"""Which nodes count for an even spread: `nodeTaintsPolicy` and `nodeAffinityPolicy`, as kube-scheduler has them."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.gang.conftest import make_node, make_pod

from muster.api.core import Pod
from muster.gang.nodes.capacity import Capacity
from muster.gang.placement import Placement, Refusal, place
from muster.gang.shapes import Shape, shape_of

TAINT = {"key": "kept", "effect": "NoSchedule"}
BORNE = [{"key": "kept", "operator": "Exists"}]
POOL = {"pool": "ours"}
APP = {"matchLabels": {"app": "a"}}


def fits(policies: dict[str, str], **spec: Any) -> int:
    """How many of four pods go: to zones x and y, while z is tainted and in another pool."""
    capacity = Capacity()
    for zone in ("x", "y", "z"):
        other = zone == "z"
        labels = {"zone": zone} | ({} if other else POOL)
        capacity.set_node(make_node(zone, labels=labels, taints=[TAINT] if other else []))
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": APP}
    pod = make_pod(topologySpreadConstraints=[spread | policies], **spec)
    found = place(capacity, {_shape(pod): 4})
    return found.fits if isinstance(found, Refusal) else sum(count for _, count in _nodes(found))


def _shape(pod: Pod) -> Shape:
    return shape_of(replace(pod, metadata=replace(pod.metadata, namespace="ns", labels={"app": "a"})))


def _nodes(found: Placement) -> tuple[tuple[str, int], ...]:
    ((nodes),) = found.nodes.values()
    return nodes


@pytest.mark.parametrize(
    ("policies", "spec", "expected"),
    [
        pytest.param({}, {}, 2, id="a tainted zone counts, and is the one with the fewest"),
        pytest.param({"nodeTaintsPolicy": "Ignore"}, {}, 2, id="said so"),
        pytest.param({"nodeTaintsPolicy": "Honor"}, {}, 4, id="honoured: it does not count"),
        pytest.param({"nodeTaintsPolicy": "Honor"}, {"tolerations": BORNE}, 4, id="borne: it counts, and is used"),
        pytest.param({}, {"nodeSelector": POOL}, 4, id="what is not selected does not count"),
        pytest.param({"nodeAffinityPolicy": "Ignore"}, {"nodeSelector": POOL}, 2, id="unless that is ignored"),
    ],
)
def test_which_nodes_count(policies: dict[str, str], spec: dict[str, Any], expected: int) -> None:
    assert fits(policies, **spec) == expected


def test_a_taint_that_is_borne_makes_its_zone_one_of_three() -> None:
    capacity = Capacity()
    for zone in ("x", "y", "z"):
        capacity.set_node(make_node(zone, labels={"zone": zone}, taints=[TAINT] if zone == "z" else []))
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": APP}
    pod = make_pod(topologySpreadConstraints=[spread | {"nodeTaintsPolicy": "Honor"}], tolerations=BORNE)
    found = place(capacity, {_shape(pod): 3})
    assert isinstance(found, Placement)
    assert dict(_nodes(found)) == {"x": 1, "y": 1, "z": 1}
