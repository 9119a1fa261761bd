import copy
from typing import Any

import pytest

from muster.api.defaults import DEFAULTS


@pytest.mark.parametrize(
    ("resource", "given", "expected"),
    [
        ("namespaces", {"metadata": {"name": "a"}},
         {"metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "a"}}, "status": {"phase": "Active"}}),
        ("namespaces", {"metadata": {"generateName": "a-"}},
         {"metadata": {"generateName": "a-"}, "status": {"phase": "Active"}}),
        ("nodes", {"status": {"capacity": {"cpu": 4, "memory": "1024Mi"}}},
         {"spec": {},
          "status": {"capacity": {"cpu": "4", "memory": "1Gi"}, "allocatable": {"cpu": "4", "memory": "1Gi"}}}),
        ("nodes", {"status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}},
         {"spec": {}, "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}}),
        ("nodes", {}, {"spec": {}, "status": {}}),
        ("resourcequotas", {}, {"spec": {}, "status": {}}),
        ("leases.coordination.k8s.io", {}, {"spec": {}}),
        ("leases.coordination.k8s.io", {"spec": {"holderIdentity": "a"}}, {"spec": {"holderIdentity": "a"}}),
        ("poddisruptionbudgets.policy", {}, {"spec": {}}),
        ("secrets", {"stringData": {"a": "text"}, "data": {"b": "Yg==\n", "a": "eA=="}},
         {"type": "Opaque", "data": {"a": "dGV4dA==", "b": "Yg=="}}),
        ("secrets", {"type": "kubernetes.io/tls"}, {"type": "kubernetes.io/tls"}),
        ("priorityclasses.scheduling.k8s.io", {"value": 5}, {"value": 5, "preemptionPolicy": "PreemptLowerPriority"}),
    ],
)  # fmt: skip
def test_defaults(resource: Any, given: Any, expected: Any) -> None:
    subject = copy.deepcopy(given)
    DEFAULTS[resource](subject)
    assert subject == expected
    DEFAULTS[resource](subject)
    assert subject == expected
