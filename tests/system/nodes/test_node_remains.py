"""What pods leave behind, and what else is found in a home: the node starts, serves and stops whatever it is."""

import asyncio
import contextlib
import gc
import os
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from tests.system.nodes import node_world
from tests.system.nodes.node_world import LIMIT, main, shell
from tests.unit.cluster.nodes.disk.test_removal import TREES, build, deep

from muster.api.batch import JOB
from muster.api.core import EVENT, POD, SERVICE_ACCOUNT, ServiceAccount
from muster.api.meta import ObjectMeta
from muster.cluster.nodes.disk import removal
from muster.cluster.nodes.disk.storage import SHARED_MEMORY, seed_of
from muster.cluster.store.directory import DataDirectory

pytestmark = pytest.mark.slow

VOLUMES = [{"name": "m", "emptyDir": {}}, {"name": "k", "emptyDir": {"medium": "Memory"}}]
MOUNTS = [{"name": "m", "mountPath": "/m"}, {"name": "k", "mountPath": "/k"}]


JOB_OF_ONE = {
    "metadata": {"name": "j"},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}},
}


@pytest.fixture
def play(tmp_path):
    return partial(node_world.play, tmp_path)


async def until(condition):
    async with asyncio.timeout(LIMIT):
        while not condition():
            await asyncio.sleep(0.02)


def removed(state):
    return sorted(os.listdir(state / "node-0/removed"))


def memory(state):
    return list(SHARED_MEMORY.glob(f"muster-{os.getuid()}-{seed_of(state / 'node-0'):08x}-*"))


async def node_events(world, reason):
    found = (await world.client.list(EVENT, "default")).items
    return [e.message for e in found if e.reason == reason and e.involved_object.kind == "Node"]


async def serves(world, name):
    """Whether the node runs what it is given, and forgets it."""
    await world.create(name, **shell("echo served"))
    await world.phase("Succeeded", name)
    assert await world.log(name) == "served\n"
    await world.client.delete(POD, name, "default")
    await world.gone(name)


LEAVE = """
for d in m k; do
    mkdir -p /$d/m/a; touch /$d/m/a/x; chmod 555 /$d/m/a
    i=0; while [ $i -lt 50 ]; do mkdir d; cd d; i=$((i+1)); done; cd /$d
    mkfifo /$d/p; ln -s /etc /$d/l; chmod 0 /$d/m
done
"""


@pytest.mark.parametrize("restart", [False, True])
def test_what_a_pod_leaves_goes_with_it(play, tmp_path, restart):
    async def story(world):
        await world.create(volumes=VOLUMES, volumeMounts=MOUNTS, **shell(LEAVE))
        await world.phase("Succeeded")
        if restart:
            await world.stop_node()
            await world.start_node()
        await until(lambda: removed(tmp_path) == [] and memory(tmp_path) == [])
        assert await node_events(world, "FailedRemoval") == []
        await serves(world, "q")

    play(story)


def test_a_node_that_stops_gives_memory_back_first(play, tmp_path):
    async def story(world):
        await world.create(volumes=VOLUMES, volumeMounts=MOUNTS, **shell("touch /k/x; sleep 1000"))
        await world.ready()
        assert memory(tmp_path) != []
        await world.stop_node()
        assert memory(tmp_path) == []

    play(story)


@pytest.mark.parametrize("of_job", [False, True])
def test_what_a_killed_server_did_not_get_round_to_removing_goes_at_the_next_start(play, tmp_path, monkeypatch, of_job):
    """Of a Job that stays, the pod's logs stay, and nothing else."""

    async def story(world):
        job = await world.client.create(JOB.seen_as(dict), JOB_OF_ONE, "default")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": job["metadata"]["uid"]}
        meta = {"ownerReferences": [owner | {"controller": True}]} if of_job else {}
        await world.create(meta=meta, volumes=VOLUMES, volumeMounts=MOUNTS, **shell("echo x | tee /k/x; sleep 1000"))
        await world.ready()
        await world.says("x\n")
        with monkeypatch.context() as killed:
            killed.setattr(removal, "remove", lambda path, halted: None)
            await world.client.delete(POD, "p", "default", grace_period_seconds=0)
            await until(lambda: not list(tmp_path.glob("node-0/pods/*/volumes")))
            await world.stop_node(leave=True)
        assert memory(tmp_path) != []
        await world.start_node()
        await until(lambda: memory(tmp_path) == removed(tmp_path) == [])
        kept = {"pod.json", "hosts", "containers"} if of_job else set()
        assert {path.name for path in tmp_path.glob("node-0/pods/*/*")} == kept

    play(story)


