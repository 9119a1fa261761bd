"""`autoscaling/v1`: the Scale subresource."""

from muster.api.markers import Int32, Required
from muster.api.meta import ObjectMeta, Struct


class ScaleSpec(Struct):
    """How many are wanted.

    replicas: how many.
    """

    replicas: Int32 = 0


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
