"""Record the nominal quotas of queues and the capacity of nodes over time, as a scenario defines them."""

from collections.abc import Iterable, Sequence

from muster.api.core import Node
from muster.api.kueue import ClusterQueue
from muster.gang.nodes.capacity import Capacity
from muster.queueing.convert import convert_quotas
from muster.simulation.engine.changing.redefinitions import Definition
from muster.simulation.engine.nodes.freeroom import sum_capacity
from muster.simulation.engine.site import Site
from muster.simulation.engine.world import WorkerSite
from muster.simulation.outcome.record import SimulationRecord


class Holdings:
    """The nominal quotas and the nodes of a cluster and its workers, which changes of the scenario update."""

    def __init__(self, record: SimulationRecord, site: Site, workers: Sequence[WorkerSite]) -> None:
        """Record the quotas and the capacity of all clusters at the start.

        record: the record of the jobs, which has the current time.
        """
        self._record = record
        self._capacity = Capacity()
        self._add(site, "", self._capacity)
        for worker in workers:
            for name in worker.reading.names:
                self._add(worker.site, f"{name}/", Capacity())

    def _add(self, site: Site, scope: str, capacity: Capacity) -> None:
        for queue in site.cluster_queues:
            self._note_quotas(queue, scope)
        for node in site.nodes:
            capacity.set_node(node)
        if site.nodes or site.later_nodes:
            self._record.capacity.set(self._record.now, sum_capacity(capacity), scope)

    def _note_quotas(self, queue: ClusterQueue, scope: str) -> None:
        nominal = {part: quota.nominal for part, quota in convert_quotas(queue.spec.resource_groups).items()}
        self._record.quotas.set(self._record.now, scope + queue.metadata.name, nominal)

    def redefine(self, definitions: Iterable[Definition]) -> None:
        """Record the quotas of changed queues from now on."""
        for one in definitions:
            if isinstance(one, ClusterQueue):
                self._note_quotas(one, "")

    def set_nodes(self, nodes: Iterable[tuple[str, Node | None]]) -> None:
        """Record the total capacity of the cluster's nodes after some of them changed.

        nodes: pairs of a name and the changed node; None for a removed node.
        """
        for name, node in nodes:
            if node is None:
                self._capacity.remove_node(name)
            else:
                self._capacity.set_node(node)
        self._record.capacity.set(self._record.now, sum_capacity(self._capacity))
