"""A process node under a real API server, in this process: pods in, statuses, events, logs and processes out."""

import asyncio
import base64
import contextlib
import errno
import json
import os
import shutil
import signal
import sys
import textwrap
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.system.nodes import node_world
from tests.system.nodes.node_world import DICT, LIMIT, condition, main, shell

from muster.api.core import CONFIG_MAP, EVENT, NODE, POD
from muster.api.jobset.names import GROUP_SCHEDULING_INIT
from muster.api.ours.usage import USAGE_ANNOTATION, usage_of
from muster.api.status import ApiError
from muster.cluster.nodes.disk import leftovers
from muster.cluster.nodes.disk.states import States
from muster.cluster.nodes.disk.storage import PodStorage, seed_of
from muster.cluster.nodes.machine import cgroups, machine
from muster.cluster.nodes.machine.isolation import Isolation
from muster.cluster.store import MemoryJournal, StorageFull
from muster.jobs.interruption import interruption_of
from muster.runtime.transport import Request


@pytest.fixture
def play(tmp_path):
    """Runs a coroutine function with a world; whatever a test leaves behind is ended."""
    return partial(node_world.play, tmp_path)


@pytest.fixture(scope="session")
def namespaces(tmp_path_factory):
    """Whether this machine isolates containers at all."""
    from muster.cluster.nodes.machine import isolation

    if not asyncio.run(isolation.probe(tmp_path_factory.mktemp("probe"))).is_complete:
        pytest.skip("this machine does not allow namespaces")


def test_the_life_of_a_pod(play):
    async def story(world):
        await world.create(**shell("echo hello; exit 3"))
        pod = await world.phase("Failed")
        ended = main(pod).state.terminated
        assert (ended.exit_code, ended.reason, main(pod).ready) == (3, "Error", False)
        assert ended.started_at <= ended.finished_at
        assert main(pod).container_id == ended.container_id
        assert pod.status.pod_ip.startswith("127.")
        assert (pod.status.host_ip, pod.status.qos_class) == ("127.0.0.1", "BestEffort")
        assert {c.type: c.status for c in pod.status.conditions} == {
            "PodScheduled": "True", "Initialized": "True", "Ready": "False", "ContainersReady": "False",
            "PodReadyToStartContainers": "False",
        }  # fmt: skip
        assert await world.log() == "hello\n"
        assert await world.event("Started") == ("Normal", "Started container main")
        await world.client.delete(POD, "p", "default")
        await world.gone()
        async with asyncio.timeout(LIMIT):
            while world.directories():
                await asyncio.sleep(0.02)

    play(story)


def test_what_a_pod_has_used_is_said_at_its_end(play):
    busy = "x = bytearray(200 << 20)\nwhile __import__('time').process_time() < 0.3: pass"

    async def story(world):
        await world.create(command=[sys.executable, "-c", busy])
        pod = await world.phase("Succeeded")
        used = usage_of(pod.metadata.annotations[USAGE_ANNOTATION])
        assert used.cpu_seconds >= 0.3
        assert 200 << 20 <= used.memory_bytes < 1 << 30

    play(story)


def test_the_node_registers_itself_and_beats(play):
    async def story(world):
        node = await world.client.get(NODE, "node-0")
        assert node.status.allocatable["cpu"] == "7"
        assert node.metadata.labels["muster.dev/node-kind"] == "process"
        assert {c.type: c.status for c in node.status.conditions} == {
            "Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False",
        }  # fmt: skip
        from muster.api.groups.coordination import LEASE

        async with asyncio.timeout(LIMIT):
            while True:
                with contextlib.suppress(ApiError):
                    lease = await world.client.get(LEASE, "node-0", "kube-node-lease")
                    break
                await asyncio.sleep(0.02)
        assert lease.spec.holder_identity == "node-0"
        await world.stop_node()
        stopped = await world.client.get(NODE, "node-0")
        assert [c.message for c in stopped.status.conditions if c.type == "Ready"] == ["node is shutting down"]
        await world.start_node(resources={"cpu": "5"})
        again = await world.client.get(NODE, "node-0")
        assert again.metadata.uid == node.metadata.uid
        assert again.status.allocatable["cpu"] == "5"
        assert [c.status for c in again.status.conditions if c.type == "Ready"] == ["True"]

    play(story, resources={"cpu": "7"})


