"""A server that root runs for all users of the machine: a test for each line of docs/threat-model-system.md."""

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import Muster
from tests.e2e.unixpeople import CAN_MAKE_USERS, WHY_NOT, Person, new_people, pod, until

from muster.cluster.nodes.disk.leftovers import find_shared

pytestmark = pytest.mark.skipif(not CAN_MAKE_USERS, reason=WHY_NOT)


@dataclass(frozen=True)
class World:
    """A system server, two of its users, and root."""

    ada: Person
    bob: Person
    root: Person
    muster: Muster
    place: Path  # everybody can pass through it

    @property
    def pods(self) -> Path:
        return find_shared(self.muster.home) / "nodes" / "node-0" / "pods"


@pytest.fixture(scope="module")
def world(shared_muster: Muster) -> Iterator[World]:
    place = Path(tempfile.mkdtemp(prefix="muster-test-", dir="/run"))
    place.chmod(0o755)
    path = place / "socket" / "muster.sock"
    try:
        with new_people(path, f"ada-{os.getpid()}", f"bob-{os.getpid()}") as (ada, bob):  # tests may run side by side
            shared_muster("up", "--detach", "--port", "0", "--socket", str(path))
            yield World(ada, bob, Person("root", path), shared_muster, place)
            shared_muster("down", "--yes")
    finally:
        shutil.rmtree(place)
        shutil.rmtree(find_shared(shared_muster.home), ignore_errors=True)


# -- who asks


def test_the_kernel_says_who_asks(world: World) -> None:
    def review(person: Person, **headers: str) -> Any:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        _, text = person.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body, **headers)
        return json.loads(text)["status"]["userInfo"]

    ada = review(world.ada)
    assert (ada["username"], ada["uid"]) == (f"unix:{world.ada.name}", str(world.ada.uid))
    assert set(ada["groups"]) == {"system:authenticated", "unix-users", f"unix-group:{world.ada.name}"}
    assert "system:masters" in review(world.root)["groups"]
    admin = (world.muster.home / "pki" / "admin.token").read_text()
    assert review(world.ada, Authorization=f"Bearer {admin}")["username"] == f"unix:{world.ada.name}"


@pytest.mark.parametrize(
    "headers", [{"Impersonate-User": "unix:root"}, {"Impersonate-User": "x", "Impersonate-Group": "system:masters"}]
)
def test_no_header_makes_another_user(world: World, headers: dict[str, str]) -> None:
    status, text = world.ada.ask("GET", f"/api/v1/namespaces/{world.ada.namespace}/pods", **headers)
    assert status == 403, text


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/v1/namespaces/{bob}/pods", None),
        ("GET", "/api/v1/namespaces/{bob}/secrets", None),
        ("GET", "/api/v1/namespaces/{bob}/pods/any/log", None),
        ("POST", "/api/v1/namespaces/{bob}/pods/any/exec?command=id", None),
        ("POST", "/api/v1/namespaces/{bob}/pods/any/attach", None),
        ("POST", "/api/v1/namespaces/{bob}/pods/any/portforward", None),
        ("POST", "/api/v1/namespaces/{bob}/pods", pod("theirs", "id")),
        ("POST", "/api/v1/namespaces/{bob}/serviceaccounts/default/token", {"spec": {}}),
        ("POST", "/apis/batch/v1/namespaces/default/jobs", {}),
        ("GET", "/api/v1/namespaces/kube-system/secrets", None),
        ("POST", "/api/v1/namespaces/kube-system/serviceaccounts/default/token", {"spec": {}}),
        ("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}}),
        ("PATCH", "/api/v1/namespaces/{ada}", {"metadata": {"annotations": {"muster.dev/unix-uid": "0"}}}),
        ("PATCH", "/api/v1/nodes/node-0", {"spec": {"unschedulable": True}}),
        ("POST", "/api/v1/persistentvolumes", {"metadata": {"name": "all"}}),
        ("PATCH", "/api/v1/namespaces/{ada}/pods/any/status", {"status": {"podIP": "127.0.0.1"}}),
        ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {}),
    ],
)
def test_a_user_reaches_only_the_own_namespace(world: World, method: str, path: str, body: Any) -> None:
    world.bob.ask("GET", "/version")  # the namespace exists
    status, text = world.ada.ask(method, path.format(ada=world.ada.namespace, bob=world.bob.namespace), body)
    assert status == 403, text


