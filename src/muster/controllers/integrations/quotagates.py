"""Remove the scheduling gate that holds a pod until quota is granted.

The reconcilers of Jobs and JobSets decide which pods' gates to remove.
"""

from muster.api.config import Configuration
from muster.api.core import POD, Pod
from muster.api.kueue import Workload
from muster.controllers.customlabels import labels_of_queues
from muster.controllers.integrations.owners import Owners
from muster.controllers.waits import GateWaits
from muster.jobs.job.quota import GATE
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.refusals import ignoring

WORKERS = 4


class QuotaGateReconciler(Reconciler):
    """A reconciler that removes the quota gates of the pods of one kind of job."""

    def __init__(self, manager: Manager, owners: Owners, configuration: Configuration) -> None:
        super().__init__(manager, workers=WORKERS)
        self._owners = owners
        self._gates = GateWaits(manager, labels_of_queues(manager, configuration))

    async def _open_gate(self, pod: Pod, workload: Workload) -> None:
        gates = [gate for gate in pod.spec.scheduling_gates if gate.name != GATE]
        with ignoring("NotFound"):
            await self._client.patch_object(POD, pod, {"spec": {"schedulingGates": gates or None}})
            self._gates.observe_removal(GATE, pod, workload)