@pytest.mark.parametrize(
    ("container", "reason", "message"),
    [
        ({"command": []}, "CreateContainerError", "process nodes have no images: give the container a command"),
        (
            {"env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k"}}}]},
            "CreateContainerConfigError",
            'configmap "none" not found',
        ),
        (
            {"securityContext": {"runAsUser": 0, "runAsNonRoot": True}},
            "CreateContainerConfigError",
            "container has runAsNonRoot and would run as root: set runAsUser, or run the node as a user",
        ),
    ],
)
def test_a_container_that_cannot_be_created_waits_with_a_reason(play, container, reason, message):
    async def story(world):
        await world.create(**container)
        pod = await world.until(lambda pod: pod.status.container_statuses and main(pod).state.waiting.message)
        assert (main(pod).state.waiting.reason, main(pod).state.waiting.message) == (reason, message)
        assert pod.status.phase == "Pending"
        assert await world.event("Failed") == ("Warning", f"Error: {message}")

    play(story)


def test_a_missing_program_is_a_start_error(play):
    async def story(world):
        await world.create(command=["no-such-program"])
        pod = await world.phase("Failed")
        ended = main(pod).state.terminated
        message = 'exec: "no-such-program": executable file not found in $PATH'
        assert (ended.exit_code, ended.reason, ended.message) == (128, "StartError", message)
        assert await world.event("Failed") == ("Warning", f"Error: {message}")

    play(story)


def test_init_containers_sidecars_and_main_containers(play, tmp_path):
    order = tmp_path / "order"

    def step(name, then="true"):
        return {"name": name, "image": "none", **shell(f"echo {name} >> {order}; {then}")}

    async def story(world):
        inits = [
            step("one"),
            {
                **step("side", "trap 'exit 0' TERM; while :; do sleep 0.02; done"),
                "restartPolicy": "Always",
                "startupProbe": {"exec": {"command": ["grep", "-q", "side", str(order)]}, "periodSeconds": 1},
            },
            step("two"),
        ]
        await world.create(initContainers=inits, containers=[step("main"), step("other", "sleep 0.1")])
        pod = await world.phase("Succeeded")
        assert order.read_text().split()[:3] == ["one", "side", "two"]
        assert sorted(order.read_text().split()[3:]) == ["main", "other"]
        assert [s.state.terminated.exit_code for s in pod.status.init_container_statuses] == [0, 0, 0]

    play(story)


def test_restarts_with_back_off(play):
    async def story(world):
        await world.create(restartPolicy="Always", **shell("echo attempt; exit 1"))
        pod = await world.until(
            lambda pod: (
                pod.status.container_statuses
                and main(pod).state.waiting is not None
                and main(pod).state.waiting.reason == "CrashLoopBackOff"
            )
        )
        assert main(pod).restart_count == 1
        assert main(pod).last_state.terminated.exit_code == 1
        assert pod.status.phase == "Running"
        type, message = await world.event("BackOff")
        assert (type, message.startswith("Back-off restarting failed container main in pod p_default")) == (
            "Warning",
            True,
        )
        assert await world.log(previous="true") == "attempt\n"

    play(story)


