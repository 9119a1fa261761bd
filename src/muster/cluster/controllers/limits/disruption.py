"""Write into each PodDisruptionBudget how many of its pods may be evicted now.

The API server itself deducts each eviction from the budget (`apiserver.pods.budgets`); this controller sets the allowed
number.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from muster.api.core import POD, Pod
from muster.api.groups.apps import REPLICA_SET
from muster.api.groups.autoscaling import Scale
from muster.api.groups.policy import POD_DISRUPTION_BUDGET, PodDisruptionBudget, PodDisruptionBudgetStatus
from muster.api.meta import ObjectMeta, OwnerReference, controller_of
from muster.api.pods import is_ready
from muster.api.values.selectors import label_matcher
from muster.cluster.apiserver.pods.budgets import document_of
from muster.cluster.apiserver.registry.resources import Registry
from muster.cluster.controllers.limits.budgetstate import compute_state, counts_owners, failed_status
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import EventType, Recorder
from muster.runtime.objects import ignores_status, key_of, make_reference
from muster.runtime.refusals import ignoring
from muster.runtime.transport import Request

# Many pods are created, become ready and are deleted together: changes within this time lead to one reconcile.
GATHER_SECONDS = 0.1

_BY_LABEL = "label"
_MOST = 2**31 - 1  # the largest number in a status
_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, the "
    "status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these "
    'pods please set ".spec.minAvailable" field of the PDB to an integer value.'
)


class _NoScaleError(Exception):
    """A failure to determine how many pods are wanted. The message has upstream's words."""


