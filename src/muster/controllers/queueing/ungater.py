"""Lets the pods of admitted workloads go to the domains that their workload was given (upstream's TopologyUngater)."""

import asyncio

from muster.api.conditions import is_true
from muster.api.core import POD, Pod
from muster.api.kueue import Workload
from muster.api.kueue.names import ADMITTED, EVICTED, FINISHED, POD_SET_LABEL, TOPOLOGY_GATE
from muster.api.nodes import HOSTNAME_LABEL
from muster.api.pods import is_finished
from muster.controllers.integrations.places import selectors_of
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.queueing.indexes import PODS_BY_WORKLOAD, by_workload
from muster.controllers.waits import GateWaits
from muster.runtime.controller import Result
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of
from muster.runtime.ownwrites import MutationCache
from muster.runtime.reconciler import Reconciler
from muster.runtime.refusals import ignoring

# Pods of a job are made in quick succession; one look for all that came in this time.
GATHER_SECONDS = 0.02

# Writes under way together, of one workload.
AT_ONCE = 32


class TopologyUngater(Reconciler):
    """Runs under a `Manager`."""

    name = "topology-ungater"

    def __init__(self, manager: Manager, cache: QueueingCache) -> None:
        super().__init__(manager, workers=4)
        self._cache = cache
        self._pods = manager.informer(POD, indexes={PODS_BY_WORKLOAD: by_workload})
        self._latest = MutationCache(self._pods.get)
        self._gates = GateWaits(manager)
        self._pods.on_change(self._pod_changed)
        self._controller.watch(cache.workloads, when=_has_domains)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is not None and (new is None or waits(new) or is_finished(new)):
                for key in by_workload(pod):
                    self._controller.queue.add_after(key, GATHER_SECONDS)

    async def _reconcile(self, key: str) -> Result:
        workload = self._cache.workloads.get(key)
        pods = [self._latest.get(key_of(pod)) or pod for pod in self._pods.by(PODS_BY_WORKLOAD, key)]
        if workload is None or not any(map(waits, pods)) or not _may_run(workload):
            return None
        left = [pod for pod in sorted(pods, key=_age) if not is_finished(pod)]
        lost = {node.name for node in workload.status.unhealthy_nodes}
        selectors = {
            uid: selector
            for uid, selector in selectors_of(workload, left, _podset_of, waits).items()
            if selector.get(HOSTNAME_LABEL) not in lost
        }
        limit = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(
            *(
                self._open(pod, workload, selectors[pod.metadata.uid], limit)
                for pod in pods
                if pod.metadata.uid in selectors
            )
        )
        return None

    async def _open(self, pod: Pod, workload: Workload, selector: dict[str, str], limit: asyncio.Semaphore) -> None:
        kept = [gate for gate in pod.spec.scheduling_gates if gate.name != TOPOLOGY_GATE]
        patch = {"spec": {"schedulingGates": kept or None, "nodeSelector": selector}}
        async with limit:
            with ignoring("NotFound"):
                self._latest.wrote(await self._client.patch_object(POD, pod, patch))
                self._gates.removed(TOPOLOGY_GATE, pod, workload)


def waits(pod: Pod) -> bool:
    """Whether a pod waits to be told where to go."""
    return any(gate.name == TOPOLOGY_GATE for gate in pod.spec.scheduling_gates) and not is_finished(pod)


def _podset_of(pod: Pod) -> str:
    return pod.metadata.labels.get(POD_SET_LABEL, "")


def _age(pod: Pod) -> tuple[object, ...]:
    return pod.metadata.creation_timestamp, pod.metadata.name


def _may_run(workload: Workload) -> bool:
    conditions = workload.status.conditions
    ended = is_true(conditions, EVICTED) or is_true(conditions, FINISHED)
    return is_true(conditions, ADMITTED) and workload.status.admission is not None and not ended


def _has_domains(old: Workload | None, new: Workload | None) -> bool:  # noqa: ARG001  (what it was does not matter)
    admission = new.status.admission if new is not None else None
    return admission is not None and any(
        podset.topology_assignment is not None for podset in admission.pod_set_assignments
    )
