"""The kustomize overlays and the Helm chart on a real server, one after the other."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.conftest import Cluster, until
from tests.kubeplane import kube_plane, needs_kubernetes

pytestmark = [needs_kubernetes, pytest.mark.kubectl, pytest.mark.timeout(600)]

DEPLOY = Path(__file__).parents[2] / "deploy"
WHERE, NAME = "kueue-system", "muster-controller-manager"
OVERLAYS = ("base", "overlays/without-webhooks", "overlays/one-replica", "overlays/cert-manager", "overlays/monitoring")


def outside(group: str, kind: str, version: str) -> dict[str, Any]:
    """A definition of another program's kind, as far as it is needed."""
    plural = kind.lower() + "s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    served = {"name": version, "served": True, "storage": True, "schema": schema}
    names = {"plural": plural, "kind": kind}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }  # fmt: skip


OUTSIDE = [
    outside("cert-manager.io", "Issuer", "v1"), outside("cert-manager.io", "Certificate", "v1"),
    outside("monitoring.coreos.com", "ServiceMonitor", "v1"),
]  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with kube_plane(tmp_path_factory.mktemp("plane"), "kube-controller-manager") as plane:
        cluster = Cluster(plane)
        several = json.dumps({"apiVersion": "v1", "kind": "List", "items": OUTSIDE})
        cluster.kubectl("apply", "--server-side", "-f", "-", text=several)
        cluster.kubectl("wait", "--for", "condition=Established", "crd", "--all", "--timeout=60s")
        yield cluster


@pytest.mark.parametrize("folder", OVERLAYS)
def test_kubectl_applies_it(cluster: Cluster, folder: str) -> None:
    kustomize = ("apply", "--server-side", "--field-manager", "muster", "-k", str(DEPLOY / "kustomize" / folder))
    cluster.kubectl(*kustomize)
    replicas = cluster.get("deployment", NAME, "-n", WHERE)["spec"]["replicas"]
    assert replicas == (1 if folder.endswith("one-replica") else 2)
    if folder.endswith("cert-manager"):
        (certificate,) = cluster.get("certificates", "-n", WHERE)["items"]
        assert certificate["spec"]["secretName"] == "kueue-webhook-server-cert"


@pytest.mark.skipif(not shutil.which("helm"), reason="no helm on PATH")
def test_helm_installs_upgrades_and_leaves_the_definitions(cluster: Cluster) -> None:
    def helm(*arguments: str) -> None:
        environment = os.environ | {"KUBECONFIG": str(cluster.plane.kubeconfig)}
        done = subprocess.run(
            ["helm", *arguments, "-n", "batch"], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    chart = str(DEPLOY / "helm" / "muster")
    cluster.kubectl("delete", "-k", str(DEPLOY / "kustomize" / "overlays" / "monitoring"))
    until(lambda: not cluster.get("crds", "-l", "app.kubernetes.io/part-of=muster")["items"])
    helm("install", "muster", chart, "--create-namespace")
    assert cluster.get("deployment", NAME, "-n", "batch")["spec"]["replicas"] == 2
    helm("upgrade", "muster", chart, "--set", "controllerManager.replicas=3", "--set", "enablePrometheus=true")
    assert cluster.get("deployment", NAME, "-n", "batch")["spec"]["replicas"] == 3
    helm("uninstall", "muster")
    assert not cluster.get("deployments", "-n", "batch")["items"]
    assert len(cluster.get("crds", "-l", "app.kubernetes.io/part-of=muster")["items"]) > 10