def immutable(path):
    if subprocess.run(["chattr", "+i", str(path)], capture_output=True, check=False).returncode != 0:
        pytest.skip("files cannot be made immutable here")


def test_what_cannot_be_removed_is_told_once_and_tried_again(play, tmp_path, monkeypatch):
    tried = []
    remove = removal.remove

    def counted(path, halted=lambda: False):
        tried.append(path)
        remove(path, halted)

    monkeypatch.setattr(removal, "remove", counted)

    async def story(world):
        await world.create(volumes=VOLUMES, volumeMounts=MOUNTS, **shell("touch /m/stays /m/goes; sleep 1000"))
        pod = await world.ready()
        volume = tmp_path / f"node-0/pods/{pod.metadata.uid}/volumes"
        await until((volume / "m/goes").exists)
        immutable(volume / "m/stays")
        await world.client.delete(POD, "p", "default")
        await world.gone()
        await world.event("FailedRemoval")
        where = tmp_path / f"node-0/removed/{pod.metadata.uid}-volumes"
        told = f"{where} cannot be removed: 'stays' in it: Operation not permitted"
        assert await node_events(world, "FailedRemoval") == [told]
        assert [path.name for path in where.rglob("*")] == ["m", "stays"]
        assert tried.count(where) == 1, "it is tried again in ten seconds, not before"
        await serves(world, "q")
        await world.stop_node()
        await world.start_node()
        await serves(world, "r")
        subprocess.run(["chattr", "-R", "-i", str(where)], check=True)
        await world.stop_node()
        await world.start_node()
        await until(lambda: removed(tmp_path) == [])

    try:
        play(story)
    finally:
        subprocess.run(["chattr", "-R", "-f", "-i", str(tmp_path)], check=False)


FOREIGN = {
    "node-0/pods/file": "file",
    "node-0/pods/link": "link",
    "node-0/pods/odd\nname": "directory",
    "node-0/pods/notes/mine": "file",
    "node-0/pods/-x/pod.json": "file",
    "node-0/strange": "fifo",
    "node-7/mine": "file",  # no node of ours: it has no pods
    "node-8": "link",
    "notes": "file",
}


