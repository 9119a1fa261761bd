"""A process node in a cluster of others, which it reaches over HTTPS and where it sees little."""

import asyncio
import os
import signal
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any, TypeAlias

import aiohttp
import msgspec
import pytest
from tests.kubeplane import free_port
from tests.system.nodes import node_world
from tests.system.nodes.node_world import LIMIT, World, shell

from muster.api.batch import JOB, Job
from muster.api.core import CONFIG_MAP, NODE, POD, ConfigMap, DaemonEndpoint, Node
from muster.api.meta import ObjectMeta
from muster.api.ours.embedded import NODE_KIND_LABEL, SERVER_MACHINE
from muster.api.pods import find_condition
from muster.cluster.apiserver.front.https import HttpsFront
from muster.cluster.apiserver.identity.certificates import Authority
from muster.cluster.apiserver.identity.credentials import Credentials
from muster.cluster.apiserver.identity.users import MASTERS, User
from muster.cluster.controlplane import control_plane
from muster.cluster.exposure import LOOPBACK, make_url
from muster.cluster.nodes import shims
from muster.cluster.nodes.disk import leftovers
from muster.cluster.nodes.disk.storage import Storage
from muster.cluster.nodes.node_object import TAINT
from muster.cluster.nodespec import parse
from muster.cluster.store import MemoryJournal
from muster.cluster.store.errors import DataDirectoryError
from muster.jobs.interruption import interruption_of
from muster.operator.joining import Joining, NameTakenError
from muster.operator.nodes import play
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.kube.kubeconfig import ConnectionConfig
from muster.runtime.kube.kubeconfig_files import load
from muster.runtime.transport import Request, Response, Transport, TransportError

pytestmark = pytest.mark.slow

STOP = signal.SIGUSR1
Serving: TypeAlias = Awaitable[tuple[HttpsFront, int]]
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}
WITHOUT_TOKEN = {"automountServiceAccountToken": False}


