"""`scheduling.k8s.io/v1`: the PriorityClass."""

from muster.api.kinds import Kind
from muster.api.markers import Int32, Required
from muster.api.meta import ObjectMeta, Struct


class PriorityClass(Struct):
    """A name for a priority of pods."""

    metadata: ObjectMeta = ObjectMeta()
    value: Required[Int32] = 0
    global_default: bool = False
    description: str = ""
    preemption_policy: str | None = None


PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", PriorityClass, namespaced=False)
