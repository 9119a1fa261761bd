"""kube-apiserver passes on to the leader who asks for who waits, and says who it is.

The Service is of type ExternalName, which the server follows to this machine (see `test_webhooks.py`).
"""

import asyncio
import json
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.cluster.conftest import Cluster, Replica, until
from tests.documents import needs_the_peers
from tests.kubeplane import needs_kubernetes
from tests.rights import Users, introduced

from muster.api.config import DEFAULT
from muster.cli.main import cli
from muster.insight.reader.engine import NOT_LED
from muster.install.deployment import api_services
from muster.install.options import Options
from muster.install.people import make_user_roles
from muster.operator.leaderlabel import LABEL, VALUE
from muster.webhooks.endpoints import VISIBILITY_SERVICE

pytestmark = [needs_kubernetes, needs_the_peers, pytest.mark.kubectl, pytest.mark.timeout(600)]

GROUP = "/apis/visibility.kueue.x-k8s.io"
OF_QUEUE, OF_LOCAL = "clusterqueues/cq/pendingworkloads", "namespaces/default/localqueues/lq/pendingworkloads"
NAMES = ("one", "two", "three")


class Served:
    """A replica that leads, a server that passes on to it, and jobs that wait."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.replica = Replica(cluster.plane, folder / "replica.log", "--without-webhooks")

    def install(self) -> None:
        service: Any = {"apiVersion": "v1", "kind": "Service", "spec": {"type": "ExternalName"}}
        service["metadata"] = {"name": VISIBILITY_SERVICE, "namespace": "kueue-system"}
        service["spec"]["externalName"] = "localhost"
        found = list(api_services(Options("", DEFAULT)))
        for each in found:
            each["spec"]["service"]["port"] = self.replica.visibility
        listed = {"apiVersion": "v1", "kind": "List", "items": [service, *found, *make_user_roles()]}
        self.cluster.kubectl("apply", "-f", "-", text=json.dumps(listed))

    def is_available(self) -> bool:
        services = self.cluster.get("apiservices")["items"]
        ours = [each for each in services if each["spec"].get("group") == GROUP.removeprefix("/apis/")]
        said = [one for each in ours for one in each.get("status", {}).get("conditions", ())]
        return [(one["type"], one["status"]) for one in said] == [("Available", "True")] * 2

    def authority(self) -> str:
        """By which those who ask know the certificate."""
        (first, *_) = (each for each in self.cluster.get("apiservices")["items"] if each["spec"].get("caBundle"))
        return b64decode(first["spec"]["caBundle"]).decode()

    def line(self, path: str, version: str = "v1beta2") -> list[tuple[str, int]]:
        found = json.loads(self.cluster.kubectl("get", "--raw", f"{GROUP}/{version}/{path}"))
        assert found["apiVersion"] == f"visibility.kueue.x-k8s.io/{version}"
        assert found["kind"] == "PendingWorkloadsSummary"
        jobs = [item["metadata"]["ownerReferences"][0]["name"] for item in found["items"]]
        return list(zip(jobs, (item["positionInClusterQueue"] for item in found["items"]), strict=True))

    def refused(self, path: str) -> str:
        with pytest.raises(AssertionError) as raised:
            self.cluster.kubectl("get", "--raw", path)
        return str(raised.value)


@pytest.fixture(scope="module")
def served(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    cluster.job("runs", 3)
    served = Served(cluster, tmp_path_factory.mktemp("replica"))
    try:
        until(lambda: not cluster.is_suspended("runs"))
        for name in NAMES:
            cluster.job(name, 3)
        until(lambda: served.replica.said("visibility API at port"))
        served.install()
        until(served.is_available)
        yield served
    finally:
        served.replica.process.kill()
        served.replica.process.wait()


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize("path", [OF_QUEUE, OF_LOCAL])
def test_a_line_and_its_parts(served: Served, path: str, version: str) -> None:
    everybody = [(name, position) for position, name in enumerate(NAMES)]
    until(lambda: served.line(path, version) == everybody)
    assert served.line(f"{path}?limit=1&offset=1", version) == everybody[1:2]
    assert served.line(f"{path}?limit=2", version) == everybody[:2]


def test_what_is_not_there_or_not_understood(served: Served) -> None:
    assert "not found" in served.refused(f"{GROUP}/v1beta2/clusterqueues/none/pendingworkloads").lower()
    assert "invalid syntax" in served.refused(f"{GROUP}/v1beta2/{OF_QUEUE}?limit=many")
    assert "NotFound" in served.refused(f"{GROUP}/v1beta2/clusterqueues/cq/other")
    assert "MethodNotAllowed" in served.refused(f"{GROUP}/v1beta2/clusterqueues/cq")


def test_queues_are_those_of_kueue(served: Served) -> None:
    """Discovery is whole, and the group is in nobody's way."""
    assert "visibility.kueue.x-k8s.io/v1beta2" in served.cluster.kubectl("api-versions")
    assert "clusterqueues" in served.cluster.kubectl("api-resources", "--api-group=kueue.x-k8s.io")
    assert served.cluster.kubectl("get", "cq", "cq", "-o", "name").strip() == "clusterqueue.kueue.x-k8s.io/cq"


