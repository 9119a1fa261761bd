"""Remove the topology gate of admitted workloads' pods, and select their domain's nodes (upstream TopologyUngater)."""

import asyncio

from muster.api.conditions import is_true
from muster.api.config import Configuration
from muster.api.core import POD, Pod
from muster.api.kueue import Workload
from muster.api.kueue.names import ADMITTED, EVICTED, FINISHED, POD_SET_LABEL, TOPOLOGY_GATE
from muster.api.managed.pods import waits_for_place
from muster.api.nodes import HOSTNAME_LABEL
from muster.api.pods import is_finished
from muster.controllers.customlabels import labels_of_queues
from muster.controllers.gangs import by_age
from muster.controllers.integrations.topologyplacement import selectors_of
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.queueing.indexes import PODS_BY_WORKLOAD, by_workload
from muster.controllers.waits import GateWaits
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.ownwrites import MutationCache
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.objects import key_of
from muster.runtime.refusals import ignoring

# The pods of a job are created in quick succession. All pods within this time cause one reconcile.
GATHER_SECONDS = 0.02

# The maximum number of concurrent writes for one workload.
AT_ONCE = 32


class TopologyUngater(Reconciler):
    """The reconciler that removes topology gates."""

    name = "topology-ungater"

    def __init__(self, manager: Manager, cache: QueueingCache, configuration: Configuration) -> None:
        super().__init__(manager, workers=4)
        self._cache = cache
        self._pods = manager.informer(POD, indexes={PODS_BY_WORKLOAD: by_workload})
        self._latest = MutationCache(self._pods.get)
        self._gates = GateWaits(manager, labels_of_queues(manager, configuration))
        self._pods.on_change(self._on_pod_changed)
        self._controller.watch(cache.workloads, when=_has_domains)

    def _on_pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is not None and (new is None or waits(new) or is_finished(new)):
                for key in by_workload(pod):
                    self._controller.queue.add_after(key, GATHER_SECONDS)

    async def _reconcile(self, key: str) -> Result:
        workload = self._cache.workloads.get(key)
        pods = [self._latest.get(key_of(pod)) or pod for pod in self._pods.by(PODS_BY_WORKLOAD, key)]
        if workload is None or not any(map(waits, pods)) or not _is_running(workload):
            return None
        live_pods = [pod for pod in by_age(pods) if not is_finished(pod)]
        lost_hosts = {node.name for node in workload.status.unhealthy_nodes}
        selectors = {
            uid: selector
            for uid, selector in selectors_of(workload, live_pods, _read_podset, waits).items()
            if selector.get(HOSTNAME_LABEL) not in lost_hosts
        }
        limit = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(
            *(
                self._open_gate(pod, workload, selectors[pod.metadata.uid], limit)
                for pod in pods
                if pod.metadata.uid in selectors
            )
        )
        return None

    async def _open_gate(
        self, pod: Pod, workload: Workload, selector: dict[str, str], limit: asyncio.Semaphore
    ) -> None:
        gates = [gate for gate in pod.spec.scheduling_gates if gate.name != TOPOLOGY_GATE]
        patch = {"spec": {"schedulingGates": gates or None, "nodeSelector": selector}}
        async with limit:
            with ignoring("NotFound"):
                self._latest.wrote(await self._client.patch_object(POD, pod, patch))
                self._gates.observe_removal(TOPOLOGY_GATE, pod, workload)


def waits(pod: Pod) -> bool:
    """Return whether the topology gate holds a pod."""
    return waits_for_place(pod) and not is_finished(pod)


def _read_podset(pod: Pod) -> str:
    return pod.metadata.labels.get(POD_SET_LABEL, "")


def _is_running(workload: Workload) -> bool:
    conditions = workload.status.conditions
    ended = is_true(conditions, EVICTED) or is_true(conditions, FINISHED)
    return is_true(conditions, ADMITTED) and workload.status.admission is not None and not ended


def _has_domains(old: Workload | None, new: Workload | None) -> bool:  # noqa: ARG001  (the old state does not matter)
    admission = new.status.admission if new is not None else None
    return admission is not None and any(
        podset.topology_assignment is not None for podset in admission.pod_set_assignments
    )
