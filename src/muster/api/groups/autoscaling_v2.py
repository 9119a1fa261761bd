"""`autoscaling/v2`: autoscalers, with the fields that rules read. Nothing here acts on them."""

from typing import Any

from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta, Struct


class CrossVersionObjectReference(Struct):
    """Names an object with a scale, in the same namespace."""

    kind: str = ""
    name: str = ""


class MetricSpec(Struct):
    """What is measured, and the value that is wanted; the source that type names."""

    type: str = ""
    object: dict[str, Any] | None = None
    pods: dict[str, Any] | None = None
    resource: dict[str, Any] | None = None
    container_resource: dict[str, Any] | None = None
    external: dict[str, Any] | None = None


class HorizontalPodAutoscalerSpec(Struct):
    """What is scaled, between which numbers, and by what."""

    scale_target_ref: CrossVersionObjectReference = CrossVersionObjectReference()
    min_replicas: int | None = None
    max_replicas: int = 0
    metrics: tuple[MetricSpec, ...] = ()


class HorizontalPodAutoscaler(Struct):
    """Scales a workload by what is measured."""

    metadata: ObjectMeta = ObjectMeta()
    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()


HORIZONTAL_POD_AUTOSCALER = Kind(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", HorizontalPodAutoscaler
)
