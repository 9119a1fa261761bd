"""Run nodes for any API server (`muster nodes`): thousands of simulated nodes in one process, or this machine."""

import asyncio
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial

from muster.cluster.nodes.agent import ProcessNode
from muster.cluster.nodes.simulated.leases import SimulatedLeases
from muster.cluster.nodes.simulated.nodes import SimulatedNodes
from muster.cluster.nodespec import NodeSpec
from muster.cluster.release import GIT_VERSION
from muster.operator import joining
from muster.operator.joining import Joining
from muster.operator.signals import stop_on
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.control.manager import Manager
from muster.runtime.ids import Ids, Random
from muster.runtime.kube.https import HttpsTransport
from muster.runtime.kube.kubeconfig import ConnectionConfig
from muster.runtime.process.descriptors import allow_descriptors

FIELD_MANAGER = "muster-nodes"


async def play(
    connection: ConnectionConfig,
    specs: Sequence[NodeSpec],
    signals: Iterable[signal.Signals],
    report: Callable[[str], None],
    machine: Joining | None = None,
) -> None:
    """Run simulated nodes and a process node until one of the signals.

    specs: the simulated nodes.
    report: called with a sentence when all nodes are registered.
    machine: the process node; None for none. The Node objects are kept, and resume if the same nodes are run again. A
    stopped process node terminates its pods. A killed one leaves its pods running, and the next process finds them.

    Raises the error of a failed part, `TransportError` if the server does not respond at first, `ApiError`,
    `NameTakenError`, `DataDirectoryError`, `CredentialError`, `OSError`.
    """
    clock, random, ids = RealClock(), Random(), Ids()
    async with AsyncExitStack() as stack:
        transport = HttpsTransport(connection, clock, random)
        stack.push_async_callback(transport.close)
        manager = Manager(Client(transport, field_manager=FIELD_MANAGER), clock, random)
        # An unreachable server is most often a mistake of the user, so it is reported at once.
        version = await find_version(manager.client)
        await joining.refuse_servers_own(manager.client, {name for _, names in name_nodes(specs) for name in names})
        played = add(manager, specs, version)
        joined: list[ProcessNode] = []
        if machine is not None:
            allow_descriptors()
            identity = stack.enter_context(joining.hold_directory(machine.home, ids))
            await joining.claim(manager.client, machine.name, identity.node)
            await joining.await_lease(manager.client, clock, machine.name, identity)
            server = connection.cluster.server
            node = joining.add(manager, ids, machine, identity, server)
            await stack.enter_async_context(joining.serve_logs(manager.client, node, machine, server, clock.now()))
            joined.append(node)
        stop_on(signals, partial(_stop, manager, joined))
        count = sum(spec.count for spec in specs) + len(joined)
        reporting = asyncio.create_task(_report_ready([*played, *joined], count, report))
        stack.callback(reporting.cancel)
        await manager.run()


async def find_version(client: Client) -> str:
    """Return the version that simulated nodes report: the server's; Muster's own if the server reports none."""
    return await client.find_version() or GIT_VERSION


def add(manager: Manager, specs: Sequence[NodeSpec], version: str = GIT_VERSION) -> list[SimulatedNodes]:
    """Add simulated nodes to a manager that does not run yet. version: the server's version."""
    played: list[SimulatedNodes] = []
    for spec, names in name_nodes(specs):
        nodes = SimulatedNodes(manager, names, resources=spec.resources, version=version, devices=spec.devices)
        manager.add(nodes)
        manager.add(SimulatedLeases(manager, names))
        played.append(nodes)
    return played


def name_nodes(specs: Sequence[NodeSpec]) -> Iterator[tuple[NodeSpec, list[str]]]:
    """Yield each specification with the names of the nodes that it describes."""
    count = 0
    for spec in specs:
        yield spec, spec.names(taken=count)
        count += spec.count


async def _stop(manager: Manager, joined: Sequence[ProcessNode]) -> None:
    for node in joined:
        node.leave_pods_running = False
    await manager.stop()


async def _report_ready(
    nodes: Sequence[SimulatedNodes | ProcessNode], count: int, report: Callable[[str], None]
) -> None:
    for one in nodes:
        await one.ready.wait()
    report(f"{count} node{'s' if count != 1 else ''} registered")