def test_a_user_gives_away_no_right_that_the_user_lacks(world: World) -> None:
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{world.ada.namespace}/rolebindings"
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "User", "name": f"unix:{world.ada.name}"}
    body = {"metadata": {"name": "up"}, "roleRef": reference, "subjects": [subject]}
    status, text = world.ada.ask("POST", path, body)
    assert status == 403, text


# -- as whom a pod runs


def test_a_pod_runs_as_its_user_without_rights(world: World) -> None:
    script = "id -u; id -g; echo $HOME $USER; grep -E '^(NoNewPrivs|CapEff):' /proc/self/status; touch ~/made"
    world.ada.run_pod("who", script)
    uid, gid = str(world.ada.uid), str(world.ada.entry.pw_gid)
    words = world.ada.output_of("who").split()
    assert words == [uid, gid, str(world.ada.home), world.ada.name, "CapEff:", "0" * 16, "NoNewPrivs:", "1"]
    assert (world.ada.home / "made").stat().st_uid == world.ada.uid


def test_a_pod_has_the_umask_that_its_annotation_names(world: World) -> None:
    world.ada.run_pod("masked", "umask; touch ~/masked")
    assert world.ada.output_of("masked").strip() == "0022"
    body = pod("private-files", "umask; touch ~/private")
    body["metadata"]["annotations"] = {"muster.dev/umask": "0077"}
    world.ada.create(f"/api/v1/namespaces/{world.ada.namespace}/pods", body)
    world.ada.wait_for_pod("private-files", "Succeeded")
    assert world.ada.output_of("private-files").strip() == "0077"
    assert (world.ada.home / "private").stat().st_mode & 0o777 == 0o600


def test_the_limits_of_a_login_hold(world: World) -> None:
    file = Path(f"/etc/security/limits.d/muster-test-{os.getpid()}.conf")
    if not file.parent.is_dir():
        pytest.skip("no pam_limits here")
    file.write_text(f"{world.ada.name} - nofile 333\n{world.bob.name} - nofile 444\n")
    try:
        world.ada.run_pod("limited", "ulimit -Sn; ulimit -Hn")
    finally:
        file.unlink()
    assert world.ada.output_of("limited").split() == ["333", "333"]


def test_a_command_inside_a_pod_runs_as_its_user(world: World) -> None:
    probe = {"exec": {"command": ["/bin/sh", "-c", "id -u > ~/probed"]}, "periodSeconds": 1}
    world.ada.run_pod("probed", "sleep 60", wait=False, container={"readinessProbe": probe})
    made = world.ada.home / "probed"
    until(lambda: made.exists() and made.read_text())
    assert made.read_text().strip() == str(world.ada.uid)
    assert made.stat().st_uid == world.ada.uid


def test_a_program_with_the_rights_of_root_gives_none(world: World) -> None:
    program = world.place / "id"
    shutil.copy("/usr/bin/id", program)
    program.chmod(0o4755)
    assert world.ada.do(lambda: os.popen(f"{program} -u").read()).strip() == "0"
    world.ada.run_pod("suid", f"{program} -u")
    assert world.ada.output_of("suid").strip() == str(world.ada.uid)


