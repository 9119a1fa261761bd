"""Apply the changes of a scenario to a complete cluster, as writes to its server.

The times of changes are decided as for the fast engine (`engine.changing.changes`). A lost or cordoned node is made
unschedulable here, and its pods are evicted immediately. The time in which a cluster detects the loss of a node is not
simulated, because it involves no decision.
"""

from collections.abc import Iterable
from math import isfinite

from muster.api.core import Node
from muster.simulation.engine.agenda import EventAgenda, Rank
from muster.simulation.engine.changing.changes import Changes
from muster.simulation.engine.changing.redefinitions import Definition
from muster.simulation.engine.site import Site
from muster.simulation.full.cluster import Cluster
from muster.simulation.full.federation import Line
from muster.simulation.full.holdings import Holdings
from muster.simulation.outcome.record import SimulationRecord
from muster.simulation.scenario.reading import Reading


class ClusterChanges:
    """The planned changes of a scenario, and the collected writes of the changes that are due.

    A change only collects its writes; `happen` sends them to the cluster.
    """

    def __init__(self, reading: Reading, site: Site, record: SimulationRecord, holdings: Holdings) -> None:
        """Plan the first change.

        record: the record of the jobs, which has the time.
        holdings: the recorded quotas and nodes, which changes update.
        """
        self.record = record
        self._holdings = holdings
        self._agenda = EventAgenda()
        self._changes = Changes(reading, site, self._agenda, self)
        self._nodes: dict[str, Node | None] = {}
        self._emptied: dict[str, None] = {}
        self._definitions: list[Definition] = []
        self._runs_engine = True
        self._changes.plan_next()

    @property
    def has_more(self) -> bool:
        """Whether another change, or the end of a change, is planned."""
        return bool(self._agenda)

    @property
    def next_at(self) -> float:
        """The time of the next change; infinity if there is none."""
        return self._agenda.next_at

    def plan_losses(self, line: Line, losses: Iterable[tuple[float, float]]) -> None:
        """Plan when the connection to a worker cluster is lost and restored, in seconds from the start."""
        for at, until in losses:
            self._agenda.plan(at, Rank.END, line.disconnect)
            if isfinite(until):
                self._agenda.plan(until, Rank.END, line.reconnect)

    async def happen(self, cluster: Cluster, now: float, until: float) -> None:
        """Apply the changes that are due by `until`: to queues, nodes and the engine, in this order.

        Pods on lost nodes are evicted before the nodes are deleted. Raises `ApiError`.
        """
        self.record.now, ran_engine = now, self._runs_engine
        while (event := self._agenda.take_due(until)) is not None:
            event()
        nodes, emptied, definitions = self._nodes, self._emptied, self._definitions
        self._nodes, self._emptied, self._definitions = {}, {}, []
        self._holdings.redefine(definitions)
        if nodes:
            self._holdings.set_nodes(nodes.items())
        for definition in definitions:
            await cluster.redefine(definition)
        for node in nodes.values():
            if node is not None:
                await cluster.set_node(node)
        gone = [name for name, node in nodes.items() if node is None]
        for name in gone:
            await cluster.cordon_node(name)  # so that no pod returns before the node is deleted
        await cluster.evict_pods(emptied)
        await cluster.delete_nodes(gone)
        if self._runs_engine != ran_engine:
            await (cluster.start_engine() if self._runs_engine else cluster.stop_engine())

    # The interface that changes expect of an engine.

    @property
    def machines(self) -> "ClusterChanges":
        """The receiver of the changes of nodes, which is this object itself."""
        return self

    def set_node(self, node: Node, usual: Node) -> None:
        """Plan for `happen` to add or update a node.

        usual: not used here.
        """
        del usual
        self._nodes[node.metadata.name] = node

    def remove_node(self, name: str) -> None:
        """Plan for `happen` to remove a node."""
        self._nodes[name] = None

    def interrupt_on(self, node: str) -> None:
        """Plan for `happen` to evict all pods on a node."""
        self._emptied[node] = None

    def note_capacity(self) -> None:
        """Do nothing: `happen` records the capacity."""

    def redefine(self, definition: Definition) -> None:
        """Plan for `happen` to replace the spec of a queue or Cohort."""
        self._definitions.append(definition)

    def stop(self) -> None:
        """Plan for `happen` to stop the engine."""
        self._runs_engine = False

    def restart(self) -> None:
        """Plan for `happen` to start the engine again."""
        self._runs_engine = True
