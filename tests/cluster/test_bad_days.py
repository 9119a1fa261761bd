"""What goes wrong on real clusters: whatever it was, jobs end, quota is never over, and something says what it was."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.conftest import Cluster, Probed, install_kinds, until
from tests.cluster.invariants import Auditor
from tests.documents import needs_the_peers
from tests.kubeplane import KubePlane, free_port, kube_plane, needs_kubernetes

pytestmark = [needs_kubernetes, needs_the_peers, pytest.mark.kubectl, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
MUSTER = str(Path(sys.executable).with_name("muster"))
ENGINE = "engine"  # the user that it runs as: what only administrators are spared, it is not

# A queue of 3 CPUs on machines of 4, in which the important evict the others.
SETTING = """
apiVersion: v1
kind: Namespace
metadata: {name: kueue-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: engine}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: engine}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: engine}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: engine}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: high}
value: 100
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: f}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cq}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 3}]}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: default}
spec: {clusterQueue: cq}
"""

SETTINGS = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {{healthProbeBindAddress: "127.0.0.1:{port}"}}
metrics: {{bindAddress: "0"}}
webhook: {{host: "127.0.0.1", port: {webhooks}}}
featureGates: {{VisibilityOnDemand: false}}
leaderElection: {{leaderElect: true, leaseDuration: {lease}s, renewDeadline: {limit}s, retryPeriod: 500ms}}
"""


class Replica(Probed):
    """A replica as a process, that lives for so many writes to a part of the API (0: for as long as it likes)."""

    def __init__(self, kubeconfig: Path, log: Path, writes: int, part: str, lease: int) -> None:
        self.log, self.health = log, free_port()
        settings = log.with_suffix(".yaml")
        settings.write_text(SETTINGS.format(port=self.health, webhooks=free_port(), lease=lease, limit=lease - 1))
        options = ["--kubeconfig", str(kubeconfig), "--config", str(settings), "--parts", "queueing,scheduling"]
        options += ["--log-level", "debug"]
        command = [sys.executable, "-m", "tests.cluster.doomed", str(writes), part, *options]
        with log.open("w") as file:
            self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    @property
    def leads(self) -> bool:
        return self.lives and self.said(" leads ")

    @property
    def sent(self) -> int:
        return self.log.read_text().count("to write: ")

    @property
    def writes(self) -> int:
        return self.log.read_text().count("\nwrite: ")


