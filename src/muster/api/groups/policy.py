# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`policy/v1`: the Eviction subresource of pods, and budgets for disruptions."""

from datetime import datetime
from typing import Annotated

from muster.api.kinds import Kind
from muster.api.markers import Int32, IntOrString, Patched, Required, merged_by, one_of
from muster.api.meta import Condition, DeleteOptions, LabelSelector, ObjectMeta, Struct


class Eviction(Struct):
    """Asks for a pod to be ended gracefully.

    metadata: names the pod.
    delete_options: how to delete it.
    """

    metadata: ObjectMeta = ObjectMeta()
    delete_options: DeleteOptions | None = None


class PodDisruptionBudgetSpec(Struct):
    """How many pods must stay; minAvailable or maxUnavailable.

    min_available: how many must be well, or which part.
    selector: which pods; all if empty, none if absent.
    max_unavailable: how many may be missing, or which part.
    unhealthy_pod_eviction_policy: IfHealthyBudget or AlwaysAllow: when pods that are not ready may be evicted.
    """

    min_available: IntOrString | None = None
    selector: Annotated[LabelSelector, Patched("replace")] | None = None
    max_unavailable: IntOrString | None = None
    unhealthy_pod_eviction_policy: Annotated[str, one_of("AlwaysAllow", "IfHealthyBudget")] | None = None


class PodDisruptionBudgetStatus(Struct):
    """What was observed of a budget.

    observed_generation: the generation that the status is about.
    disrupted_pods: pods whose eviction was allowed and is not seen yet, and when.
    disruptions_allowed: how many pods may be evicted now.
    current_healthy: pods that are well.
    desired_healthy: how many must be.
    expected_pods: how many the budget counts.
    conditions: observed aspects.
    """

    observed_generation: int = 0
    disrupted_pods: dict[str, datetime] = {}
    disruptions_allowed: Required[Int32] = 0
    current_healthy: Required[Int32] = 0
    desired_healthy: Required[Int32] = 0
    expected_pods: Required[Int32] = 0
    conditions: Annotated[tuple[Condition, ...], merged_by("type")] = ()


class PodDisruptionBudget(Struct):
    """Bounds how many of some pods may be missing at once by a user's choice.

    metadata: what every object carries.
    spec: how many pods must stay.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


POD_DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", PodDisruptionBudget)
