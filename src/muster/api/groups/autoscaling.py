"""`autoscaling/v1`: the Scale subresource, and the older spelling of HorizontalPodAutoscalers."""

from muster.api.markers import Int32, Required
from muster.api.meta import ObjectMeta, Struct


class ScaleSpec(Struct):
    """How many are wanted."""

    replicas: Int32 = 0


class ScaleStatus(Struct):
    """How many there are."""

    replicas: Required[Int32] = 0
    selector: str = ""


class Scale(Struct):
    """An object seen only as a number of replicas."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()