class World:
    """The cluster on a bad day."""

    def __init__(self, plane: KubePlane, home: Path) -> None:
        self.plane, self.cluster, self.auditor = plane, Cluster(plane), Auditor(plane)
        self.engine = home / "engine.kubeconfig"
        self._home = home
        self._count = 0
        self.replicas: list[Replica] = []

    def start(self, writes: int = 0, part: str = "", kubeconfig: Path | None = None, lease: int = 5) -> Replica:
        self._count += 1
        log = self._home / f"replica-{self._count}.log"
        self.replicas.append(Replica(kubeconfig or self.engine, log, writes, part, lease))
        return self.replicas[-1]

    def two(self) -> tuple[Replica, Replica]:
        """One that leads, and one that stands by."""
        first = self.start()
        until(lambda: first.leads, 60)
        second = self.start()
        until(lambda: second.said("probes at port"), 60)
        return first, second

    def job(self, workers: int = 2, seconds: int = 1, priority: str = "") -> str:
        """A queued gang."""
        self._count += 1
        name = f"j{self._count}"
        labels = {"kueue.x-k8s.io/priority-class": priority} if priority else {}
        lasts = {"muster.dev/run-time": f"{seconds}s"}
        self.cluster.job(name, workers, labels=labels, annotations=lasts, schedulerName="muster")
        return name

    def ended(self, name: str) -> bool:
        conditions = self.cluster.get("job", name)["status"].get("conditions", [])
        return any(one["type"] == "Complete" for one in conditions)

    def workload(self, job: str) -> Any:
        uid = self.cluster.get("job", job)["metadata"]["uid"]
        (found,) = self.cluster.get("workloads.kueue.x-k8s.io", "-l", f"kueue.x-k8s.io/job-uid={uid}")["items"]
        return found

    def all_ends_well(self) -> None:
        """Every job ends, and at no moment of it is anything wrong."""

        def over() -> bool:
            assert self.auditor.broken() == []
            return self.auditor.unfinished() == []

        try:
            until(over, 60)
        except AssertionError:
            logs = "\n".join(f"--- {one.log}\n{one.log.read_text()[-3000:]}" for one in self.replicas)
            raise AssertionError(f"{self.auditor.broken()} {self.auditor.unfinished()}\n{logs}") from None

    def end_of_day(self) -> None:
        for replica in self.replicas:
            replica.process.kill()
            replica.process.wait()
        self.replicas.clear()
        self.cluster.kubectl("delete", "jobs", "--all", "--cascade=foreground", "--timeout=60s")
        self.cluster.kubectl("delete", "lease", "-n", "kueue-system", "--all")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with kube_plane(tmp_path_factory.mktemp("plane"), "kube-controller-manager") as plane:
        world = World(plane, plane.home)
        install_kinds(world.cluster, "kueue")
        world.cluster.kubectl("apply", "-f", "-", text=SETTING)
        world.engine.write_text(impersonating(plane))
        options = ["--kubeconfig", str(plane.kubeconfig), "--nodes", "simulated:2,cpu=2"]
        nodes = subprocess.Popen([MUSTER, "nodes", *options], stdout=subprocess.PIPE, text=True)
        try:
            assert nodes.stdout is not None
            assert nodes.stdout.readline() == "2 nodes registered\n"
            yield world
        finally:
            nodes.kill()
            nodes.wait()
            nodes.stdout.close()


def impersonating(plane: KubePlane) -> str:
    """The kubeconfig of the engine's user, as whom the administrator speaks."""
    return plane.kubeconfig.read_text().replace(f"token: {plane.token}", f"token: {plane.token}, as: {ENGINE}")


@pytest.fixture
def world(site: World) -> Iterator[World]:
    yield site
    site.end_of_day()


# What an admission, an eviction and a binding write: quota; the suspension of Jobs; and where pods are.
@pytest.mark.parametrize("part", ["/workloads", "/status", "/jobs/", "/binding"])
def test_leaders_are_killed_between_any_two_writes(world: World, part: str) -> None:
    doomed = [world.start(writes, part) for writes in random.Random(part).sample(range(1, 6), 3)]
    end = time.monotonic() + 60
    while any(each.lives for each in doomed):
        assert time.monotonic() < end, "they did not get to so many writes"
        if len(world.auditor.unfinished()) < 8:
            world.job(3, seconds=2)
            world.job(2, priority="high")
        assert world.auditor.broken() == []
        time.sleep(0.3)
    world.start()
    world.all_ends_well()


def test_a_leader_that_stood_still_for_longer_than_the_lease_writes_nothing_more(world: World) -> None:
    first, second = world.two()
    waiting = [world.job(3, seconds=1), world.job(2, seconds=1)]
    until(lambda: first.writes > 2)
    first.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, first.process.pid, os.WSTOPPED)
    before = first.sent  # what is under way may still be answered
    until(lambda: second.leads)
    waiting.append(world.job(2))
    first.process.send_signal(signal.SIGCONT)
    assert first.process.wait(20) == 1
    assert first.said("could not renew lease kueue-system/c1f6bfd2.kueue.x-k8s.io in time")
    assert first.sent == before
    world.all_ends_well()
    assert all(world.ended(name) for name in waiting)


def test_replicas_that_hear_nothing_of_the_server_go_on_once_it_answers(world: World) -> None:
    first, second = world.two()
    server = world.plane.programs["kube-apiserver"].process
    world.job(3, seconds=1)
    server.send_signal(signal.SIGSTOP)
    try:
        assert first.process.wait(20) == 1, "who does not know whether it leads goes"
        until(lambda: second.said("lease kueue-system/c1f6bfd2.kueue.x-k8s.io: no answer within"), 20)
    finally:
        server.send_signal(signal.SIGCONT)
    until(lambda: second.leads, 30)
    world.start()
    world.all_ends_well()


