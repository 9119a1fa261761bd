"""kube-apiserver asks the engine's webhooks: at a URL before it stores objects, behind a Service to convert them.

The engine has the rights that are installed with it. The server runs on no node here and reaches no pods. A Service of
type ExternalName it follows to this machine all the same, and checks the certificate against the Service's name.
"""

import json
import time
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.cluster.conftest import Cluster, Replica, until
from tests.documents import needs_the_peers
from tests.kubeplane import needs_kubernetes

from muster.api.config import load
from muster.cli.main import cli
from muster.install.documents import make_documents
from muster.install.options import NAME, Options, make_default_configuration
from muster.webhooks import certificates
from muster.webhooks.certificates import Held, make_secret_data, renew_what_is_due
from muster.webhooks.configurations import webhook_configurations
from muster.webhooks.endpoints import ServiceEndpoint, UrlEndpoint, make_conversion

pytestmark = [needs_kubernetes, needs_the_peers, pytest.mark.kubectl, pytest.mark.timeout(600)]

SECRET = ("secret", "-n", "kueue-system", "kueue-webhook-server-cert")
SERVICE = ServiceEndpoint("kueue-system", "kueue-webhook-service")
QUEUED = {"kueue.x-k8s.io/queue-name": "lq"}
OLD_QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: old}
spec: {namespaceSelector: {}, cohort: all}
"""
TWICE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: twice}
spec:
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: f, resources: [{name: cpu, nominalQuota: 1}]}]
  - coveredResources: [memory]
    flavors: [{name: f, resources: [{name: memory, nominalQuota: 1}]}]
"""


RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


class Served:
    """A replica, and a server that asks it."""

    def __init__(self, cluster: Cluster, folder: Path, settings: str = "") -> None:
        """settings: more of the replica's Configuration."""
        self.cluster, self._folder = cluster, folder
        self.apply(
            each
            for each in make_documents(Options(make_default_configuration(), load(make_default_configuration())))
            if each["kind"] in RIGHTS
        )
        cluster.write_kubeconfig(folder / "kubeconfig", NAME)
        self.replica = self._begun("replica.log", settings)

    def _begun(self, log: str, settings: str = "") -> Replica:
        kubeconfig = self._folder / "kubeconfig"
        return Replica(self.cluster.plane, self._folder / log, kubeconfig=kubeconfig, settings=settings)

    def apply(self, documents: Iterable[dict[str, Any]]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        self.cluster.kubectl("apply", "-f", "-", text=json.dumps(listed))

    def kill(self) -> None:
        self.replica.process.kill()
        self.replica.process.wait()

    def begin_again(self, settings: str = "") -> None:
        """With another replica, at another port."""
        self.kill()
        self.replica = self._begun("again.log", settings)
        self.install()

    def store_as(self, version: str) -> None:
        """Of LocalQueues, from now on."""
        found = self.cluster.get("crd", "localqueues.kueue.x-k8s.io")["spec"]["versions"]
        edits = [
            {"op": "replace", "path": f"/spec/versions/{i}/storage", "value": each["name"] == version}
            for i, each in enumerate(found)
        ]
        self.cluster.kubectl("patch", "crd", "localqueues.kueue.x-k8s.io", "--type=json", "-p", json.dumps(edits))

    def install(self) -> None:
        port = self.replica.webhooks
        place = {"type": "ExternalName", "externalName": "localhost"}
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": SERVICE.name, "namespace": SERVICE.namespace},
        }
        at = UrlEndpoint(f"https://localhost:{port}")
        self.apply(
            [
                service | {"spec": place},
                *webhook_configurations(self.replica.configuration, service_account=NAME, endpoint=at),
            ]
        )
        patch = {"spec": {"conversion": make_conversion(ServiceEndpoint(SERVICE.namespace, SERVICE.name, port))}}
        for definition in self.definitions():
            self.cluster.kubectl(
                "patch", "crd", definition["metadata"]["name"], "--type=merge", "-p", json.dumps(patch)
            )

    def stored_again(self, queue: str) -> str:
        """In which version the LocalQueue stands in the store, once it was written."""
        what = "localqueues.v1beta1.kueue.x-k8s.io"
        self.cluster.kubectl("annotate", what, queue, f"at={time.monotonic()}", "--overwrite")
        key = b64encode(f"/registry/kueue.x-k8s.io/localqueues/default/{queue}".encode()).decode()
        url = f"{self.cluster.plane.etcd}/v3/kv/range"
        with urllib.request.urlopen(url, json.dumps({"key": key}).encode(), timeout=5) as answer:
            return str(json.loads(b64decode(json.load(answer)["kvs"][0]["value"]))["apiVersion"])

    def definitions(self) -> list[Any]:
        found = self.cluster.get("crd")["items"]
        return [each for each in found if each["spec"]["group"] == "kueue.x-k8s.io"]

    def data(self) -> dict[str, bytes]:
        found = self.cluster.get(*SECRET)["data"]
        return {name: b64decode(value) for name, value in found.items()}

    def is_known(self) -> bool:
        """Whether the server knows the authority wherever it asks."""
        bundle = b64encode(self.data()[certificates.AUTHORITIES]).decode()
        found = self.cluster.get("mutatingwebhookconfigurations,validatingwebhookconfigurations")["items"]
        clients = [hook["clientConfig"] for each in found for hook in each["webhooks"]]
        clients += [each["spec"]["conversion"]["webhook"]["clientConfig"] for each in self.definitions()]
        return all(client.get("caBundle") == bundle for client in clients)

    def create(self, text: str) -> Any:
        return json.loads(self.cluster.kubectl("create", "-o", "json", "-f", "-", text=text))

    def refused(self, text: str) -> str:
        with pytest.raises(AssertionError) as raised:
            self.create(text)
        return str(raised.value)


