"""Kueue's own manager beside a real API server.

MUSTER_KUEUE is its program; beside it stands a file of that name and `.yaml`: what `kubectl kustomize config/default`
prints in the sources that it was built from. What needs them is skipped without them. No kubelet mounts the Secret of
certificates here: the tests copy it to where the manager looks for it.
"""

import json
import os
import subprocess
import urllib.error
import urllib.request
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster.conftest import Cluster, install_kinds, until
from tests.kubeplane import free_port

BINARY = os.environ.get("MUSTER_KUEUE", "")
NAMESPACE, SECRET = "kueue-system", "kueue-webhook-server-cert"
LEASE = "c1f6bfd2.kueue.x-k8s.io"
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
# What runs outside of the cluster here, or is made otherwise.
_NOT_HERE = ("Deployment", "Service", "APIService", "Namespace")

needs_kueue = pytest.mark.skipif(
    not (BINARY and Path(f"{BINARY}.yaml").exists()),
    reason="MUSTER_KUEUE does not say where Kueue's manager is, with its manifests in a .yaml beside it",
)


# Versions from 0.18 on have variants, slices without a gate, and definitions that this Muster knows.
IS_NEW = bool(BINARY) and "concurrentAdmissionPolicy" in Path(f"{BINARY}.yaml").read_text()

needs_new_kueue = pytest.mark.skipif(not IS_NEW, reason="MUSTER_KUEUE names no Kueue of 0.18 or newer")


def manifests() -> list[dict[str, Any]]:
    """All that Kueue installs."""
    return [each for each in yaml.safe_load_all(Path(f"{BINARY}.yaml").read_text()) if each]


def install(cluster: Cluster, *, kinds: bool) -> None:
    """What the manager rests on. kinds: with its definitions, else those that are there are used."""
    left = [each for each in manifests() if each["kind"] not in (*_NOT_HERE, *WEBHOOKS)]
    chosen = [each for each in left if kinds or each["kind"] != "CustomResourceDefinition"]
    # A Service without pods, which the server follows to this machine: the certificate is for its name.
    meta = {"name": "kueue-webhook-service", "namespace": NAMESPACE}
    place = {"type": "ExternalName", "externalName": "localhost"}
    apply(cluster, [*chosen, {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": place}])


def install_definitions(cluster: Cluster) -> None:
    """Kueue's definitions; Muster's in the place of those of an older Kueue, which convert nothing."""
    if not IS_NEW:
        install_kinds(cluster, "kueue")
        return
    apply(cluster, [each for each in manifests() if each["kind"] == "CustomResourceDefinition"])


def apply(cluster: Cluster, documents: list[dict[str, Any]]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": documents}
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=json.dumps(listed))


class Manager:
    """Kueue's manager as a process, and the webhooks by which the server asks it."""

    def __init__(self, cluster: Cluster, folder: Path, features: Mapping[str, bool]) -> None:
        self._cluster, self.folder = cluster, folder
        self.port, self._health = free_port(), free_port()
        self._certificates = folder / "certificates"
        self._certificates.mkdir(parents=True)
        document = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta1", "kind": "Configuration", "namespace": NAMESPACE,
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"}, "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": self.port, "certDir": str(self._certificates)},
            "leaderElection": {"leaderElect": True, "resourceName": LEASE, "resourceNamespace": NAMESPACE},
            "integrations": {"frameworks": ["batch/job", "pod"]},
            "featureGates": {"VisibilityOnDemand": False, **features},
        }  # fmt: skip
        (folder / "config.yaml").write_text(yaml.safe_dump(document))
        self._ask()
        environment = os.environ | {"KUBECONFIG": str(cluster.plane.kubeconfig)}
        with (folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                [BINARY, f"--config={folder / 'config.yaml'}"], env=environment, stdout=log, stderr=log
            )

    def _ask(self) -> None:
        """Have the server ask this manager at its port."""
        hooks = [each for each in manifests() if each["kind"] in WEBHOOKS]
        for each in hooks:
            for webhook in each["webhooks"]:
                webhook["clientConfig"]["service"]["port"] = self.port
        apply(self._cluster, hooks)

    def data(self) -> dict[str, bytes]:
        """What the Secret of certificates holds."""
        found = self._cluster.get("secret", "-n", NAMESPACE, SECRET).get("data") or {}
        return {name: b64decode(value) for name, value in found.items()}

    def is_ready(self) -> bool:
        """Whether its probe says so, and the server's requests are answered."""
        for name, value in self.data().items():
            (self._certificates / name).write_bytes(value)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._health}/readyz", timeout=5):
                pass
            self._cluster.kubectl("create", "--dry-run=server", "-f", "-", text=json.dumps(_PROBE))
        except (OSError, urllib.error.HTTPError, AssertionError):
            return False
        return True

    def said(self, text: str) -> bool:
        return text in (self.folder / "log").read_text()

    def terminate(self) -> None:
        """As a Deployment that is scaled down: one that does not end is killed."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """As a Deployment that is scaled down, and take the webhooks away."""
        self.terminate()
        for each in manifests():
            if each["kind"] in WEBHOOKS:
                self._cluster.kubectl("delete", each["kind"], each["metadata"]["name"], "--ignore-not-found")


_PROBE = {
    "apiVersion": "batch/v1", "kind": "Job",
    "metadata": {"name": "probe", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "lq"}},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}},
}  # fmt: skip


def pod(name: str, group: str = "", total: int = 0) -> dict[str, Any]:
    """One of one CPU for the queue `lq`, alone or of a group."""
    labels = {"kueue.x-k8s.io/queue-name": "lq"} | ({"kueue.x-k8s.io/pod-group-name": group} if group else {})
    annotations = {"kueue.x-k8s.io/pod-group-total-count": str(total)} if group else {}
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    meta = {"name": name, "namespace": "default", "labels": labels, "annotations": annotations}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": meta,
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }  # fmt: skip


def gates(cluster: Cluster) -> dict[str, list[str]]:
    """The scheduling gates of the pods that are no Job's, by name."""
    found = cluster.get("pods", "-l", "kueue.x-k8s.io/managed=true")["items"]
    return {
        each["metadata"]["name"]: [gate["name"] for gate in each["spec"].get("schedulingGates", [])] for each in found
    }


def settled(manager: Manager) -> None:
    until(manager.is_ready, 90)
