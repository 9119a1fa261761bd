"""Compute how many pods of a PodDisruptionBudget are healthy, must be healthy, and may be evicted. Pure.

The rules follow k8s.io/kubernetes (pkg/controller/disruption).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from muster.api.core import Pod
from muster.api.groups.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from muster.api.pods import is_deleting, is_ready
from muster.cluster.apiserver.pods.budgets import SYNC_FAILED, with_allowed, with_condition

# An evicted pod that has not gone within this time counts as staying.
DELETION_TIMEOUT = timedelta(minutes=2)


class BudgetState(NamedTuple):
    """The computed state of a PodDisruptionBudget.

    status: the new status of the budget.
    again: after how long to compute the state again; None means only when a pod or the budget changes.
    stayed: the evicted pods that were not deleted within `DELETION_TIMEOUT`.
    """

    status: PodDisruptionBudgetStatus
    again: timedelta | None
    stayed: tuple[Pod, ...]


def counts_owners(spec: PodDisruptionBudgetSpec) -> bool:
    """Return whether the budget depends on the number of replicas that the pods' owners want, as percentages do."""
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def compute_state(budget: PodDisruptionBudget, pods: Sequence[Pod], replicas: int, now: datetime) -> BudgetState:
    """Return the state of a budget.

    pods: the pods that the budget selects.
    replicas: the total replicas that the owners of these pods want.
    """
    spec, status = budget.spec, budget.status
    disrupted, stayed = _sort_disrupted(status.disrupted_pods, pods, now)
    healthy = sum(is_ready(pod) and not is_deleting(pod) and pod.metadata.name not in disrupted for pod in pods)
    expected, desired = _count_desired(spec, len(pods), replicas)
    # While no pod is expected, none may be evicted: the first pods may exist although the informer has not received
    # them.
    allowed = max(0, healthy - desired) if expected > 0 else 0
    status = replace(
        status,
        observed_generation=budget.metadata.generation,
        disrupted_pods=disrupted,
        disruptions_allowed=allowed,
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
    )
    again = min(disrupted.values(), default=None)
    left = again + DELETION_TIMEOUT - now if again is not None else None
    return BudgetState(with_allowed(status, now), left, stayed)


def failed_status(budget: PodDisruptionBudget, why: str, now: datetime) -> PodDisruptionBudgetStatus:
    """Return the status of a budget whose state cannot be computed: it allows no disruptions. why: the message."""
    return with_condition(replace(budget.status, disruptions_allowed=0), SYNC_FAILED, why, now)


def _count_desired(spec: PodDisruptionBudgetSpec, pods: int, replicas: int) -> tuple[int, int]:
    """Return how many pods a budget expects, and how many of them must be healthy.

    pods: how many pods exist.
    replicas: how many the pods' owners want.
    """
    if spec.max_unavailable is not None:
        return replicas, max(0, replicas - _compute_part(spec.max_unavailable, replicas))
    if isinstance(spec.min_available, str):
        return replicas, _compute_part(spec.min_available, replicas)
    return (0, 0) if spec.min_available is None else (pods, spec.min_available)


def _compute_part(of: int | str, whole: int) -> int:
    """Return an amount as a number: a percentage of `whole`, rounded up, or the number itself."""
    return of if isinstance(of, int) else -(-int(of.removesuffix("%")) * whole // 100)


def _sort_disrupted(
    known: Mapping[str, datetime], pods: Iterable[Pod], now: datetime
) -> tuple[dict[str, datetime], tuple[Pod, ...]]:
    """Return the evictions whose deletions are still expected, and the evicted pods that were not deleted in time.

    known: the time of each eviction, by the pod's name.
    """
    evicted = [pod for pod in pods if pod.metadata.name in known and not is_deleting(pod)]
    due = {pod.metadata.name: known[pod.metadata.name] + DELETION_TIMEOUT >= now for pod in evicted}
    expected = {name: known[name] for name, comes in due.items() if comes}
    return expected, tuple(pod for pod in evicted if not due[pod.metadata.name])
