"""`autoscaling/v1`: the Scale subresource, and the older spelling of HorizontalPodAutoscalers."""

from datetime import datetime
from typing import Annotated

from muster.api.kinds import Kind
from muster.api.markers import Default, Int32, Required
from muster.api.meta import ObjectMeta, Struct


class ScaleSpec(Struct):
    """How many are wanted.

    replicas: how many.
    """

    replicas: Annotated[Int32, Default(0)] = 0


class ScaleStatus(Struct):
    """How many there are.

    replicas: how many.
    selector: which pods they are, as the text of a label selector.
    """

    replicas: Required[Int32] = 0
    selector: str = ""


class Scale(Struct):
    """An object seen only as a number of replicas.

    metadata: of the scaled object.
    spec: how many are wanted.
    status: how many there are.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


class CrossVersionObjectReference(Struct):
    """Names an object with a scale, in the same namespace.

    kind: its kind.
    name: its name.
    api_version: version of the API in which the kind is meant.
    """

    kind: Required[str] = ""
    name: Required[str] = ""
    api_version: str = ""


class HorizontalPodAutoscalerSpec(Struct):
    """What is scaled, between which numbers, by the use of CPU.

    scale_target_ref: what is scaled.
    min_replicas: how many at least; 1 if absent.
    max_replicas: how many at most.
    target_cpu_utilization_percentage: how much of the requested CPU the pods should use.
    """

    scale_target_ref: Required[CrossVersionObjectReference] = CrossVersionObjectReference()
    min_replicas: Int32 | None = None
    max_replicas: Required[Int32] = 0
    target_cpu_utilization_percentage: Int32 | None = None


class HorizontalPodAutoscalerStatus(Struct):
    """What was observed of an autoscaler.

    observed_generation: the generation that the status is about.
    last_scale_time: when it last scaled.
    current_replicas: how many there are.
    desired_replicas: how many it wants.
    current_cpu_utilization_percentage: how much of the requested CPU the pods use.
    """

    observed_generation: int | None = None
    last_scale_time: datetime | None = None
    current_replicas: Required[Int32] = 0
    desired_replicas: Required[Int32] = 0
    current_cpu_utilization_percentage: Int32 | None = None


class HorizontalPodAutoscaler(Struct):
    """Scales by the use of CPU: an autoscaler of `autoscaling/v2`, seen only so far.

    metadata: what every object carries.
    spec: what is scaled, between which numbers.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()
    status: HorizontalPodAutoscalerStatus = HorizontalPodAutoscalerStatus()


HORIZONTAL_POD_AUTOSCALER_V1 = Kind(
    "autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", HorizontalPodAutoscaler
)