def test_a_directory_of_another_user_is_closed(world: World) -> None:
    (world.bob.home / "private").mkdir()
    ended = world.ada.run_pod("cwd", "pwd", container={"workingDir": str(world.bob.home / "private")})
    state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
    assert state["reason"] == "StartError"
    assert "ermission denied" in state["message"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"volumes": [{"name": "v", "hostPath": {"path": "/root"}}]}, "hostPath volumes are refused"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "persistentVolumeClaim"),
        ({"securityContext": {"runAsUser": 0}}, "runAsUser 0 is another user"),
        ({"securityContext": {"runAsGroup": 0}}, "runAsGroup 0 is not"),
        ({"securityContext": {"fsGroup": 0}}, "group 0 is not a group of the user"),
        ({"securityContext": {"supplementalGroups": [0]}}, "group 0 is not a group of the user"),
        ({"container": {"securityContext": {"runAsUser": 1}}}, "runAsUser 1 is another user"),
        ({"container": {"securityContext": {"privileged": True}}}, "privileged containers are refused"),
        (
            {
                "initContainers": [
                    {"name": "i", "image": "none", "command": ["id"], "securityContext": {"runAsUser": 0}}
                ]
            },
            "runAsUser 0 is another user",
        ),
    ],
    ids=["host", "claim", "user", "group", "fsgroup", "groups", "container", "privileged", "init"],
)
def test_no_field_of_a_pod_makes_another_user(
    world: World, request: pytest.FixtureRequest, spec: dict[str, Any], why: str
) -> None:
    name = f"field-{request.node.callspec.id}"
    body = pod(name, "id", nodeName="node-0", **spec)
    status, text = world.ada.ask("POST", f"/api/v1/namespaces/{world.ada.namespace}/pods", body)
    assert status == 403
    assert why in text
    job = {"metadata": {"name": name}, "spec": {"template": {"spec": body["spec"]}}}
    cron_job = {"metadata": {"name": name}, "spec": {"schedule": "@daily", "jobTemplate": {"spec": job["spec"]}}}
    for plural, manifest in (("jobs", job), ("cronjobs", cron_job)):
        status, text = world.ada.ask("POST", f"/apis/batch/v1/namespaces/{world.ada.namespace}/{plural}", manifest)
        assert status == 403
        assert f"spec.template.spec: {'volume' if 'volumes' in spec else why.split()[0]}" in text


def test_no_user_preempts_all_others(world: World) -> None:
    body = pod("first", "id", priorityClassName="system-node-critical")
    status, text = world.ada.ask("POST", f"/api/v1/namespaces/{world.ada.namespace}/pods", body)
    assert status == 403
    assert "spec: only root may use the priority class system-node-critical" in text


def test_a_user_holds_and_cancels_jobs_and_claims_nothing_else(world: World) -> None:
    ada = world.ada
    jobs, workloads = f"/apis/batch/v1/namespaces/{ada.namespace}/jobs", f"/namespaces/{ada.namespace}/workloads"
    work = {"spec": pod("", "sleep 600", terminationGracePeriodSeconds=0)["spec"]}
    ada.create(jobs, {"metadata": {"name": "long"}, "spec": {"template": work}})

    def find_workload() -> str:
        items = json.loads(ada.ask("GET", f"/apis/kueue.x-k8s.io/v1beta2{workloads}")[1])["items"]
        return next((one["metadata"]["name"] for one in items if one["metadata"]["name"].startswith("job-long-")), "")

    workload = f"/apis/kueue.x-k8s.io/v1beta2{workloads}/{until(find_workload)}"
    status = f"{jobs}/long/status"

    def is_running() -> bool:
        return bool(json.loads(ada.ask("GET", f"{jobs}/long")[1])["status"].get("ready"))

    until(is_running)
    why = "users write into the status of a job only that it was cancelled"
    time = "2999-01-01T00:00:00Z"
    conditions = [
        {"type": one, "status": "True", "lastTransitionTime": time} for one in ("SuccessCriteriaMet", "Complete")
    ]
    counts = {"active": None, "ready": None, "terminating": None, "uncountedTerminatedPods": None, "succeeded": 1}
    complete = {"conditions": conditions, "completionTime": time, **counts}
    for forged in ({"active": None, "ready": None}, complete):
        code, text = ada.ask("PATCH", status, {"status": forged})
        assert (code, why in text) == (403, True), text
    code, text = ada.ask("PATCH", workload, {"spec": {"priority": 1000000}})
    assert code == 403
    assert "users change only spec.active of a Workload" in text

    assert ada.ask("PATCH", workload, {"spec": {"active": False}})[0] == 200
    until(lambda: not is_running())
    assert ada.ask("PATCH", workload, {"spec": {"active": True}})[0] == 200
    until(is_running)
    now = json.loads(ada.ask("GET", f"{jobs}/long")[1])["status"].get("conditions") or []
    now.append({"type": "FailureTarget", "status": "True", "reason": "Cancelled", "message": "It was cancelled"})
    assert ada.ask("PATCH", status, {"status": {"conditions": now}})[0] == 200
    until(lambda: not is_running())


