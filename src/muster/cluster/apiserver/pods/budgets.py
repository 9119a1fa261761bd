"""Decide whether disruption budgets allow the eviction of a pod, and how it changes them. Pure.

The rules follow k8s.io/kubernetes (pkg/registry/core/pod/storage/eviction.go).
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from muster.api.conditions import find
from muster.api.core import Pod
from muster.api.groups.policy import PodDisruptionBudget, PodDisruptionBudgetStatus
from muster.api.meta import Condition
from muster.api.pods import is_active, is_ready
from muster.api.status import ApiError, Status, StatusCause, StatusDetails, forbidden
from muster.cluster.apiserver.decode import Document

ALLOWED = "DisruptionAllowed"
SUFFICIENT, INSUFFICIENT, SYNC_FAILED = "SufficientPods", "InsufficientPods", "SyncFailed"

# The maximum number of evictions that the budget's controller has not processed yet. Above it, evictions are refused,
# because the controller probably does not run.
MAX_DISRUPTED = 2000
# How long a client waits before it retries, while the controller has not processed the newest spec of a budget.
_LAG_SECONDS = 10

_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


def needs_budget(pod: Pod) -> bool:
    """Return whether an eviction of the pod counts as a disruption: unless it is pending, finished or being deleted."""
    return is_active(pod) and pod.status.phase != "Pending"


def charge_eviction(pod: Pod, budgets: Sequence[PodDisruptionBudget], now: datetime) -> PodDisruptionBudget | None:
    """Return the budget with one allowed disruption less, after the eviction of a pod.

    Return None if the eviction changes no budget: no budget selects the pod, the pod needs none, or the pod is not
    ready and the budget allows the eviction of such pods. Raises `ApiError`: 429 if the budget does not allow the
    eviction, 403 if its status is invalid, 500 if several budgets select the pod.

    budgets: the budgets that select the pod.
    """
    if not needs_budget(pod) or not budgets:
        return None
    if len(budgets) > 1:
        raise ApiError(Status(status="Failure", message=_SEVERAL, code=500))
    (budget,) = budgets
    if not is_ready(pod) and _allows_unhealthy(budget):
        return None
    _require_one_left(budget)
    status, second = budget.status, now.replace(microsecond=0)
    status = replace(
        status,
        disruptions_allowed=status.disruptions_allowed - 1,
        disrupted_pods=status.disrupted_pods | {pod.metadata.name: second},
    )
    return replace(budget, status=with_allowed(status, second))


def _allows_unhealthy(budget: PodDisruptionBudget) -> bool:
    """Return whether a pod that is not ready may be evicted without charging the budget."""
    if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        return True
    return budget.status.current_healthy >= budget.status.desired_healthy > 0


def _require_one_left(budget: PodDisruptionBudget) -> None:
    """Raise `ApiError` (429, 403) unless the budget allows another disruption."""
    name, status = budget.metadata.name, budget.status
    if status.observed_generation < budget.metadata.generation:
        raise _make_too_many_requests_error(
            f"The disruption budget {name} is still being processed by the server.", _LAG_SECONDS
        )
    if status.disruptions_allowed < 0:
        raise _make_invalid_budget_error(name, "pdb disruptions allowed is negative")
    if len(status.disrupted_pods) > MAX_DISRUPTED:
        raise _make_invalid_budget_error(
            name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        )
    if status.disruptions_allowed == 0:
        raise _make_too_many_requests_error(f"The disruption budget {name} {_explain_refusal(status)}", 0)


def _explain_refusal(status: PodDisruptionBudgetStatus) -> str:
    """Return why a budget allows no disruption, as the end of a sentence about the budget."""
    condition = find(status.conditions, ALLOWED)
    explanation = condition if condition is not None and condition.status == "False" and condition.message else None
    if explanation is not None and explanation.reason == SYNC_FAILED:  # the numbers of a failed sync are meaningless
        return f"does not allow evicting pods currently because it failed sync: {explanation.message}"
    if status.current_healthy <= status.desired_healthy:
        return f"needs {status.desired_healthy} healthy pods and has {status.current_healthy} currently"
    if explanation is not None:
        return f"does not allow evicting pods currently ({explanation.reason}): {explanation.message}"
    return "does not allow evicting pods currently"


def _make_too_many_requests_error(why: str, retry_after_seconds: int) -> ApiError:
    cause = StatusCause(reason="DisruptionBudget", message=why)
    details = StatusDetails(causes=(cause,), retry_after_seconds=retry_after_seconds)
    return ApiError(Status(status="Failure", code=429, reason="TooManyRequests", message=_REFUSED, details=details))


def _make_invalid_budget_error(name: str, why: str) -> ApiError:
    text = f'poddisruptionbudget.policy "{name}" is forbidden: {why}'
    return forbidden(text, resource="poddisruptionbudget.policy", name=name)


def with_allowed(status: PodDisruptionBudgetStatus, now: datetime) -> PodDisruptionBudgetStatus:
    """Return the status with its condition `DisruptionAllowed` set to whether the budget allows disruptions."""
    return with_condition(status, SUFFICIENT if status.disruptions_allowed > 0 else INSUFFICIENT, "", now)


def with_condition(
    status: PodDisruptionBudgetStatus, reason: str, message: str, now: datetime
) -> PodDisruptionBudgetStatus:
    """Return a disruption budget's status with its condition `DisruptionAllowed`: true only for `SUFFICIENT`."""
    value, old = "True" if reason == SUFFICIENT else "False", find(status.conditions, ALLOWED)
    since = old.last_transition_time if old is not None and old.status == value else now.replace(microsecond=0)
    new = Condition(
        type=ALLOWED,
        status=value,
        observed_generation=status.observed_generation,
        last_transition_time=since,
        reason=reason,
        message=message,
    )
    others = tuple(condition for condition in status.conditions if condition.type != ALLOWED)
    return replace(status, conditions=(*others, new))


def document_of(status: PodDisruptionBudgetStatus) -> Document:
    """Return a disruption budget's status as JSON. As upstream, its numbers of pods are included even if they are 0."""
    numbers = {
        "disruptionsAllowed": status.disruptions_allowed,
        "currentHealthy": status.current_healthy,
        "desiredHealthy": status.desired_healthy,
        "expectedPods": status.expected_pods,
    }
    document: Document = msgspec.to_builtins(status)
    return document | numbers
