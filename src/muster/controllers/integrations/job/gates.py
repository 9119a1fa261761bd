"""Remove the gates of Jobs' pods for which quota was granted (for elastic Jobs, like upstream's ElasticJobUngater).

Pods of other Jobs are gated only if another program resumed the Job before it was admitted. Pods without the injected
fields are deleted when the Job is stopped.
"""

from muster.api.batch import JOB
from muster.api.config import Configuration
from muster.api.core import POD, Pod
from muster.api.kueue import Workload
from muster.api.kueue.names import POD_SET_LABEL
from muster.api.meta import controller_of
from muster.api.ours.elastic import is_elastic
from muster.api.pods import job_reference
from muster.controllers.gangs import by_age
from muster.controllers.integrations.owners import Owners
from muster.controllers.integrations.quotagates import QuotaGateReconciler
from muster.controllers.job.claims import BY_CONTROLLER, by_controller
from muster.jobs.job.quota import is_gated, may_go
from muster.jobs.job.terms import JobTerms
from muster.queueing.elastic.growth import count_granted_pods
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.objects import own_key, owner_key


class QuotaGates(QuotaGateReconciler):
    """The reconciler that removes the scheduling gates of Jobs' pods when the pods have quota."""

    name = "quota-gates"

    def __init__(self, manager: Manager, owners: Owners, configuration: Configuration) -> None:
        super().__init__(manager, owners, configuration)
        self._jobs = manager.informer(JOB)
        self._pods = manager.informer(POD, indexes={BY_CONTROLLER: by_controller})
        self._controller.watch(self._pods, _find_job_of_gated_pod)
        self._controller.watch(owners.workloads, self._find_waiting_job)

    def _find_waiting_job(self, workload: Workload) -> list[str]:
        owner = controller_of(workload.metadata)
        if owner is None or not JOB.is_of(owner):
            return []
        waits = is_elastic(workload.metadata.annotations) or any(
            is_gated(pod) for pod in self._pods.by(BY_CONTROLLER, owner_key(workload.metadata.namespace, owner.uid))
        )
        return [f"{workload.metadata.namespace}/{owner.name}"] if waits else []

    async def _reconcile(self, key: str) -> Result:
        job = self._jobs.get(key)
        if job is None or job.spec.suspend:
            return None
        meta = job.metadata
        workloads = self._owners.workloads_of(JOB, meta.namespace, meta.name)
        mine = [one for one in workloads if (owner := controller_of(one.metadata)) and owner.uid == meta.uid]
        admitted = [(one, sum(have.values())) for one in mine if (have := count_granted_pods(one))]
        pods = sum(count for _, count in admitted)
        waiting = by_age(self._pods.by(BY_CONTROLLER, own_key(meta)))
        for pod in may_go(waiting, JobTerms.of(job), pods):
            if POD_SET_LABEL in pod.metadata.labels:
                await self._open_gate(pod, admitted[-1][0])
        return None


def _find_job_of_gated_pod(pod: Pod) -> list[str]:
    owner = job_reference(pod) if is_gated(pod) else None
    return [f"{pod.metadata.namespace}/{owner.name}"] if owner is not None else []