def test_its_documents_are_among_those_of_the_server(served: Served) -> None:
    """The server asks for them itself, as one who may do next to nothing."""
    path = f"{GROUP}/v1beta2/namespaces/{{namespace}}/localqueues/{{name}}/pendingworkloads"

    def documents(where: str) -> Any:
        return json.loads(served.cluster.kubectl("get", "--raw", where))

    until(lambda: path in documents("/openapi/v2")["paths"])
    until(lambda: f"{GROUP}/v1beta2".removeprefix("/") in documents("/openapi/v3")["paths"])
    assert path in documents(f"/openapi/v3{GROUP}/v1beta2")["paths"]


@pytest.fixture(scope="module")
def users(served: Served) -> Users:
    until(lambda: served.cluster.get("clusterrole", "view")["rules"])
    return asyncio.run(introduced(served.cluster.plane.kubeconfig, served.folder, "lq"))


def asked(users: Users, user: str, path: str) -> subprocess.CompletedProcess[str]:
    command = ["kubectl", "--kubeconfig", str(users.folder / user), "get", "--raw", f"{GROUP}/v1beta2/{path}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_who_views_a_namespace_sees_its_lines_and_no_others(served: Served, users: Users) -> None:
    until(lambda: asked(users, "viewer", OF_LOCAL).returncode == 0)
    found = json.loads(asked(users, "viewer", OF_LOCAL).stdout)["items"]
    assert [item["metadata"]["ownerReferences"][0]["name"] for item in found] == [*NAMES, "first"]
    for user, path in [("viewer", OF_QUEUE), ("nobody", OF_LOCAL), ("viewer", OF_LOCAL.replace("default", "other"))]:
        refused = asked(users, user, path)
        assert "Forbidden" in refused.stderr
        assert f"system:serviceaccount:default:{user}" in refused.stderr


def test_muster_ps_shows_positions(users: Users) -> None:
    done = CliRunner(env={"MUSTER_HOME": str(users.folder), "KUBECONFIG": str(users.folder / "viewer")}).invoke(
        cli, ["ps", "-o", "json"]
    )
    assert done.exit_code == 0, done.output
    shown = {row["name"]: row["position"] for row in json.loads(done.stdout)}
    assert shown == {"runs": None, "one": 1, "two": 2, "three": 3, "first": 4}


def test_only_the_server_is_believed(served: Served) -> None:
    home = served.cluster.plane.home
    admin = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}

    def status(certificate: str, headers: dict[str, str]) -> int:
        context = ssl.create_default_context(cadata=served.authority())
        if certificate:
            context.load_cert_chain(home / certificate, home / certificate.replace("crt", "key"))
        url = f"https://localhost:{served.replica.visibility}{GROUP}/v1beta2/{OF_QUEUE}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), context=context) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    assert status("proxy.crt", admin) == 200
    assert status("proxy.crt", {"X-Remote-User": "eve"}) == 403
    assert status("proxy.crt", {}) == 401
    assert status("", admin) == 401
    with pytest.raises((ssl.SSLError, urllib.error.URLError, ConnectionError)):
        status("tls.crt", admin)


def test_the_service_selects_the_pod_that_leads(served: Served) -> None:
    """Its name is that of the host; one that has led before is no longer selected."""

    def leading() -> list[str]:
        pods = served.cluster.get("pods", "-n", "kueue-system", "-l", f"{LABEL}={VALUE}")["items"]
        return [pod["metadata"]["name"] for pod in pods]

    def pod(name: str, labels: dict[str, str]) -> None:
        meta = {"name": name, "namespace": "kueue-system", "labels": labels}
        container = {"name": "c", "image": "none"}
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}
        served.cluster.kubectl("create", "-f", "-", text=json.dumps(document))

    pod(socket.gethostname(), {})
    pod("before", {LABEL: VALUE})
    until(lambda: leading() == [socket.gethostname()])


def test_while_no_engine_leads_those_who_wait_are_told(served: Served, users: Users) -> None:
    served.replica.process.kill()
    served.replica.process.wait()
    runner = CliRunner(env={"MUSTER_HOME": str(users.folder), "KUBECONFIG": str(users.folder / "editor")})
    for command in (["ps"], ["ps", "one"], ["why", "one"]):
        done = runner.invoke(cli, command)
        assert (done.exit_code, done.stderr.splitlines()) == (0, [NOT_LED]), done.output
    assert runner.invoke(cli, ["why", "runs"]).stderr == "", "it does not wait"
