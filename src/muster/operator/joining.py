"""Join a machine without a container runtime to any cluster: its pods run as processes, as under `muster up`.

The node needs no more rights than a kubelet (a credential of `system:node:NAME` is enough). An identity file in the
node's directory proves which agent owns a Node object.
"""

import socket
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from muster.api.core import NODE, Node
from muster.api.groups.coordination import LEASE, Lease
from muster.api.meta import ObjectMeta
from muster.api.ours.embedded import NODE_IDENTITY, NODE_KIND_LABEL, PROCESS, SERVER_MACHINE
from muster.api.values.quantity import Quantity
from muster.cluster.apiserver.identity.certificates import read_private
from muster.cluster.exposure import make_variables
from muster.cluster.nodes import node_object
from muster.cluster.nodes.agent import ProcessNode
from muster.cluster.nodes.disk.storage import seed_of
from muster.cluster.nodes.network.addresses import Addresses
from muster.cluster.nodes.network.network import Network
from muster.cluster.nodes.node_object import LEASE_SECONDS
from muster.cluster.store.directory import DataDirectory
from muster.operator import nodelogs
from muster.operator.endpoints import serve_handlers
from muster.operator.nodelogs import PORT
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.control.manager import Manager
from muster.runtime.events.recorder import EventSink
from muster.runtime.ids import Ids
from muster.runtime.process.privatefiles import write_private
from muster.runtime.refusals import ignoring

_LOOK_SECONDS = 1.0


class NameTakenError(Exception):
    """A node name that another node already has. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Joining:
    """The settings of a process node that joins a cluster.

    name: the name of the node.
    home: a directory that belongs to it.
    resources: the resources that it offers instead of the machine's.
    played_gpus: how many simulated GPUs it offers instead of the machine's.
    callers: the authority (PEM) of the clients that may read logs; without it no client may.
    port: the port for logs.
    lease_seconds: the duration of the node's Lease.
    """

    name: str
    home: Path
    resources: Mapping[str, Quantity] = field(default_factory=dict)
    played_gpus: int = 0
    callers: bytes = b""
    port: int = PORT
    lease_seconds: int = LEASE_SECONDS


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of an agent.

    node: the ID shared by all agents of a node.
    session: the agent's own ID.
    former: the ID of the previous agent.
    """

    node: str
    session: str
    former: str

    def holder(self, name: str) -> str:
        """Return this agent's holder identity in the node's Lease."""
        return f"{name}_{self.session}"

    def may_take(self, lease: Lease, name: str, now: datetime) -> bool:
        """Return whether the Lease may be taken: it is free, the previous agent's, or not renewed in time."""
        spec = lease.spec
        if spec.holder_identity in (None, "", f"{name}_{self.former}") or spec.renew_time is None:
            return True
        return spec.renew_time + timedelta(seconds=spec.lease_duration_seconds or 0) < now


@contextmanager
def hold_directory(home: Path, ids: Ids) -> Iterator[Identity]:
    """Lock a node's directory until the context closes; yield the identity of this agent.

    The directory stores the node's ID, and the agent's new ID, which the next agent reads as `former`. Raises
    `DataDirectoryError`, `OSError`.
    """
    directory = DataDirectory(home)
    try:
        node = _read_remembered(home / "identity") or _write(home / "identity", ids.uid())
        former = _read_remembered(home / "session")
        yield Identity(node, _write(home / "session", ids.uid()), former)
    finally:
        directory.release()


def _read_remembered(path: Path) -> str:
    with suppress(FileNotFoundError):
        return read_private(path).decode()
    return ""


def _write(path: Path, text: str) -> str:
    write_private(path, text.encode())
    return text


