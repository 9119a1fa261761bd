"""Which PodGroups go along, and what is made of them."""

from typing import Any

import msgspec
import pytest

from muster.api.core import Pod
from muster.api.meta import OwnerReference
from muster.api.podgroups import kep
from muster.api.podgroups.names import GROUP_NAME_ANNOTATION, POD_GROUP_LABEL, TAKEN_BACK_ANNOTATION
from muster.jobs.podgroup.reference import By, Reference
from muster.multicluster.companions import copy, named

OWNER = OwnerReference(api_version="kueue.x-k8s.io/v1beta2", kind="Workload", name="w", uid="u")


def pod(**says: Any) -> Pod:
    return msgspec.convert({"metadata": says}, Pod)


G = {GROUP_NAME_ANNOTATION: "g"}


@pytest.mark.parametrize(
    ("pods", "groups"),
    [
        ([], []),
        ([pod()], []),
        ([pod(annotations=G), pod(annotations=G)], [Reference(By.ANNOTATION, "g")]),
        (
            [pod(annotations=G), pod(labels={POD_GROUP_LABEL: "h"})],
            [Reference(By.ANNOTATION, "g"), Reference(By.LABEL, "h")],
        ),
        ([pod(annotations=G, labels={POD_GROUP_LABEL: "h"})], []),  # it is not scheduled
        ([pod(annotations={GROUP_NAME_ANNOTATION: ""})], []),
    ],
)
def test_each_group_that_can_be_meant_goes_along_once(pods: list[Pod], groups: list[Reference]) -> None:
    assert named(pods) == groups


def test_a_copy_has_what_it_asks_for_and_nothing_that_its_server_or_scheduler_has_written() -> None:
    meta = {
        "name": "g",
        "namespace": "n",
        "uid": "here",
        "resourceVersion": "7",
        "labels": {"team": "a"},
        "annotations": {"muster.dev/disruption-budget": "true", TAKEN_BACK_ANNOTATION: "p-0"},
        "finalizers": ["f"],
        "ownerReferences": [{"name": "set"}],
    }
    document = {"metadata": meta, "spec": {"minMembers": 3, "other": [1]}, "status": {"phase": "Running"}}
    assert copy(kep.POD_GROUP, document, "m", OWNER) == {
        "apiVersion": kep.POD_GROUP.api_version,
        "kind": "PodGroup",
        "metadata": {
            "name": "g",
            "namespace": "n",
            "labels": {"team": "a", "kueue.x-k8s.io/multikueue-origin": "m"},
            "annotations": {"muster.dev/disruption-budget": "true"},
            "ownerReferences": [{"apiVersion": OWNER.api_version, "kind": "Workload", "name": "w", "uid": "u"}],
        },
        "spec": {"minMembers": 3, "other": [1]},
    }
