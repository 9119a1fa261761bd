"""A manager and real worker clusters, over HTTPS: how their kubeconfigs come and change, and what becomes of them."""

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
import yaml
from aiohttp import web
from msgspec.structs import replace
from tests.system.client.scripted_server import ScriptedServer, Step, answer, encoded, stream
from tests.system.plane import World
from tests.system.queueing.queueing_world import workload

from muster.api.batch import JOB
from muster.api.conditions import find
from muster.api.config import EMBEDDED
from muster.api.config.types import ClusterProfile
from muster.api.core import NAMESPACE, SECRET, SERVICE_ACCOUNT, Namespace, Secret, ServiceAccount
from muster.api.jobset import JOB_SET
from muster.api.kueue import MULTI_KUEUE_CLUSTER, WORKLOAD, MultiKueueCluster
from muster.api.kueue.names import ACTIVE
from muster.api.server.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ClusterRole, ClusterRoleBinding
from muster.cluster.apiserver.front.https import HttpsFront
from muster.cluster.apiserver.identity.credentials import Credentials
from muster.cluster.controlplane import ControlPlane, control_plane
from muster.cluster.store import MemoryJournal
from muster.cluster.store.sqlite import SqliteJournal
from muster.controllers.engine import Part, assemble
from muster.multicluster.links import clusters, reach
from muster.multicluster.links.clusters import Fleet
from muster.multicluster.links.connection import RemoteCluster
from muster.multicluster.removal import remove
from muster.runtime.clock import RealClock
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.kube import https
from muster.runtime.transport import Request

CLONE = {"labels": {"kueue.x-k8s.io/multikueue-origin": "multikueue"}}
LISTS = (
    "/apis/kueue.x-k8s.io/v1beta2/workloads",
    "/apis/batch/v1/jobs",
    "/apis/jobset.x-k8s.io/v1alpha2/jobsets",
)


class HastyClock(RealClock):
    """Waits are short."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 50)


class SteppedClock(RealClock):
    """Goes ahead when it is told to."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


