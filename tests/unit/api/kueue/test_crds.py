"""The schemas made from the types against those of the CRDs upstream: nothing more, nothing less."""

from typing import Any

import pytest
from tests.documents import documents, needs_the_peers
from tests.schemas import flat

from muster.api.kinds import Kind
from muster.api.kueue import GROUP, KUEUE_KINDS
from muster.api.kueue.v1beta1 import V1BETA1_KINDS
from muster.api.schema import make_structural_schema

pytestmark = needs_the_peers

# Left to others: the API server's own metadata, and the pod's own types, with their own tests. They know more of
# metadata than the CRDs, and less of volumes that no node here mounts.
OTHERS = (".metadata", ".spec.podSets[].template")


def crd_versions() -> dict[tuple[str, str], Any]:
    found = {}
    for _, crd in documents("crds/kueue/*.yaml"):
        for version in crd["spec"]["versions"]:
            found[crd["metadata"]["name"], version["name"]] = version["schema"]["openAPIV3Schema"]
    return found


SCHEMAS = crd_versions()


def test_every_crd_has_a_kind() -> None:
    assert {name for name, _ in SCHEMAS} == {kind.resource for kind in KUEUE_KINDS} == set(V1BETA1_KINDS)
    assert {kind.group for kind in (*KUEUE_KINDS, *V1BETA1_KINDS.values())} == {GROUP}


@pytest.mark.parametrize("kind", KUEUE_KINDS, ids=lambda kind: kind.kind)
def test_v1beta2_is_the_same(kind: Kind[Any]) -> None:
    assert dict(flat(make_structural_schema(kind), OTHERS)) == dict(flat(SCHEMAS[kind.resource, "v1beta2"], OTHERS))


# Where v1beta1 has a name of its own for what v1beta2 has elsewhere.
MOVED = {
    ".spec.kubeConfig": ".spec.clusterSource.kubeConfig",
    ".status.flavorUsage": ".status.flavorsUsage",
}


@pytest.mark.parametrize("kind", V1BETA1_KINDS.values(), ids=lambda kind: kind.kind)
def test_v1beta1_is_the_same_or_has_the_limits_of_v1beta2(kind: Kind[Any]) -> None:
    # What comes in through v1beta1 is stored as v1beta2, so it must keep to the limits of both.
    ours, upstream = (
        dict(flat(make_structural_schema(kind), OTHERS)),
        dict(flat(SCHEMAS[kind.resource, "v1beta1"], OTHERS)),
    )
    stored = dict(flat(SCHEMAS[kind.resource, "v1beta2"], OTHERS))
    assert set(ours) == set(upstream)
    for path, said in ours.items():
        moved = next((path.replace(old, new, 1) for old, new in MOVED.items() if path.startswith(old)), path)
        newer = {} if path == ".spec.admissionChecksStrategy" else stored.get(moved, {})
        for keyword in said | upstream[path]:
            allowed = (upstream[path].get(keyword), newer.get(keyword))
            assert said.get(keyword) in allowed, (path, keyword)