def test_a_namespace_of_no_unix_user_runs_nothing(world: World) -> None:
    reason = "namespace default belongs to no Unix user"
    status, text = world.root.ask("POST", "/api/v1/namespaces/default/pods", pod("none", "id"))
    assert (status, reason in text) == (403, True), text
    refused = world.muster("run", "--", "id", check=False)
    assert (refused.returncode, reason in refused.stderr) == (1, True), refused.stderr
    assert world.muster("ps").stdout == ""


def test_no_user_is_added_whose_jobs_would_be_refused(world: World) -> None:
    refused = world.muster("user", "add", "grace", check=False)
    assert refused.returncode == 1
    assert "namespace default belongs to none. Such a user needs no line: let grace type `muster run` here." in (
        refused.stderr
    )
    assert world.muster("user", "list").stdout == ""
    world.ada.ask("GET", "/version")  # makes the namespace
    line = world.muster("user", "add", "grace", "-n", world.ada.namespace).stdout
    assert "login.kubeconfig" in line
    world.muster("user", "remove", "grace")


def test_root_names_users_of_this_machine_through_a_socket_at_another_path(world: World, tmp_path: Path) -> None:
    root = Muster(tmp_path / "unused", {"MUSTER_SOCKET": str(world.root.socket)})
    root("queue", "create", "vision", "--cpus", "1", "--users", f"{world.ada.name},{world.bob.name}")
    root("queue", "delete", "vision", "--yes")


def test_no_machine_joins(world: World) -> None:
    kubeconfig = str(world.muster.home / "kubeconfig")
    refused = world.muster("nodes", "--kubeconfig", kubeconfig, "--nodes", "process", "--name", "box-b", check=False)
    assert refused.returncode == 1
    assert 'nodes "box-b" is forbidden: this server runs each pod as the user of its job' in refused.stderr
    assert world.root.ask("GET", "/api/v1/nodes/box-b")[0] == 404


def test_nothing_runs_as_root(world: World) -> None:
    marks = {"muster.dev/unix-user": "root", "muster.dev/unix-uid": "0"}
    world.root.create("/api/v1/namespaces", {"metadata": {"name": "of-root", "annotations": marks}})
    world.root.create("/api/v1/namespaces/of-root/pods", pod("superuser", "id", serviceAccountName="default"))
    message = until(lambda: world.root.look_at("superuser", "of-root")["status"].get("message", ""))
    assert "as whom this server runs nothing" in message


def test_a_notice_of_a_job_runs_as_its_user(world: World) -> None:
    marks = {"muster.dev/notify": "id -u >> ~/told; id -g >> ~/told; touch ~/told-all"}
    work = {"spec": pod("", "true")["spec"]}
    world.ada.create(
        f"/apis/batch/v1/namespaces/{world.ada.namespace}/jobs",
        {"metadata": {"name": "noted", "annotations": marks}, "spec": {"template": work}},
    )
    told = world.ada.home / "told"
    until((world.ada.home / "told-all").exists)
    assert told.read_text().split() == [str(world.ada.uid), str(world.ada.entry.pw_gid)]
    assert told.stat().st_uid == world.ada.uid