class DisruptionController(Reconciler):
    """The controller that writes the status of PodDisruptionBudgets. A `Manager` runs it; its keys are budgets."""

    name = "disruption-controller"

    def __init__(self, manager: Manager, registry: Registry, recorder: Recorder) -> None:
        super().__init__(manager)
        self._registry = registry
        self._recorder = recorder
        self._pods = manager.informer(POD, indexes={_BY_LABEL: _list_index_keys_of_pod})
        self._budgets = manager.informer(POD_DISRUPTION_BUDGET, indexes={_BY_LABEL: _find_index_key_of_budget})
        self._controller.watch(self._pods, self._find_budgets, when=_is_relevant, gather=GATHER_SECONDS)
        self._controller.watch(self._budgets)

    def _find_budgets(self, pod: Pod) -> Iterator[str]:
        """Yield the keys of the budgets that select a pod."""
        for place in _list_index_keys_of_pod(pod):
            for budget in self._budgets.by(_BY_LABEL, place):
                if label_matcher(budget.spec.selector).matches(pod.metadata.labels):
                    yield key_of(budget)

    def _find_pods(self, budget: PodDisruptionBudget) -> list[Pod]:
        """Return the pods that a budget selects."""
        matcher = label_matcher(budget.spec.selector)
        (place,) = _find_index_key_of_budget(budget)
        return [pod for pod in self._pods.by(_BY_LABEL, place) if matcher.matches(pod.metadata.labels)]

    async def _reconcile(self, key: str) -> Result:
        budget = self._budgets.get(key)
        if budget is None:
            return None
        pods, now = self._find_pods(budget), self._clock.now()
        try:
            wanted = await self._count_wanted(budget, pods) if counts_owners(budget.spec) else 0
        except _NoScaleError as error:
            why = f"Failed to calculate the number of expected pods: {error}"
            self._record_event(budget, "Warning", "CalculateExpectedPodCountFailed", why)
            await self._write(budget, failed_status(budget, str(error), now))
            return None
        state = compute_state(budget, pods, wanted, now)
        for pod in state.stayed:
            why = f"Pod was expected by PDB {key} to be deleted but it wasn't"
            self._recorder.event(make_reference(POD, pod), "Warning", "NotDeleted", why)
        if not pods and state.status != budget.status:
            self._record_event(budget, "Normal", "NoPods", "No matching pods found")
        await self._write(budget, state.status)
        return state.again.total_seconds() if state.again is not None else None

    async def _count_wanted(self, budget: PodDisruptionBudget, pods: Sequence[Pod]) -> int:
        """Return how many pods the controllers of these pods want in total. Raises `_NoScaleError`."""
        owners = [controller_of(pod.metadata) for pod in pods]
        if None in owners:
            text = _UNMANAGED.format(selector=label_matcher(budget.spec.selector))
            self._record_event(budget, "Warning", "UnmanagedPods", text)
        wanted: dict[str, int] = {}
        namespace, counted_owners = budget.metadata.namespace, set[str]()
        for pod, owner in zip(pods, owners, strict=True):
            if owner is None or owner.uid in counted_owners:
                continue
            counted_owners.add(owner.uid)
            scale = await self._read_scale(owner, namespace)
            if scale is None:
                raise _NoScaleError(f'found no controllers for pod "{pod.metadata.name}"')
            wanted[scale.metadata.uid] = scale.spec.replicas
        return min(sum(wanted.values()), _MOST)

    async def _read_scale(self, owner: OwnerReference, namespace: str) -> Scale | None:
        """Return the scale of a pod's controller, or of the controller's Deployment; None if it does not exist.

        Raises `_NoScaleError`.
        """
        if REPLICA_SET.is_of(owner):
            owner = await self._find_deployment(owner, namespace) or owner
        resource = self._registry.of_kind(owner.api_version, owner.kind)
        if resource is None:
            raise _NoScaleError(f'no matches for kind "{owner.kind}" in version "{owner.api_version}"')
        if resource.subresource("scale") is None:
            raise _NoScaleError(f"{resource.name} does not implement the scale subresource")
        with ignoring("NotFound"):
            answer = await self._client.raw(Request("GET", resource.kind.path(namespace, owner.name, "scale")))
            scale = msgspec.json.decode(answer.body, type=Scale)
            return scale if scale.metadata.uid == owner.uid else None
        return None

    async def _find_deployment(self, owner: OwnerReference, namespace: str) -> OwnerReference | None:
        replica_set = await self._client.find(REPLICA_SET, owner.name, namespace)
        if replica_set is None or replica_set.metadata.uid != owner.uid:
            return None
        return controller_of(replica_set.metadata)

    async def _write(self, budget: PodDisruptionBudget, status: PodDisruptionBudgetStatus) -> None:
        if status == budget.status:
            return
        patch = document_of(status)
        waits = patch.get("disruptedPods")
        patch["disruptedPods"] = dict.fromkeys(budget.status.disrupted_pods) | waits if waits else None
        with ignoring("NotFound", "Conflict"):  # gone, or changed, as by an eviction, which calls this again
            await self._client.patch_object(POD_DISRUPTION_BUDGET, budget, {"status": patch}, subresource="status")

    def _record_event(self, budget: PodDisruptionBudget, type: EventType, reason: str, message: str) -> None:
        self._recorder.event(make_reference(POD_DISRUPTION_BUDGET, budget), type, reason, message)


def _is_relevant(old: Pod | None, new: Pod | None) -> bool:
    """Return whether a change of a pod changes the status of a budget."""
    return old is None or new is None or _select_relevant_facts(old) != _select_relevant_facts(new)


def _select_relevant_facts(pod: Pod) -> object:
    meta = pod.metadata
    return meta.labels, meta.deletion_timestamp, meta.owner_references, is_ready(pod)


@ignores_status
def _list_index_keys_of_pod(pod: Pod) -> Iterable[str]:
    """Return the index keys of budgets that may select the pod: its namespace, and each of its labels there."""
    return (
        _make_index_key(pod.metadata),
        *(_make_index_key(pod.metadata, pair) for pair in pod.metadata.labels.items()),
    )


def _find_index_key_of_budget(budget: PodDisruptionBudget) -> tuple[str]:
    """Return the index key of a budget: its namespace, and one label that its selector requires, if any."""
    selector = budget.spec.selector
    pairs = sorted(selector.match_labels.items()) if selector is not None else ()
    return (_make_index_key(budget.metadata, *pairs[:1]),)


def _make_index_key(meta: ObjectMeta, pair: tuple[str, str] | None = None) -> str:
    return f"{meta.namespace}/{pair[0]}={pair[1]}" if pair is not None else meta.namespace
