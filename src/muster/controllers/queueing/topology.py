"""Report nodes to the topology ledger, and the pods on them that belong to no workload with a topology assignment.

If no flavor has a topology, nothing is counted, so that other queues have no cost.
"""

from collections.abc import Callable

from muster.api.core import NODE, POD, Node, Pod
from muster.queueing.topology.ledger import CapacityLedger
from muster.queueing.topology.occupants import read_occupied
from muster.runtime.control.manager import Manager


class TopologyNodes:
    """The nodes and pods of a manager, which the ledger counts after `follow` was called."""

    def __init__(self, manager: Manager, ledger: CapacityLedger, helped: Callable[[], None]) -> None:
        """Watch nodes and pods.

        helped: called when a change could help a workload that waits for topology domains.
        """
        self._ledger = ledger
        self._notify = helped
        self._following = False
        self._nodes = manager.informer(NODE)
        self._pods = manager.informer(POD)
        self._nodes.on_change(self._on_node_changed)
        self._pods.on_change(self._on_pod_changed)

    def follow(self) -> None:
        """Count nodes and pods from now on, including the existing ones."""
        if self._following:
            return
        self._following = self._ledger.in_use = True
        for node in self._nodes.all():
            self._on_node_changed(None, node)
        for pod in self._pods.all():
            self._on_pod_changed(None, pod)

    def _on_node_changed(self, old: Node | None, new: Node | None) -> None:
        if not self._following:
            return
        if new is not None:
            if self._ledger.set_node(new):
                self._notify()
        elif old is not None:
            self._ledger.remove_node(old.metadata.name)

    def _on_pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if not self._following:
            return
        if new is not None and (requests := read_occupied(new)) is not None:
            self._ledger.occupy(new.metadata.uid, new.spec.node_name, requests)
            return
        pod = new if new is not None else old
        if pod is not None and self._ledger.leave(pod.metadata.uid):
            self._notify()
