"""A machine without a container runtime joins a cluster of any kind: its pods run as processes, as under `muster up`.

The node is a guest: it asks for no more than a kubelet may (a credential of `system:node:NAME` is enough). Whose a Node
object is, is told by the identity that lies in the node's directory.
"""

import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from muster.api.core import NODE, Node
from muster.api.meta import ObjectMeta
from muster.api.ours.embedded import NODE_IDENTITY, NODE_KIND_LABEL, PROCESS
from muster.api.values.quantity import Quantity
from muster.cluster.apiserver.identity.certificates import read_private, write_private
from muster.cluster.exposure import variables
from muster.cluster.nodes import node_object
from muster.cluster.nodes.agent import ProcessNode
from muster.cluster.nodes.disk.storage import seed_of
from muster.cluster.nodes.network.addresses import Addresses
from muster.cluster.nodes.network.network import Network
from muster.cluster.store.directory import DataDirectory
from muster.operator import nodelogs
from muster.operator.endpoints import serving
from muster.operator.nodelogs import PORT
from muster.runtime.client import Client
from muster.runtime.events.recorder import EventSink
from muster.runtime.ids import Ids
from muster.runtime.manager import Manager
from muster.runtime.refusals import ignoring


class NameTakenError(Exception):
    """A node of that name is there, and is another one; says what to do."""


@dataclass(frozen=True, slots=True)
class Joining:
    """A process node to be.

    name: its name. home: a directory of its own. resources: what it offers instead of what the machine has.
    played_gpus: how many GPUs it makes up, instead of those of the machine.
    callers: the authority (PEM) of those who may ask for logs, at this port; without it no caller may.
    """

    name: str
    home: Path
    resources: Mapping[str, Quantity] = field(default_factory=dict)
    played_gpus: int = 0
    callers: bytes = b""
    port: int = PORT


@contextmanager
def held(home: Path, ids: Ids) -> Iterator[str]:
    """Have a node's directory to ourselves; the node's identity. Raises `DataDirectoryError`, `OSError`."""
    directory = DataDirectory(home)
    try:
        yield _identity(home / "identity", ids)
    finally:
        directory.release()


def _identity(path: Path, ids: Ids) -> str:
    with suppress(FileNotFoundError):
        return read_private(path).decode()
    made = ids.uid()
    write_private(path, made.encode())
    return made


async def claim(client: Client, name: str, identity: str) -> None:
    """Make the Node object, or find that it is the one that was made before. Raises `NameTakenError`, `ApiError`."""
    meta = ObjectMeta(name=name, labels={NODE_KIND_LABEL: PROCESS})
    with ignoring("AlreadyExists"):
        await client.create(NODE, node_object.of_guest(Node(metadata=meta), identity))
        return
    there = await client.get(NODE, name)
    if there.metadata.annotations.get(NODE_IDENTITY) != identity:
        raise NameTakenError(
            f"node {name} is there already, and another machine's, or of another --data: join by another --name, or, "
            f"if that one is gone for good, kubectl delete node {name}"
        )


def add(manager: Manager, ids: Ids, joining: Joining, identity: str, server: str) -> ProcessNode:
    """Put the node under a manager that does not run yet. server: its URL. Raises `OSError`."""
    host, port = _parted(server)
    events = EventSink(manager.client, manager.clock, ids, manager.random)
    state = joining.home / "node"
    network = Network(manager, Addresses(seed_of(state)), only_node=joining.name)
    node = ProcessNode(
        manager,
        events.recorder("kubelet", joining.name),
        network,
        name=joining.name,
        state=state,
        resources=joining.resources,
        played_gpus=joining.played_gpus,
        defaults=variables(host, port),
        host_address=_own_address(server),
        guest=identity,
        port=joining.port if joining.callers else 0,
    )
    node.leave_pods_running = True  # only who is asked to stop ends the pods
    for part in (events, network, node):
        manager.add(part)
    return node


@asynccontextmanager
async def answering(
    client: Client, node: ProcessNode, joining: Joining, server: str, now: datetime
) -> AsyncIterator[None]:
    """Serve the logs of the node's pods to the callers who may ask for them, if any may. Raises `OSError`."""
    if not joining.callers:
        yield
        return
    address = _own_address(server)
    tls = nodelogs.context(joining.home / "pki", now, (address, joining.name), joining.callers)
    handlers = {nodelogs.PATH: nodelogs.handler(client, node.node_name, node.pods, node.connection)}
    async with serving(f"[{address}]:{joining.port}", handlers, tls, streaming=True):
        yield


def _parted(server: str) -> tuple[str, int]:
    """The host and the port of a URL."""
    where = urlsplit(server)
    return where.hostname or "", where.port or 443


def _own_address(server: str) -> str:
    """The address of this machine that the server sees. Raises `OSError`."""
    host, port = _parted(server)
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as asked:
        asked.connect(address)  # nothing is sent
        return str(asked.getsockname()[0])
