"""Bind pods in scenarios without nodes, where only quotas decide: a single node accepts every pod."""

from muster.api.core import POD, Node, NodeCondition, NodeStatus, Pod
from muster.api.meta import ObjectMeta
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.refusals import ignoring

_NODE = "unbounded"
# The maximum number of concurrent bindings.
_WORKERS = 16


class UnboundedBinder(Reconciler):
    """A replacement of the scheduler for scenarios without nodes: it binds every pod to one node.

    A `Manager` runs it.
    """

    name = "unbounded-binder"

    def __init__(self, manager: Manager) -> None:
        super().__init__(manager, workers=_WORKERS)
        self._pods = manager.informer(POD)
        self._controller.watch(self._pods, when=lambda _, new: new is not None and _waits_for_node(new))

    async def _reconcile(self, key: str) -> Result:
        pod = self._pods.get(key)
        if pod is None or not _waits_for_node(pod):
            return None
        meta = {"name": pod.metadata.name, "namespace": pod.metadata.namespace, "uid": pod.metadata.uid}
        target = {"apiVersion": "v1", "kind": "Node", "name": _NODE}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        with ignoring("NotFound", "Conflict"):  # the pod was deleted in the meantime
            await self._client.post(POD, pod.metadata.name, pod.metadata.namespace, "binding", body)
        return None


def make_unbounded_node() -> Node:
    """Return the node that accepts every pod."""
    ready = NodeCondition(type="Ready", status="True")
    return Node(metadata=ObjectMeta(name=_NODE), status=NodeStatus(conditions=(ready,)))


def _waits_for_node(pod: Pod) -> bool:
    return not (pod.spec.node_name or pod.spec.scheduling_gates or pod.metadata.deletion_timestamp)
