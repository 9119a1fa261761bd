"""`autoscaling/v2`: autoscalers, with the fields that rules read. Muster runs no autoscaler."""

from typing import Any

from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta, Struct


class CrossVersionObjectReference(Struct):
    """A reference to an object with a scale, in the same namespace."""

    kind: str = ""
    name: str = ""


class MetricSpec(Struct):
    """A metric and its target value. Only the source that `type` names is set."""

    type: str = ""
    object: dict[str, Any] | None = None
    pods: dict[str, Any] | None = None
    resource: dict[str, Any] | None = None
    container_resource: dict[str, Any] | None = None
    external: dict[str, Any] | None = None


class HorizontalPodAutoscalerSpec(Struct):
    """The target of an autoscaler, the bounds of its replicas, and its metrics."""

    scale_target_ref: CrossVersionObjectReference = CrossVersionObjectReference()
    min_replicas: int | None = None
    max_replicas: int = 0
    metrics: tuple[MetricSpec, ...] = ()


class HorizontalPodAutoscaler(Struct):
    """An autoscaler that scales a workload by metrics."""

    metadata: ObjectMeta = ObjectMeta()
    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()


HORIZONTAL_POD_AUTOSCALER = Kind(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", HorizontalPodAutoscaler
)
