"""Fail pods that no node will ever terminate.

Either their node no longer exists, or they are deleted before they are bound to a node. As upstream's pod garbage
collector does, this module marks them as Failed, so that their Job counts them and releases them. Pods of a lost node
also get the condition DisruptionTarget, and are then deleted.
"""

from typing import Any

from muster.api.core import NODE, POD, Pod
from muster.api.pods import is_deleting, is_finished
from muster.cluster.indexes import BY_NODE, by_node
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

# A node may register again after a restart of its agent. Upstream calls this time a quarantine.
QUARANTINE_SECONDS = 40.0


class LostPodCollector(Reconciler):
    """The controller that fails and deletes the pods of a node whose Node object no longer exists.

    It waits for `QUARANTINE_SECONDS`, because the Node may be created again. A `Manager` runs it; its keys are the
    names of nodes that pods name.
    """

    name = "pod-garbage-collector"

    def __init__(self, manager: Manager) -> None:
        super().__init__(manager)
        self._nodes = manager.informer(NODE)
        self._pods = manager.informer(POD, indexes={BY_NODE: by_node})
        self._gone_since: dict[str, float] = {}
        self._controller.watch(
            self._pods, by_node, when=lambda old, new: old is None or by_node(old) != by_node(new or old)
        )
        self._controller.watch(self._nodes, when=lambda old, new: old is None or new is None)

    async def _reconcile(self, node: str) -> Result:
        lost = self._pods.by(BY_NODE, node)
        if self._nodes.get(node) is not None or not lost:
            self._gone_since.pop(node, None)
            return None
        since = self._gone_since.setdefault(node, self._clock.monotonic())
        left = since + QUARANTINE_SECONDS - self._clock.monotonic()
        if left > 0:
            return left
        for pod in lost:
            await self._end_pod(pod, node)
        return None

    async def _end_pod(self, pod: Pod, node: str) -> None:
        with ignoring("NotFound", "Conflict"):
            if not is_finished(pod):
                patch = {"status": self._make_failed_status(node)}
                await self._client.patch_object(
                    POD, pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status"
                )
            await self._client.delete_object(POD, pod, grace_period_seconds=0)

    def _make_failed_status(self, node: str) -> dict[str, Any]:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": f"PodGC: node {node} no longer exists",
            "lastTransitionTime": self._clock.now().replace(microsecond=0),
        }
        return {"phase": "Failed", "reason": "NodeLost", "conditions": [condition]}


class UnscheduledPodCollector(Reconciler):
    """The controller that fails a deleted pod that finalizers hold and that no node can terminate.

    Such a pod was never bound to a node. A `Manager` runs it.
    """

    name = "unscheduled-pod-garbage-collector"

    def __init__(self, manager: Manager) -> None:
        super().__init__(manager)
        self._pods = manager.informer(POD)
        self._controller.watch(self._pods, when=lambda _, new: _will_never_end(new))

    async def _reconcile(self, key: str) -> Result:
        pod = self._pods.get(key)
        if pod is not None and _will_never_end(pod):
            with ignoring("NotFound", "Conflict"):
                await self._client.patch_object(POD, pod, {"status": {"phase": "Failed"}}, subresource="status")
        return None


def _will_never_end(pod: Pod | None) -> bool:
    return pod is not None and is_deleting(pod) and not pod.spec.node_name and not is_finished(pod)