def test_a_job_opens_no_gpu_that_it_has_not(world: World) -> None:
    device = Path("/dev/nvidia77")  # the driver's files have such names; here is no driver
    device.write_text("a GPU of another user")
    device.chmod(0o666)
    try:
        assert world.ada.do(device.read_text)  # outside a job the machine decides
        script = (
            'cat /dev/nvidia77; umount /dev/nvidia77; unshare -Urm umount /dev/nvidia77; echo "[$(cat /dev/nvidia77)]"'
        )
        world.ada.run_pod("gpu", script, container={"env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "77"}]})
        assert world.ada.output_of("gpu").splitlines()[-1] == "[]"
        assert "a GPU of another user" not in world.ada.output_of("gpu")
    finally:
        device.unlink()


# -- what others see


def test_others_read_nothing_of_a_pod(world: World) -> None:
    world.ada.create(
        f"/api/v1/namespaces/{world.ada.namespace}/secrets", {"metadata": {"name": "s"}, "stringData": {"k": "hidden"}}
    )
    volumes = [{"name": "s", "secret": {"secretName": "s"}}, {"name": "e", "emptyDir": {}}]
    mounts = [{"name": "s", "mountPath": "/mnt/s"}, {"name": "e", "mountPath": "/mnt/e"}]
    script = "cat /mnt/s/k; echo hidden > /mnt/e/f; sleep 60"
    made = world.ada.run_pod("private", script, wait=False, volumes=volumes, container={"volumeMounts": mounts})
    until(lambda: "hidden" in world.ada.output_of("private"))
    uid = made["metadata"]["uid"]
    roots = [world.pods / uid, *Path("/dev/shm").glob(f"muster-*-{uid}")]
    assert len(roots) == 2
    paths = [path for root in roots for path in (root, *root.rglob("*"))]
    assert {path.name for path in paths} >= {"pod.json", "k", "f", "state"}

    def reached() -> list[str]:
        found = []
        for path in paths:
            with suppress(PermissionError):
                os.stat(path) if path not in roots else os.listdir(path)
                found.append(str(path))
        return found

    assert world.bob.do(reached) == []
    assert world.ada.do(reached) == []  # not even by a login of the same user: only the pods have the private group


def find_processes(command: bytes) -> list[int]:
    """Return the processes with this command line. Others may end meanwhile."""
    pids = []
    for entry in Path("/proc").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            if entry.name.isdigit() and (entry / "cmdline").read_bytes() == command:
                pids.append(int(entry.name))
    return pids


def test_others_read_no_process_of_a_pod(world: World) -> None:
    world.ada.run_pod("process", "exec sleep 61", wait=False)
    [pid] = find_processes(b"sleep\00061\0")

    def try_all() -> list[str]:
        done = []
        for name in ("environ", "cwd", "root", "mem", "fd"):
            with suppress(PermissionError):
                path = Path(f"/proc/{pid}/{name}")
                path.readlink() if name in ("cwd", "root") else path.read_bytes() if name != "fd" else list(
                    path.iterdir()
                )
                done.append(name)
        with suppress(PermissionError):
            os.kill(pid, signal.SIGKILL)
            done.append("kill")
        return done

    assert world.bob.do(try_all) == []


def test_others_learn_no_names_of_pods(world: World) -> None:
    world.ada.run_pod("named", "sleep 60", wait=False, hostname="hidden", subdomain="peers")
    world.ada.run_pod("friend", "cat /etc/hosts")
    world.bob.run_pod("stranger", "cat /etc/hosts")
    assert "hidden.peers" in world.ada.output_of("friend")
    names = world.bob.output_of("stranger")
    assert "stranger" in names
    assert "hidden" not in names


def test_the_state_of_a_job_belongs_to_its_user(world: World) -> None:
    path = f"/apis/batch/v1/namespaces/{world.ada.namespace}/jobs"
    template = pod("any", "echo hidden > $MUSTER_STATE/f; sleep 60")
    job = world.ada.create(path, {"metadata": {"name": "kept"}, "spec": {"template": {"spec": template["spec"]}}})
    directory = find_shared(world.muster.home) / "state" / job["metadata"]["uid"] / str(world.ada.uid)
    until((directory / "f").exists)
    assert directory.stat().st_uid == world.ada.uid
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "kept", "uid": job["metadata"]["uid"], "controller": True}
    thief = pod("thief", "cat $MUSTER_STATE/f > ~/stolen; touch ~/tried")
    thief["metadata"]["ownerReferences"] = [owner]
    world.bob.create(f"/api/v1/namespaces/{world.bob.namespace}/pods", thief)
    where = f"/api/v1/namespaces/{world.bob.namespace}/pods/thief"
    # The collector deletes a pod whose owner is in another namespace, sooner or later.
    until(lambda: (world.bob.home / "tried").exists() or world.bob.ask("GET", where)[0] == 404)
    stolen = world.bob.home / "stolen"
    assert not stolen.exists() or stolen.read_text() == ""
    with pytest.raises(AssertionError, match="PermissionError"):
        world.bob.do(lambda: list(directory.iterdir()))


# -- what a user puts in the way of root


def test_root_follows_no_link_of_a_user(world: World) -> None:
    secret = world.place / "secret"
    secret.write_text("2026-01-01T00:00:00.000000000Z stdout F hidden\n" * 20)
    secret.chmod(0o600)
    attempt = world.pods / "$U" / "containers" / "c" / "0"
    script = f"""cd {attempt} || exit 3
rm -f log.* termination-message
for number in 0 1 2; do ln -sf {secret} log.$number.0; ln {secret} log.$number.1; done
ln -s {secret} termination-message
ln -sf {secret} state; ln -sf {secret} attach; ls -l . > ~/attempt"""
    container = {
        "env": [{"name": "U", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
        "terminationMessagePath": "/tmp/message",
        "stdin": True,
    }
    ended = world.ada.run_pod("links", script, container=container)
    made = world.pods / ended["metadata"]["uid"] / "containers" / "c" / "0"
    links = {path.name for path in made.iterdir() if path.is_symlink()}
    assert links >= {"state", "attach", "log.2.0", "termination-message"}, (world.ada.home / "attempt").read_text()
    status, text = world.ada.ask("GET", f"/api/v1/namespaces/{world.ada.namespace}/pods/links/log")
    assert "hidden" not in text, status
    assert "hidden" not in json.dumps(ended)
    assert secret.stat().st_mode & 0o777 == 0o600
    assert secret.stat().st_uid == 0
    assert world.ada.ask("GET", "/version")[0] == 200


def test_a_volume_leads_nowhere_else(world: World) -> None:
    volumes = [{"name": "e", "emptyDir": {}}]
    first = {
        "name": "i",
        "image": "none",
        "command": ["ln", "-s", str(world.place), "/mnt/e/link"],
        "volumeMounts": [{"name": "e", "mountPath": "/mnt/e"}],
    }
    mounts = [{"name": "e", "mountPath": "/mnt/e"}, {"name": "e", "mountPath": "/mnt/f", "subPath": "link/made"}]
    body = pod("escape", "true", volumes=volumes, initContainers=[first], container={"volumeMounts": mounts})
    world.ada.create(f"/api/v1/namespaces/{world.ada.namespace}/pods", body)

    def look() -> bool:
        statuses = world.ada.look_at("escape")["status"].get("containerStatuses") or [{}]
        waiting = statuses[0].get("state", {}).get("waiting", {})
        return "leads out of the volume" in waiting.get("message", "")

    until(look)
    assert not (world.place / "made").exists()


def test_a_mount_point_below_a_volume_makes_nothing_on_the_machine(world: World) -> None:
    volumes = [{"name": "e", "emptyDir": {}}, {"name": "g", "emptyDir": {}}]
    first = {
        "name": "i",
        "image": "none",
        "command": ["ln", "-s", str(world.place), "/mnt/e/link"],
        "volumeMounts": [{"name": "e", "mountPath": "/mnt/e"}],
    }
    mounts = [{"name": "e", "mountPath": "/mnt/e"}, {"name": "g", "mountPath": "/mnt/e/link/made"}]
    world.ada.run_pod("below", "true", volumes=volumes, initContainers=[first], container={"volumeMounts": mounts})
    assert not (world.place / "made").exists()


# -- whose server it is


def test_pods_go_on_while_the_server_is_killed(world: World) -> None:
    world.ada.run_pod("survivor", "sleep 1; id -u; sleep 60", wait=False)
    world.muster("restart", "--yes")
    assert world.ada.wait_for_pod("survivor", "Running")["status"]["containerStatuses"][0]["restartCount"] == 0
    assert until(lambda: world.ada.output_of("survivor").strip()) == str(world.ada.uid)


def test_a_user_with_a_former_users_id_gets_nothing_of_that_users(world: World) -> None:
    with new_people(world.bob.socket, f"cleo-{os.getpid()}") as (cleo,):
        cleo.ask("GET", "/version")
        uid = cleo.uid
        path = f"/api/v1/namespaces/{cleo.namespace}"
        mark = {"metadata": {"annotations": {"muster.dev/unix-user": cleo.name, "muster.dev/unix-uid": "4000000"}}}
        status, text = world.root.ask("PATCH", path, mark)
        assert status == 200, text
        status, text = cleo.ask("GET", f"{path}/pods")
        assert status == 403
        assert f"and not to user {cleo.name} with the id {uid}" in text