def test_environment_and_volumes_come_from_objects(play, namespaces):
    async def story(world):
        await world.client.create(DICT["ConfigMap"], {"metadata": {"name": "c"}, "data": {"k": "from-map"}}, "default")
        secret = {"metadata": {"name": "s"}, "data": {"k": base64.b64encode(b"from-secret").decode()}}
        await world.client.create(DICT["Secret"], secret, "default")
        env = [
            {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ]
        volumes = [
            {"name": "c", "configMap": {"name": "c"}},
            {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
            {"name": "e", "emptyDir": {"medium": "Memory"}},
            {"name": "d", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        ]
        mounts = [
            {"name": "c", "mountPath": "/no-such/config"},
            {"name": "c", "mountPath": "/etc/one-key", "subPath": "k"},
            {"name": "s", "mountPath": "/no-such/secret", "readOnly": True},
            {"name": "e", "mountPath": "/scratch"},
            {"name": "d", "mountPath": "/info"},
        ]
        script = """
            echo $MAP $SECRET $IP; cat /no-such/config/k /etc/one-key /no-such/secret/k /info/name; echo
            echo x > /scratch/file && ls /scratch; echo y 2>/dev/null > /no-such/config/k || echo read-only
            stat -L -c %a /no-such/secret/k
        """
        await world.create(volumes=volumes, volumeMounts=mounts, env=env, **shell(script))
        pod = await world.phase("Succeeded")
        assert await world.log() == (
            f"from-map from-secret {pod.status.pod_ip}\nfrom-mapfrom-mapfrom-secretp\nfile\nread-only\n400\n"
        )

    play(story)


def test_volumes_follow_their_objects(play, namespaces):
    async def story(world):
        await world.client.create(DICT["ConfigMap"], {"metadata": {"name": "c"}, "data": {"k": "old"}}, "default")
        volumes = [
            {"name": "c", "configMap": {"name": "c"}},
            {"name": "d", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        ]
        mounts = [{"name": "c", "mountPath": "/config"}, {"name": "d", "mountPath": "/info"}]
        script = """
            echo ready; while ! grep -q new /config/k; do sleep 0.02; done; echo new
            while ! grep -q colour /info/l; do sleep 0.02; done; cat /info/l
        """
        await world.create(volumes=volumes, volumeMounts=mounts, **shell(script))
        await world.ready()
        await world.client.patch(CONFIG_MAP, "c", {"data": {"k": "new"}}, "default")
        await world.client.patch(POD, "p", {"metadata": {"labels": {"colour": "blue"}}}, "default")
        await world.phase("Succeeded")
        assert await world.log() == 'ready\nnew\ncolour="blue"'

    play(story)


def test_the_world_of_an_elastic_job_changes_in_place(play, namespaces):
    async def story(world):
        facts = {"size": "metadata.annotations['muster.dev/world']", "all": "metadata.annotations"}
        items = [{"path": name, "fieldRef": {"fieldPath": path}} for name, path in facts.items()]
        volumes = [{"name": "w", "downwardAPI": {"items": items}}]
        # Both files come from one version, also where they are read one after the other.
        script = """
            import os, time
            def look():
                inside = os.open("/etc/muster/..data", os.O_PATH)
                texts = [open(name, opener=lambda path, flags: os.open(path, flags, dir_fd=inside)).read()
                         for name in ("size", "all")]
                os.close(inside)
                assert texts[1] == f'muster.dev/world="{texts[0]}"', texts
                return texts[0]
            seen = []
            while not seen or seen[-1] != "4":
                try:
                    if (now := look()) not in seen[-1:]:
                        seen.append(now)
                        print(now, flush=True)
                except FileNotFoundError:
                    pass  # that version has gone
                time.sleep(0.005)
        """
        annotated = {"annotations": {"muster.dev/world": "1"}}
        mounts = [{"name": "w", "mountPath": "/etc/muster"}]
        command = [sys.executable, "-c", textwrap.dedent(script)]
        await world.create(meta=annotated, volumes=volumes, volumeMounts=mounts, command=command)
        await world.ready()
        await world.says("1\n")
        await world.annotate("muster.dev/world", "2")
        await world.says("1\n2\n")
        await world.stop_node(leave=True)
        await world.annotate("muster.dev/world", "3")
        await world.start_node()
        await world.says("1\n2\n3\n")
        await world.annotate("muster.dev/world", "4")
        await world.phase("Succeeded")

    play(story)


def test_a_pod_waits_for_an_object_that_its_volume_shows(play, namespaces):
    async def story(world):
        volumes = [{"name": "c", "configMap": {"name": "late"}}]
        mounts = [{"name": "c", "mountPath": "/config"}]
        await world.create(volumes=volumes, volumeMounts=mounts, command=["cat", "/config/k"])
        message = 'MountVolume.SetUp failed for volume "c" : configmap "late" not found'
        assert await world.event("FailedMount") == ("Warning", message)
        pod = await world.get()
        assert pod.status.phase == "Pending"
        assert main(pod).state.waiting.reason == "ContainerCreating"
        await world.client.create(DICT["ConfigMap"], {"metadata": {"name": "late"}, "data": {"k": "here"}}, "default")
        await world.phase("Succeeded")
        assert await world.log() == "here"

    play(story)


def test_a_deleted_pod_is_asked_first(play):
    async def story(world):
        script = "trap 'echo asked; sleep 0.2; exit 0' TERM; echo up; while :; do sleep 0.02; done"
        await world.create(**shell(script))
        await world.ready()
        following = asyncio.create_task(world.log(follow="true"))
        await asyncio.sleep(0.2)
        await world.client.delete(POD, "p", "default")
        assert (await following).split() == ["up", "asked"]
        await world.gone()
        assert await world.event("Killing") == ("Normal", "Stopping container main")

    play(story)


def test_a_deleted_pod_that_does_not_listen_is_killed(play):
    async def story(world):
        await world.create(terminationGracePeriodSeconds=1, **shell("trap '' TERM; while :; do sleep 0.02; done"))
        await world.ready()
        await world.client.delete(POD, "p", "default")
        await world.gone()

    play(story)


def test_a_pod_that_is_taken_away_is_killed_at_once(play):
    async def story(world):
        await world.create(command=["sleep", "1000"])
        await world.ready()
        await world.client.delete(POD, "p", "default", grace_period_seconds=0)
        async with asyncio.timeout(LIMIT):
            while world.directories():
                await asyncio.sleep(0.02)

    play(story)


def test_the_deadline(play):
    async def story(world):
        await world.create(activeDeadlineSeconds=1, command=["sleep", "1000"])
        pod = await world.phase("Failed")
        assert pod.status.reason == "DeadlineExceeded"
        assert main(pod).state.terminated.exit_code == 143

    play(story)


HTTP = """
import http.server, socketserver, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/well" else 500); self.end_headers()
    def log_message(self, *args): pass
socketserver.TCPServer.allow_reuse_address = True
socketserver.TCPServer((sys.argv[1], 8123), Handler).serve_forever()
"""


def test_probes_of_all_kinds(play):
    async def story(world):
        env = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
        quick = {"periodSeconds": 1, "failureThreshold": 1}
        await world.create(
            command=[sys.executable, "-c", HTTP, "$(IP)"],
            env=env,
            ports=[{"name": "web", "containerPort": 8123}],
            startupProbe={"tcpSocket": {"port": 8123}, "periodSeconds": 1, "failureThreshold": 30},
            readinessProbe={"httpGet": {"path": "/well", "port": "web"}, **quick},
            livenessProbe={"exec": {"command": ["sh", "-c", "exit 0"]}, **quick},
        )
        pod = await world.ready()
        assert (main(pod).started, main(pod).restart_count) == (True, 0)

    play(story)


def test_a_pod_that_is_not_well_is_not_ready(play, tmp_path):
    async def story(world):
        well = tmp_path / "well"
        probe = {"exec": {"command": ["sh", "-c", f"test -e {well} || {{ echo sick; exit 1; }}"]}, "periodSeconds": 1}
        await world.create(command=["sleep", "1000"], readinessProbe=probe)
        assert await world.event("Unhealthy") == ("Warning", "Readiness probe failed: sick")
        assert condition(await world.get(), "Ready") == "False"
        well.touch()
        await world.ready()

    play(story)


def test_a_failed_liveness_probe_starts_the_container_again(play, tmp_path):
    async def story(world):
        sick = tmp_path / "sick"
        probe = {"exec": {"command": ["sh", "-c", f"! test -e {sick}"]}, "periodSeconds": 1, "failureThreshold": 1}
        script = f"rm -f {sick}; echo up; sleep 1000"
        await world.create(restartPolicy="OnFailure", livenessProbe=probe, **shell(script))
        await world.ready()
        await world.says("up\n")
        sick.touch()
        pod = await world.until(lambda pod: main(pod).restart_count == 1 and main(pod).ready)
        assert main(pod).last_state.terminated.exit_code == 143
        assert await world.event("Killing") == ("Normal", "Container main failed liveness probe, will be restarted")

    play(story)


def test_hooks(play, tmp_path):
    async def story(world):
        notes = tmp_path / "notes"
        hook = {"exec": {"command": ["sh", "-c", f"echo $0 >> {notes}"]}}
        lifecycle = {name: {"exec": {"command": [*hook["exec"]["command"], name]}} for name in ("postStart", "preStop")}
        await world.create(
            lifecycle=lifecycle, **shell(f"trap 'echo TERM >> {notes}; exit 0' TERM; while :; do sleep 0.02; done")
        )
        await world.ready()
        assert notes.read_text() == "postStart\n"
        await world.client.delete(POD, "p", "default")
        await world.gone()
        assert notes.read_text().split() == ["postStart", "preStop", "TERM"]

    play(story)


def test_a_failed_post_start_hook_ends_the_container(play):
    async def story(world):
        lifecycle = {"postStart": {"exec": {"command": ["sh", "-c", "echo no; exit 1"]}}}
        await world.create(lifecycle=lifecycle, command=["sleep", "1000"])
        await world.phase("Failed")
        assert await world.event("FailedPostStartHook") == ("Warning", "PostStartHook failed: no")

    play(story)


def test_peers_find_each_other_by_name(play, namespaces):
    """Even the first pod finds all of them, though the others are bound later."""
    names = ("j-0", "j-1", "j-1.s", "j-0.s.default.svc")
    script = "hostname; " + "; ".join(f"getent hosts {name} || echo missing" for name in names)

    async def story(world):
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": True}
        for number in range(2):
            meta = {"ownerReferences": [owner]}
            await world.create(
                f"p{number}", meta=meta, hostname=f"j-{number}", subdomain="s", nodeName="", **shell(script)
            )
        for number in range(2):
            target = {"kind": "Node", "name": "node-0"}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": f"p{number}"}, "target": target}
            await world.client.post(POD, f"p{number}", "default", "binding", binding)
            await world.phase("Succeeded", f"p{number}")
        first, second = [(await world.get(f"p{number}")).status.pod_ip for number in range(2)]
        name, *found = (await world.log("p0")).splitlines()
        assert name == "j-0"
        assert [line.split()[0] for line in found] == [first, second, second, first]
        # By now the first has ended, and its names with it.
        name, *found = (await world.log("p1")).splitlines()
        assert name == "j-1"
        assert [line.split()[0] for line in found] == ["missing", second, second, "missing"]

    play(story)


def test_a_peer_that_comes_later_is_found_by_those_who_run(play, namespaces):
    async def story(world):
        meta = {
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}]
        }
        script = "while ! getent hosts j-1; do sleep 0.02; done; echo found"
        await world.create("p0", meta=meta, hostname="j-0", **shell(script))
        await world.ready("p0")
        await world.create("p1", meta=meta, hostname="j-1", command=["sleep", "1000"])
        await world.phase("Succeeded", "p0")
        address = (await world.get("p1")).status.pod_ip
        assert [line.split() for line in (await world.log("p0")).splitlines()] == [[address, "j-1"], ["found"]]

    play(story)


@pytest.mark.parametrize("uid", ["../../elsewhere", "..", "x" * 300])
def test_a_pod_whose_job_cannot_have_a_directory_is_not_started_and_holds_up_no_other(play, tmp_path, uid):
    """Users may say of a pod that it is of any job."""

    async def story(world):
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid, "controller": True}
        await world.create("odd", meta={"ownerReferences": [owner]})
        _, said = await world.event("FailedCreatePodSandBox")
        assert said.startswith("Failed to create pod sandbox: ")
        await world.create("p")
        await world.phase("Succeeded")
        assert (await world.get("odd")).status.phase == "Pending"

    play(story, states=States(tmp_path / "states"))


def test_on_a_full_disk_a_pod_waits_says_why_and_starts_once_there_is_room(play, monkeypatch):
    def full(self, record):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.root / "pod.json.new"))

    async def story(world):
        with monkeypatch.context() as disk:
            disk.setattr(PodStorage, "write", full)
            await world.create("p", command=["true"])
            _, said = await world.event("FailedCreatePodSandBox")
            assert "No space left on device" in said
            assert said.endswith("pod.json.new"), "what the node could not write"
            waiting = (await world.get("p")).status.container_statuses[0].state.waiting
            assert (waiting.reason, waiting.message) == ("ContainerCreating", said)
        await world.phase("Succeeded", "p")

    play(story)


