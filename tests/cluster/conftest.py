"""A real control plane with Kueue's and JobSet's kinds, and replicas of `muster controllers` as processes."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml
from tests.documents import PEERS
from tests.kubeplane import KubePlane, free_port, kube_plane

from muster.api.config import load

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: f}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cq}
spec:
  namespaceSelector: {}
  resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 3}]}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: default}
spec: {clusterQueue: cq}
"""


class Probed:
    """A process of the engine that is asked how it does."""

    log: Path
    health: int  # its port

    def readiness(self) -> str:
        """What its probe says; "" if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/readyz", timeout=5) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError:
            return ""

    def said(self, text: str) -> bool:
        return text in self.log.read_text()


class Replica(Probed):
    """`muster controllers` as a process."""

    def __init__(
        self, plane: KubePlane, log: Path, *arguments: str, kubeconfig: Path | None = None, settings: str = ""
    ) -> None:
        """kubeconfig: of a user with fewer rights than all. settings: more of its Configuration, in YAML."""
        self.log, self.health, self.metrics = log, free_port(), free_port()
        self.webhooks, self.visibility = free_port(), free_port()
        self._settings = log.with_suffix(".yaml")
        text = (
            "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
            f'health: {{healthProbeBindAddress: "127.0.0.1:{self.health}"}}\n'
            f'metrics: {{bindAddress: "127.0.0.1:{self.metrics}"}}\n'
            f'webhook: {{host: "127.0.0.1", port: {self.webhooks}}}\n'
            f'visibilityServer: {{bindAddress: "127.0.0.1", bindPort: {self.visibility}}}\n'
        )
        self._settings.write_text(text + settings)
        self.configuration = load(text + settings)
        command = Path(sys.executable).with_name("muster")
        options = ["--kubeconfig", str(kubeconfig or plane.kubeconfig), "--config", str(self._settings), *arguments]
        with log.open("w") as file:
            self.process = subprocess.Popen(
                [command, "controllers", *options], stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )


class Cluster:
    """What a test says and sees."""

    def __init__(self, plane: KubePlane) -> None:
        self.plane = plane

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        environment = os.environ | {"KUBECONFIG": str(self.plane.kubeconfig)}
        done = subprocess.run(
            ["kubectl", *arguments], env=environment, input=text, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def token(self, account: str) -> str:
        """Of a ServiceAccount beside the engine."""
        return self.kubectl("create", "token", account, "-n", "kueue-system").strip()

    def write_kubeconfig(self, file: Path, account: str) -> None:
        """With the rights of a ServiceAccount beside the engine."""
        document = yaml.safe_load(self.plane.kubeconfig.read_text())
        document["users"][0]["user"] = {"token": self.token(account)}
        document["clusters"][0]["cluster"]["certificate-authority"] = str(self.plane.home / "tls.crt")
        file.write_text(yaml.safe_dump(document))

    def job(
        self,
        name: str,
        workers: int = 2,
        *,
        labels: Mapping[str, str] = MappingProxyType({}),
        annotations: Mapping[str, str] = MappingProxyType({}),
        **pod: Any,
    ) -> None:
        """A queued Job, as kubectl makes it. annotations: of its pods."""
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        template = {
            "metadata": {"annotations": dict(annotations)},
            "spec": {"restartPolicy": "Never", "containers": [container], **pod},
        }
        spec = {"suspend": True, "parallelism": workers, "completions": workers, "template": template}
        meta = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "lq", **labels}}
        document = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}
        self.kubectl("create", "-f", "-", text=json.dumps(document))

    def is_suspended(self, name: str) -> bool:
        return bool(self.get("job", name)["spec"]["suspend"])

    def pods(self, job: str) -> int:
        return len(self.get("pods", "-l", f"batch.kubernetes.io/job-name={job}")["items"])

    def holder(self) -> str:
        spec = self.get("lease", "-n", "kueue-system", "c1f6bfd2.kueue.x-k8s.io")["spec"]
        return str(spec.get("holderIdentity", ""))


@contextmanager
def renewed_lease(cluster: Cluster, namespace: str, name: str, holder: str) -> Iterator[None]:
    """A controller of another program, as far as it can be seen: it holds a Lease and renews it."""
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
    }
    cluster.kubectl("apply", "-f", "-", text=json.dumps(lease))
    script = (
        f"while kubectl patch lease -n {namespace} {name} --type merge -p "
        '"{\\"spec\\": {\\"renewTime\\": \\"$(date -u +%Y-%m-%dT%H:%M:%S.%6NZ)\\"}}"; do sleep 1; done'
    )
    environment = os.environ | {"KUBECONFIG": str(cluster.plane.kubeconfig)}
    renewing = subprocess.Popen(
        ["sh", "-c", script], env=environment, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        os.killpg(renewing.pid, signal.SIGKILL)
        renewing.wait()
        cluster.kubectl("delete", "lease", "-n", namespace, name)


def until(condition: Callable[[], Any], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.3)


def _is_established(crd: Any) -> bool:
    conditions = crd["status"].get("conditions") or ()  # `kubectl wait` fails on those that have none yet
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster on which nothing is installed."""
    with kube_plane(tmp_path_factory.mktemp("plane"), "kube-controller-manager") as plane:
        cluster = Cluster(plane)
        cluster.kubectl("create", "namespace", "kueue-system")
        yield cluster


@pytest.fixture(scope="module")
def cluster(bare: Cluster) -> Cluster:
    """With the kinds, and a queue of 3 CPUs."""
    install(bare)
    return bare


def install(cluster: Cluster) -> None:
    """Kueue's and JobSet's kinds, and a queue of 3 CPUs."""
    install_kinds(cluster, "kueue", "jobset")
    cluster.kubectl("apply", "-f", "-", text=QUEUES)


def install_kinds(cluster: Cluster, *families: str) -> None:
    """The peers' own, until they are served."""
    for family in families:
        cluster.kubectl("apply", "--server-side", "-f", str(PEERS / "crds" / family))
    until(lambda: all(_is_established(crd) for crd in cluster.get("crds")["items"]))


@pytest.fixture
def start(bare: Cluster, tmp_path: Path) -> Iterator[Callable[..., Replica]]:
    """Start a replica; all are killed at the end."""
    started: list[Replica] = []

    def begin(*arguments: str) -> Replica:
        started.append(Replica(bare.plane, tmp_path / f"replica-{len(started)}.log", *arguments))
        return started[-1]

    yield begin
    for replica in started:
        replica.process.kill()
        replica.process.wait()
