"""Keep the quota of annotated ClusterQueues equal to what the nodes have."""

from muster.api.core import NODE, Node
from muster.api.kueue import CLUSTER_QUEUE, RESOURCE_FLAVOR, ClusterQueue
from muster.queueing.quota.nodes import follows, quota_from_nodes
from muster.runtime.controller import Result
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of
from muster.runtime.reconciler import Reconciler
from muster.runtime.refusals import ignoring

# Nodes come and go in bursts; all changes in this time become one write.
GATHER_SECONDS = 0.05


class NodeQuotaController(Reconciler):
    """The reconciler of ClusterQueues with the annotation `muster.dev/quota-from-nodes: "true"`."""

    name = "quota-from-nodes"

    def __init__(self, manager: Manager) -> None:
        super().__init__(manager)
        self._nodes = manager.informer(NODE)
        self._flavors = manager.informer(RESOURCE_FLAVOR)
        self._queues = manager.informer(CLUSTER_QUEUE)
        self._controller.watch(self._queues, when=_needs_update)
        self._flavors.on_change(lambda _old, _new: self._queue_all())
        self._nodes.on_change(self._node_changed)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or _quota_state(old) != _quota_state(new):
            self._queue_all()

    def _queue_all(self) -> None:
        for queue in self._queues.all():
            if follows(queue):
                self._controller.queue.add_after(key_of(queue), GATHER_SECONDS)

    async def _reconcile(self, key: str) -> Result:
        queue = self._queues.get(key)
        if queue is None or not follows(queue):
            return None
        flavors = {flavor.metadata.name: flavor for flavor in self._flavors.all()}
        groups = quota_from_nodes(queue.spec.resource_groups, flavors, self._nodes.all())
        if groups == queue.spec.resource_groups:
            return None
        with ignoring("NotFound"):
            await self._client.patch_object(CLUSTER_QUEUE, queue, {"spec": {"resourceGroups": groups}})
        return None


def _needs_update(old: ClusterQueue | None, new: ClusterQueue | None) -> bool:
    """Return whether more than the status changed."""
    return old is None or new is None or (old.spec, follows(old)) != (new.spec, follows(new))


def _quota_state(node: Node) -> tuple[object, ...]:
    """Return the parts of a node that matter to quota; heartbeats do not."""
    ready = [condition.status for condition in node.status.conditions if condition.type == "Ready"]
    return node.status.allocatable, node.spec.unschedulable, node.spec.taints, node.metadata.labels, ready