def test_pods_that_do_not_fit_are_refused(play):
    async def story(world):
        await world.create(resources={"requests": {"cpu": "3"}})
        pod = await world.phase("Failed")
        assert pod.status.reason == "OutOfcpu"
        assert pod.status.message.endswith("requested: 3000, used: 0, capacity: 2000")

    play(story, resources={"cpu": "2"})


def test_gpus_are_exclusive(play):
    async def story(world):
        for name in ("a", "b"):
            limits = {"limits": {"nvidia.com/gpu": "1"}}
            await world.create(name, resources=limits, **shell("echo gpu $CUDA_VISIBLE_DEVICES; sleep 1000"))
            pod = await world.ready(name)
            [status] = main(pod).allocated_resources_status
            assert (status.name, [one.health for one in status.resources]) == ("nvidia.com/gpu", ["Healthy"])
        await world.create("c", **shell("echo gpu [$CUDA_VISIBLE_DEVICES]"))
        await world.phase("Succeeded", "c")
        assert [await world.log(name) for name in "abc"] == ["gpu 0\n", "gpu 1\n", "gpu []\n"]
        await world.stop_node(leave=True)
        await world.start_node(played_gpus=2)
        assert world.node._kit.gpus.free() == []

    play(story, played_gpus=2)


def test_a_program_that_cannot_be_started_leaves_its_gpus_to_others(play):
    """The start of a container that was made ready fails at once: in the very look that began it."""

    async def story(world):
        barrier = {"name": GROUP_SCHEDULING_INIT, "image": "none", "command": ["sleep", "0.2"]}
        limits, pod = {"limits": {"nvidia.com/gpu": "1"}}, {"initContainers": [barrier]}
        for name in ("a", "b"):
            await world.create(name, resources=limits, pod=pod, command=["/no/such/program"])
            found = await world.phase("Failed", name)
            assert found.status.container_statuses[0].state.terminated.reason == "StartError"
        assert world.node._kit.gpus.free() == ["0"]

    play(story, played_gpus=1)