class Site:
    """A cluster that is served over HTTPS, and a machine beside it."""

    def __init__(
        self, world: World, connection: ConnectionConfig, state: Path, serve: Callable[[int], Serving]
    ) -> None:
        self.world, self.connection, self._state, self._serve = world, connection, state, serve
        self.front: HttpsFront | None = None
        self.port = 0

    async def open(self) -> None:
        """Serve; after a cut, at the same port."""
        self.front, self.port = await self._serve(self.port)

    async def cut(self) -> None:
        """Let nobody reach the server any more."""
        if self.front is not None:
            await self.front.stop(0)
            self.front = None

    async def join(self, home: str = "home", **answering: Any) -> asyncio.Task[None]:
        """Begin, and wait until the node is registered or that has failed. answering: as `Joining` has it."""
        registered: asyncio.Event = asyncio.Event()
        said: list[str] = []

        def tell(line: str) -> None:
            said.append(line)
            registered.set()

        machine = Joining("node-0", self._state / home, **({"resources": {"cpu": "3"}} | answering))
        agent = asyncio.create_task(play(self.connection, [], [STOP], tell, machine))
        waiting = asyncio.create_task(registered.wait())
        await asyncio.wait([agent, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        assert agent.done() or said == ["1 node registered"]
        return agent


@asynccontextmanager
async def site(state: Path) -> AsyncIterator[Site]:
    credentials = Credentials.load(state / "pki", RealClock().now(), Ids())
    inputs = ExternalInputs(RealClock(), Ids(), Random())
    async with control_plane(MemoryJournal(), inputs, trust=lambda: credentials.trust) as plane:
        serving = asyncio.create_task(plane.manager.run())
        await plane.manager.ready.wait()
        authenticator = credentials.authenticator(plane.access.tokens.user)

        async def serve(port: int) -> tuple[HttpsFront, int]:
            front = HttpsFront(plane.server, authenticator, credentials.server_context())
            return front, await front.start(LOOPBACK, port)

        port = free_port()
        credentials.write_kubeconfig(state / "kubeconfig", make_url(LOOPBACK, port))
        site = Site(World(plane, state), load({}, path=str(state / "kubeconfig")), state, serve)
        site.port = port
        await site.open()
        try:
            yield site
        finally:
            await site.cut()
            await plane.manager.stop()
            await serving


def played(state: Path, story: Callable[[Site], Awaitable[None]]) -> None:
    async def go() -> None:
        async with asyncio.timeout(3 * LIMIT), site(state) as found:
            await story(found)

    try:
        asyncio.run(go())
    finally:
        asyncio.run(leftovers.end_everything(state / "home"))


def test_pods_outlive_an_agent_that_fails_and_end_with_one_that_is_told_to_stop(tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    async def story(site: Site) -> None:
        world = site.world
        agent = await site.join()
        node = await world.client.get(NODE, "node-0")
        assert node.spec.taints == (TAINT,)
        assert (node.metadata.labels[NODE_KIND_LABEL], node.status.allocatable["cpu"]) == ("process", "3")
        server = "$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT"
        await world.create(pod=WITHOUT_TOKEN, **shell(f"echo {server} >> {begun}; sleep 600"))
        status = (await world.phase("Running")).status
        assert status.pod_ip == status.host_ip == node.status.addresses[0].address
        agent.cancel()
        await asyncio.wait([agent])
        agent = await site.join()
        await world.create("next", pod=WITHOUT_TOKEN)
        await world.phase("Succeeded", "next")
        assert (await world.get()).status.phase == "Running"
        os.kill(os.getpid(), STOP)
        await agent
        ended = await world.get()
        assert (ended.status.phase, ended.status.reason) == ("Failed", "Terminated")
        interruption = interruption_of(ended)
        assert interruption is not None
        assert interruption.message == "ended with node node-0, which was shut down"
        assert begun.read_text().startswith("127.0.0.1:")
        assert len(begun.read_text().splitlines()) == 1

    played(tmp_path, story)


def test_a_name_and_a_directory_are_one_machines_and_stay_so(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        agent = await site.join()
        for home, refusal in (("other", NameTakenError), ("home", DataDirectoryError)):
            with pytest.raises(refusal, match=r"node-0 exists already|is in use by process"):
                await (await site.join(home))
        os.kill(os.getpid(), STOP)
        await agent
        await leftovers.forget_absent(site.world.client, tmp_path / "nodes", ())
        assert [node.metadata.name for node in (await site.world.client.list(NODE)).items] == ["node-0"]

    played(tmp_path, story)


IMPATIENT = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}


@pytest.mark.parametrize("agent_lives", [True, False], ids=["cut off", "killed"])
def test_pods_of_a_machine_without_its_server_end_when_they_may_run_elsewhere(
    tmp_path: Path, agent_lives: bool
) -> None:
    told = tmp_path / "told"

    async def story(site: Site) -> None:
        world = site.world
        agent = await site.join(lease_seconds=2)
        patient = {"tolerations": [IMPATIENT], **WITHOUT_TOKEN}
        soon = {"tolerations": [IMPATIENT | {"tolerationSeconds": 1}], **WITHOUT_TOKEN}
        script = f"trap 'echo asked > {told}' TERM; while :; do sleep 0.1; done"
        await world.create("soon", pod=soon, restartPolicy="Always", **shell(script))
        await world.create("patient", pod=patient, **shell("sleep 600"))
        for name in ("soon", "patient"):
            await world.phase("Running", name)
        await asyncio.sleep(4)  # longer than it would live unheard
        before = await world.get("soon")
        assert before.status.phase == "Running"
        storage = Storage(tmp_path / "home" / "node").of(before.metadata.uid)
        await site.cut()
        if not agent_lives:
            agent.cancel()
            await asyncio.wait([agent])
        async with asyncio.timeout(LIMIT):
            while shims.is_alive(storage.attempt("main", 0)):
                await asyncio.sleep(0.05)
        assert told.exists() == agent_lives, "an agent that lives lets programs save what they have"
        await site.open()
        if not agent_lives:
            agent = await site.join(lease_seconds=2)
        ended = await world.phase("Failed", "soon")
        assert ended.status.reason == "NodeLost"
        target = find_condition(ended, "DisruptionTarget")
        assert target is not None
        assert target.reason == "TerminationByKubelet"
        assert (await world.get("patient")).status.phase == "Running"
        assert storage.attempts("main") == [0], "it is not started again"
        agent.cancel()
        await asyncio.wait([agent])

    played(tmp_path, story)


class PoorNetwork:
    """Carries requests to a server, but no renewals of Leases while `loses_renewals`, and no events while `is_deaf`."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.loses_renewals = self.is_deaf = False

    async def request(self, request: Request) -> Response:
        if self.loses_renewals and "/leases/" in request.path:
            raise TransportError("lost")
        return await self._inner.request(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._inner.stream(request) as lines:
            yield self._heard(lines)

    async def _heard(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            while self.is_deaf:
                await asyncio.sleep(0.02)
            yield line

    async def close(self) -> None:
        await self._inner.close()


def test_a_pod_that_comes_while_the_server_is_not_reached_waits_and_is_not_ended(tmp_path: Path) -> None:
    soon = {"tolerations": [IMPATIENT | {"tolerationSeconds": 1}], **WITHOUT_TOKEN}

    async def story(world: World) -> None:
        network = PoorNetwork(world.plane.client().transport)
        await world.start_node(Client(network), guest="a-machine", lease_seconds=2)
        network.loses_renewals = True
        await asyncio.sleep(4)  # longer than a pod would live unheard
        for name in ("kept", "lost"):
            await world.create(name, pod=soon, **shell("exec sleep 600"))
        await asyncio.sleep(1)  # its agent has both
        assert [(await world.get(name)).status.phase for name in ("kept", "lost")] == ["Pending", "Pending"]
        network.is_deaf = True
        lost = await world.get("lost")
        await world.client.delete(POD, "lost", "default", grace_period_seconds=0)
        network.loses_renewals = False
        kept = await world.phase("Running", "kept")
        await asyncio.sleep(1)
        assert world.directories() == [kept.metadata.uid], f"nothing runs of {lost.metadata.uid}, which has gone"
        network.is_deaf = False
        assert (await world.get("kept")).status.phase == "Running"

    node_world.play(tmp_path, story, node=False)


def test_of_two_agents_of_one_identity_one_gives_way(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        agent = await site.join(lease_seconds=4)
        # The agent removes what has ended while its home is copied.
        copytree(tmp_path / "home", tmp_path / "copy", ignore=ignore_patterns("lock", "removed"))
        (tmp_path / "copy" / "session").write_text("another's")
        with pytest.raises(NameTakenError, match=r"node-0 runs already: .*node-0_"):
            await (await site.join("copy", lease_seconds=4))
        agent.cancel()
        await asyncio.wait([agent])
        agent = await site.join("copy", lease_seconds=4)  # the Lease has run out meanwhile, or does
        assert not agent.done()
        agent.cancel()
        await asyncio.wait([agent])

    try:
        played(tmp_path, story)
    finally:
        asyncio.run(leftovers.end_everything(tmp_path / "copy"))


def test_names_of_the_servers_own_nodes_are_refused(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        for name in ("node-0", "sim-1"):
            own = Node(metadata=ObjectMeta(name=name, labels={SERVER_MACHINE: "true", NODE_KIND_LABEL: "process"}))
            await site.world.client.create(NODE, own)
        with pytest.raises(NameTakenError, match="node-0 is a node of the server itself: join by another name"):
            await (await site.join())
        with pytest.raises(NameTakenError, match="such as sim-1"):
            await play(site.connection, [parse("simulated:2")], [STOP], print)

    played(tmp_path, story)


def test_logs_are_given_to_those_whom_the_server_allows_it(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki", RealClock().now())
    kubelets_client = User("kube-apiserver-kubelet-client", frozenset({MASTERS}))

    async def story(site: Site) -> None:
        port = free_port()
        agent = await site.join(callers=authority.pair.certificate_pem, port=port)
        node = await site.world.client.get(NODE, "node-0")
        assert node.status.daemon_endpoints.kubelet_endpoint == DaemonEndpoint(Port=port)
        await site.world.create(pod=WITHOUT_TOKEN, **shell("seq 3; exec sleep 600"))
        await site.world.phase("Running")

        @asynccontextmanager
        async def answered(
            user: User | None, path: str, authority: Authority = authority
        ) -> AsyncIterator[aiohttp.ClientResponse]:
            tls = ssl.create_default_context(cafile=str(tmp_path / "home" / "pki" / "ca.pem"))
            if user is not None:
                tls.load_cert_chain(authority.client(user.name, user).file)
            address = f"https://127.0.0.1:{port}/containerLogs/default/{path}"
            async with aiohttp.ClientSession() as session, session.get(address, ssl=tls) as answer:
                yield answer

        async def asked(user: User | None, path: str, authority: Authority = authority) -> tuple[int, str]:
            async with answered(user, path, authority) as answer:
                return answer.status, await answer.text()

        while (await asked(kubelets_client, "p/main"))[1].count("\n") < 3:
            await asyncio.sleep(0.02)
        assert await asked(kubelets_client, "p/main?tailLines=2") == (200, "2\n3\n")
        assert (await asked(kubelets_client, "p/other"))[0] == 400
        assert (await asked(kubelets_client, "p/main?tailLines=-1"))[0] == 422
        assert (await asked(kubelets_client, "q/main"))[0] == 404
        assert (await asked(User("system:node:other", frozenset({"system:nodes"})), "p/main"))[0] == 403
        stranger = Authority(tmp_path / "stranger", RealClock().now())
        for user, theirs in ((None, authority), (kubelets_client, stranger)):
            with pytest.raises(aiohttp.ClientError):
                await asked(user, "p/main", theirs)
        async with answered(kubelets_client, "p/main?follow=true") as followed:
            assert await followed.content.readexactly(6) == b"1\n2\n3\n"
            os.kill(os.getpid(), STOP)
            assert await followed.read() == b"", "it ends with the container"
        await agent

    played(tmp_path, story)


def test_a_guest_hears_of_what_its_pods_show_and_keeps_nothing_of_those_that_are_gone(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        meta = ObjectMeta(name="words", namespace="default")
        await world.client.create(CONFIG_MAP, ConfigMap(metadata=meta, data={"word": "one"}))
        volume = {"name": "v", "configMap": {"name": "words"}}
        mounts = [{"name": "v", "mountPath": "/words"}]
        script = "for word in one two; do until grep $word /words/word; do sleep 0.05; done; done"
        job = msgspec.convert({"metadata": {"name": "j"}, "spec": {"suspend": True, "template": TEMPLATE}}, Job)
        uid = (await world.client.create(JOB, job, "default")).metadata.uid
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid, "controller": True}
        for name in ("p", "q"):
            owned = {"ownerReferences": [owner]}
            await world.create(name, meta=owned, volumes=[volume], volumeMounts=mounts, **shell(script))
            await world.phase("Running", name)
            await world.says("one\n", name)
        await world.client.delete(POD, "q", "default", grace_period_seconds=0)
        await world.gone("q")
        uid = (await world.get()).metadata.uid
        while world.directories() != [uid]:
            await asyncio.sleep(0.02)
        await world.client.patch(CONFIG_MAP, "words", {"data": {"word": "two"}}, "default")
        await world.phase("Succeeded")
        assert await world.log() == "one\ntwo\n"

    node_world.play(tmp_path, story, guest="a-machine")
