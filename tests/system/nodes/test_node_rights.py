"""What security contexts ask of a process node: it is done, or said."""

import os
import pwd
from functools import partial

import pytest
from tests.system.nodes import node_world
from tests.system.nodes.node_world import DICT, shell
from tests.system.nodes.test_nodes_process import namespaces  # noqa: F401 - a fixture
from tests.system.nodes.test_nodes_tunnels import KINDS, run

from muster.cluster.nodes.machine.isolation import Isolation

NOBODY = 65534
VOLUMES = [
    {"name": "empty", "emptyDir": {}},
    {"name": "conf", "configMap": {"name": "conf", "items": [{"key": "k", "path": "deep/down/k"}]}},
]
MOUNTS = [
    {"name": "empty", "mountPath": "/not/there/before/empty"},
    {"name": "empty", "mountPath": "/not/there/sub", "subPath": "a/b"},
    {"name": "conf", "mountPath": "/not/there/conf"},
]


@pytest.fixture
def play(tmp_path):
    return partial(node_world.play, tmp_path)


@pytest.fixture(params=[0o022, 0o077], ids=["open", "closed"])
def umask(request):
    """Of the server."""
    before = os.umask(request.param)
    yield
    os.umask(before)


async def printed(world, name="p"):
    """What the pod has written once it has ended."""
    await world.until(lambda pod: pod.status.phase in ("Succeeded", "Failed"), name)
    return (await world.log(name)).splitlines()


def told(events):
    return [message for _, reason, message in events if reason == "SecurityContextNotEnforced"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.usefixtures("namespaces", "umask")
def test_who_a_container_runs_as_reaches_its_mounts(play):
    async def story(world):
        body = {"metadata": {"name": "conf"}, "data": {"k": "v\n"}}
        await world.client.create(DICT["ConfigMap"], body, "default")
        script = (
            "cd /not/there && id -u && cat conf/deep/down/k && grep -q localhost /etc/hosts"
            " && echo x > before/empty/x && echo y > sub/y && ls before/empty/a/b"
        )
        context = {"runAsUser": NOBODY, "runAsGroup": NOBODY}
        await world.create(volumes=VOLUMES, volumeMounts=MOUNTS, securityContext=context, **shell(script))
        assert await printed(world) == [str(NOBODY), "v", "y"]

    play(story)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize(("uid", "home"), [(NOBODY, pwd.getpwuid(NOBODY).pw_dir), (4_000_000, "/")])
def test_a_container_gets_the_home_of_the_user_that_it_runs_as(play, uid, home):
    async def story(world):
        await world.create(securityContext={"runAsUser": uid}, **shell("echo $HOME"))
        assert await printed(world) == [home]

    play(story)


# What is tried, and whether it works where the root is read-only.
WRITES = {
    "/not-there": False,
    "/tmp/x": False,
    "/etc/hosts": False,
    "/not/there/before/empty/x": True,
    "/not/there/sub/x": True,
    "/not/there/conf/x": False,
    "/said/last": True,
    "/dev/shm/muster-test-of-rights": True,
}
TRY = "for f in $FILES; do (echo x >> $f) 2>/dev/null && echo $f yes || echo $f no; done; rm -f /dev/shm/muster-test-*"


@pytest.mark.parametrize("kind", ["namespaces", "user-namespaces", "shared-pids"])
def test_a_read_only_root_can_be_written_nowhere_but_in_volumes(play, kind):
    async def story(world):
        if world.node._kit.isolation.kind != KINDS[kind].kind:
            pytest.skip("this machine does not allow that")
        await world.client.create(DICT["ConfigMap"], {"metadata": {"name": "conf"}, "data": {"k": "v"}}, "default")
        pod = await world.create(
            volumes=VOLUMES,
            volumeMounts=MOUNTS,
            securityContext={"readOnlyRootFilesystem": True},
            terminationMessagePath="/said/last",
            env=[{"name": "FILES", "value": " ".join(WRITES)}],
            **shell(f"{TRY}; exec sleep 1000"),
        )
        wanted = "".join(f"{path} {'yes' if works else 'no'}\n" for path, works in WRITES.items())
        await world.ready()
        await world.says(wanted)
        # So it is for what is run in it later, also by the server after this one.
        pod = await world.get()
        assert (await run(world, pod, "sh", "-c", TRY))[0].decode() == wanted
        await world.stop_node(leave=True)
        await world.start_node(tried=[KINDS[kind]])
        assert (await run(world, await world.get(), "sh", "-c", TRY))[0].decode() == wanted
        assert told(await world.events()) == []

    play(story, tried=[KINDS[kind]])


def mask(*numbers):
    return sum(1 << number for number in numbers)


@pytest.mark.skipif(os.geteuid() != 0, reason="who is not root has none")
@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize(
    ("capabilities", "left"),
    [
        ({"drop": ["ALL"]}, lambda _: 0),
        ({"drop": ["ALL"], "add": ["NET_BIND_SERVICE", "CAP_CHOWN"]}, lambda _: mask(0, 10)),
        ({"drop": ["NET_RAW", "cap_chown", "NO_SUCH"]}, lambda ours: ours & ~mask(0, 13)),
        ({"add": ["SYS_TIME"]}, lambda ours: ours),
    ],
)
def test_dropped_capabilities_are_nobodys(play, capabilities, left):
    show = "grep -E '^Cap(Prm|Eff|Bnd)' /proc/self/status"

    async def story(world):
        await world.create("all", **shell(show))
        ours = int((await printed(world, "all"))[0].split()[1], 16)
        await world.create("p", securityContext={"capabilities": capabilities}, **shell(f"{show}; exec sleep 1000"))
        wanted = [f"Cap{one}:\t{left(ours):016x}" for one in ("Prm", "Eff", "Bnd")]
        await world.ready()
        await world.says("\n".join(wanted) + "\n")
        assert (await run(world, await world.get(), "sh", "-c", show))[0].decode().splitlines() == wanted

    play(story)


def test_what_is_not_done_is_said(play):
    async def story(world):
        profile = {"seccompProfile": {"type": "RuntimeDefault"}}
        more = {"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}, "readOnlyRootFilesystem": True}
        unconfined = {"seccompProfile": {"type": "Unconfined"}, "allowPrivilegeEscalation": False}
        containers = [
            {"name": name, "image": "none", "command": ["true"], "securityContext": context}
            for name, context in (("a", unconfined), ("b", more))
        ]
        await world.create(containers=containers, pod={"securityContext": profile})
        await world.phase("Succeeded")
        lacking = "seccompProfile RuntimeDefault, appArmorProfile Localhost (container b)"
        said = f"This node does not do what the security context asks: {lacking}, readOnlyRootFilesystem (container b)."
        assert told(await world.events()) == [said]

    play(story, tried=[Isolation("none")])


def test_without_namespaces_capabilities_are_dropped_too(play):
    async def story(world):
        context = {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False}
        await world.create(securityContext=context, **shell("grep -E '^(CapEff|NoNewPrivs)' /proc/self/status"))
        assert await printed(world) == ["CapEff:\t0000000000000000", "NoNewPrivs:\t1"]
        assert told(await world.events()) == []

    play(story, tried=[Isolation("none")])
