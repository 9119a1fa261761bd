"""Maintain the disruption budgets of PodGroups that request one."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from muster.api.groups.policy import POD_DISRUPTION_BUDGET, PodDisruptionBudget
from muster.api.kinds import Kind
from muster.controllers.podgroup.gang import PodGroups
from muster.jobs.podgroup.budget import budget_of, is_of, needs_budget
from muster.jobs.podgroup.record import read
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.informer import Informer
from muster.runtime.objects import key_of, make_reference, merge_patch
from muster.runtime.refusals import ignoring


class PodGroupBudgetController(Reconciler):
    """The reconciler of PodGroups' PodDisruptionBudgets. A key is `resource/namespace/name` of a group.

    A budget has the name of its group.
    """

    name = "podgroup-budget"

    def __init__(self, manager: Manager, recorder: Recorder, groups: PodGroups) -> None:
        super().__init__(manager)
        self._recorder = recorder
        self._budgets = manager.informer(POD_DISRUPTION_BUDGET)
        self._groups: dict[str, tuple[Kind[Any], Informer[Any]]] = {}
        for kind in groups.kinds:
            informer = manager.informer(kind, optional=True)
            self._groups[kind.resource] = kind, informer
            self._controller.watch(informer, partial(_make_key, kind.resource))
        self._controller.watch(self._budgets, self._of_that_name, when=_was_touched)

    def _of_that_name(self, budget: PodDisruptionBudget) -> Iterator[str]:
        return (f"{resource}/{key_of(budget)}" for resource in self._groups)

    async def _reconcile(self, key: str) -> Result:
        resource, _, name = key.partition("/")
        kind, informer = self._groups[resource]
        group = informer.get(name)
        if group is None:
            return None
        record, budget = read(group), self._budgets.get(name)
        if not needs_budget(record):
            if budget is not None and is_of(budget, record):
                with ignoring("NotFound", "Conflict"):
                    await self._client.delete_object(POD_DISRUPTION_BUDGET, budget)
            return None
        desired = budget_of(record)
        if budget is None:
            with ignoring("AlreadyExists"):  # the cache is stale, and its update causes another reconcile
                await self._client.create(POD_DISRUPTION_BUDGET, desired, record.namespace)
        elif not is_of(budget, record):
            why = f"PodDisruptionBudget {record.name} is there already, and not of this group"
            self._recorder.event(make_reference(kind, group), "Warning", "BudgetNotCreated", why)
        elif budget.spec != desired.spec:
            patch = {"spec": merge_patch(desired.spec, budget.spec)}
            with ignoring("NotFound", "Conflict"):
                await self._client.patch_object(POD_DISRUPTION_BUDGET, budget, patch)
        return None


def _make_key(resource: str, group: Any) -> tuple[str]:
    return (f"{resource}/{key_of(group)}",)


def _was_touched(old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> bool:
    """Return whether anything other than the budget's status changed."""
    return old is None or new is None or old.metadata.generation != new.metadata.generation
