"""A process node in a cluster of others, which it reaches over HTTPS and where it sees little."""

import asyncio
import os
import signal
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.kubeplane import free_port
from tests.system import node_world
from tests.system.node_world import LIMIT, World, shell

from muster.api.batch import JOB, Job
from muster.api.core import CONFIG_MAP, NODE, POD, ConfigMap, DaemonEndpoint
from muster.api.meta import ObjectMeta
from muster.api.ours.embedded import NODE_KIND_LABEL
from muster.cluster.apiserver.front.https import HttpsFront
from muster.cluster.apiserver.identity.certificates import Authority
from muster.cluster.apiserver.identity.credentials import Credentials
from muster.cluster.apiserver.identity.users import MASTERS, User
from muster.cluster.controlplane import control_plane
from muster.cluster.exposure import LOOPBACK, url
from muster.cluster.nodes.disk import leftovers
from muster.cluster.nodes.node_object import TAINT
from muster.cluster.store import MemoryJournal
from muster.cluster.store.errors import DataDirectoryError
from muster.operator.joining import Joining, NameTakenError
from muster.operator.nodes import play
from muster.runtime.clock import RealClock
from muster.runtime.givens import Givens
from muster.runtime.ids import Ids, Random
from muster.runtime.kube.kubeconfig import ConnectionConfig
from muster.runtime.kube.kubeconfig_files import load

STOP = signal.SIGUSR1
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}
WITHOUT_TOKEN = {"automountServiceAccountToken": False}


class Site:
    """A cluster that is served over HTTPS, and a machine beside it."""

    def __init__(self, world: World, connection: ConnectionConfig, state: Path) -> None:
        self.world, self._connection, self._state = world, connection, state

    async def join(self, home: str = "home", **answering: Any) -> asyncio.Task[None]:
        """Begin, and wait until the node is registered or that has failed. answering: as `Joining` has it."""
        registered: asyncio.Event = asyncio.Event()
        said: list[str] = []

        def tell(line: str) -> None:
            said.append(line)
            registered.set()

        machine = Joining("node-0", self._state / home, {"cpu": "3"}, **answering)
        agent = asyncio.create_task(play(self._connection, [], [STOP], tell, machine))
        waiting = asyncio.create_task(registered.wait())
        await asyncio.wait([agent, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        assert agent.done() or said == ["1 node registered"]
        return agent


@asynccontextmanager
async def site(state: Path) -> AsyncIterator[Site]:
    credentials = Credentials.load(state / "pki", RealClock().now(), Ids())
    givens = Givens(RealClock(), Ids(), Random())
    async with control_plane(MemoryJournal(), givens, trust=lambda: credentials.trust) as plane:
        serving = asyncio.create_task(plane.manager.run())
        await plane.manager.ready.wait()
        authenticator = credentials.authenticator(plane.access.tokens.user)
        front = HttpsFront(plane.server, authenticator, credentials.server_context())
        port = await front.start(LOOPBACK, 0)
        credentials.write_kubeconfig(state / "kubeconfig", url(LOOPBACK, port))
        try:
            yield Site(World(plane, state), load({}, path=str(state / "kubeconfig")), state)
        finally:
            await front.stop(0)
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
        assert begun.read_text().startswith("127.0.0.1:")
        assert len(begun.read_text().splitlines()) == 1

    played(tmp_path, story)


def test_a_name_and_a_directory_are_one_machines_and_stay_so(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        agent = await site.join()
        for home, refusal in (("other", NameTakenError), ("home", DataDirectoryError)):
            with pytest.raises(refusal, match=r"node-0 is there already|is in use by process"):
                await (await site.join(home))
        os.kill(os.getpid(), STOP)
        await agent
        await leftovers.forget_absent(site.world.client, tmp_path / "nodes", ())
        assert [node.metadata.name for node in (await site.world.client.list(NODE)).items] == ["node-0"]

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
