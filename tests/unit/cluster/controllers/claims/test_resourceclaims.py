"""Claims that are made for pods, and when they are given back."""

from typing import Any

import msgspec
import pytest

from muster.api.core import Pod
from muster.api.groups.resource import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate
from muster.cluster.controllers.claims.resourceclaims import PROTECTION, Release, claim_for, claim_name, release_of


def pod(name: str = "p", uid: str = "", phase: str = "Running", node: str = "n", *, deleting: bool = False) -> Pod:
    meta = {"name": name, "namespace": "ns", "uid": uid or name}
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": node}, "status": {"phase": phase}}, Pod)


def claim(
    *users: str, owner: str = "", protected: bool = True, deleting: bool = False, other: bool = False
) -> ResourceClaim:
    meta: dict[str, Any] = {"name": "c", "namespace": "ns", "finalizers": [PROTECTION] if protected else []}
    if owner:
        meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner, "controller": True}]
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    reserved = [{"resource": "pods", "name": user, "uid": user} for user in users]
    if other:
        reserved.append({"apiGroup": "example.com", "resource": "things", "name": "t", "uid": "t"})
    status = {"allocation": {"devices": {"results": []}}, "reservedFor": reserved}
    return msgspec.convert({"metadata": meta, "status": status}, ResourceClaim)


def test_a_claim_is_made_as_its_template_says_and_goes_with_its_pod():
    document = {
        "metadata": {"name": "t"},
        "spec": {
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        },
    }
    template = msgspec.convert(document, ResourceClaimTemplate)
    made = claim_for(pod(), "gpu", template)
    (owner,) = made.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller, owner.block_owner_deletion) == (
        "Pod", "p", "p", True, True
    )  # fmt: skip
    assert made.metadata.labels == {"a": "b"}
    assert made.metadata.annotations == {"c": "d", "resource.kubernetes.io/pod-claim-name": "gpu"}
    assert made.metadata.namespace == "ns"
    assert made.spec == template.spec.spec


def test_names_of_claims():
    assert claim_name(pod(), "gpu").startswith("p-gpu-")
    assert claim_name(pod(), "gpu") == claim_name(pod(), "gpu")
    assert claim_name(pod(), "gpu") != claim_name(pod(uid="other"), "gpu")
    long = claim_name(pod("x" * 100), "y" * 60)
    assert len(long) <= 63
    assert "-y" in long


RUNNING = [pod()]


@pytest.mark.parametrize(
    ("claimed", "pods", "release"),
    [
        (claim("p", owner="p"), RUNNING, Release(claim("p").status.reserved_for)),
        (claim(owner="p"), RUNNING, Release()),
        (claim("p", owner="p"), [pod(phase="Succeeded")], Release(deallocate=True, delete=True)),
        (claim("p", owner="p"), [pod(deleting=True)], Release(claim("p").status.reserved_for)),
        (claim("p", owner="p"), [pod(node="", deleting=True)], Release(deallocate=True, delete=True)),
        (claim("p", owner="p"), [pod(uid="another")], Release(deallocate=True, delete=True)),
        (claim("p", owner="p"), [], Release(deallocate=True, delete=True)),
        (claim(owner="p", protected=False), [], Release(delete=True)),
        (claim("p", "q"), RUNNING, Release(claim("p").status.reserved_for)),
        (claim("p"), [], Release(deallocate=True)),
        (claim(), [], Release()),
        (claim(deleting=True), [], Release(deallocate=True)),
        (claim("p", deleting=True), RUNNING, Release(claim("p").status.reserved_for)),
        (claim("p", other=True), [], Release(
            (ResourceClaimConsumerReference(api_group="example.com", resource="things", name="t", uid="t"),)
        )),
    ],
    ids=["in use", "not yet", "its pod has ended", "its pod is ending", "its pod never ran", "another pod of the name",
         "its pod is gone", "never given devices", "one of two has gone", "the last has gone", "of nobody",
         "deleted", "deleted and in use", "something else uses it"],
)  # fmt: skip
def test_what_becomes_of_a_claim(claimed, pods, release):
    found = {f"{one.metadata.namespace}/{one.metadata.name}": one for one in pods}
    assert release_of(claimed, found.get) == release