def test_a_new_server_goes_on_with_what_runs(play, tmp_path):
    async def story(world):
        runs, go = tmp_path / "runs", tmp_path / "go"
        await world.create(
            **shell(f"echo run >> {runs}; echo one; while [ ! -e {go} ]; do sleep 0.02; done; echo two; exit 7")
        )
        before = await world.ready()
        await world.stop_node(leave=True)
        await world.start_node()
        again = await world.ready()
        assert again.status.pod_ip == before.status.pod_ip
        assert main(again).container_id == main(before).container_id
        assert main(again).restart_count == 0
        go.touch()
        pod = await world.phase("Failed")
        assert main(pod).state.terminated.exit_code == 7
        assert await world.log() == "one\ntwo\n"
        assert runs.read_text() == "run\n"

    play(story)


def test_what_ended_while_no_server_was_there_is_known(play, tmp_path):
    async def story(world):
        go = tmp_path / "go"
        await world.create(**shell(f"while [ ! -e {go} ]; do sleep 0.02; done; exit 9"))
        await world.ready()
        await world.stop_node(leave=True)
        go.touch()
        await asyncio.sleep(0.3)
        assert (await world.get()).status.phase == "Running"
        await world.start_node()
        pod = await world.phase("Failed")
        assert (main(pod).state.terminated.exit_code, condition(pod, "DisruptionTarget")) == (9, None)

    play(story)


