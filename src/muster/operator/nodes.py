"""Nodes for a server of any kind: thousands of simulated ones in one process, for rehearsals; this machine itself."""

import asyncio
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from functools import partial

from muster.cluster.nodes.agent import ProcessNode
from muster.cluster.nodes.simulated.leases import SimulatedLeases
from muster.cluster.nodes.simulated.nodes import SimulatedNodes
from muster.cluster.nodespec import NodeSpec
from muster.operator import joining
from muster.operator.joining import Joining
from muster.operator.signals import stop_on
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.ids import Ids, Random
from muster.runtime.kube.https import HttpsTransport
from muster.runtime.kube.kubeconfig import ConnectionConfig
from muster.runtime.manager import Manager
from muster.runtime.process.descriptors import allow_descriptors
from muster.runtime.transport import Request

FIELD_MANAGER = "muster-nodes"


async def play(
    connection: ConnectionConfig,
    specs: Sequence[NodeSpec],
    signals: Iterable[signal.Signals],
    said: Callable[[str], None],
    machine: Joining | None = None,
) -> None:
    """Play simulated nodes, and be a process node, until one of the signals. said: told once all are registered.

    The Node objects stay, and go on if they are played again. A process node that is told to stop ends its pods; what
    is left by one that is killed is found by the next one. Raises what made a part fail, `TransportError` when the
    server does not answer at first, `ApiError`, `NameTakenError`, `DataDirectoryError`, `CredentialError`, `OSError`.
    """
    clock, random, ids = RealClock(), Random(), Ids()
    async with AsyncExitStack() as stack:
        transport = HttpsTransport(connection, clock, random)
        stack.push_async_callback(transport.close)
        manager = Manager(Client(transport, field_manager=FIELD_MANAGER), clock, random)
        await manager.client.raw(Request("GET", "/version"))  # a server that is not there is a mistake, most often
        played = add(manager, specs)
        joined: list[ProcessNode] = []
        if machine is not None:
            allow_descriptors()
            identity = stack.enter_context(joining.held(machine.home, ids))
            await joining.claim(manager.client, machine.name, identity)
            server = connection.cluster.server
            node = joining.add(manager, ids, machine, identity, server)
            await stack.enter_async_context(joining.answering(manager.client, node, machine, server, clock.now()))
            joined.append(node)
        stop_on(signals, partial(_stop, manager, joined))
        count = sum(spec.count for spec in specs) + len(joined)
        telling = asyncio.create_task(_tell([*played, *joined], count, said))
        stack.callback(telling.cancel)
        await manager.run()


def add(manager: Manager, specs: Sequence[NodeSpec]) -> list[SimulatedNodes]:
    """Put simulated nodes under a manager that does not run yet."""
    played: list[SimulatedNodes] = []
    count = 0
    for spec in specs:
        names = spec.names(taken=count)
        count += spec.count
        nodes = SimulatedNodes(manager, names, resources=spec.resources)
        manager.add(nodes)
        manager.add(SimulatedLeases(manager, names))
        played.append(nodes)
    return played


async def _stop(manager: Manager, joined: Sequence[ProcessNode]) -> None:
    for node in joined:
        node.leave_pods_running = False
    await manager.stop()


async def _tell(nodes: Sequence[SimulatedNodes | ProcessNode], count: int, said: Callable[[str], None]) -> None:
    for one in nodes:
        await one.ready.wait()
    said(f"{count} node{'s' if count != 1 else ''} registered")
