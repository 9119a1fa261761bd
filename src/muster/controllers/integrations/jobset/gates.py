"""Remove the gates of the pods by which a JobSet grew, after these pods were granted quota."""

from collections.abc import Iterable

from muster.api.config import Configuration
from muster.api.core import POD, Pod
from muster.api.jobset import JOB_SET, names
from muster.api.kueue import Workload
from muster.api.meta import controller_of
from muster.controllers.gangs import by_age
from muster.controllers.integrations.owners import Owners
from muster.controllers.integrations.quotagates import QuotaGateReconciler
from muster.jobs.job.quota import is_gated
from muster.jobs.jobset.quota import by_role, may_go
from muster.queueing.elastic.growth import count_granted_pods
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.objects import ignores_status, own_key, owner_key

# Indexes of pods, and of gated pods, by the UID of their JobSet.
_BY_JOBSET = "jobset"
_WAITING = "jobset-waiting"


class JobSetGates(QuotaGateReconciler):
    """The reconciler that removes the scheduling gates of JobSets' pods when the pods have quota."""

    name = "jobset-quota-gates"

    def __init__(self, manager: Manager, owners: Owners, configuration: Configuration) -> None:
        super().__init__(manager, owners, configuration)
        self._jobsets = manager.informer(JOB_SET)
        self._pods = manager.informer(POD, indexes={_BY_JOBSET: _index_by_jobset, _WAITING: _index_gated_pod_by_jobset})
        self._controller.watch(self._pods, self._find_waiting_jobset, when=_matters)
        self._controller.watch(owners.workloads, self._find_waiting_jobset_of_workload)

    def _find_waiting_jobset(self, pod: Pod) -> list[str]:
        name = pod.metadata.labels.get(names.JOBSET_NAME, "")
        return [f"{pod.metadata.namespace}/{name}"] if name and self._is_waiting(*_index_by_jobset(pod)) else []

    def _find_waiting_jobset_of_workload(self, workload: Workload) -> list[str]:
        owner = controller_of(workload.metadata)
        if (
            owner is None
            or not JOB_SET.is_of(owner)
            or not self._is_waiting(owner_key(workload.metadata.namespace, owner.uid))
        ):
            return []
        return [f"{workload.metadata.namespace}/{owner.name}"]

    def _is_waiting(self, jobset: str = "") -> bool:
        return bool(self._pods.by(_WAITING, jobset))

    async def _reconcile(self, key: str) -> Result:
        jobset = self._jobsets.get(key)
        if jobset is None or jobset.spec.suspend:
            return None
        meta = jobset.metadata
        workloads = self._owners.workloads_of(JOB_SET, meta.namespace, meta.name)
        mine = next((one for one in workloads if (o := controller_of(one.metadata)) and o.uid == meta.uid), None)
        if mine is None:
            return None
        pods = by_age(self._pods.by(_BY_JOBSET, own_key(meta)))
        for role, count in by_role(jobset, mine, count_granted_pods(mine)).items():
            members = (pod for pod in pods if pod.metadata.labels.get(names.REPLICATED_JOB_NAME) == role)
            for pod in may_go(members, count):
                await self._open_gate(pod, mine)
        return None


@ignores_status
def _index_by_jobset(pod: Pod) -> Iterable[str]:
    uid = pod.metadata.labels.get(names.JOBSET_UID)
    return (owner_key(pod.metadata.namespace, uid),) if uid else ()


@ignores_status
def _index_gated_pod_by_jobset(pod: Pod) -> Iterable[str]:
    return _index_by_jobset(pod) if is_gated(pod) else ()


def _matters(_old: Pod | None, new: Pod | None) -> bool:
    """Return whether a pod is gated, has ended or was deleted, so that its JobSet must be reconciled."""
    return new is None or is_gated(new) or new.status.phase in ("Succeeded", "Failed")