def killer_of(world):
    """What kills the shim of the only container after its node has stopped, which would say that it was killed."""
    pidfd = os.dup(next(iter(world.node._runners.values()))._shims["main"].pidfd)

    def kill():
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)

    return kill


def test_a_container_whose_shim_was_killed_has_failed(play):
    async def story(world):
        await world.create(command=["sleep", "1000"])
        await world.ready()
        next(iter(world.node._runners.values()))._shims["main"].destroy()
        pod = await world.phase("Failed")
        ended = main(pod).state.terminated
        assert (ended.exit_code, ended.reason) == (137, "ContainerStatusUnknown")
        assert condition(pod, "DisruptionTarget") is None, "its node was there"

    play(story)


def test_pods_of_a_machine_that_was_started_anew_are_interrupted(play, monkeypatch):
    async def story(world):
        await world.create(command=["sleep", "1000"])
        await world.ready()
        before = await world.client.get(NODE, "node-0")
        kill = killer_of(world)
        await world.stop_node(leave=True)
        kill()  # with the power, before it can write
        as_it_is = machine.discover
        monkeypatch.setattr(machine, "discover", lambda *about: replace(as_it_is(*about), boot_id="another"))
        await world.start_node()
        pod = await world.phase("Failed")
        after = await world.client.get(NODE, "node-0")
        assert before.status.node_info.boot_id not in ("", "another")
        assert (after.metadata.uid, after.status.node_info.boot_id) == (before.metadata.uid, "another")
        interruption = interruption_of(pod)
        assert interruption is not None
        assert interruption.message.startswith("ended with node node-0, which went down")

    play(story)


def test_a_pod_that_nobody_knows_how_it_ended_is_not_run_again(play, tmp_path):
    async def story(world):
        runs = tmp_path / "runs"
        await world.create(**shell(f"echo run >> {runs}; sleep 1000"))
        await world.ready()
        while not (runs.exists() and runs.read_text()):
            await asyncio.sleep(0.01)
        kill = killer_of(world)
        await world.stop_node(leave=True)
        kill()
        shutil.rmtree(world.state / "node-0")
        await world.start_node()
        pod = await world.phase("Failed")
        assert main(pod).state.terminated.reason == "ContainerStatusUnknown"
        assert condition(pod, "DisruptionTarget") == "True"
        assert runs.read_text() == "run\n"

    play(story)


def test_what_belongs_to_no_pod_is_ended_at_the_next_start(play):
    async def story(world):
        await world.create(command=["sleep", "1000"])
        await world.ready()
        await world.stop_node(leave=True)
        await world.client.delete(POD, "p", "default", grace_period_seconds=0)
        assert len(world.directories()) == 1
        await world.start_node()
        async with asyncio.timeout(LIMIT):
            while world.directories():
                await asyncio.sleep(0.02)

    play(story)


def test_what_a_killed_server_has_left_can_be_ended_without_one(play):
    async def story(world):
        await world.create(command=["sleep", "1000"])
        await world.ready()
        await world.stop_node(leave=True)
        assert await leftovers.end_everything(world.state) == 1
        assert await leftovers.end_everything(world.state) == 0
        name = cgroups.name_group("node-0", seed_of(world.state / "node-0"))
        hierarchies = Path("/sys/fs/cgroup")
        assert [*hierarchies.glob(name), *hierarchies.glob(f"*/{name}")] == [], "nobody else removes these cgroups"
        await world.start_node()
        pod = await world.phase("Failed")
        assert (main(pod).state.terminated.exit_code, condition(pod, "DisruptionTarget")) == (137, "True")

    play(story)


def test_a_node_that_is_not_there_any_more_is_forgotten(play):
    async def story(world):
        await world.create(command=["sleep", "1000"])
        await world.ready()
        await world.stop_node(leave=True)
        await leftovers.forget_absent(world.client, world.state, {"another"})
        assert [path for path in world.state.iterdir() if path.is_dir()] == []
        assert (await world.client.list(NODE)).items == []

    play(story)