def test_the_server_begins_anew_and_has_forgotten_what_was(world: World) -> None:
    """It is killed; the store is compacted meanwhile, so that every watch has to begin with a list."""
    leader = world.start(lease=60)
    until(lambda: leader.leads and leader.readiness() == "ok", 60)
    world.job(3, seconds=1)
    server = world.plane.programs["kube-apiserver"]
    before = len(leader.log.read_text())
    server.kill()
    stored(world.plane, "put", {"key": "YQ==", "value": "Yg=="})
    revision = stored(world.plane, "range", {"key": "YQ=="})["header"]["revision"]
    stored(world.plane, "compaction", {"revision": revision, "physical": True})
    server.start()
    world.plane.wait_until_ready()
    world.job(2)
    world.all_ends_well()
    assert leader.leads
    # A server that does not know its roles yet refuses the watch before it looks at its version: it lists then, too.
    since = leader.log.read_text()[before:]
    assert "version too old, listing again" in since or "cannot watch resource" in since


def test_a_server_that_is_too_busy_is_not_hurried(world: World) -> None:
    server = world.plane.programs["kube-apiserver"]
    server.kill()
    server.start(
        "--enable-priority-and-fairness=false", "--max-requests-inflight=1", "--max-mutating-requests-inflight=1"
    )
    world.plane.wait_until_ready()
    try:
        world.two()
        for _ in range(6):
            world.job(2)
        world.all_ends_well()
        refused = world.cluster.kubectl("get", "--raw", "/metrics").count('apiserver_request_total{code="429"')
        assert refused > 0
    finally:
        server.kill()
        server.start()
        world.plane.wait_until_ready()


def test_rights_that_are_taken_away_are_named_and_used_once_they_are_back(world: World) -> None:
    first, second = world.two()
    name = world.job(2)
    until(lambda: world.ended(name))
    everything = world.cluster.get("clusterrole", "engine")["rules"]
    allowed(world, [rule | {"apiGroups": but(world, "batch")} for rule in everything])
    try:
        name = world.job(2)
        late = world.start()
        second.process.kill()
        until(lambda: first.said('cannot get resource "jobs" in API group "batch" in the namespace "default"'), 40)
        first.process.kill()
        until(lambda: late.leads, 30)
        lacks = 'cannot list resource "jobs" in API group "batch" at the cluster scope'
        until(lambda: lacks in late.readiness(), 30)
        assert not world.ended(name)
    finally:
        allowed(world, everything)
    world.all_ends_well()
    assert late.readiness() == "ok"


def test_who_may_not_have_the_lease_says_so_and_goes(world: World) -> None:
    first, _ = world.two()
    everything = world.cluster.get("clusterrole", "engine")["rules"]
    allowed(world, [rule | {"apiGroups": but(world, "coordination.k8s.io")} for rule in everything])
    try:
        assert first.process.wait(20) == 1
        assert first.said(
            'cannot get resource "leases" in API group "coordination.k8s.io" in the namespace "kueue-system"'
        )
    finally:
        allowed(world, everything)
    world.job(2)
    world.all_ends_well()