class Worker:
    """A cluster that is served over HTTPS while it is up, always at one address and with one store."""

    world: World

    def __init__(self, directory: Path) -> None:
        self.port = 0
        self.clock = SteppedClock()
        self._directory = directory
        self._credentials = Credentials.load(directory / "pki", RealClock().now(), Ids())
        self._up = AsyncExitStack()

    async def start(self) -> None:
        journal, trust = SqliteJournal(self._directory), self._credentials.trust
        inputs = ExternalInputs(self.clock, Ids(), Random())
        plane = await self._up.enter_async_context(control_plane(journal, inputs, trust=lambda: trust))
        authenticator = self._credentials.authenticator(plane.access.tokens.user)
        front = HttpsFront(plane.server, authenticator, self._credentials.server_context())
        self.port = await front.start("127.0.0.1", self.port)
        self._up.push_async_callback(front.stop, 0)
        self.world = World(plane)

    async def stop(self) -> None:
        await self._up.aclose()

    async def account(self, rules: list[Any]) -> None:
        """A service account `manager` that may do so much."""
        client, meta = self.world.client, {"name": "manager", "namespace": "default"}
        role = {"metadata": {"name": "manager"}, "rules": rules}
        subject = {"kind": "ServiceAccount", **meta}
        named = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "manager"}
        binding = {"metadata": {"name": "manager"}, "roleRef": named, "subjects": [subject]}
        await client.create(SERVICE_ACCOUNT, msgspec.convert({"metadata": meta}, ServiceAccount))
        await client.create(CLUSTER_ROLE, msgspec.convert(role, ClusterRole))
        await client.create(CLUSTER_ROLE_BINDING, msgspec.convert(binding, ClusterRoleBinding))

    async def token(self) -> str:
        """Ten minutes of it."""
        path, body = SERVICE_ACCOUNT.path("default", "manager", "token"), b'{"spec": {"expirationSeconds": 600}}'
        made = await self.world.client.raw(Request("POST", path, body=body))
        return str(json.loads(made.body)["status"]["token"])

    def kubeconfig(self, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> bytes:
        """The admin's, with other words of the cluster, or another user."""
        document = yaml.safe_load(self._credentials.kubeconfig(f"https://127.0.0.1:{self.port}"))
        document["clusters"][0]["cluster"] |= cluster or {}
        if user is not None:
            document["users"][0]["user"] = user
        return json.dumps(document).encode()


class Manager:
    """What a test says and sees."""

    def __init__(self, plane: ControlPlane, fleet: Fleet, directory: Path) -> None:
        self.client = plane.client()
        self.fleet = fleet
        self.directory = directory

    async def secret(self, kubeconfig: bytes, name: str = "w") -> None:
        document = {"metadata": {"name": name}, "data": {"kubeconfig": encoded(kubeconfig)}}
        if await self.client.find(SECRET, name, "kueue-system"):
            await self.client.patch(SECRET, name, {"data": document["data"]}, "kueue-system")
        else:
            await self.client.create(SECRET, msgspec.convert(document, Secret), "kueue-system")

    async def cluster(self, location: str = "w", type: str = "Secret", name: str = "w") -> None:
        source = {"kubeConfig": {"location": location, "locationType": type}}
        document = {"metadata": {"name": name}, "spec": {"clusterSource": source}}
        await self.client.create(MULTI_KUEUE_CLUSTER, msgspec.convert(document, MultiKueueCluster))

    async def until(self, reason: str = "Active", message: str = "", name: str = "w") -> None:
        """Wait until the cluster's condition has that reason, and a message with these words."""
        async with self.client.watch(MULTI_KUEUE_CLUSTER) as events:
            said: Any = None
            try:
                async with asyncio.timeout(30):
                    async for event in events:
                        if event.object is None or event.object.metadata.name != name:
                            continue
                        said = find(event.object.status.conditions, ACTIVE)
                        if said is not None and said.reason == reason and message in said.message:
                            return
            except TimeoutError:
                raise AssertionError(said) from None

    @property
    def remote(self) -> RemoteCluster:
        found = self.fleet.get("w")
        assert found is not None
        return found

    def clones(self) -> list[str]:
        return sorted(clone.metadata.name for clone in self.remote.workloads())

    async def until_clones(self, *names: str) -> None:
        """Wait until the worker is known to have just these."""
        async with asyncio.timeout(30):
            while self.clones() != list(names):
                await asyncio.sleep(0.01)


@asynccontextmanager
async def worker(directory: Path) -> AsyncIterator[Worker]:
    made = Worker(directory)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


@asynccontextmanager
async def manager(directory: Path, profiles: ClusterProfile | None = None, **gates: bool) -> AsyncIterator[Manager]:
    settings = replace(EMBEDDED.multi_kueue, gc_interval=0, cluster_profile=profiles)
    gates = {"MultiKueueKubeConfigPathValidation": False} | gates
    configuration = replace(EMBEDDED, multi_kueue=settings, feature_gates=gates)
    async with control_plane(MemoryJournal(), ExternalInputs(HastyClock(), Ids(), Random()), configuration) as plane:
        engine = assemble(plane.manager, plane.events, configuration, (Part.MULTICLUSTER,))
        assert engine.fleet is not None
        run = asyncio.create_task(plane.manager.run())
        await plane.manager.ready.wait()
        made = Manager(plane, engine.fleet, directory)
        await made.client.create(NAMESPACE, msgspec.convert({"metadata": {"name": "kueue-system"}}, Namespace))
        try:
            yield made
        finally:
            await plane.manager.stop()
            await run


def over_https(test: Callable[[Manager, Worker], Awaitable[None]]) -> Callable[[Path], None]:
    """Run a test of a manager and a worker that is not its yet, on a real loop."""

    def run(tmp_path: Path) -> None:
        async def body() -> None:
            async with manager(tmp_path) as managing, worker(tmp_path / "w") as working:
                await test(managing, working)

        asyncio.run(body())

    run.__name__, run.__doc__ = getattr(test, "__name__", "run"), test.__doc__
    return run


@over_https
async def test_a_worker_connects_and_is_written_to(managing: Manager, working: Worker) -> None:
    await workload(working.world, "clone", "q", metadata=CLONE)
    await managing.secret(working.kubeconfig())
    await managing.cluster()
    await managing.until()
    assert managing.clones() == ["clone"]
    await managing.remote.client.delete(WORKLOAD, "clone", "default")
    await managing.until_clones()


@over_https
async def test_a_worker_that_is_stopped_and_started_again_is_lost_and_found(managing: Manager, working: Worker) -> None:
    await managing.secret(working.kubeconfig())
    await managing.cluster()
    await managing.until()
    await workload(working.world, "clone", "q", metadata=CLONE)
    await working.stop()
    await managing.until("ClientConnectionFailed", "attempts: 2")
    lost_since = managing.remote.lost_since
    assert lost_since is not None
    await working.start()
    await managing.until()
    assert managing.remote.lost_since is None
    assert managing.clones() == ["clone"]
    await workload(working.world, "another", "q", metadata=CLONE)
    await managing.until_clones("another", "clone")


@over_https
async def test_a_worker_that_cannot_be_trusted_or_does_not_know_us_is_not_connected(
    managing: Manager, working: Worker
) -> None:
    other = encoded(trustme.CA().cert_pem.bytes())
    await managing.secret(working.kubeconfig({"certificate-authority-data": other}))
    await managing.cluster()
    await managing.until("ClientConnectionFailed", "certificate is not trusted")
    await managing.secret(working.kubeconfig(user={"token": "of-yesterday"}))
    await managing.until("ClientConnectionFailed", "does not know the user")
    await managing.secret(working.kubeconfig({"tls-server-name": "elsewhere.example"}))
    await managing.until("ClientConnectionFailed", "certificate is not trusted")
    await managing.secret(working.kubeconfig())
    await managing.until()


def rules_in_the_docs() -> list[Any]:
    page = (Path(__file__).parents[3] / "docs" / "access.md").read_text()
    found: list[Any] = yaml.safe_load(
        page.partition("## Rights for a MultiKueue manager")[2].split("```")[1].removeprefix("yaml")
    )
    return found


@over_https
async def test_the_rights_in_the_docs_suffice_for_their_kinds_and_others_are_named(
    managing: Manager, working: Worker
) -> None:
    rules = rules_in_the_docs()
    await working.account([rule for rule in rules if rule["resources"] != ["jobsets"]])
    await managing.secret(working.kubeconfig(user={"token": await working.token()}))
    await managing.cluster()
    await managing.until("Active", 'cannot list resource "jobsets" in API group "jobset.x-k8s.io"')
    assert (managing.remote.serves(JOB), managing.remote.serves(JOB_SET)) == (True, False)
    await working.world.client.patch(CLUSTER_ROLE, "manager", {"rules": rules})
    async with asyncio.timeout(30):
        while not managing.remote.serves(JOB_SET):
            await asyncio.sleep(0.01)
    await workload(working.world, "clone", "q", metadata=CLONE | {"finalizers": ["kueue.x-k8s.io/resource-in-use"]})
    await managing.until_clones("clone")
    assert await remove(managing.remote.client, (), managing.remote.workload("default/clone"))
    await managing.until_clones()


@over_https
async def test_a_token_that_has_expired_is_said_to_be_and_a_new_one_is_taken(
    managing: Manager, working: Worker
) -> None:
    await working.account(rules_in_the_docs())
    await managing.secret(working.kubeconfig(user={"token": await working.token()}))
    await managing.cluster()
    await managing.until()
    working.clock.ahead = timedelta(minutes=11)
    await working.stop()
    await working.start()
    await managing.until("ClientConnectionFailed", "does not know the user of the kubeconfig: Unauthorized")
    await managing.secret(working.kubeconfig(user={"token": await working.token()}))
    await managing.until()


@over_https
async def test_a_secret_that_changes_leads_to_another_server(managing: Manager, working: Worker) -> None:
    async with worker(managing.directory / "second") as second:
        await workload(working.world, "in-the-first", "q", metadata=CLONE)
        await workload(second.world, "in-the-second", "q", metadata=CLONE)
        await managing.secret(working.kubeconfig())
        await managing.cluster()
        await managing.until()
        assert managing.clones() == ["in-the-first"]
        await managing.secret(second.kubeconfig())
        await managing.until_clones("in-the-second")


def replaced(file: Path, content: bytes) -> None:
    """By rename, as editors do it."""
    new = file.with_name("new")
    new.write_bytes(content)
    new.rename(file)


def swapped(file: Path, content: bytes) -> None:
    """By another link, as a kubelet does it: the file is a link through a link to a directory."""
    generation = file.parent / f"..{len(list(file.parent.iterdir()))}"
    generation.mkdir()
    (generation / file.name).write_bytes(content)
    link = file.parent / "..new"
    link.symlink_to(generation.name)
    link.rename(file.parent / "..data")
    if not file.is_symlink():
        file.symlink_to(f"..data/{file.name}")


@pytest.mark.parametrize("write", [replaced, swapped])
def test_a_file_is_read_again_when_another_has_taken_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, bytes], None]
) -> None:
    monkeypatch.setattr(clusters, "POLL_SECONDS", 0.02)
    file = tmp_path / "kubeconfigs" / "w"
    file.parent.mkdir()

    async def body() -> None:
        async with manager(tmp_path) as managing, worker(tmp_path / "a") as first, worker(tmp_path / "b") as second:
            await workload(first.world, "in-the-first", "q", metadata=CLONE)
            await workload(second.world, "in-the-second", "q", metadata=CLONE)
            await managing.cluster(str(file), "Path")
            await managing.until("BadKubeConfig", f"{file}: cannot be read: No such file or directory")
            write(file, first.kubeconfig())
            await managing.until()
            assert managing.clones() == ["in-the-first"]
            write(file, second.kubeconfig())
            await managing.until_clones("in-the-second")
            write(file, b"nonsense")
            await managing.until("InsecureKubeConfig")
            write(file, second.kubeconfig())
            await managing.until()

    asyncio.run(body())


