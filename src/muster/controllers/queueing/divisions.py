"""Keep the quotas of ClusterQueues that share the capacity of the nodes.

One ClusterQueue, the whole, follows the nodes; its parts own some of its quota.

The tree gets the quotas as decided here (`quota.division`) as soon as a node, a part or the whole changes. The written
quota of the whole follows later (`capacity`). So no order of writes, and no crash between two writes, assigns any
capacity twice.
"""

from collections.abc import Callable

from muster.api.core import NODE, Node
from muster.api.kueue import CLUSTER_QUEUE, RESOURCE_FLAVOR, ClusterQueue
from muster.queueing.convert import queue_spec
from muster.queueing.model import QueueSpec
from muster.queueing.quota.division import NOTHING_DECIDED, decide_quotas, is_member, limit_quotas
from muster.queueing.quota.nodes import find_quota_state
from muster.queueing.quota.tree import Tree
from muster.runtime.control.manager import Manager


class Divisions:
    """The quotas of ClusterQueues that share the capacity of the nodes, updated by the informers of a manager.

    A change only marks them as stale. `settle` decides once for a burst of changes, and before each use of the tree.
    """

    def __init__(
        self, manager: Manager, tree: Tree, *, put: Callable[[QueueSpec], None], wake: Callable[[], None]
    ) -> None:
        """Watch the nodes, the flavors and the ClusterQueues.

        put: changes a ClusterQueue in the tree.
        wake: requests an admission cycle.
        """
        self._tree = tree
        self._put = put
        self._wake = wake
        self._decided = NOTHING_DECIDED
        self._is_stale = False
        self._nodes = manager.informer(NODE)
        self._flavors = manager.informer(RESOURCE_FLAVOR)
        self._queues = manager.informer(CLUSTER_QUEUE)
        self._nodes.on_change(self._on_node_changed)
        self._flavors.on_change(lambda _old, _new: self.mark_stale())

    def limit(self, queue: ClusterQueue) -> QueueSpec:
        """Return the specification of a ClusterQueue with the quota that was last decided for it."""
        return limit_quotas(queue_spec(queue), self._decided)

    def note_queue(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        """Mark the quotas as stale if they depend on what changed in a ClusterQueue."""
        if any(queue is not None and is_member(queue) for queue in (old, new)):
            self.mark_stale()

    def mark_stale(self) -> None:
        """Mark the quotas as stale, because they depend on something that changed.

        The next use of the tree decides them again.
        """
        if not self._is_stale:
            self._is_stale = True
            self._wake()

    @property
    def depends_on_use(self) -> bool:
        """Whether members of different trees use quota, so that quota freed in one may be assigned in another."""
        return len({node.root for name in self._decided if (node := self._tree.queues.get(name)) is not None}) > 1

    def settle(self) -> None:
        """Decide the quotas and write them into the tree, if they are stale."""
        if not self._is_stale:
            return
        self._is_stale = False
        flavors = {flavor.metadata.name: flavor for flavor in self._flavors.all()}
        before = self._decided
        self._decided = decide_quotas(self._tree, self._queues.all(), flavors, self._nodes.all())
        for name in sorted(before.keys() | self._decided.keys()):
            queue = self._queues.get(name)
            if queue is not None and before.get(name) != self._decided.get(name):
                self._put(self.limit(queue))

    def _on_node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or find_quota_state(old) != find_quota_state(new):
            self.mark_stale()
