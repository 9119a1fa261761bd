"""Puts the nodes of an embedded cluster together and under its manager."""

from collections import Counter
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from pathlib import Path

from muster.cluster.apiserver.podlogs import NodeConnection
from muster.cluster.nodes.addresses import Addresses
from muster.cluster.nodes.agent import ProcessNode
from muster.cluster.nodes.leftovers import forget_absent
from muster.cluster.nodes.network import Network
from muster.cluster.nodes.node_object import PROCESS
from muster.cluster.nodes.simulated import SimulatedNodes
from muster.cluster.nodes.storage import seed_of
from muster.cluster.nodespec import NodeSpec
from muster.runtime.manager import Manager
from muster.runtime.recorder import Recorder


async def add_nodes(
    manager: Manager,
    recorder: Callable[[str, str], Recorder],
    connections: MutableMapping[str, NodeConnection],
    state: Path,
    specs: Sequence[NodeSpec],
    *,
    adopt: bool,
    defaults: Mapping[str, str] | None = None,
) -> list[ProcessNode]:
    """Put the nodes under the manager and tell the server where to ask for logs; returns those that run processes.

    recorder: makes a recorder for a component on a host.
    state: a directory that has one for each process node.
    adopt: containers outlive a killed server, and the next one finds them.
    defaults: environment variables that pods have unless they say otherwise.

    Nodes that were there before and are not any more are ended and forgotten. Raises `ApiError`.
    """
    counts = Counter[str]()
    names = []
    for spec in specs:
        names.append((spec, spec.names(counts[spec.kind])))
        counts[spec.kind] += spec.count
    await forget_absent(manager.client, state, {name for _, some in names for name in some})
    network = Network(manager, Addresses(seed_of(state)))
    manager.add(network)
    nodes: list[ProcessNode] = []
    for spec, some in names:
        if spec.kind == PROCESS:
            for name in some:
                node = ProcessNode(
                    manager,
                    recorder("kubelet", name),
                    network,
                    name=name,
                    state=state / name,
                    resources=spec.resources,
                    share=(len(nodes), counts[PROCESS]),
                    outlive_server=adopt,
                    defaults=defaults,
                )
                manager.add(node)
                nodes.append(node)
                connections[name] = node.logs
        else:
            simulated = SimulatedNodes(manager, some, resources=spec.resources)
            manager.add(simulated)
            connections.update(dict.fromkeys(some, simulated.logs))
    return nodes
