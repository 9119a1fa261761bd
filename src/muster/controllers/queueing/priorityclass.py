"""Update the priorities of Workloads when their WorkloadPriorityClass changes its value or is recreated."""

from collections.abc import Iterable

from muster.api.conditions import is_true
from muster.api.kueue import WORKLOAD, WORKLOAD_PRIORITY_CLASS, Workload, WorkloadPriorityClass
from muster.api.kueue.names import FINISHED
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.objects import ignores_status
from muster.runtime.refusals import ignoring

_BY_CLASS = "priority-class"


class PriorityClassController(Reconciler):
    """The reconciler of priorities. A priority that a user changed stays until its class changes."""

    name = "workloadpriorityclass"

    def __init__(self, manager: Manager) -> None:
        super().__init__(manager)
        self._classes = manager.informer(WORKLOAD_PRIORITY_CLASS)
        self._workloads = manager.informer(WORKLOAD, indexes={_BY_CLASS: _index_by_priority_class})
        self._controller.watch(self._classes, when=_has_new_value)

    async def _reconcile(self, key: str) -> Result:
        """Write the value of a WorkloadPriorityClass into its unfinished Workloads that have another priority."""
        priority_class = self._classes.get(key)
        if priority_class is None:
            return None
        for workload in list(self._workloads.by(_BY_CLASS, key)):
            if workload.spec.priority != priority_class.value and not is_true(workload.status.conditions, FINISHED):
                await self._write(workload, priority_class.value)
        return None

    async def _write(self, workload: Workload, priority: int) -> None:
        with ignoring("NotFound", "Conflict"):  # the workload was deleted, or another workload has its name
            await self._client.patch_object(WORKLOAD, workload, {"spec": {"priority": priority}}, lock=False)


@ignores_status
def _index_by_priority_class(workload: Workload) -> Iterable[str]:
    ref = workload.spec.priority_class_ref
    kind = WORKLOAD_PRIORITY_CLASS
    return (ref.name,) if ref is not None and (ref.kind, ref.group) == (kind.kind, kind.group) else ()


def _has_new_value(old: WorkloadPriorityClass | None, new: WorkloadPriorityClass | None) -> bool:
    return new is not None and (old is None or old.value != new.value)