def test_stopping_the_node_ends_its_pods_and_says_why(play):
    async def story(world):
        await world.create(**shell("trap 'exit 0' TERM; while :; do sleep 0.02; done"))
        await world.ready()
        await world.stop_node()
        pod = await world.get()
        assert (pod.status.phase, pod.status.reason) == ("Failed", "Terminated")
        assert pod.status.message == "Pod was terminated in response to imminent node shutdown."
        assert condition(pod, "DisruptionTarget") == "True"
        assert main(pod).state.terminated.exit_code == 0

    play(story)


def test_a_full_disk_does_not_hold_up_a_stop_and_the_next_node_says_how_pods_ended(play, monkeypatch):
    async def full(self, records):
        raise StorageFull("the disk")

    async def story(world):
        await world.create(**shell("trap 'exit 7' TERM; while :; do sleep 0.02; done"))
        await world.ready()
        with monkeypatch.context() as disk:
            disk.setattr(MemoryJournal, "append", full)
            async with asyncio.timeout(LIMIT):
                await world.stop_node()
        assert (await world.get()).status.phase == "Running"
        await world.start_node()
        pod = await world.phase("Failed")
        assert (main(pod).state.terminated.exit_code, condition(pod, "DisruptionTarget")) == (7, "True")

    play(story)


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (3, "Failed")])
def test_a_pod_that_had_ended_before_a_stop_was_not_interrupted(play, tmp_path, monkeypatch, code, phase):
    async def full(self, records):
        raise StorageFull("the disk")

    async def story(world):
        word = tmp_path / "word"
        await world.create(**shell(f"while [ ! -e {word} ]; do sleep 0.02; done; exit {code}"))
        await world.ready()
        with monkeypatch.context() as disk:
            disk.setattr(MemoryJournal, "append", full)
            word.touch()
            async with asyncio.timeout(LIMIT):
                while next(iter(world.node._runners.values())).holds:
                    await asyncio.sleep(0.02)
                await world.stop_node()
        assert (await world.get()).status.phase == "Running"
        await world.start_node()
        ended = await world.phase(phase)
        assert (main(ended).state.terminated.exit_code, condition(ended, "DisruptionTarget")) == (code, None)

    play(story)


def test_without_namespaces_the_pod_runs_and_is_told_what_it_lacks(play):
    async def story(world):
        volumes = [{"name": "e", "emptyDir": {}}]
        mounts = [{"name": "e", "mountPath": "/no-such-path"}]
        await world.create(volumes=volumes, volumeMounts=mounts, **shell("ls -d /no-such-path || echo as expected"))
        await world.phase("Succeeded")
        # What ls says goes another way than what echo says: which of them comes last is chance.
        assert "as expected" in (await world.log()).splitlines()
        type, message = await world.event("NamespacesUnavailable")
        assert (type, message.startswith("This machine does not allow namespaces")) == ("Warning", True)
        assert "names of other pods do not resolve" in message
        assert sum(reason == "NamespacesUnavailable" for _, reason, _ in await world.events()) == 1
        assert not Path("/no-such-path").exists()

    play(story, tried=[Isolation("none")])


KEPT = "memory by a sample a second, CPU by affinity masks"


def test_without_cgroups_the_node_says_once_how_it_keeps_limits(play, monkeypatch):
    monkeypatch.setattr(cgroups, "prepare", lambda _name: "there is no cgroup v2 hierarchy")

    async def story(world):
        for name in "ab":
            await world.create(name, resources={"limits": {"cpu": "1"}}, **shell("true"))
            await world.phase("Succeeded", name)
        told = [one for one in (await world.client.list(EVENT)).items if one.reason == "NoCgroups"]
        assert [(one.involved_object.kind, one.count, one.message) for one in told] == [
            ("Node", 1, f"limits are kept less strictly: {KEPT}: there is no cgroup v2 hierarchy")
        ]

    play(story)


def test_without_namespaces_variables_name_where_volumes_really_are(play):
    async def story(world):
        items = [{"path": "world", "fieldRef": {"fieldPath": "metadata.annotations['muster.dev/world']"}}]
        container = {
            "volumeMounts": [{"name": "w", "mountPath": "/etc/muster"}],
            "env": [{"name": "MUSTER_WORLD", "value": "/etc/muster/world"}],
            **shell(
                "for i in 1 2; do cat $MUSTER_WORLD; echo; while ! grep -q 2 $MUSTER_WORLD; do sleep 0.02; done; done"
            ),
        }
        annotated = {"annotations": {"muster.dev/world": "1"}}
        await world.create(meta=annotated, volumes=[{"name": "w", "downwardAPI": {"items": items}}], **container)
        await world.ready()
        await world.says("1\n")
        await world.annotate("muster.dev/world", "2")
        await world.phase("Succeeded")
        assert await world.log() == "1\n2\n"

    play(story, tried=[Isolation("none")])


