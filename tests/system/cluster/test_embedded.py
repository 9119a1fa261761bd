"""The embedded cluster with a real process node: who ends the containers, and who leaves them to the next server."""

import asyncio
import os
import shutil
import signal
import sys
from contextlib import suppress

import msgspec
import pytest

from muster.api.core import CONFIG_MAP, NODE, POD, ConfigMap, Node, Pod
from muster.api.meta import ObjectMeta
from muster.api.ours.embedded import NODE_IDENTITY, NODE_KIND_LABEL, PROCESS
from muster.api.server.admissionregistration import VALIDATING_WEBHOOK_CONFIGURATION
from muster.api.server.rbac import ROLE
from muster.api.status import ApiError
from muster.cluster.embedded import run_cluster, start_control_plane
from muster.cluster.nodes.disk.leftovers import NODES, end_everything
from muster.cluster.nodes.machine import isolation
from muster.cluster.nodespec import NodeSpec
from muster.cluster.serving import Options, serve
from muster.cluster.store import MemoryJournal, StorageFailed
from muster.cluster.store.sqlite import SqliteJournal


async def start_pod(client, command=("sleep", "1000")):
    container = {"name": "c", "image": "none", "command": [*command]}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    document = {"metadata": {"name": "p"}, "spec": spec}
    await client.create(POD, msgspec.convert(document, Pod), "default")
    async with client.watch(POD, "default") as events:
        async for event in events:
            if event.object is not None and event.object.status.phase == "Running":
                return


def a_part_fails(running):
    def handler(old, new):
        if new is not None and new.metadata.name == "trouble":
            raise RuntimeError("a part has failed")

    running.plane.manager.informer(CONFIG_MAP).on_change(handler)


def the_disk_fails(running):
    running.plane.failed.set_exception(StorageFailed("a part has failed", "test"))


@pytest.mark.parametrize("trouble", [a_part_fails, the_disk_fails])
def test_a_cluster_in_trouble_leaves_its_containers_for_the_next(tmp_path, trouble):
    async def body():
        async with run_cluster(MemoryJournal(), tmp_path, (NodeSpec(),), adopt=True) as running:
            client = running.plane.client()
            await start_pod(client)
            trouble(running)
            await client.create(CONFIG_MAP, ConfigMap(metadata=ObjectMeta(name="trouble")), "default")
            await running.until(asyncio.Event().wait())

    with pytest.raises((RuntimeError, StorageFailed), match="a part has failed"):
        asyncio.run(body())
    assert asyncio.run(end_everything(tmp_path)) == 1


def test_a_cluster_whose_home_is_removed_ends_its_containers(tmp_path):
    """No server would find them any more: they would hold CPUs and GPUs for ever."""
    home, fifo = tmp_path / "home", tmp_path / "fifo"
    os.mkfifo(fifo)
    output = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)

    async def body():
        async with run_cluster(SqliteJournal(home), home / NODES, (NodeSpec(),), adopt=True) as running:
            await start_pod(running.plane.client(), ("sh", "-c", f"echo begun > {fifo}; exec sleep 1000 > {fifo}"))
            while True:
                with suppress(BlockingIOError):
                    if os.read(output, 100) == b"begun\n":
                        break
                await asyncio.sleep(0.01)
            shutil.rmtree(home)
            with pytest.raises(ApiError, match="it was removed"):
                await running.plane.client().create(CONFIG_MAP, ConfigMap(metadata=ObjectMeta(name="a")), "default")
            async with asyncio.timeout(20):
                await running.until(asyncio.Event().wait())

    with pytest.raises(StorageFailed, match="it was removed while the server ran"):
        asyncio.run(body())
    assert os.read(output, 100) == b""  # nobody has it open
    os.close(output)


@pytest.mark.parametrize("adopt", [True, False])
def test_a_cluster_that_is_stopped_ends_them(tmp_path, adopt):
    async def body():
        async with run_cluster(MemoryJournal(), tmp_path, (NodeSpec(),), adopt=adopt) as running:
            await start_pod(running.plane.client())
        return await end_everything(tmp_path)

    assert asyncio.run(body()) == 0


