"""The current definitions of the queues and Cohorts of a simulation, changed as by Kueue's controllers."""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from muster.api.config import Configuration
from muster.api.kueue import STOP_NONE, ClusterQueue, Cohort, LocalQueue
from muster.controllers.queueing.cache import ON_DEMAND
from muster.queueing import convert
from muster.queueing.model import FlavorSpec, PendingReason, StopPolicy
from muster.queueing.pending.activity import judge_activity
from muster.queueing.pending.queues import Queues
from muster.queueing.quota.redefinition import redefine_cohort, redefine_queue
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.scheduling.fairness import FairSharing
from muster.queueing.workload.obstacles import QueueState, find_drain
from muster.runtime.objects import key_of
from muster.simulation.engine.changing.redefinitions import Definition
from muster.simulation.engine.site import Site


class Definitions:
    """The current queues, Cohorts, flavors and other definitions.

    tree: the quotas, which a change updates.
    flavors: the flavors by name.
    """

    def __init__(self, site: Site, tree: Tree, flavors: Mapping[str, FlavorSpec]) -> None:
        self._tree = tree
        self._flavors = flavors
        self._namespaces = site.namespaces
        self._locals = {key_of(one): one for one in site.local_queues}
        self._queues = {one.metadata.name: one for one in site.cluster_queues}
        self._cohorts = {one.metadata.name: one for one in site.cohorts}
        self._unusable: set[str] = set()  # the ClusterQueues whose admission check is inactive

    def find_fairness(self, configuration: Configuration) -> FairSharing | None:
        """Return the settings of fair sharing; None if it is off.

        Depending on the Configuration, the first queue with a weight turns fair sharing on.
        """
        fair = configuration.fair_sharing
        shares = [one.spec.fair_sharing for one in self._queues.values()]
        shares += [one.spec.fair_sharing for one in self._cohorts.values()]
        weighted = any(share is not None for share in shares)
        if fair is None and configuration.muster.fair_sharing_on_demand and weighted:
            fair = ON_DEMAND
        return FairSharing.of(fair, configuration.features)

    def make_queues(self) -> Queues:
        """Return pending queues for the current definitions, without workloads."""
        queues = Queues()
        for namespace in self._namespaces:
            queues.set_namespace(namespace.metadata.name, namespace.metadata.labels)
        for key, local in self._locals.items():
            queues.stop_local(key, stopped=local.spec.stop_policy != STOP_NONE)
        for node in self._tree.queues.values():
            self._set_queue(queues, node)
        return queues

    def _set_queue(self, queues: Queues, node: Node) -> None:
        """Add or update a ClusterQueue with its current definition in `queues`; inactive if its admission check is."""
        spec = replace(node.policy, checks={})
        now = judge_activity(spec, self._flavors, {}, in_circle=self._tree.is_in_circle(node))
        queues.set_queue(node.policy, active=now.active and node.name not in self._unusable)

    def set_check(self, queue: str, queues: Queues, *, active: bool) -> None:
        """Record whether a ClusterQueue's admission check is active, and retry workloads that this could help."""
        self._unusable.discard(queue) if active else self._unusable.add(queue)
        node = self._tree.queues[queue]
        self._set_queue(queues, node)
        queues.flush(node)

    def change(self, definition: Definition, queues: Queues) -> None:
        """Replace a definition, update the quotas, and retry the workloads that this could help."""
        name = definition.metadata.name
        if isinstance(definition, LocalQueue):
            key = key_of(definition)
            self._locals[key] = definition
            queues.stop_local(key, stopped=definition.spec.stop_policy != STOP_NONE)
            return
        if isinstance(definition, ClusterQueue):
            self._queues[name] = definition
            roots = redefine_queue(self._tree, convert.queue_spec(definition))
            self._set_queue(queues, self._tree.queues[name])
        else:
            self._cohorts[name] = definition
            roots = redefine_cohort(self._tree, convert.cohort_spec(definition))
            for root in roots:
                for node in list(root.queues()):
                    self._set_queue(queues, node)
        for root in roots:
            queues.flush(root)

    def list_drained(self, definition: Definition) -> Iterator[tuple[str, PendingReason]]:
        """Yield the key of each workload with quota that a changed queue evicts, and the reason.

        Yields nothing for a Cohort, or for a queue that is not stopped.
        """
        name = definition.spec.cluster_queue if isinstance(definition, LocalQueue) else definition.metadata.name
        node = self._tree.queues.get(name)
        if node is None or isinstance(definition, Cohort) or definition.spec.stop_policy == STOP_NONE:
            return
        for key, workload in list(node.workloads.items()):
            local = _read_queue_state(workload.local_queue, self._locals.get(workload.local_queue))
            if (why := find_drain(local, _read_queue_state(name, self._queues.get(name)))) is not None:
                yield key, why


def _read_queue_state(name: str, queue: LocalQueue | ClusterQueue | None) -> QueueState:
    policy: StopPolicy | None = queue.spec.stop_policy if queue is not None else None  # type: ignore[assignment]
    return QueueState(name, policy)