def job(name: str, labels: Any = None, namespace: str = "default", cpu: str = "1") -> str:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    meta = {"name": name, "namespace": namespace, "labels": labels or {}}
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})


@pytest.fixture(scope="module")
def served(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(cluster, tmp_path_factory.mktemp("replica"))
    try:
        until(lambda: served.replica.said("webhooks at port"))
        until(lambda: served.replica.said("no webhooks are installed"))
        served.install()
        until(served.is_known)
        yield served
    finally:
        served.kill()


def is_asked(served: Served) -> bool:
    """Whether the server has heard of the configurations: it does within moments."""
    return "denied the request" in refusal_of(served, TWICE)


def refusal_of(served: Served, text: str) -> str:
    try:
        served.cluster.kubectl("create", "--dry-run=server", "-f", "-", text=text)
    except AssertionError as error:
        return str(error)
    return ""


def test_a_queued_job_is_suspended_as_it_comes(served: Served) -> None:
    until(lambda: is_asked(served))
    assert served.create(job("queued", QUEUED, cpu="100"))["spec"]["suspend"] is True
    assert served.create(job("free"))["spec"]["suspend"] is False
    served.cluster.kubectl("delete", "job", "queued", "free")


def test_an_invalid_cluster_queue_is_refused_as_by_kueue(served: Served) -> None:
    said = served.refused(TWICE)
    where = 'spec.resourceGroups[1].flavors[0].name: Duplicate value: "f"'
    assert f'admission webhook "vclusterqueue.kb.io" denied the request: {where}' in said


def test_a_cluster_queue_is_held_while_it_is_used(served: Served) -> None:
    text = '{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "held"}}'
    assert served.create(text)["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]
    served.cluster.kubectl("delete", "resourceflavor", "held")


def test_an_old_version_is_read_as_the_new_one_and_back(served: Served) -> None:
    served.create(OLD_QUEUE)
    new = served.cluster.get("clusterqueues.v1beta2.kueue.x-k8s.io", "old")
    assert (new["apiVersion"], new["spec"]["cohortName"]) == ("kueue.x-k8s.io/v1beta2", "all")
    old = served.cluster.get("clusterqueues.v1beta1.kueue.x-k8s.io", "old")
    assert (old["apiVersion"], old["spec"]["cohort"]) == ("kueue.x-k8s.io/v1beta1", "all")
    listed = served.cluster.get("clusterqueues.v1beta1.kueue.x-k8s.io")["items"]
    assert {each["spec"].get("cohort", "") for each in listed} == {"all", ""}
    served.cluster.kubectl("delete", "clusterqueue", "old")


def test_a_job_without_a_queue_gets_the_default_of_its_namespace(served: Served) -> None:
    meta = {"name": "default", "namespace": "team"}
    served.cluster.kubectl("create", "namespace", "team")
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": meta,
        "spec": {"clusterQueue": "cq"},
    }
    served.create(json.dumps(queue))
    until(lambda: served.create(job(f"j{datetime.now(UTC):%S%f}", namespace="team"))["spec"]["suspend"])


def test_an_expired_certificate_is_replaced(served: Served) -> None:
    names = ("kueue-webhook-service.kueue-system.svc", "localhost")
    long_ago = datetime.now(UTC) - timedelta(days=800)
    expired = make_secret_data(renew_what_is_due(Held(), names, long_ago))
    encoded = {"data": {name: b64encode(value).decode() for name, value in expired.items()}}
    served.cluster.kubectl("patch", *SECRET, "--type=merge", "-p", json.dumps(encoded))
    until(lambda: served.data()[certificates.CERTIFICATE] != expired[certificates.CERTIFICATE])
    until(served.is_known)
    until(lambda: is_asked(served))


def test_a_bundle_that_is_taken_away_is_put_there_again(served: Served) -> None:
    edit = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    name = "muster-mutating-webhook-configuration"
    served.cluster.kubectl("patch", "mutatingwebhookconfiguration", name, "--type=json", "-p", json.dumps(edit))
    until(served.is_known)


def test_no_right_is_missing(served: Served) -> None:
    """After all that was asked above."""
    assert not served.replica.said("cannot")


def test_what_kueue_has_stored_in_the_old_version_holds_up_no_start(served: Served) -> None:
    """It can be listed only once it is converted here. The Secret was Kueue's, or is gone."""
    served.store_as("v1beta1")
    until(lambda: served.stored_again("lq").endswith("/v1beta1"))
    served.store_as("v1beta2")
    served.kill()
    served.cluster.kubectl("delete", *SECRET)
    served.begin_again()
    until(lambda: served.replica.readiness() == "ok")
    until(served.is_known)
    assert served.cluster.get("localqueues.v1beta2.kueue.x-k8s.io", "lq")["spec"]["clusterQueue"] == "cq"
    until(lambda: is_asked(served))
    # What follows reads the queue while nobody converts.
    until(lambda: served.stored_again("lq").endswith("/v1beta2"))


def test_while_nobody_answers_only_what_would_run_without_quota_is_refused(served: Served) -> None:
    served.create(job("before", QUEUED, cpu="100"))
    served.kill()
    assert 'failed calling webhook "mjob.kb.io"' in served.refused(job("queued", QUEUED))
    runner = CliRunner(env={"KUBECONFIG": str(served.cluster.plane.kubeconfig)})
    done = runner.invoke(cli, ["run", "-q", "lq", "--image", "none", "-d", "--array", "0-1", "--", "true"])
    assert done.exit_code == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert line.startswith("Error: nothing was stored: https://localhost:"), done.stderr
    assert "(webhook mjob.kb.io), does not answer: " in line
    assert 'failed calling webhook "vclusterqueue.kb.io"' in served.refused(TWICE) or "mclusterqueue" in served.refused(
        TWICE
    )
    served.create(job("free"))
    served.create(job("system", QUEUED, namespace="kube-system"))
    served.cluster.kubectl("annotate", "job", "before", "a=b")
    served.cluster.kubectl("delete", "job", "before", "--timeout=60s")  # its Workload waits for the engine
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    served.create(json.dumps(pod))
