"""Set a ClusterQueue's quota to the nodes' capacity, minus the quota of ClusterQueues that own a part of it."""

from muster.api.core import NODE, Node
from muster.api.kueue import CLUSTER_QUEUE, RESOURCE_FLAVOR, ClusterQueue, ResourceGroup
from muster.api.ours.teams import QUOTA_OF
from muster.queueing.quota.nodes import cover_same, find_quota_state, is_following_nodes, quota_from_nodes, sum_parts
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.objects import key_of
from muster.runtime.refusals import ignoring

# Nodes are added and deleted in bursts. All changes in this time cause one write.
GATHER_SECONDS = 0.05


class NodeQuotaController(Reconciler):
    """The reconciler of ClusterQueues with `muster.dev/quota-from-nodes: "true"`, and of their parts."""

    name = "quota-from-nodes"

    def __init__(self, manager: Manager) -> None:
        super().__init__(manager)
        self._nodes = manager.informer(NODE)
        self._flavors = manager.informer(RESOURCE_FLAVOR)
        self._queues = manager.informer(CLUSTER_QUEUE)
        self._controller.watch(self._queues, when=_needs_update)
        self._queues.on_change(self._queue_changed)
        self._flavors.on_change(lambda _old, _new: self._queue_all())
        self._nodes.on_change(self._on_node_changed)

    def _on_node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or find_quota_state(old) != find_quota_state(new):
            self._queue_all()

    def _queue_changed(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        """Queue a changed ClusterQueue's whole (the ClusterQueue that it is a part of), and its parts."""
        if not _needs_update(old, new):
            return
        for queue in filter(None, (old, new)):
            if whole := _read_whole_queue(queue):
                self._controller.queue.add(whole)
        if new is not None and is_following_nodes(new):
            for part in self._queues.all():
                if _read_whole_queue(part) == new.metadata.name:
                    self._controller.queue.add(key_of(part))

    def _queue_all(self) -> None:
        for queue in self._queues.all():
            if is_following_nodes(queue):
                self._controller.queue.add_after(key_of(queue), GATHER_SECONDS)

    async def _reconcile(self, key: str) -> Result:
        queue = self._queues.get(key)
        if queue is None:
            return None
        groups = self._find_groups(queue)
        if groups == queue.spec.resource_groups:
            return None
        with ignoring("NotFound"):
            await self._client.patch_object(CLUSTER_QUEUE, queue, {"spec": {"resourceGroups": groups}})
        return None

    def _find_groups(self, queue: ClusterQueue) -> tuple[ResourceGroup, ...]:
        """Return the quotas that a ClusterQueue should have."""
        groups = queue.spec.resource_groups
        if is_following_nodes(queue):
            flavors = {flavor.metadata.name: flavor for flavor in self._flavors.all()}
            parts_quota = sum_parts(queue.metadata.name, self._queues.all())
            return quota_from_nodes(groups, flavors, self._nodes.all(), parts_quota)
        whole = self._queues.get(_read_whole_queue(queue))
        return cover_same(groups, whole.spec.resource_groups) if whole is not None else groups


def _read_whole_queue(queue: ClusterQueue) -> str:
    """Return the name of the ClusterQueue that another one is a part of; "" if it is no part."""
    return queue.metadata.annotations.get(QUOTA_OF, "")


def _needs_update(old: ClusterQueue | None, new: ClusterQueue | None) -> bool:
    """Return whether a ClusterQueue changed in its spec, or in how its quota depends on nodes or other queues."""
    if old is None or new is None:
        return True
    return (old.spec, is_following_nodes(old), _read_whole_queue(old)) != (
        new.spec,
        is_following_nodes(new),
        _read_whole_queue(new),
    )
