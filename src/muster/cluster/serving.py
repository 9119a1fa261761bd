"""`muster up`: an embedded cluster that is durable, and that any Kubernetes client reaches over HTTPS."""

import asyncio
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from muster.api.config import EMBEDDED, Configuration
from muster.cluster.apiserver.credentials import Credentials
from muster.cluster.apiserver.http import HttpsFront
from muster.cluster.embedded import NODES, cluster
from muster.cluster.nodespec import NodeSpec
from muster.cluster.store import SqliteJournal

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Options:
    """What `muster up` was told."""

    home: Path
    port: int
    nodes: Sequence[NodeSpec] = (NodeSpec(),)
    configuration: Configuration = EMBEDDED


async def serve(options: Options, ready: Callable[[str], None]) -> None:
    """Run until SIGTERM or SIGINT, then end all pods and stop. `ready` is told the URL once everything serves.

    Raises `DataDirectoryError`, `AddressTaken`, `CredentialError`, or what made a part fail.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stopping.set)
    journal, state = SqliteJournal(options.home), options.home / NODES
    async with cluster(journal, state, options.nodes, options.configuration, adopt=True, default_queue=True) as running:
        plane = running.plane
        clock, ids = plane.surroundings.clock, plane.surroundings.ids
        credentials = Credentials.load(options.home / "pki", clock.now(), ids)
        front = HttpsFront(plane.server, credentials.authenticator(), credentials.server_context())
        port = await front.start(HOST, options.port)
        try:
            url = f"https://{HOST}:{port}"
            credentials.write_kubeconfig(options.home / "kubeconfig", url)
            ready(url)
            await running.until(stopping.wait())
            await running.end()  # clients see how their jobs end
        finally:
            await front.stop()