def test_a_token_that_is_replaced_on_disk_is_used_from_then_on(world: World) -> None:
    """As the kubelet does it every hour; the old one is good for nothing, as who has no other one says."""
    kubectl = world.cluster.kubectl
    kubectl("create", "serviceaccount", "engine", "-n", "kueue-system")
    kubectl(
        "create", "clusterrolebinding", "by-account", "--clusterrole=engine", "--serviceaccount=kueue-system:engine"
    )
    file = world.plane.home / "rotated-token"

    def issue(life: str) -> None:
        kubectl("create", "secret", "generic", life, "-n", "kueue-system")
        bound = ["--bound-object-kind=Secret", f"--bound-object-name={life}", "-n", "kueue-system"]
        file.write_text(kubectl("create", "token", "engine", *bound))

    issue("first")
    kubeconfig = world.plane.home / "rotated.kubeconfig"
    kubeconfig.write_text(
        world.plane.kubeconfig.read_text().replace(f"token: {world.plane.token}", f"tokenFile: {file}")
    )
    leader = world.start(kubeconfig=kubeconfig)
    until(lambda: leader.leads, 60)
    fixed = world.plane.home / "fixed.kubeconfig"
    fixed.write_text(world.plane.kubeconfig.read_text().replace(world.plane.token, file.read_text()))
    other = world.start(kubeconfig=fixed)
    until(lambda: other.said("probes at port"), 60)
    name = world.job(2)
    until(lambda: world.ended(name), 60)
    kubectl("delete", "secret", "first", "-n", "kueue-system")
    issue("second")
    time.sleep(12)  # for so long the server remembers that a token was good
    name = world.job(2)
    until(lambda: world.ended(name), 60)
    assert leader.leads
    until(lambda: other.said("lease kueue-system/c1f6bfd2.kueue.x-k8s.io: Unauthorized"), 20)
    world.all_ends_well()


def test_what_a_newer_version_has_written_is_kept(world: World) -> None:
    """And does not keep this one from its work: fields, conditions and values that it does not know."""
    defined(world, {"op": "add", "value": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}})
    try:
        world.two()
        name = world.job(3, seconds=6)
        until(lambda: world.cluster.pods(name) == 3)
        found = world.workload(name)["metadata"]["name"]
        tomorrow = {"tomorrow": {"is": ["another", "day"]}}
        condition = {"type": "FromTomorrow", "status": "True", "reason": "R", "message": "m",
                     "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
        status = {**tomorrow, "conditions": [*world.workload(name)["status"]["conditions"], condition]}
        for body, more in (
            (json.dumps({"spec": tomorrow}), ()),
            (json.dumps({"status": status}), ("--subresource=status",)),
        ):
            world.cluster.kubectl("patch", "workloads.kueue.x-k8s.io", found, "--type=merge", "-p", body, *more)
        world.job(2, priority="high")  # evicts it
        until(lambda: "Evicted" in conditions_of(world.workload(name)))
        world.all_ends_well()
        after = world.workload(name)
        assert (after["spec"]["tomorrow"], after["status"]["tomorrow"]) == (tomorrow["tomorrow"],) * 2
        assert {"FromTomorrow", "Finished"} <= conditions_of(after)
    finally:
        defined(world, {"op": "remove"})


def conditions_of(workload: Any) -> set[str]:
    return {one["type"] for one in workload["status"]["conditions"]}


def defined(world: World, step: Any) -> None:
    """Take the step with a field of Workloads that only tomorrow's version has."""
    crd = "workloads.kueue.x-k8s.io"
    versions = range(len(world.cluster.get("crd", crd)["spec"]["versions"]))
    places = [
        f"/spec/versions/{number}/schema/openAPIV3Schema/properties/{part}/properties/tomorrow"
        for number in versions
        for part in ("spec", "status")
    ]
    steps = json.dumps([step | {"path": path} for path in places])
    world.cluster.kubectl("patch", "crd", crd, "--type=json", "-p", steps)


def allowed(world: World, rules: Any) -> None:
    """What the engine may do, from now on."""
    world.cluster.kubectl("patch", "clusterrole", "engine", "--type=merge", "-p", json.dumps({"rules": rules}))


def but(world: World, group: str) -> list[str]:
    """All API groups but one."""
    groups = {version.rpartition("/")[0] for version in world.cluster.kubectl("api-versions").split()}
    return sorted(groups - {group})


def stored(plane: KubePlane, verb: str, body: Any) -> Any:
    """What the store answers over its JSON gateway."""
    asked = urllib.request.Request(f"{plane.etcd}/v3/kv/{verb}", json.dumps(body).encode())
    with urllib.request.urlopen(asked, timeout=10) as answer:
        return json.loads(answer.read())