def test_several_containers_share_volumes(play, namespaces):
    async def story(world):
        mounts = [{"name": "e", "mountPath": "/shared"}]
        containers = [
            {
                "name": "main",
                "image": "x",
                "volumeMounts": mounts,
                **shell("while [ ! -e /shared/x ]; do sleep 0.02; done; cat /shared/x"),
            },
            {
                "name": "writer",
                "image": "x",
                "volumeMounts": mounts,
                **shell("echo words > /shared/y; mv /shared/y /shared/x"),
            },
        ]
        await world.create(containers=containers, volumes=[{"name": "e", "emptyDir": {}}])
        await world.phase("Succeeded")
        assert await world.log(container="main") == "words\n"

    play(story)


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        ({"mountPath": "/x", "subPath": "link"}, "leads out of the volume"),
        ({"mountPath": "/x", "subPath": "link/passwd"}, "leads out of the volume"),
    ],
)
def test_a_volume_cannot_be_left_by_links(play, namespaces, mount, message):
    async def story(world):
        first = {
            "name": "evil",
            "image": "x",
            "volumeMounts": [{"name": "e", "mountPath": "/v"}],
            **shell("ln -s /etc /v/link"),
        }
        await world.create(
            initContainers=[first],
            volumes=[{"name": "e", "emptyDir": {}}],
            volumeMounts=[{"name": "e", **mount}],
            **shell("ls /x"),
        )
        pod = await world.until(
            lambda pod: (
                pod.status.container_statuses
                and (main(pod).state.waiting or main(pod).state.terminated)
                and "Initializing" not in str(main(pod).state)
            )
        )
        assert main(pod).state.waiting.reason == "CreateContainerConfigError"
        assert message in main(pod).state.waiting.message

    play(story)


def test_a_hundred_kilobytes_of_environment_are_fine_and_megabytes_are_told(play):
    async def story(world):
        env = [{"name": f"V{number}", "value": "x" * 1000} for number in range(100)]
        await world.create("big", env=env, **shell("env | wc -c"))
        await world.phase("Succeeded", "big")
        assert int(await world.log("big")) > 100_000
        await world.create("huge", env=[{"name": "V", "value": "x" * 200_000}])
        pod = await world.phase("Failed", "huge")
        assert "argument list too long" in main(pod).state.terminated.message

    play(story)


def test_termination_messages(play, namespaces):
    async def story(world):
        await world.create(
            "file",
            terminationMessagePath="/tmp/no-such-dir/words",
            **shell("echo bye > /tmp/no-such-dir/words; exit 1"),
        )
        pod = await world.phase("Failed", "file")
        assert main(pod).state.terminated.message == "bye\n"
        await world.create("log", terminationMessagePolicy="FallbackToLogsOnError", **shell("echo trouble; exit 1"))
        pod = await world.phase("Failed", "log")
        assert main(pod).state.terminated.message == "trouble\n"

    play(story)


def test_with_a_lifeline_nothing_outlives_the_server(play):
    async def story(world):
        await world.create(command=["sleep", "1000"])
        await world.ready()
        shim = next(iter(world.node._runners.values()))._shims["main"]
        os.close(world.node._lifeline[1])
        world.node._lifeline = None
        pod = await world.phase("Failed")
        assert main(pod).state.terminated.exit_code == 137
        assert shim is not None

    play(story, outlive_server=False)


def test_many_pods_at_once(play):
    async def story(world):
        await asyncio.gather(*(world.create(f"p{number}", **shell(f"echo {number}")) for number in range(30)))
        for number in range(30):
            await world.phase("Succeeded", f"p{number}")
        assert await world.log("p17") == "17\n"
        addresses = {(await world.get(f"p{number}")).status.pod_ip for number in range(30)}
        assert len(addresses) == 30

    play(story)


def test_a_successor_of_the_same_name_is_another_pod(play):
    async def story(world):
        first = await world.create(command=["sleep", "1000"])
        await world.ready()
        await world.client.delete(POD, "p", "default", grace_period_seconds=0)
        second = await world.create(**shell("echo second"))
        assert first["metadata"]["uid"] != second["metadata"]["uid"]
        await world.phase("Succeeded")
        assert await world.log() == "second\n"

    play(story)


def test_statuses_are_what_other_clients_can_read(play):
    """Fields that the API calls required are there even when they are empty."""

    async def story(world):
        await world.create()
        await world.phase("Succeeded")
        pod = json.loads((await world.client.raw(Request("GET", "/api/v1/namespaces/default/pods/p"))).body)
        status = pod["status"]["containerStatuses"][0]
        assert {"name", "ready", "restartCount", "image", "imageID"} <= status.keys()
        assert status["state"]["terminated"]["exitCode"] == 0

    play(story)