def refusing_everything():
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    hook = {
        "name": "all.example.com",
        "rules": [rule],
        "clientConfig": {"url": "https://127.0.0.1:1/nobody-listens"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": "all"}, "webhooks": [hook]}


def test_a_webhook_that_refuses_everything_can_be_removed_after_a_restart(tmp_path):
    kind = VALIDATING_WEBHOOK_CONFIGURATION.seen_as(dict)
    nodes, before = (NodeSpec(kind="simulated"),), (NodeSpec(kind="simulated", count=2),)

    async def body():
        async with run_cluster(SqliteJournal(tmp_path), tmp_path, before, adopt=True) as running:
            await running.plane.client().delete(ROLE, "extension-apiserver-authentication-reader", "kube-system")
            await running.plane.client().create(kind, refusing_everything())
        async with start_control_plane(SqliteJournal(tmp_path), tmp_path, nodes, adopt=True) as running:
            async with asyncio.timeout(20):
                await running.plane.manager.ready.wait()
                await running.plane.client().delete(kind, "all")
                await running.wait_until_started(default_queue=True)

    asyncio.run(body())


def test_nodes_try_how_to_isolate_containers_while_the_informers_start(tmp_path, monkeypatch):
    """The trial takes another process tens of milliseconds, and nothing that the informers read."""
    probe, trials = isolation.probe, []

    async def note_and_probe(directory, tried):
        trials.append(directory)
        return await probe(directory, tried)

    monkeypatch.setattr(isolation, "probe", note_and_probe)

    async def body():
        async with start_control_plane(MemoryJournal(), tmp_path / NODES, (NodeSpec(),), adopt=False) as running:
            await running.until(running.plane.manager.ready.wait())
            assert len(trials) == 1
            await running.wait_until_started(default_queue=False)
            assert len(trials) == 1

    asyncio.run(body())


def test_no_trial_outlives_a_start_that_fails(tmp_path, monkeypatch):
    """What it makes in the node's directory is removed with the directory."""
    ended = []

    async def try_for_ever(_directory, _tried):
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append(True)

    monkeypatch.setattr(isolation, "probe", try_for_ever)

    async def body():
        async with start_control_plane(MemoryJournal(), tmp_path / NODES, (NodeSpec(),), adopt=False):
            await asyncio.sleep(0)  # the trial begins; the node waits for the informers
        assert ended

    asyncio.run(body())


def test_a_cluster_is_stopped_while_it_starts(tmp_path):
    async def body():
        async with asyncio.timeout(20), start_control_plane(MemoryJournal(), tmp_path, (NodeSpec(),), adopt=True):
            pass

    asyncio.run(body())


def test_a_server_is_stopped_though_its_nodes_cannot_register(tmp_path):
    kind = VALIDATING_WEBHOOK_CONFIGURATION.seen_as(dict)
    urls: list[str] = []

    async def body():
        nodes, more = (NodeSpec(kind="simulated"),), (NodeSpec(kind="simulated", count=2),)
        async with run_cluster(SqliteJournal(tmp_path), tmp_path / NODES, nodes, adopt=True) as running:
            await running.plane.client().create(kind, refusing_everything())
        serving = asyncio.create_task(serve(Options(tmp_path, 0, more), lambda *told: urls.extend(told)))
        async with asyncio.timeout(30):
            while not (tmp_path / "kubeconfig").exists():
                await asyncio.sleep(0.05)
            os.kill(os.getpid(), signal.SIGTERM)
            await serving

    asyncio.run(body())
    assert urls == []


def test_a_server_loads_modules_of_rare_requests_after_its_start(tmp_path, monkeypatch, caplog):
    """Files of two versions may fail in any way: that is said, and the others are loaded."""
    (tmp_path / "late_one.py").write_text("1 / 0")
    (tmp_path / "late_two.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("muster.cluster.serving.LATE_MODULES", ("late_one", "late_two"))
    monkeypatch.setattr("muster.cluster.serving._LATE_SECONDS", 0.0)

    async def body():
        options = Options(tmp_path / "home", 0, (NodeSpec(kind="simulated"),))
        serving = asyncio.create_task(serve(options, lambda *_: None))
        async with asyncio.timeout(30):
            while "late_two" not in sys.modules:
                await asyncio.sleep(0.05)
            os.kill(os.getpid(), signal.SIGTERM)
            await serving

    try:
        asyncio.run(body())
    finally:
        sys.modules.pop("late_two", None)
    assert "cannot load late_one" in caplog.text


def test_a_server_takes_no_name_that_a_machine_has_joined_by(tmp_path):
    async def body(count):
        journal = SqliteJournal(tmp_path / "home")
        async with run_cluster(journal, tmp_path / "home" / NODES, (NodeSpec(count=count),), adopt=True) as running:
            labels, annotations = {NODE_KIND_LABEL: PROCESS}, {NODE_IDENTITY: "a-guest"}
            meta = ObjectMeta(name="node-1", labels=labels, annotations=annotations)
            await running.plane.client().create(NODE, Node(metadata=meta))

    asyncio.run(body(1))
    with pytest.raises(ApiError, match='nodes "node-1": a joined machine has this name: start with fewer nodes'):
        asyncio.run(body(2))
