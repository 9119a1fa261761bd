"""`muster takeover` and `muster handback` on a real server: with Kueue's own definitions, and with Muster's webhooks.

Nobody runs pods here: the test plays both managers as their Deployments say.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from tests.cluster.conftest import Cluster, Replica, install_kinds, renewed_lease, until
from tests.documents import needs_the_peers
from tests.kubeplane import kube_plane, needs_kubernetes

pytestmark = [needs_kubernetes, needs_the_peers, pytest.mark.kubectl, pytest.mark.timeout(600)]

MANAGER, MUSTER, WHERE = "kueue-controller-manager", "muster-controller-manager", "kueue-system"
LEASE = "c1f6bfd2.kueue.x-k8s.io"
SELECTOR = {"app.kubernetes.io/name": "kueue", "control-plane": "controller-manager"}
CONFIGURATION = """\
apiVersion: config.kueue.x-k8s.io/v1beta1
kind: Configuration
leaderElection: {leaderElect: true, resourceName: c1f6bfd2.kueue.x-k8s.io}
integrations: {frameworks: [batch/job, pod]}
"""


def kueue() -> list[dict[str, Any]]:
    """What Kueue's manifest has besides definitions and rights, as far as a move looks at it."""

    def meta(name: str) -> dict[str, Any]:
        return {"name": name, "namespace": WHERE}

    container = {"name": "manager", "image": "kueue"}
    template = {"metadata": {"labels": SELECTOR}, "spec": {"containers": [container]}}
    service = {"name": "kueue-webhook-service", "namespace": WHERE, "path": "/validate-kueue-x-k8s-io-v1beta2-cohort"}
    rule = {"apiGroups": ["kueue.x-k8s.io"], "apiVersions": ["v1beta2"], "operations": ["CREATE"]}
    hook = {
        "name": "cohort.kb.io", "clientConfig": {"service": service}, "rules": [rule | {"resources": ["cohorts"]}],
        "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
    }  # fmt: skip
    seen = {"namespace": WHERE, "name": "kueue-visibility-server"}
    shown = {"group": "visibility.kueue.x-k8s.io", "groupPriorityMinimum": 100, "versionPriority": 100}
    registration = "admissionregistration.k8s.io/v1"
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta(MANAGER),
         "spec": {"replicas": 1, "selector": {"matchLabels": SELECTOR}, "template": template}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("kueue-manager-config"),
         "data": {"controller_manager_config.yaml": CONFIGURATION}},
        {"apiVersion": "v1", "kind": "Service", "metadata": meta("kueue-webhook-service"),
         "spec": {"selector": SELECTOR, "ports": [{"port": 443, "protocol": "TCP", "targetPort": 9443}]}},
        *({"apiVersion": registration, "kind": f"{how}WebhookConfiguration",
           "metadata": {"name": f"kueue-{how.lower()}-webhook-configuration"}, "webhooks": [hook]}
          for how in ("Mutating", "Validating")),
        *({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
           "metadata": {"name": f"{version}.visibility.kueue.x-k8s.io"},
           "spec": shown | {"version": version, "service": seen, "insecureSkipTLSVerify": True}}
          for version in ("v1beta1", "v1beta2")),
    ]  # fmt: skip


