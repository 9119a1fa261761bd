"""What `muster manifests` prints, on an empty cluster with nothing but kubectl; the engine with the rights that it has
there; and the removal.

The server refuses owners to those who may not hold them up (OwnerReferencesPermissionEnforcement), as some clusters do.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.conftest import Cluster, renewed_lease, until
from tests.cluster.test_controllers import asked
from tests.documents import PEERS, needs_the_peers
from tests.kubeplane import free_port, kube_plane, needs_kubernetes

from muster.api.kueue.visibility import VISIBILITY_GROUP, VISIBILITY_VERSIONS
from muster.webhooks.endpoints import VISIBILITY_SERVICE

pytestmark = [needs_kubernetes, pytest.mark.kubectl, pytest.mark.timeout(600)]

MUSTER = Path(sys.executable).with_name("muster")
ACCOUNT = "muster-controller-manager"
NAMESPACE = "kueue-system"

AUDIT = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"

# Of the definitions, which may be other programs' as well.
EVERYTHING = ("--kinds", "kueue", "--kinds", "jobset", "--kinds", "podgroups")
INSTALL = ("apply", "--server-side", "--field-manager", "muster", "-f", "-")

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default-flavor}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: lab}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cluster-queue}
spec:
  cohortName: lab
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default-flavor, resources: [{name: cpu, nominalQuota: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: user-queue, namespace: default}
spec: {clusterQueue: cluster-queue}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: high}
value: 1000
"""