def test_files_anywhere_are_read_only_where_the_gate_is_off(tmp_path: Path) -> None:
    async def body() -> None:
        async with (
            manager(tmp_path, MultiKueueKubeConfigPathValidation=True) as managing,
            worker(tmp_path / "w") as working,
        ):
            (tmp_path / "kubeconfig").write_bytes(working.kubeconfig())
            await managing.cluster(str(tmp_path / "kubeconfig"), "Path")
            await managing.until("BadKubeConfig", "not under the allowed prefix /etc/multikueue/kubeconfigs")

    asyncio.run(body())


@asynccontextmanager
async def scripted(tmp_path: Path) -> AsyncIterator[tuple[Manager, ScriptedServer]]:
    async with manager(tmp_path) as managing, ScriptedServer() as server:
        for path in LISTS:
            server.on(path, answer({"metadata": {"resourceVersion": "1"}, "items": []}))
            server.on_watch(path, stream(stay=True))
        await managing.secret(json.dumps(server.kubeconfig({"token": "secret-token"})).encode())
        yield managing, server


def test_a_stream_that_says_nothing_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "STREAM_IDLE_SECONDS", 0.2)

    async def body() -> None:
        async with scripted(tmp_path) as (managing, _):
            await managing.cluster()
            await managing.until()
            await managing.until("ClientConnectionFailed", "nothing came for 0.2 s")

    asyncio.run(body())


