"""Wake waiting workloads, and notify the parts of level 1 of changes.

The caches of workloads and of definitions call this module; admission, the status writers and others register
listeners.
"""

from collections.abc import Callable

from muster.queueing.pending.queues import Queues
from muster.queueing.quota.tree import Node

Listener = Callable[[str, str], None]


class Notifier:
    """The listeners of level 1, and the queues whose workloads a change may help."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._listeners: list[Listener] = []
        self._wake_listeners: list[Callable[[], None]] = []
        self._wait_listeners: list[Callable[[str], None]] = []

    def on_change(self, listener: Listener) -> None:
        """Register `listener(cluster_queue, local_queue)` for changes of the queues' waiting or admitted workloads."""
        self._listeners.append(listener)

    def on_wake(self, listener: Callable[[], None]) -> None:
        """Register a listener that is called when an admission cycle may have something to decide."""
        self._wake_listeners.append(listener)

    def on_wait(self, listener: Callable[[str], None]) -> None:
        """Register `listener(workload)` for a waiting workload whose status may have to show why it waits."""
        self._wait_listeners.append(listener)

    def notify_change(self, cluster_queue: str, local_queue: str) -> None:
        """Notify the listeners that waiting or admitted workloads of these queues changed."""
        for listener in self._listeners:
            listener(cluster_queue, local_queue)

    def wake(self) -> None:
        """Notify the listeners that an admission cycle may have something to decide."""
        for listener in self._wake_listeners:
            listener()

    def notify_wait(self, key: str) -> None:
        """Notify the listeners that a workload waits, and that its status may have to show why."""
        for listener in self._wait_listeners:
            listener(key)

    def notify_waits(self, name: str) -> None:
        """Notify the listeners that the workloads of a ClusterQueue now wait for another reason."""
        for key in self._queues.list_waiting(name):
            self.notify_wait(key)

    def flush(self, node: Node) -> None:
        """Wake all workloads in the tree."""
        self._queues.flush(node)
        self.wake()

    def flush_places(self) -> None:
        """Wake the workloads that lack topology domains, because nodes have room again."""
        self._queues.flush_places()
        self.wake()

    def unblock(self) -> None:
        """Retry the heads that wait until the pods of other workloads are ready."""
        for name, parked in list(self._queues.parked.items()):
            if parked.blocker:
                self._queues.retry(name)
        self.wake()
