"""`autoscaling/v1`: the Scale subresource, and the older spelling of HorizontalPodAutoscalers."""

from muster.api.markers import Int32, Required
from muster.api.meta import ObjectMeta, Struct


class ScaleSpec(Struct):
    """The desired number of replicas."""

    replicas: Int32 = 0


class ScaleStatus(Struct):
    """The observed number of replicas."""

    replicas: Required[Int32] = 0
    selector: str = ""


class Scale(Struct):
    """The view of an object as a number of replicas."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()
