"""`autoscaling/v2`: the HorizontalPodAutoscaler. It is kept and shown; nothing here acts on it."""

from datetime import datetime
from typing import Annotated

from muster.api.kinds import Kind
from muster.api.markers import ATOMIC, Int32, Required, merged_by, one_of
from muster.api.meta import LabelSelector, ObjectMeta, PlainCondition, Struct
from muster.api.values.quantity import Quantity


class CrossVersionObjectReference(Struct):
    """Names an object with a scale, or with something to measure, in the same namespace.

    kind: its kind.
    name: its name.
    api_version: version of the API in which the kind is meant.
    """

    kind: Required[str] = ""
    name: Required[str] = ""
    api_version: str = ""


class MetricIdentifier(Struct):
    """Names something to measure.

    name: its name.
    selector: labels that narrow it down.
    """

    name: Required[str] = ""
    selector: LabelSelector | None = None


class MetricTarget(Struct):
    """The value that is wanted.

    type: Utilization, Value or AverageValue.
    value: the value itself.
    average_value: the value over the number of pods.
    average_utilization: which part of the requests, in percent, over all pods.
    """

    type: Annotated[Required[str], one_of("AverageValue", "Utilization", "Value")] = ""
    value: Quantity | None = None
    average_value: Quantity | None = None
    average_utilization: Int32 | None = None


class ObjectMetricSource(Struct):
    """Something about one object.

    described_object: the object.
    target: the value that is wanted.
    metric: what is measured.
    """

    described_object: Required[CrossVersionObjectReference] = CrossVersionObjectReference()
    target: Required[MetricTarget] = MetricTarget()
    metric: Required[MetricIdentifier] = MetricIdentifier()


class PodsMetricSource(Struct):
    """Something about each pod.

    metric: what is measured.
    target: the average that is wanted.
    """

    metric: Required[MetricIdentifier] = MetricIdentifier()
    target: Required[MetricTarget] = MetricTarget()


class ResourceMetricSource(Struct):
    """A resource that the pods use.

    name: the resource.
    target: the value that is wanted.
    """

    name: Required[str] = ""
    target: Required[MetricTarget] = MetricTarget()


class ContainerResourceMetricSource(ResourceMetricSource):
    """A resource that one container of each pod uses.

    container: name of the container.
    """

    container: Required[str] = ""


class ExternalMetricSource(Struct):
    """Something that no object of the cluster stands for.

    metric: what is measured.
    target: the value that is wanted.
    """

    metric: Required[MetricIdentifier] = MetricIdentifier()
    target: Required[MetricTarget] = MetricTarget()


class MetricSpec(Struct):
    """What is measured, and the value that is wanted; the one that type names.

    type: Object, Pods, Resource, ContainerResource or External.
    object: something about one object.
    pods: something about each pod.
    resource: a resource that the pods use.
    container_resource: a resource that one container of each pod uses.
    external: something that no object of the cluster stands for.
    """

    type: Annotated[Required[str], one_of("ContainerResource", "External", "Object", "Pods", "Resource")] = ""
    object: ObjectMetricSource | None = None
    pods: PodsMetricSource | None = None
    resource: ResourceMetricSource | None = None
    container_resource: ContainerResourceMetricSource | None = None
    external: ExternalMetricSource | None = None


class HPAScalingPolicy(Struct):
    """How far scaling may go within some time.

    type: Pods or Percent.
    value: how many pods, or percent of them.
    period_seconds: within how many seconds.
    """

    type: Required[str] = ""
    value: Required[Int32] = 0
    period_seconds: Required[Int32] = 0


class HPAScalingRules(Struct):
    """How fast scaling goes in one direction.

    stabilization_window_seconds: how far back earlier recommendations count.
    select_policy: Max, Min or Disabled: which of the policies decides.
    policies: how far scaling may go within some time.
    tolerance: deviation from the target that is let be.
    """

    stabilization_window_seconds: Int32 | None = None
    select_policy: Annotated[str, one_of("Disabled", "Max", "Min")] | None = None
    policies: Annotated[tuple[HPAScalingPolicy, ...], ATOMIC] = ()
    tolerance: Quantity | None = None


