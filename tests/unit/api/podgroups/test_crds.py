"""The schemas made from the types against those of upstream's definitions: nothing less, and what is more is named."""

from typing import Any

import pytest
from tests.documents import documents, needs_the_peers
from tests.schemas import flat

from muster.api.kinds import Kind
from muster.api.podgroups import POD_GROUP_KINDS, coscheduling, kep, kubebatch, sigs, volcano
from muster.api.schema import make_structural_schema

pytestmark = needs_the_peers

CRDS = {crd["metadata"]["name"]: crd["spec"] for _, crd in documents("crds/podgroup/*.yaml")}

# kube-batch writes and reads more than its definitions name, which let that through.
BEYOND = {".spec.minMembers", ".status.phase", ".status.conditions"}


def upstream(kind: Kind[Any]) -> dict[str, Any]:
    spec = CRDS[kind.resource]
    if "validation" in spec:
        schema = spec["validation"]["openAPIV3Schema"]
    else:
        schema = next(v["schema"] for v in spec["versions"] if v["name"] == kind.version)["openAPIV3Schema"]
    return dict(flat(schema, (".metadata",)))


def ours(kind: Kind[Any]) -> dict[str, Any]:
    return dict(flat(make_structural_schema(kind), (".metadata",)))


def test_every_definition_has_a_kind() -> None:
    assert set(CRDS) == {kind.resource for kind in POD_GROUP_KINDS} - {kep.POD_GROUP.resource}


@pytest.mark.parametrize("kind", [volcano.POD_GROUP, coscheduling.POD_GROUP], ids=lambda kind: kind.group)
def test_the_schema_is_the_same(kind: Kind[Any]) -> None:
    assert ours(kind) == upstream(kind)


@pytest.mark.parametrize("kind", [kubebatch.POD_GROUP, sigs.POD_GROUP], ids=lambda kind: kind.group)
def test_what_kube_batch_names_is_the_same(kind: Kind[Any]) -> None:
    mine, named = ours(kind), upstream(kind)
    assert {path: said for path, said in mine.items() if path in named} == named
    beyond = {path for path in mine if path not in named}
    assert {path for path in beyond if not path.startswith(".status.conditions[]")} == BEYOND


def test_3_1_the_kind_of_the_kep() -> None:
    mine = ours(kep.POD_GROUP)
    assert kep.POD_GROUP.namespaced
    assert mine[".spec.minMembers"] == {"type": "integer", "format": "int32", "minimum": 0}
    assert mine[".spec.totalResources{}"]["x-kubernetes-int-or-string"] is True
    for counter in ("admitted", "running", "succeeded", "failed"):
        assert mine[f".status.{counter}"] == {"type": "integer", "format": "int32"}
    assert all("required" not in said for path, said in mine.items() if path in ("", ".status")), "it is optional"