def put(path: Path, what: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    match what:
        case "file":
            path.touch()
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "link":
            path.symlink_to("/")


def test_what_is_foreign_is_named_and_left_alone(play, tmp_path):
    for name, what in FOREIGN.items():
        put(tmp_path / name, what)
    os.mkdir(os.fsencode(tmp_path) + b"/node-0/pods/\xff")

    expected = {
        f"{tmp_path}/node-0/pods/{name} does not belong to the node, which leaves it as it is"
        for name in ("-x", "file", "link", "notes", "odd\nname", "\\udcff")
    }

    async def story(world):
        await serves(world, "q")
        async with asyncio.timeout(LIMIT):
            while set(await node_events(world, "ForeignFiles")) != expected:
                await asyncio.sleep(0.02)

    play(story)
    for name in FOREIGN:
        assert os.path.lexists(tmp_path / name)


DAMAGE = ["pod.json", "hosts", "containers/main/0/state", "containers/main/0/log.", "containers/main", "containers"]


@pytest.mark.parametrize("what", ["file", "directory", "fifo", "link"])
@pytest.mark.parametrize("where", DAMAGE)
def test_a_pod_whose_files_are_damaged_while_nobody_looks(play, tmp_path, where, what):
    """What still runs goes on or is ended; nothing is run twice; the node serves."""

    async def story(world):
        script = f"echo; echo ran >> {tmp_path}/runs; while [ ! -e {tmp_path}/over ]; do sleep 0.1; done"
        await world.create(volumes=VOLUMES, volumeMounts=MOUNTS, **shell(script))
        pod = await world.ready()
        await world.says("\n")
        await world.stop_node(leave=True)
        [path] = (tmp_path / f"node-0/pods/{pod.metadata.uid}").glob(f"{where}*")
        path.rename(path.with_name("was"))
        put(path, what)
        await world.start_node()
        await serves(world, "q")
        pod = await world.get()
        assert (tmp_path / "runs").read_text() == "ran\n"
        if where in ("pod.json", "hosts", "containers/main/0/log."):
            assert main(pod).state.running is not None
            assert pod.status.pod_ip
        else:
            assert main(pod).state.terminated.reason == "ContainerStatusUnknown"
        await world.client.delete(POD, "p", "default", grace_period_seconds=0)
        await world.gone()

    play(story)
    (tmp_path / "over").touch()  # what is hidden even from us runs until then


def test_secrets_and_tokens_do_not_reach_the_disk(play, tmp_path):
    async def story(world):
        secret = {"metadata": {"name": "s"}, "stringData": {"k": "very secret"}}
        await world.client.create(node_world.DICT["Secret"], secret, "default")
        await world.client.create(SERVICE_ACCOUNT, ServiceAccount(metadata=ObjectMeta(name="default")), "default")
        sources = [{"secret": {"name": "s"}}, {"serviceAccountToken": {"path": "token"}}]
        volumes = [{"name": "s", "secret": {"secretName": "s"}}, {"name": "t", "projected": {"sources": sources}}]
        mounts = [{"name": "s", "mountPath": "/s"}, {"name": "t", "mountPath": "/t"}]
        await world.create(volumes=volumes, volumeMounts=mounts, **shell("cat /s/k /t/k; echo; sleep 1000"))
        await world.ready()
        await world.says("very secretvery secret\n")
        [place] = memory(tmp_path)
        hidden = ["volumes/s/k", "volumes/t/k", "volumes/t/token"]
        texts = [(place / name).read_bytes() for name in hidden]
        written = [path.read_bytes() for path in (tmp_path / "node-0").rglob("*") if path.name in ("k", "token")]
        assert all(texts)
        assert written == []

    play(story)


LINKED = ["", "volumes", "volumes/s", "containers", "containers/main"]


@pytest.mark.parametrize("what", ["link", "file", "fifo"])
@pytest.mark.parametrize("where", LINKED)
def test_where_a_link_in_the_place_of_a_directory_leads_nothing_changes(play, tmp_path, where, what):
    """The node goes on with directories of its own, and so does the pod."""
    elsewhere = tmp_path / "elsewhere"
    for name in ("pod.json", "mine", "s/mine", "volumes/s/mine", "main/0/mine", "0/mine", "containers/main/0/mine"):
        put(elsewhere / name, "file")
    before = sorted(elsewhere.rglob("*"))

    async def story(world):
        shown = {"metadata": {"name": "s"}, "data": {"k": "v"}}
        await world.client.create(node_world.DICT["ConfigMap"], shown, "default")
        spec = {"volumes": [{"name": "s", "configMap": {"name": "s"}}], "restartPolicy": "Always"}
        script = f"cat /s/k; while [ ! -e {tmp_path}/over ]; do sleep 0.1; done"
        await world.create(volumeMounts=[{"name": "s", "mountPath": "/s"}], **spec, **shell(script))
        pod = await world.ready()
        await world.stop_node(leave=True)
        path = tmp_path / f"node-0/pods/{pod.metadata.uid}" / where
        if path.exists():
            path.rename(tmp_path / "was")
        if what == "link":
            path.symlink_to(elsewhere)
        else:
            put(path, what)
        await world.start_node()
        await serves(world, "q")
        (tmp_path / "over").touch()
        await world.until(lambda pod: main(pod).restart_count > 0)
        await world.client.delete(POD, "p", "default", grace_period_seconds=0)
        await world.gone()
        await until(lambda: removed(tmp_path) == [])

    play(story)
    assert sorted(elsewhere.rglob("*")) == before


@settings(max_examples=15, phases=(Phase.generate,))
@given(TREES)
def test_whatever_a_pod_leaves_the_node_starts_serves_and_stops(tree):
    """A server is killed in the moment in which the pod has ended: nothing has been tidied up."""
    state = Path(tempfile.mkdtemp(prefix="muster-remains-"))

    async def story(world):
        await world.create(**shell("true"))
        pod = await world.phase("Succeeded")
        await world.stop_node(leave=True)
        place = state / "node-0/pods" / pod.metadata.uid
        (place / "volumes").mkdir(exist_ok=True)
        build(os.fsencode(place / "volumes/m"), tree, os.fsencode(state))
        build(os.fsencode(place / "containers/odd"), tree, os.fsencode(state))
        await world.start_node()
        await until(lambda: removed(state) == [])
        assert not (place / "volumes").exists()
        await world.client.delete(POD, "p", "default")
        await world.gone()
        await until(lambda: removed(state) == [] and not place.exists())
        assert await node_events(world, "FailedRemoval") == []

    (state / "x").touch()
    try:
        node_world.play(state, story)
    finally:
        removal.remove(state)


def test_a_node_that_stops_does_not_wait_for_a_removal(play, tmp_path):
    async def story(world):
        await world.stop_node()
        deep(tmp_path / "node-0/removed/tree", 300, 10)
        await world.start_node()
        await world.stop_node()

    play(story)


def test_a_node_that_is_no_more_goes_with_all_that_it_has(play, tmp_path):
    from muster.cluster.nodes.disk import leftovers

    async def story(world):
        await world.create(volumes=VOLUMES, volumeMounts=MOUNTS, **shell("touch /k/x /m/x; sleep 1000"))
        pod = await world.ready()
        await world.stop_node(leave=True)
        deep(tmp_path / f"node-0/pods/{pod.metadata.uid}/volumes/deep", 1200)
        (tmp_path / "node-0/pods/mine").touch()
        assert memory(tmp_path) != []
        found = memory(tmp_path)
        await leftovers.forget_absent(world.client, tmp_path, ())
        assert not (tmp_path / "node-0").exists()
        assert [path for path in found if path.exists()] == []

    play(story)


def test_a_private_cluster_leaves_nothing(monkeypatch, tmp_path):
    from muster.cluster import embedded

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def go():
        async with embedded.run_ephemeral_cluster() as running:
            [home] = tmp_path.iterdir()
            deep(home / "nodes/node-0/pods/deep", 1200)
            deep(home / "nodes/node-0/removed/deep", 10, 10)
            with contextlib.suppress(FileExistsError):
                (home / "nodes/node-0/pods/mine").touch()
            assert running.nodes

    asyncio.run(go())
    assert list(tmp_path.iterdir()) == []


def test_a_private_cluster_removes_what_killed_ones_have_left(monkeypatch, tmp_path):
    from muster.cluster import embedded

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed, running, foreign = (tmp_path / f"muster-run-{name}" for name in ("killed", "running", "foreign"))
    foreign.mkdir()  # no lock: not a cluster's, or not yet
    DataDirectory(killed).release()
    (killed / "nodes/node-0/pods").mkdir(parents=True)
    deep(killed / "nodes/node-0/pods/deep", 10)
    held = DataDirectory(running)

    async def go():
        async with embedded.run_ephemeral_cluster():
            assert killed.exists()

    asyncio.run(go())
    held.release()
    assert sorted(tmp_path.iterdir()) == [foreign, running]


def test_a_private_cluster_leaves_the_collector_of_its_process_as_it_is(monkeypatch, tmp_path):
    from muster.cluster import embedded

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def go():
        thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
        async with embedded.run_ephemeral_cluster():
            assert gc.get_threshold() == thresholds
            assert gc.get_freeze_count() <= frozen  # of those some end

    asyncio.run(go())