def test_a_server_that_takes_connections_and_says_nothing_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(https, "CONNECT_SECONDS", 0.2)

    async def body() -> None:
        async with manager(tmp_path) as managing, worker(tmp_path / "w") as working:
            await managing.secret(working.kubeconfig({"server": f"https://127.0.0.1:{mute.getsockname()[1]}"}))
            await managing.cluster()
            await managing.secret(working.kubeconfig(), "good")
            await managing.cluster("good", name="good")
            await managing.until(name="good")
            await managing.until("ClientConnectionFailed", "attempts: 2")

    with socket.create_server(("127.0.0.1", 0)) as mute:
        asyncio.run(body())


def sending(body: bytes, encoding: str) -> Step:
    async def step(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body, headers={"Content-Type": "application/json", "Content-Encoding": encoding})

    return step


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(sending(b" " * (20 << 20), "identity"), id="as it is"),
        pytest.param(sending(gzip.compress(b" " * (100 << 20)), "gzip"), id="packed"),
    ],
)
def test_more_than_a_page_is_not_read(tmp_path: Path, step: Step) -> None:
    async def body() -> None:
        async with scripted(tmp_path) as (managing, server):
            server.on(LISTS[0], step)
            await managing.cluster()
            await managing.until("ClientConnectionFailed", "the answer is larger than 16777216 bytes")

    asyncio.run(body())


async def redirect(_: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("https://elsewhere.example/?token=x")


def test_our_credentials_go_to_no_other_server(tmp_path: Path) -> None:
    async def body() -> None:
        async with scripted(tmp_path) as (managing, server):
            server.on(LISTS[0], redirect)
            await managing.cluster()
            await managing.until("ClientConnectionFailed", "redirects to 'elsewhere.example/'")
            found = await managing.client.get(MULTI_KUEUE_CLUSTER, "w")
            assert "secret-token" not in str(found)

    asyncio.run(body())


def test_a_server_without_tls_gets_no_credentials(tmp_path: Path) -> None:
    seen: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.read(1 << 16))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    async def body() -> None:
        async with manager(tmp_path) as managing, worker(tmp_path / "w") as working:
            plain = await asyncio.start_server(listen, "127.0.0.1", 0)
            port = plain.sockets[0].getsockname()[1]
            await managing.secret(
                working.kubeconfig({"server": f"https://127.0.0.1:{port}"}, {"token": "secret-token"})
            )
            await managing.cluster()
            await managing.until("ClientConnectionFailed")
            plain.close()

    asyncio.run(body())
    assert seen
    assert all(data.startswith(b"\x16\x03") for data in seen)  # the beginning of a handshake, and nothing else
