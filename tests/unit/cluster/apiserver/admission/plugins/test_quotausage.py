"""What objects use of quotas, and which quotas they fall under."""

from typing import Any

import msgspec
import pytest

from muster.api.core.quota import ResourceQuotaSpec
from muster.cluster.apiserver.admission.plugins.quotausage import (
    Scope,
    hard_amounts,
    list_unstated,
    measure_body,
    measure_document,
    render_amounts,
    resources_of,
    to_quantities,
)


def container(name: str = "c", requests: Any = None, limits: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests or {}, "limits": limits or {}}} | more


def pod(*containers: Any, init: Any = (), status: Any = None, **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), "initContainers": list(init)} | spec, "status": status or {}}


ONE = {"count/pods": 1, "pods": 1}
GI = 1 << 30


@pytest.mark.parametrize(
    ("resource", "document", "expected"),
    [
        ("pods", pod(), ONE),
        ("pods", pod(status={"phase": "Succeeded"}), {"count/pods": 1}),
        ("pods", pod(container(requests={"cpu": "500m", "memory": "1Gi"}, limits={"cpu": "2"})),
         ONE | {"cpu": 500, "requests.cpu": 500, "limits.cpu": 2000, "memory": GI, "requests.memory": GI}),
        ("pods", pod(container(limits={"cpu": "1"}), container(requests={"cpu": "1"})),
         ONE | {"cpu": 2000, "requests.cpu": 2000, "limits.cpu": 1000}),
        ("pods", pod(container(limits={"a.b/gpu": "2", "hugepages-2Mi": "2Mi"})),
         ONE | {"requests.a.b/gpu": 2, "hugepages-2Mi": 2 << 20, "requests.hugepages-2Mi": 2 << 20}),
        ("pods", pod(container(requests={"cpu": "1"}), init=[container(requests={"cpu": "3"}, limits={"cpu": "4"})]),
         ONE | {"cpu": 3000, "requests.cpu": 3000, "limits.cpu": 4000}),
        ("pods", pod(container(requests={"cpu": "1"}, limits={"cpu": "2"}), overhead={"cpu": "250m", "memory": "1"}),
         ONE | {"cpu": 1250, "requests.cpu": 1250, "limits.cpu": 2250, "memory": 1, "requests.memory": 1}),
        ("services", {"spec": {"ports": [{"port": 1}, {"port": 2}]}}, {"count/services": 1, "services": 1}),
        ("services", {"spec": {"type": "NodePort", "ports": [{"port": 1}, {"port": 2}]}},
         {"count/services": 1, "services": 1, "services.nodeports": 2}),
        ("services", {"spec": {"type": "LoadBalancer", "ports": [{"port": 1}]}},
         {"count/services": 1, "services": 1, "services.nodeports": 1, "services.loadbalancers": 1}),
        ("services", {"spec": {"type": "LoadBalancer", "ports": [{"port": 1}], "allocateLoadBalancerNodePorts": False}},
         {"count/services": 1, "services": 1, "services.loadbalancers": 1}),
        ("persistentvolumeclaims",
         {"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}},
         {"count/persistentvolumeclaims": 1, "persistentvolumeclaims": 1, "requests.storage": GI,
          "fast.storageclass.storage.k8s.io/persistentvolumeclaims": 1,
          "fast.storageclass.storage.k8s.io/requests.storage": GI}),
        ("configmaps", {}, {"count/configmaps": 1, "configmaps": 1}),
        ("jobs.batch", {}, {"count/jobs.batch": 1}),
    ],
)  # fmt: skip
def test_usage(resource, document, expected):
    assert measure_document(resource, document).usage == expected
    assert measure_body(resource, msgspec.json.encode(document)).usage == expected


def scope(*scopes: str, **expression: Any) -> Scope:
    selector = {"matchExpressions": [expression]} if expression else None
    return Scope.of(msgspec.convert({"scopes": scopes, "scopeSelector": selector}, ResourceQuotaSpec))


def classes(operator: str, *values: str) -> Scope:
    return scope(scopeName="PriorityClass", operator=operator, values=values)


BUSY = pod(container(requests={"cpu": "1"}))
FAR = pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["x"]}]}})