MULTI_KUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueCluster
metadata: {name: worker}
spec: {clusterSource: {kubeConfig: {locationType: Secret, location: worker}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueConfig
metadata: {name: workers}
spec: {clusters: [worker]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: elsewhere}
spec:
  controllerName: kueue.x-k8s.io/multikueue
  parameters: {apiGroup: kueue.x-k8s.io, kind: MultiKueueConfig, name: workers}
"""


def template(seconds: int, scheduler: str = "muster") -> dict[str, Any]:
    """Of a pod that asks for one CPU, and ends by itself on a simulated node."""
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {"restartPolicy": "Never", "schedulerName": scheduler, "containers": [container]}
    return {"metadata": {"annotations": {"muster.dev/run-time": f"{seconds}s"}}, "spec": spec}


def job(name: str, seconds: int, **labels: str) -> dict[str, Any]:
    spec = {"suspend": True, "parallelism": 3, "completions": 3, "template": template(seconds)}
    meta = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "user-queue"} | labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def jobset(name: str, seconds: int) -> dict[str, Any]:
    one = {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": template(seconds)}
    replicated = {"name": "workers", "replicas": 1, "template": {"spec": one}}
    spec = {"suspend": True, "ttlSecondsAfterFinished": 0, "replicatedJobs": [replicated]}
    meta = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta, "spec": spec}


def queued_pods(group: str, seconds: int) -> list[dict[str, Any]]:
    """Two pods that queue together, as Kueue's webhook would have them."""
    made = template(seconds)
    labels = {
        "kueue.x-k8s.io/queue-name": "user-queue",
        "kueue.x-k8s.io/pod-group-name": group,
        "kueue.x-k8s.io/managed": "true",
    }
    annotations = made["metadata"]["annotations"] | {"kueue.x-k8s.io/pod-group-total-count": "2"}
    more = {"labels": labels, "annotations": annotations, "finalizers": ["kueue.x-k8s.io/managed"]}
    spec = made["spec"] | {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    head = {"apiVersion": "v1", "kind": "Pod", "spec": spec}
    return [head | {"metadata": more | {"name": f"{group}-{number}"}} for number in range(2)]


def pod_group(name: str, seconds: int) -> list[dict[str, Any]]:
    """Two pods that start together, in no queue."""
    version = "scheduling.x-k8s.io/v1alpha1"
    group = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": name}, "spec": {"minMember": 2}}
    made = template(seconds)
    labels = {"scheduling.x-k8s.io/pod-group": name}
    head = {"apiVersion": "v1", "kind": "Pod", "spec": made["spec"]}
    pods = [head | {"metadata": made["metadata"] | {"labels": labels, "name": f"{name}-{n}"}} for n in range(2)]
    return [group, *pods]


class Site(Cluster):
    """The cluster, and the engine as its Deployment has it."""

    health = free_port()
    metrics = free_port()
    webhooks = free_port()
    visibility = free_port()

    def manifests(self, *arguments: str) -> str:
        settings = self.plane.home / "muster.yaml"
        settings.write_text(
            "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
            f'health: {{healthProbeBindAddress: "127.0.0.1:{self.health}"}}\n'
            f'metrics: {{bindAddress: "127.0.0.1:{self.metrics}"}}\n'
            f"webhook: {{port: {self.webhooks}}}\n"
            f"visibilityServer: {{bindPort: {self.visibility}}}\n"
            "integrations: {frameworks: [batch/job, jobset.x-k8s.io/jobset, pod]}\n"
        )
        command = [str(MUSTER), "manifests", "--config", str(settings), "--image", "example/muster:1", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def create(self, *documents: dict[str, Any]) -> None:
        several = {"apiVersion": "v1", "kind": "List", "items": documents}
        self.kubectl("create", "-f", "-", text=json.dumps(several))

    def start_engine(self) -> subprocess.Popen[bytes]:
        """The Deployment's command, by its ServiceAccount, with its settings."""
        home = self.plane.home / "pod"
        home.mkdir()
        (container,) = self.get("deployment", ACCOUNT, "-n", NAMESPACE)["spec"]["template"]["spec"]["containers"]
        (mounted,) = [each["mountPath"] for each in container["volumeMounts"] if each["name"] == "settings"]
        for name, text in self.get("configmap", "muster-manager-config", "-n", NAMESPACE)["data"].items():
            (home / name).write_text(text)
        program, *arguments = [word.replace(mounted, str(home)) for word in container["command"]]
        self.write_kubeconfig(home / "kubeconfig", ACCOUNT)
        environment = {"HOME": str(home), "PATH": os.environ["PATH"], "KUBECONFIG": str(home / "kubeconfig")}
        with (home / "log").open("w") as log:
            command = [MUSTER.with_name(program), *arguments]
            return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def remove(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"KUBECONFIG": str(self.plane.kubeconfig)}
        script = self.manifests("--uninstall", *arguments)
        return subprocess.run(["sh"], input=script, env=environment, capture_output=True, text=True, check=False)

    def condition(self, type: str, *what: str) -> dict[str, Any]:
        """Of an object; empty if it has none of that type."""
        conditions = self.get(*what).get("status", {}).get("conditions", ())
        return next((dict(one) for one in conditions if one["type"] == type), {})

    def line(self) -> list[Any]:
        """Who waits; nobody as long as the server cannot pass the question on."""
        path = f"/apis/{VISIBILITY_GROUP}/v1beta2/clusterqueues/cluster-queue/pendingworkloads"
        try:
            return list(json.loads(self.kubectl("get", "--raw", path))["items"])
        except AssertionError:
            return []

    def finished(self, name: str) -> bool:
        return self.condition("Complete", "job", name).get("status") == "True"

    def phases(self, prefix: str) -> set[str]:
        pods = self.get("pods")["items"]
        return {pod["status"]["phase"] for pod in pods if pod["metadata"]["name"].startswith(prefix)}

    def requests(self) -> list[dict[str, Any]]:
        """What the engine has asked the server for."""
        user = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
        lines = (self.plane.home / "audit.log").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["user"]["username"] == user]

    def objects(self) -> set[str]:
        """All that is stored, but for what comes and goes by itself."""
        kinds = self.kubectl("api-resources", "--verbs=list", "-o", "name").split()
        passing = {"events", "events.events.k8s.io", "leases.coordination.k8s.io", "componentstatuses"}
        template = '{{range .items}}{{.kind}} {{.metadata.namespace}}/{{.metadata.name}}{{"\\n"}}{{end}}'
        found = self.kubectl("get", ",".join(sorted({*kinds} - passing)), "-A", "-o", f"go-template={template}")
        return set(found.splitlines())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("plane")
    (home / "audit.yaml").write_text(AUDIT)
    flags = ["--audit-policy-file=audit.yaml", "--audit-log-path=audit.log"]
    flags.append("--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
    with kube_plane(home, "kube-controller-manager", flags=flags) as plane:
        yield Site(plane)


def test_a_fresh_install_works_with_the_rights_that_it_is_given_and_goes_without_a_trace(site: Site) -> None:
    until(lambda: site.get("configmaps", "-n", "default")["items"])  # kube-controller-manager has begun
    before = site.objects()

    site.kubectl(*INSTALL, text=site.manifests())
    site.kubectl("wait", "--for", "condition=Established", "crd", "--all", "--timeout=60s")
    # The pods meet all rules of their namespace; nobody runs them here.
    until(lambda: len(site.get("pods", "-n", NAMESPACE)["items"]) == 2)

    # The server has no way to a pod here: `test_webhooks.py` has what it asks. Who asks for who waits it leads here.
    here = {"type": "ExternalName", "externalName": "localhost"}
    site.kubectl(
        "patch", "service", VISIBILITY_SERVICE, "-n", NAMESPACE, "--type=merge", "-p", json.dumps({"spec": here})
    )
    port = json.dumps({"spec": {"service": {"port": site.visibility}}})
    for version in VISIBILITY_VERSIONS:
        site.kubectl("patch", "apiservice", f"{version}.{VISIBILITY_GROUP}", "--type=merge", "-p", port)
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        site.kubectl("delete", kind, "-l", "app.kubernetes.io/part-of=muster")

    # Anybody may have this label.
    site.kubectl("create", "namespace", "theirs")
    site.kubectl("label", "namespace", "theirs", "app.kubernetes.io/part-of=muster")

    nodes = ["nodes", "--kubeconfig", str(site.plane.kubeconfig), "--nodes", "simulated:2,cpu=8"]
    log = (site.plane.home / "nodes.log").open("w")
    processes = [
        subprocess.Popen([MUSTER, *nodes], stdin=subprocess.DEVNULL, stdout=log, stderr=log),
        site.start_engine(),
    ]
    try:
        until(lambda: asked(f"http://127.0.0.1:{site.health}/readyz") == (200, "ok"))
        use(site)
        refuse_to_go(site)
        forbidden = [each for each in site.requests() if each["responseStatus"]["code"] == 403]
        assert not forbidden, "\n".join(
            f"{each['verb']} {each['requestURI']}: {each['responseStatus'].get('message')}" for each in forbidden
        )
        assert site.requests()
        # It is no pod, as far as the cluster knows.
        refused = site.remove(*EVERYTHING)
        assert refused.returncode == 1
        assert "\nan engine that is no pod of this cluster goes on, as " in refused.stderr
        processes[1].terminate()
        assert processes[1].wait(60) == 0
        removed = site.remove(*EVERYTHING)
        assert removed.returncode == 0, removed.stderr
    finally:
        for process in processes:
            process.kill()
            process.wait()
        log.close()
    site.kubectl("delete", "namespace", "theirs")  # it is still there
    site.kubectl("delete", "nodes", "--all")
    site.kubectl("delete", "jobs", "--all")
    site.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
    until(lambda: not {each for each in site.objects() - before if not each.startswith("CSINode ")})


def use(site: Site) -> None:
    """The quick start, and one of each that the engine acts upon."""
    site.kubectl("apply", "-f", "-", text=QUEUES)
    site.create(job("sample", 2))
    until(lambda: site.finished("sample"))

    site.create(job("low", 600))
    until(lambda: site.pods("low") == 3)
    site.create(job("waits", 2))
    until(lambda: [each["metadata"]["ownerReferences"][0]["name"] for each in site.line()] == ["waits"])
    site.kubectl("delete", "job", "waits")
    site.create(job("high", 2, **{"kueue.x-k8s.io/priority-class": "high"}))
    until(lambda: site.finished("high"))
    site.kubectl("delete", "job", "low")

    site.create(jobset("gang", 2))
    until(lambda: not site.get("jobsets")["items"])  # it has run, and is gone with its time
    site.create(*queued_pods("pods", 2))
    until(lambda: site.phases("pods-") == {"Succeeded"})
    site.create(*pod_group("group", 2))
    until(lambda: site.phases("group-") == {"Succeeded"})

    # What it makes is not installed, and goes with the engine all the same.
    options = ["--namespace", "default", "--kubeconfig", str(site.plane.kubeconfig)]
    invited = subprocess.run([MUSTER, "cluster", "invite", *options], capture_output=True, text=True, check=True)
    assert "say by --server URL how they reach this cluster" in invited.stderr
    assert "muster up" not in invited.stderr

    worker = site.kubectl("config", "view", "--raw", "--flatten")
    site.kubectl("create", "secret", "generic", "worker", "-n", NAMESPACE, f"--from-literal=kubeconfig={worker}")
    site.kubectl("apply", "-f", "-", text=MULTI_KUEUE)
    until(lambda: site.condition("Active", "multikueuecluster", "worker"))
    until(lambda: site.condition("Active", "admissioncheck", "elsewhere"))

    url = f"https://127.0.0.1:{site.metrics}/metrics"
    assert asked(url, site.plane.token)[0] == 200
    assert asked(url, site.token(ACCOUNT))[0] == 403, "the engine needs none of its own metrics"

    definition = ("crd", "clusterqueues.kueue.x-k8s.io")
    until(lambda: "caBundle" in site.get(*definition)["spec"]["conversion"]["webhook"]["clientConfig"])


def refuse_to_go(site: Site) -> None:
    """What waits for the engine, or goes on with it, is not left behind."""
    before = site.objects()
    unqueued = jobset("runs", 600)
    del unqueued["metadata"]["labels"]
    unqueued["spec"]["suspend"] = False
    alone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"}, "spec": template(2)["spec"]}
    alone["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "none"}
    site.create(unqueued, alone)
    until(lambda: site.phases("runs-") == {"Running"})
    refused = site.remove(*EVERYTHING)
    assert refused.returncode == 1
    assert refused.stderr == (
        "the engine is still needed:\n  jobset default/runs\n  pod default/alone waits for a node\n"
        "  podgroup default/group would go with its kind\n"
        "wait for them to end, or delete them; nothing has been removed\n"
    )
    site.kubectl("delete", "jobset/runs", "pod/alone")
    site.create(job("waiting", 2) | {"spec": job("waiting", 2)["spec"] | {"parallelism": 9, "completions": 9}})
    until(lambda: len(site.get("workloads")["items"]) > 0)
    refused = site.remove()
    assert refused.returncode == 1
    assert "of Job waiting\nwait for them to end, or delete them; nothing has been removed" in refused.stderr
    assert site.objects() >= before
    # As the script says: out of its queue, and started without quota.
    site.kubectl("label", "job", "waiting", "kueue.x-k8s.io/queue-name-")
    until(lambda: not [each for each in site.get("workloads")["items"] if each["metadata"]["name"].startswith("job-w")])
    site.kubectl("patch", "job", "waiting", "-p", '{"spec": {"suspend": false}}')
    until(lambda: site.finished("waiting"))
    site.kubectl("delete", "pods,podgroups.scheduling.x-k8s.io", "--all")


@needs_the_peers
def test_definitions_of_others_are_neither_taken_over_nor_removed(site: Site) -> None:
    file = next((PEERS / "crds" / "jobset").glob("*jobsets*.yaml"))
    site.kubectl("apply", "--server-side", "-f", str(file))
    name = ("crd", "jobsets.jobset.x-k8s.io")
    before = site.get(*name)
    with pytest.raises(AssertionError, match="conflict"):
        site.kubectl(*INSTALL, text=site.manifests())
    assert site.get(*name)["spec"] == before["spec"]
    assert "labels" not in site.get(*name)["metadata"]
    assert site.get("deployment", ACCOUNT, "-n", NAMESPACE), "all else is applied"
    site.kubectl(*INSTALL, text=site.manifests("--kinds", "kueue", "--kinds", "podgroups"))

    theirs, runs = jobset("theirs", 600), jobset("runs", 600)
    theirs["spec"]["managedBy"] = "example.com/controller"
    for each in (theirs, runs):
        del each["metadata"]["labels"]
    site.create(theirs, runs)
    refused = site.remove()
    assert refused.returncode == 1
    assert refused.stderr.startswith("the engine is still needed:\n  jobset default/runs\nwait for them to end")

    site.kubectl("create", "namespace", "jobset-system")
    with renewed_lease(site, "jobset-system", "6d4f6a47.jobset.x-k8s.io", "jobset-0_uid"):
        removed = site.remove()
    assert removed.returncode == 0, removed.stderr
    assert "\nJobSets are left: JobSet's own controller runs them, as jobset-0_uid\n" in removed.stderr
    assert len(site.get("jobsets")["items"]) == 2
    assert site.get(*name)["metadata"]["uid"] == before["metadata"]["uid"]
    left = site.kubectl("get", "crds", "-o", "name")
    assert "podgroups.scheduling.volcano.sh" in left
    assert "kueue.x-k8s.io" not in left
