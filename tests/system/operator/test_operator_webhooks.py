"""A replica and its webhooks, on real sockets: what they wait for, and what ends both."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

import aiohttp
import pytest
from msgspec.structs import replace
from tests.system.operator.operator_site import Wire, renewed
from tests.unit.webhooks.test_decisions import job, review

from muster.api.config import DEFAULT, load
from muster.api.core import NAMESPACE, SECRET, Namespace
from muster.api.groups.coordination import LEASE
from muster.api.meta import ObjectMeta
from muster.api.server.admissionregistration import MUTATING_WEBHOOK_CONFIGURATION
from muster.cluster.apiserver.access.control import Trust
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.controlplane import ControlPlane, control_plane
from muster.cluster.store import MemoryJournal
from muster.controllers.integrations.table import INTEGRATIONS
from muster.operator import host
from muster.operator.admission import Webhooks
from muster.operator.host import serve_when_alone
from muster.operator.precedence import make_identity
from muster.operator.replica import OtherManagerError, Replica
from muster.operator.serving import make_certificates
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.control.leases import LeadershipLostError
from muster.runtime.control.manager import Manager
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.kube.kubeconfig import ClusterConfig, ConnectionConfig
from muster.runtime.tasks import run_together
from muster.runtime.transport import Request, Response, Transport
from muster.webhooks.configurations import webhook_configurations

KUEUE = "kueue-system"
SETTINGS = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: "0"}
metrics: {bindAddress: "0"}
webhook: {host: 127.0.0.1, port: 0}
featureGates: {VisibilityOnDemand: false}
leaderElection: {leaderElect: true, leaseDuration: 15s, renewDeadline: 10s, retryPeriod: 100ms}
"""
LEASE_NAME = DEFAULT.leader_election.resource_name


class Unconverted:
    """A server with objects of Kueue's kinds in their old version: it lists none of them while nobody converts."""

    def __init__(self, transport: Transport) -> None:
        self.stream, self.close, self._transport = transport.stream, transport.close, transport
        self.fails = False
        self.writes = 0

    async def request(self, request: Request) -> Response:
        if request.method == "GET" and "/apis/kueue.x-k8s.io/" in request.path:
            if self.fails:
                raise ValueError("nobody expects this")
            return Response(500, b'{"kind":"Status","code":500,"message":"conversion webhook failed"}')
        self.writes += request.method != "GET"
        return await self._transport.request(request)


class Site:
    """A replica, its webhooks, and the way of both to a server; said: where they are served."""

    def __init__(self, plane: ControlPlane, port: int) -> None:
        inputs = plane.inputs
        self.plane = plane
        self.client, self.cable = plane.client(), Unconverted(InProcessTransport(plane.server))
        self.said: asyncio.Queue[str] = asyncio.Queue()
        settings = replace(DEFAULT, webhook=replace(DEFAULT.webhook, host="127.0.0.1", port=port))
        self.replica = Replica(self.cable, inputs, settings, make_identity("a", "uid"))
        keeping, following = (Manager(Client(self.cable), inputs.clock, inputs.random) for _ in range(2))
        kept = make_certificates(keeping, settings)
        self.webhooks = Webhooks(keeping, following, kept, settings, self.replica, self.said.put_nowait)
        self._keeping = keeping

    async def serve(self) -> None:
        await serve_when_alone(self.replica, self._keeping, self.webhooks, nullcontext())

    async def run(self) -> None:
        await run_together(self.replica.run(), self.serve())

    async def posted(self, port: str, path: str, body: bytes = b"{}") -> int:
        """Of a server that knows the authority."""
        return await post(self.client, port, path, body)


async def post(client: Client, port: str, path: str, body: bytes) -> int:
    """Return the status of the answer to a server that knows the authority."""
    secret = await client.get(SECRET, DEFAULT.internal_cert_management.webhook_secret_name, KUEUE)
    tls = ssl.create_default_context(cadata=secret.data["ca.crt"].decode())
    url = f"https://localhost:{port}{path}"
    async with aiohttp.ClientSession() as session, session.post(url, data=body, ssl=tls) as answer:
        return answer.status


@asynccontextmanager
async def site(port: int = 0) -> AsyncIterator[Site]:
    inputs = ExternalInputs(RealClock(), Ids(1), Random(1))
    async with asyncio.timeout(60), control_plane(MemoryJournal(), inputs, DEFAULT, Trust, INTEGRATIONS) as plane:
        client = plane.client()
        for name in (KUEUE, "default"):
            if await client.find(NAMESPACE, name) is None:
                await client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name=name)))
        document = webhook_configurations(DEFAULT)[0]
        await client.create(MUTATING_WEBHOOK_CONFIGURATION, MUTATING_WEBHOOK_CONFIGURATION.typed(document))
        yield Site(plane, port)