@pytest.mark.parametrize(
    ("given", "resource", "document", "expected"),
    [
        (scope(), "pods", pod(), True),
        (scope(), "configmaps", {}, True),
        (scope("BestEffort"), "pods", pod(), True),
        (scope("BestEffort"), "pods", BUSY, False),
        (scope("BestEffort"), "configmaps", {}, False),
        (scope("NotBestEffort"), "pods", BUSY, True),
        (scope("Terminating"), "pods", pod(activeDeadlineSeconds=1), True),
        (scope("Terminating", "NotBestEffort"), "pods", pod(activeDeadlineSeconds=1), False),
        (scope("NotTerminating"), "pods", pod(), True),
        (scope("PriorityClass"), "pods", pod(), False),
        (scope("PriorityClass"), "pods", pod(priorityClassName="a"), True),
        (scope("CrossNamespacePodAffinity"), "pods", FAR, True),
        (scope("CrossNamespacePodAffinity"), "pods", pod(), False),
        (classes("In", "a", "b"), "pods", pod(priorityClassName="a"), True),
        (classes("In", "b"), "pods", pod(priorityClassName="a"), False),
        (classes("In", "b"), "pods", pod(), False),
        (classes("In", "b"), "configmaps", {}, False),
        (classes("NotIn", "b"), "pods", pod(priorityClassName="a"), True),
        (classes("NotIn", "b"), "pods", pod(), True),
        (classes("NotIn", "b"), "configmaps", {}, False),
        (classes("Exists"), "pods", pod(priorityClassName="a"), True),
        (classes("Exists"), "pods", pod(), False),
        (classes("DoesNotExist"), "pods", pod(), True),
        (classes("DoesNotExist"), "pods", pod(priorityClassName="a"), False),
        (scope(scopeName="BestEffort", operator="Exists"), "pods", pod(), True),
        (scope(scopeName="VolumeAttributesClass", operator="In", values=["g"]), "persistentvolumeclaims",
         {"spec": {"volumeAttributesClassName": "g"}}, True),
    ],
)  # fmt: skip
def test_scopes(given, resource, document, expected):
    assert given.covers(measure_document(resource, document)) is expected


def test_names_belong_to_resources():
    names = (
        "pods", "cpu", "limits.memory", "requests.a.b/gpu", "count/pods", "services.nodeports", "count/jobs.batch",
        "requests.storage", "fast.storageclass.storage.k8s.io/requests.storage", "secrets",
    )  # fmt: skip
    expected = {"pods", "services", "jobs.batch", "persistentvolumeclaims", "secrets"}
    expected.add("podgroups.incubator.scheduling.k8s.io")  # which set aside what pods use
    assert resources_of(msgspec.convert({"hard": dict.fromkeys(names, "1")}, ResourceQuotaSpec)) == expected


def test_amounts_are_rounded_down_where_they_are_limits():
    spec = ResourceQuotaSpec(hard={"cpu": "1.5", "requests.memory": "1500m", "pods": "3"})
    assert hard_amounts(spec) == {"cpu": 1500, "requests.memory": 1, "pods": 3}


def test_amounts_are_written_in_the_unit_of_their_resource():
    amounts = {
        "requests.cpu": 1500,
        "limits.memory": 2 * GI,
        "pods": 2,
        "fast.storageclass.storage.k8s.io/requests.storage": GI,
    }
    assert render_amounts(amounts) == (
        "fast.storageclass.storage.k8s.io/requests.storage=1Gi,limits.memory=2Gi,pods=2,requests.cpu=1500m"
    )
    assert to_quantities(amounts)["requests.cpu"] == "1500m"


@pytest.mark.parametrize(
    ("document", "limited", "expected"),
    [
        (pod(container()), ["pods", "requests.ephemeral-storage"], ""),
        (pod(container()), ["requests.cpu"], "requests.cpu for: c"),
        (pod(container("b"), container("a")), ["cpu", "limits.memory"], "cpu for: a,b; limits.memory for: a,b"),
        (pod(container(requests={"cpu": "1"}), init=[container("i")]), ["cpu"], "cpu for: i"),
        (pod(container(), resources={"requests": {"cpu": "1"}}), ["cpu"], ""),
    ],
)
def test_what_must_be_said(document, limited, expected):
    assert list_unstated(document, limited) == expected
