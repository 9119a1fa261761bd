"""kubectl and the visibility API: asked by path, and in nobody's way who means the queues themselves."""

import json
from typing import Any, TypeAlias

import pytest

pytestmark = [pytest.mark.kubectl, pytest.mark.timeout(120)]

Kubectl: TypeAlias = Any  # the fixture's class, in conftest

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}}}
spec: {{namespaceSelector: {{}}, stopPolicy: Hold}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: users}}
spec: {{clusterQueue: {name}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {{name: waits}}
spec:
  queueName: users
  podSets:
  - name: main
    count: 1
    template: {{spec: {{restartPolicy: Never, containers: [{{name: c, image: none}}]}}}}
"""


@pytest.fixture
def name(kubectl: Kubectl) -> Any:
    """Of the ClusterQueue, with a workload that waits in it."""
    kubectl("apply", "-f", "-", input=QUEUES.format(name=kubectl.namespace))
    kubectl.eventually("get", "cq", kubectl.namespace, "-o", "jsonpath={.status.pendingWorkloads}", shows="1")
    yield kubectl.namespace
    kubectl.run("delete", "cq", kubectl.namespace)


def test_get_raw(kubectl: Kubectl, name: str) -> None:
    root = "/apis/visibility.kueue.x-k8s.io/v1beta2"
    for path in (f"clusterqueues/{name}", f"namespaces/{kubectl.namespace}/localqueues/users"):
        summary = json.loads(kubectl("get", "--raw", f"{root}/{path}/pendingworkloads?limit=1"))
        assert [item["metadata"]["name"] for item in summary["items"]] == ["waits"]


def test_queues_are_those_of_kueue(kubectl: Kubectl, name: str) -> None:
    for word in ("clusterqueue", "clusterqueues", "cq"):
        assert kubectl("get", word, name, "-o", "name").strip() == f"clusterqueue.kueue.x-k8s.io/{name}"
    for word in ("localqueue", "localqueues", "lq"):
        assert kubectl("get", word, "users", "-o", "name").strip() == "localqueue.kueue.x-k8s.io/users"
    assert "visibility.kueue.x-k8s.io/v1beta2" in kubectl("api-versions")