class Installed(Cluster):
    """A cluster in which what Deployments of engines want to run runs."""

    def apply(self, *documents: dict[str, Any], force: bool = False) -> str:
        """Apply documents as Kueue's readers do."""
        several = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
        return self.kubectl(
            "apply", "--server-side", *(["--force-conflicts"] if force else []), "-f", "-", text=several
        )

    def holder(self) -> str:
        """Who holds the Lease of engines; "" if there is none."""
        found = self.get("leases", "-n", WHERE, "--field-selector", f"metadata.name={LEASE}")["items"]
        return str(found[0]["spec"].get("holderIdentity", "")) if found else ""

    def replicas(self, name: str) -> int:
        found = self.get("deployments", "-n", WHERE, "--field-selector", f"metadata.name={name}")["items"]
        return int(found[0]["spec"]["replicas"]) if found else 0

    @contextmanager
    def played(self, start: Callable[..., Replica]) -> Iterator[None]:
        """Run Kueue's manager as far as its Lease goes, and Muster as a process."""
        done, engine = Event(), list[Replica]()

        def play() -> None:
            renewing = ExitStack()
            runs = False
            while not done.is_set():
                if (wanted := bool(self.replicas(MANAGER))) and not runs:
                    renewing.enter_context(renewed_lease(self, WHERE, LEASE, "kueue-1_x"))
                elif runs and not wanted:
                    renewing.close()
                runs = wanted
                if self.replicas(MUSTER) and not engine:
                    engine.append(start("--without-webhooks"))
                elif engine and not self.replicas(MUSTER):
                    engine[0].process.terminate()
                    engine.pop().process.wait()
                time.sleep(0.5)
            renewing.close()

        player = Thread(target=play)
        player.start()
        try:
            yield
        finally:
            done.set()
            player.join()

    def hand_back(self) -> subprocess.CompletedProcess[str]:
        """Run `muster handback`, and again where the process here outlives its Deployment, as no pod does."""
        done = self.muster("handback")
        return self.muster("handback") if "still works: stop it first" in done.stderr else done

    def muster(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).with_name("muster")), *arguments]
        options = ["--kubeconfig", str(self.plane.kubeconfig)]
        return subprocess.run([*command, *options], capture_output=True, text=True, check=False)

    def specs(self) -> dict[str, Any]:
        """What Kueue's manifest says of its objects, as the server has them now."""
        found = {}
        for each in kueue():
            meta, part = each["metadata"], next(key for key in ("spec", "webhooks", "data") if key in each)
            place = ["-n", meta["namespace"]] if "namespace" in meta else []
            found[f"{each['kind']}/{meta['name']}"] = self.get(each["kind"], meta["name"], *place)[part]
        return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with kube_plane(tmp_path_factory.mktemp("plane"), "kube-controller-manager") as plane:
        cluster = Installed(plane)
        cluster.kubectl("create", "namespace", WHERE)
        install_kinds(cluster, "kueue")
        cluster.apply(*kueue())
        yield cluster


@pytest.fixture
def bare(installed: Installed) -> Cluster:
    """Where `start` starts a replica."""
    return installed


def test_one_command_there_and_one_back(installed: Installed, start: Callable[..., Replica]) -> None:
    before = installed.specs()
    with installed.played(start):
        until(lambda: installed.holder() == "kueue-1_x")
        listed = installed.muster("takeover", "--dry-run")
        assert listed.returncode == 0, listed.stderr
        assert "stop Kueue's manager: Deployment kueue-system/kueue-controller-manager from 1 to 0" in listed.stdout
        assert installed.specs() == before

        taken = installed.muster("takeover", "--image", "example/muster:1")
        assert taken.returncode == 0, taken.stderr
        assert taken.stdout == "Muster leads: Kueue's manager stays stopped until `muster handback`\n"
        assert installed.holder().startswith("muster_")
        hooks = installed.kubectl("get", "mutatingwebhookconfiguration", "-o", "name")
        assert (
            hooks == "mutatingwebhookconfiguration.admissionregistration.k8s.io/muster-mutating-webhook-configuration\n"
        )
        definition = installed.get("crd", "workloads.kueue.x-k8s.io")
        assert definition["metadata"]["labels"]["app.kubernetes.io/part-of"] == "muster"
        again = installed.muster("takeover")
        assert again.returncode == 0, again.stderr
        assert "install Muster" not in again.stderr

        given = installed.hand_back()
        assert given.returncode == 0, given.stderr
        assert given.stdout == "Kueue's manager leads\n"
        assert installed.holder() == "kueue-1_x"
        assert installed.specs() == before
        assert not installed.get("clusterroles", "-l", "app.kubernetes.io/part-of=muster")["items"][2:]
        assert not installed.get("deployments", "-n", WHERE, "-l", "app.kubernetes.io/part-of=muster")["items"]
        installed.apply(*kueue())  # no field of it is Muster's any more
        install_kinds(installed, "kueue")