async def await_lease(client: Client, clock: Clock, name: str, identity: Identity) -> None:
    """Wait until no other agent of this node can be running. Raises `NameTakenError` if one runs, `ApiError`.

    Two agents have one identity if the directory was copied, as with a machine image.
    """
    seen = lease = await client.find(LEASE, name, node_object.LEASE_NAMESPACE)
    if lease is None or identity.may_take(lease, name, clock.now()):
        return
    until = clock.monotonic() + (lease.spec.lease_duration_seconds or 0)
    while seen == lease and clock.monotonic() < until:
        await clock.sleep(_LOOK_SECONDS)
        lease = await client.find(LEASE, name, node_object.LEASE_NAMESPACE)
    if lease is not None and seen != lease:
        raise NameTakenError(
            f"node {name} runs already: another agent with this directory's identity renews its Lease "
            f"({lease.spec.holder_identity}). If this directory was copied from that machine, join by another --name"
        )


async def claim(client: Client, name: str, identity: str) -> None:
    """Create the Node object, or check that the existing one is this node's. Raises `NameTakenError`, `ApiError`."""
    meta = ObjectMeta(name=name, labels={NODE_KIND_LABEL: PROCESS})
    with ignoring("AlreadyExists"):
        await client.create(NODE, node_object.make_joined_node(Node(metadata=meta), identity))
        return
    there = await client.get(NODE, name)
    if is_servers_own(there):
        raise NameTakenError(f"{name} is a node of the server itself: join by another name, such as --name {name}-b")
    if there.metadata.annotations.get(NODE_IDENTITY) != identity:
        raise NameTakenError(
            f"node {name} exists already, and belongs to another machine or another --data: join by another --name, "
            f"or, if that one is gone for good, kubectl delete node {name}"
        )


async def refuse_servers_own(client: Client, names: Collection[str]) -> None:
    """Raise `NameTakenError` if the server itself simulates or runs a node with one of these names.

    Raises `ApiError`.
    """
    nodes = (await client.list(NODE, labels=SERVER_MACHINE)).items if names else []
    clashes = sorted(node.metadata.name for node in nodes if node.metadata.name in names)
    if clashes:
        raise NameTakenError(
            f"the server itself has nodes of these names, such as {clashes[0]}: let it play them all "
            "(muster up --nodes simulated:COUNT), or start it without its own"
        )


def is_servers_own(node: Node) -> bool:
    """Return whether the server runs the node itself, so that the node did not join from another machine."""
    return SERVER_MACHINE in node.metadata.labels and NODE_IDENTITY not in node.metadata.annotations


def add(manager: Manager, ids: Ids, joining: Joining, identity: Identity, server: str) -> ProcessNode:
    """Add the node to a manager that does not run yet. server: the server's URL. Raises `OSError`."""
    host, port = _split_url(server)
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
        defaults=make_variables(host, port),
        host_address=_find_own_address(server),
        guest=identity.node,
        holder=identity.holder(joining.name),
        lease_seconds=joining.lease_seconds,
        port=joining.port if joining.callers else 0,
    )
    node.leave_pods_running = True  # only a requested stop ends the pods
    for part in (events, network, node):
        manager.add(part)
    return node


@asynccontextmanager
async def serve_logs(
    client: Client, node: ProcessNode, joining: Joining, server: str, now: datetime
) -> AsyncIterator[None]:
    """Serve the logs of the node's pods until the context closes, if any callers are allowed. Raises `OSError`."""
    if not joining.callers:
        yield
        return
    address = _find_own_address(server)
    tls = nodelogs.make_tls_context(joining.home / "pki", now, (address, joining.name), joining.callers)
    handlers = {nodelogs.PATH: nodelogs.make_log_handler(client, node.node_name, node.pods, node.connection)}
    async with serve_handlers(f"[{address}]:{joining.port}", handlers, tls):
        yield


def _split_url(server: str) -> tuple[str, int]:
    """Return the host and the port of a URL."""
    where = urlsplit(server)
    return where.hostname or "", where.port or 443


def _find_own_address(server: str) -> str:
    """Return the address of this machine on the route to the server. Raises `OSError`."""
    host, port = _split_url(server)
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)  # connecting a UDP socket sends nothing
        return str(probe.getsockname()[0])
