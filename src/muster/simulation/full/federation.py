"""Run a MultiKueue manager and its worker clusters in the same virtual time."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from muster.api.config import Configuration
from muster.api.core import NAMESPACE, SECRET, Namespace, Secret
from muster.api.kueue import MULTI_KUEUE_CLUSTER, MultiKueueCluster
from muster.api.meta import ObjectMeta
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.runtime.clock import Clock
from muster.runtime.ids import Random
from muster.runtime.kube.kubeconfig import ClusterConfig, ConnectionConfig, UserConfig
from muster.runtime.kube.kubeconfig_text import write_kubeconfig
from muster.runtime.tasks import cancel
from muster.runtime.transport import Request, Response, Transport, TransportError
from muster.simulation.engine.site import Site
from muster.simulation.engine.world import WorkerSite
from muster.simulation.full.cluster import Cluster, run_cluster
from muster.simulation.scenario.reading import Reading

# The prefix of the server address of a worker cluster in a kubeconfig; the cluster's name follows.
_SCHEME = "https://"
_LOST = "the cluster is lost"


class Line:
    """The connection from the manager to a worker cluster, which the simulation can interrupt."""

    def __init__(self, server: Transport) -> None:
        self._server = server
        self._cut = asyncio.Event()

    def disconnect(self) -> None:
        """Interrupt the connection: fail requests, and break open streams."""
        self._cut.set()

    def reconnect(self) -> None:
        """Restore the connection."""
        self._cut = asyncio.Event()

    async def request(self, request: Request) -> Response:
        """Send a request to the cluster; return its response.

        Raises `TransportError` while the connection is interrupted.
        """
        self._require_whole()
        return await self._server.request(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the chunks of a response's body. Raises `TransportError` when the connection is or gets interrupted."""
        self._require_whole()
        async with self._server.stream(request) as chunks:
            yield self._read_until_cut(chunks)

    async def close(self) -> None:
        """Do nothing, because there is no real connection."""

    def _require_whole(self) -> None:
        if self._cut.is_set():
            raise TransportError(_LOST)

    async def _read_until_cut(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        cutting = asyncio.ensure_future(self._cut.wait())
        try:
            while True:
                reading = asyncio.ensure_future(_read_next(chunks))
                try:
                    await asyncio.wait([reading, cutting], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not reading.done():
                        await cancel([reading])
                if cutting.done():
                    raise TransportError(_LOST)
                if not (piece := reading.result()):
                    return
                yield piece
        finally:
            await cancel([cutting])


async def _read_next(chunks: AsyncIterator[bytes]) -> bytes:
    return await anext(chunks, b"")


class Federation:
    """A MultiKueue manager and its worker clusters, all with running servers.

    lines: the connection to each worker cluster, by the cluster's name.
    """

    def __init__(self, manager: Cluster, workers: Mapping[str, Cluster], lines: Mapping[str, Line]) -> None:
        self.manager, self.workers, self.lines = manager, workers, lines

    @asynccontextmanager
    async def controlled(self) -> AsyncIterator[None]:
        """Run the controllers of all clusters within the context. The scenario's time starts when they are ready."""
        async with AsyncExitStack() as stack:
            for worker in self.workers.values():
                await stack.enter_async_context(worker.controlled())
            await stack.enter_async_context(self.manager.controlled())
            self.manager.watch_workers(self.workers.values())
            await self.manager.sleep_until(0.0)
            yield


@asynccontextmanager
async def run_federation(
    reading: Reading, site: Site, configuration: Configuration, workers: Sequence[WorkerSite]
) -> AsyncIterator[Federation]:
    """Run the servers of a scenario's manager and worker clusters within the context, and connect them.

    The caller then runs their controllers. Raises `ScenarioError`.
    """
    lines: dict[str, Line] = {}

    def reach(config: ConnectionConfig, _clock: Clock, _random: Random) -> Transport:
        return lines[config.cluster.server.removeprefix(_SCHEME)]

    async with AsyncExitStack() as stack:
        clusters: dict[str, Cluster] = {}
        for worker in workers:
            for name in worker.reading.names:
                serial = len(clusters) + 1
                run = run_cluster(worker.reading.reading, worker.site, configuration, serial=serial)
                clusters[name] = await stack.enter_async_context(run)
                lines[name] = Line(InProcessTransport(clusters[name].plane.server))
        manager = await stack.enter_async_context(run_cluster(reading, site, configuration, reach=reach))
        if clusters:
            known = {one.metadata.name for one in site.connections}
            await _connect(manager, configuration.namespace, clusters, known)
        yield Federation(manager, clusters, lines)


async def _connect(manager: Cluster, namespace: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Create the kubeconfig Secrets and MultiKueueClusters with which a manager connects to its workers.

    known: the MultiKueueClusters of the scenario, which are replaced.

    Raises `ApiError` if the manager's server refuses an object.
    """
    client = manager.plane.client()
    if await client.find(NAMESPACE, namespace) is None:
        await client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name=namespace)))
    for name in known:
        await client.delete(MULTI_KUEUE_CLUSTER, name)
    for name in names:
        data = {"kubeconfig": base64.b64encode(write_kubeconfig(_locate(name), name).encode()).decode()}
        secret = msgspec.convert({"metadata": {"name": name}, "data": data}, Secret)
        await client.create(SECRET, secret, namespace)
        source: dict[str, Any] = {"kubeConfig": {"location": name, "locationType": "Secret"}}
        document = {"metadata": {"name": name}, "spec": {"clusterSource": source}}
        await client.create(MULTI_KUEUE_CLUSTER, msgspec.convert(document, MultiKueueCluster))


def _locate(name: str) -> ConnectionConfig:
    return ConnectionConfig(cluster=ClusterConfig(server=f"{_SCHEME}{name}"), user=UserConfig(token=name))
