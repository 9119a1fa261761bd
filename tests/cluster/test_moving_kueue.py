"""`muster takeover` and `muster handback` with Kueue's own manager, where it is on this machine.

Nobody runs pods here: the test runs both managers as processes, as their Deployments say, and leads the Service that
webhooks are behind to the one that runs.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from tests.cluster.conftest import QUEUES, Cluster, Replica, until
from tests.cluster.real_kueue import IS_NEW, NAMESPACE, Manager, apply, install_definitions, manifests, needs_kueue
from tests.documents import needs_the_peers
from tests.kubeplane import kube_plane, needs_kubernetes

pytestmark = [needs_kubernetes, needs_kueue, needs_the_peers, pytest.mark.kubectl, pytest.mark.timeout(600)]

KUEUE, MUSTER = "kueue-controller-manager", "muster-controller-manager"
ROOT = Path(__file__).parents[2]
# The Service leads there, and what listens there to whoever runs.
ADDRESS = "127.0.0.9"
SETTINGS = "integrations: {frameworks: [batch/job, pod]}\n"


class Service:
    """Port 443 of an address of loopback, which leads to another port."""

    def __init__(self, file: Path) -> None:
        self._file = file
        command = [sys.executable, "-m", "tests.cluster.forwarding", ADDRESS, str(file)]
        self._process = subprocess.Popen(command, cwd=ROOT)

    def lead_to(self, port: int) -> None:
        self._file.write_text(str(port))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Asked(Manager):
    """Kueue's manager, which the server asks as its manifest says."""

    def _ask(self) -> None:
        pass


class Site(Cluster):
    """A cluster with Kueue's manifest, in which Deployments of engines come true."""

    def __init__(self, plane: Any, home: Path) -> None:
        super().__init__(plane)
        self._home, self.service, self._done = home, Service(home / "port"), Event()
        self.manager: Asked | None = None
        self.replica: Replica | None = None
        self._count = 0

    def install(self) -> None:
        self.kubectl("create", "namespace", NAMESPACE)
        install_definitions(self)
        place = {"type": "ExternalName", "externalName": ADDRESS, "ports": [{"port": 443, "protocol": "TCP"}]}
        meta = {"name": "kueue-webhook-service", "namespace": NAMESPACE}
        left = [
            each for each in manifests() if each["kind"] not in ("CustomResourceDefinition", "Service", "Namespace")
        ]
        apply(self, [{"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": place}, *left])

    def wanted(self, name: str) -> int:
        found = self.get("deployments", "-n", NAMESPACE, "--field-selector", f"metadata.name={name}")["items"]
        return int(found[0]["spec"]["replicas"]) if found else 0

    @contextmanager
    def played(self) -> Iterator[None]:
        player = Thread(target=self._play)
        player.start()
        try:
            yield
        finally:
            self._done.set()
            player.join()
            self.service.close()
            for each in (self.manager, self.replica):
                if isinstance(each, Asked):
                    each.terminate()
                elif each is not None:
                    each.process.kill()
                    each.process.wait()

    def _play(self) -> None:
        while not self._done.is_set():
            if self.wanted(KUEUE) and self.manager is None:
                if not IS_NEW:
                    self._unconvert()
                self._count += 1
                self.manager = Asked(self, self._home / f"kueue-{self._count}", {})
                self.service.lead_to(self.manager.port)
            elif self.manager is not None and not self.wanted(KUEUE):
                self.manager.terminate()
                self.manager = None
            if self.manager is not None:
                self.manager.is_ready()  # it gets its certificates
            if self.wanted(MUSTER) and self.replica is None:
                self.replica = Replica(self.plane, self._home / "muster.log", settings=SETTINGS)
                self.service.lead_to(self.replica.webhooks)
            elif self.replica is not None and not self.wanted(MUSTER):
                self.replica.process.terminate()
                self.replica.process.wait()
                self.replica = None
            time.sleep(0.5)

    def _unconvert(self) -> None:
        """An older manager knows one version alone, and what is stored here is the same in both."""
        for each in self.get("crds")["items"]:
            if each["spec"]["group"] == "kueue.x-k8s.io":
                none = [{"op": "replace", "path": "/spec/conversion", "value": {"strategy": "None"}}]
                self.kubectl("patch", "crd", each["metadata"]["name"], "--type=json", "-p", json.dumps(none))

    def hand_back(self) -> subprocess.CompletedProcess[str]:
        """Run `muster handback`, and again where the process here outlives its Deployment, as no pod does."""
        done = self.muster("handback")
        return self.muster("handback") if "still works: stop it first" in done.stderr else done

    def muster(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).with_name("muster")), *arguments]
        options = ["--kubeconfig", str(self.plane.kubeconfig)]
        return subprocess.run([*command, *options], capture_output=True, text=True, check=False)

    def is_asked(self, name: str) -> bool:
        """Whether a job gets in, and is suspended on its way."""
        with suppress(AssertionError):
            self.job(name)
            return True
        return False

    def uids(self) -> dict[str, str]:
        found = self.get("jobs,pods", "-n", "default")["items"]
        return {one["metadata"]["name"]: one["metadata"]["uid"] for one in found}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    home = tmp_path / "plane"
    home.mkdir()
    with kube_plane(home, "kube-controller-manager") as plane:
        found = Site(plane, tmp_path)
        found.install()
        with found.played():
            yield found


def test_one_command_there_and_one_back(site: Site) -> None:
    until(lambda: site.manager is not None and site.manager.is_ready(), 120)
    site.kubectl("apply", "-f", "-", text=QUEUES if IS_NEW else QUEUES.replace("v1beta2", "v1beta1"))
    site.job("runs")
    until(lambda: site.pods("runs") == 2)
    site.job("waits")
    before = site.uids()

    listed = site.muster("takeover", "--dry-run")
    assert listed.returncode == 0, listed.stderr
    taken = site.muster("takeover", "--image", "example/muster:1")
    assert taken.returncode == 0, taken.stderr
    assert site.uids() == before
    assert site.is_suspended("waits")
    until(lambda: site.is_asked("later"))
    site.kubectl("delete", "job", "runs")
    until(lambda: site.pods("waits") == 2)
    before = {name: uid for name, uid in site.uids().items() if name.startswith("waits")}

    given = site.hand_back()
    assert given.returncode == 0, given.stderr
    assert {name: uid for name, uid in site.uids().items() if name.startswith("waits")} == before
    until(lambda: site.is_asked("last"), 120)
    site.kubectl("delete", "job", "waits")
    until(lambda: site.pods("later") == 2)