class HorizontalPodAutoscalerBehavior(Struct):
    """How fast scaling goes.

    scale_up: to more pods.
    scale_down: to fewer pods.
    """

    scale_up: HPAScalingRules | None = None
    scale_down: HPAScalingRules | None = None


class HorizontalPodAutoscalerSpec(Struct):
    """What is scaled, between which numbers, by what.

    scale_target_ref: what is scaled.
    min_replicas: how many at least; 1 if absent.
    max_replicas: how many at most.
    metrics: what is measured; the one that asks for most counts; 80% of the requested CPU if empty.
    behavior: how fast scaling goes.
    """

    scale_target_ref: Required[CrossVersionObjectReference] = CrossVersionObjectReference()
    min_replicas: Int32 | None = None
    max_replicas: Required[Int32] = 0
    metrics: Annotated[tuple[MetricSpec, ...], ATOMIC] = ()
    behavior: HorizontalPodAutoscalerBehavior | None = None


class HorizontalPodAutoscalerCondition(PlainCondition):
    """One observed aspect of an autoscaler.

    type: AbleToScale, ScalingActive or ScalingLimited.
    """


class MetricValueStatus(Struct):
    """The value that was measured.

    value: the value itself.
    average_value: the value over the number of pods.
    average_utilization: which part of the requests, in percent, over all pods.
    """

    value: Quantity | None = None
    average_value: Quantity | None = None
    average_utilization: Int32 | None = None


class ObjectMetricStatus(Struct):
    """Something about one object, as it is.

    metric: what is measured.
    current: its value.
    described_object: the object.
    """

    metric: Required[MetricIdentifier] = MetricIdentifier()
    current: Required[MetricValueStatus] = MetricValueStatus()
    described_object: Required[CrossVersionObjectReference] = CrossVersionObjectReference()


class PodsMetricStatus(Struct):
    """Something about each pod, as it is.

    metric: what is measured.
    current: its value.
    """

    metric: Required[MetricIdentifier] = MetricIdentifier()
    current: Required[MetricValueStatus] = MetricValueStatus()


class ResourceMetricStatus(Struct):
    """A resource that the pods use, as it is.

    name: the resource.
    current: its value.
    """

    name: Required[str] = ""
    current: Required[MetricValueStatus] = MetricValueStatus()


class ContainerResourceMetricStatus(ResourceMetricStatus):
    """A resource that one container of each pod uses, as it is.

    container: name of the container.
    """

    container: Required[str] = ""


class ExternalMetricStatus(Struct):
    """Something that no object of the cluster stands for, as it is.

    metric: what is measured.
    current: its value.
    """

    metric: Required[MetricIdentifier] = MetricIdentifier()
    current: Required[MetricValueStatus] = MetricValueStatus()


class MetricStatus(Struct):
    """What was measured; the one that type names.

    type: Object, Pods, Resource, ContainerResource or External.
    object: something about one object.
    pods: something about each pod.
    resource: a resource that the pods use.
    container_resource: a resource that one container of each pod uses.
    external: something that no object of the cluster stands for.
    """

    type: Required[str] = ""
    object: ObjectMetricStatus | None = None
    pods: PodsMetricStatus | None = None
    resource: ResourceMetricStatus | None = None
    container_resource: ContainerResourceMetricStatus | None = None
    external: ExternalMetricStatus | None = None


class HorizontalPodAutoscalerStatus(Struct):
    """What was observed of an autoscaler.

    observed_generation: the generation that the status is about.
    last_scale_time: when it last scaled.
    current_replicas: how many there are.
    desired_replicas: how many it wants.
    current_metrics: what was measured.
    conditions: observed aspects.
    """

    observed_generation: int | None = None
    last_scale_time: datetime | None = None
    current_replicas: Int32 = 0
    desired_replicas: Required[Int32] = 0
    current_metrics: Annotated[tuple[MetricStatus, ...], ATOMIC] = ()
    conditions: Annotated[tuple[HorizontalPodAutoscalerCondition, ...], merged_by("type")] = ()


class HorizontalPodAutoscaler(Struct):
    """Scales something by what is measured.

    metadata: what every object carries.
    spec: what is scaled, between which numbers, by what.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()
    status: HorizontalPodAutoscalerStatus = HorizontalPodAutoscalerStatus()


HORIZONTAL_POD_AUTOSCALER = Kind(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", HorizontalPodAutoscaler
)