def test_they_convert_for_a_leader_that_waits_for_what_is_to_be_converted() -> None:
    async def body() -> None:
        async with site() as s:
            run = asyncio.create_task(s.run())
            assert s.webhooks.unready().startswith("webhooks: waiting for ")
            port = (await s.said.get()).rpartition(" ")[2]
            assert s.webhooks.unready() == ""
            assert await s.posted(port, "/convert") == 400
            await s.replica.began.wait()
            while "conversion webhook failed" not in s.replica.unready():
                await asyncio.sleep(0.01)
            name = "muster-mutating-webhook-configuration"
            while not (await s.client.get(MUTATING_WEBHOOK_CONFIGURATION, name)).webhooks[0].client_config.ca_bundle:
                await asyncio.sleep(0.01)
            await s.replica.stop()
            await run
            assert s.webhooks.unready() == "webhooks: waiting for a certificate"

    asyncio.run(body())


def test_where_they_cannot_be_served_the_replica_ends() -> None:
    async def body() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            async with site(taken.getsockname()[1]) as s:
                with pytest.raises(OSError, match="is taken by another process"):
                    await s.run()
                assert s.webhooks.unready() != ""
                lease = await s.client.get(LEASE, LEASE_NAME, KUEUE)
                assert not lease.spec.holder_identity, "it is given back"

    asyncio.run(body())


def test_where_their_caches_have_ended_the_replica_ends_and_nothing_is_served_from_old_ones() -> None:
    async def body() -> None:
        async with site() as s:
            serving = asyncio.create_task(s.serve())
            s.replica.alone.set()
            port = (await s.said.get()).rpartition(" ")[2]
            s.cable.fails = True
            with pytest.raises(ValueError, match="nobody expects this"):
                await serving
            with pytest.raises(aiohttp.ClientConnectionError):
                await s.posted(port, "/mutate")

    asyncio.run(body())


class Way(Wire):
    """A way to a server that is not an embedded one. It holds the request for a Job `parent` until `goes_on`."""

    def __init__(self, transport: Transport, asked: asyncio.Event, goes_on: asyncio.Event) -> None:
        super().__init__(transport)
        self._asked, self._goes_on = asked, goes_on

    async def request(self, request: Request) -> Response:
        if request.path == "/version":
            return Response(200, b'{"gitVersion": "v1.34.0"}')
        if request.path.endswith("/jobs/parent"):
            self._asked.set()
            await self._goes_on.wait()
        return await super().request(request)


def test_a_replica_that_has_lost_its_lease_still_answers_the_reviews_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """It hangs up on the server, so that none of its writes arrives; webhooks only read."""
    monkeypatch.setattr(host, "settle", lambda: None)  # it is for the whole process

    async def body() -> None:
        async with site() as s:
            said, asked, goes_on = asyncio.Queue[str](), asyncio.Event(), asyncio.Event()
            ways: list[Way] = []

            def connect(*_: object) -> Way:
                ways.append(Way(InProcessTransport(s.plane.server), asked, goes_on))
                return ways[-1]

            options = host.Options(ConnectionConfig(ClusterConfig("https://here")), load(SETTINGS), "a")
            run = asyncio.create_task(host.operate(options, (), said.put_nowait, connect))
            while not (line := await said.get()).startswith("webhooks at port "):
                pass
            while (lease := await s.client.find(LEASE, LEASE_NAME, KUEUE)) is None or not lease.spec.holder_identity:
                await asyncio.sleep(0.01)
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": "u", "controller": True}
            document = job({"kueue.x-k8s.io/queue-name": "lq"}, owner)
            under_way = asyncio.create_task(post(s.client, line.rpartition(" ")[2], "/mutate", review(document)))
            await asked.wait()
            async with renewed(s.client, RealClock(), "other_x"):
                hung_up = [asyncio.create_task(way.closing.wait()) for way in ways]
                await asyncio.wait(hung_up, return_when=asyncio.FIRST_COMPLETED)
                goes_on.set()
                assert await under_way == 200
                with pytest.raises(LeadershipLostError):
                    await run
            await asyncio.wait(hung_up)

    asyncio.run(body())


def test_beside_kueues_manager_nothing_of_its_is_touched() -> None:
    async def body() -> None:
        async with site() as s:
            async with renewed(s.client, RealClock(), "kueue-7d9_uid"):
                with pytest.raises(OtherManagerError):
                    await s.run()
            assert s.cable.writes == 0

    asyncio.run(body())
