# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`policy/v1`: the Eviction subresource of pods, and budgets for disruptions."""

from datetime import datetime

from muster.api.kinds import Kind
from muster.api.markers import Int32, IntOrString, Required
from muster.api.meta import Condition, DeleteOptions, LabelSelector, ObjectMeta, Struct


class Eviction(Struct):
    """A request to end a pod gracefully."""

    metadata: ObjectMeta = ObjectMeta()
    delete_options: DeleteOptions | None = None


class PodDisruptionBudgetSpec(Struct):
    """The pods that must stay available: minAvailable or maxUnavailable."""

    min_available: IntOrString | None = None
    selector: LabelSelector | None = None
    max_unavailable: IntOrString | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Struct):
    """The observed state of a budget."""

    observed_generation: int = 0
    disrupted_pods: dict[str, datetime] = {}
    disruptions_allowed: Required[Int32] = 0
    current_healthy: Required[Int32] = 0
    desired_healthy: Required[Int32] = 0
    expected_pods: Required[Int32] = 0
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Struct):
    """A limit on the pods that voluntary disruptions may take away at the same time."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


POD_DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", PodDisruptionBudget)
