"""`scheduling.k8s.io/v1`: the PriorityClass."""

from typing import Annotated

from muster.api.kinds import Kind
from muster.api.markers import Int32, Required, one_of
from muster.api.meta import ObjectMeta, Struct


class PriorityClass(Struct):
    """A name for a priority of pods.

    metadata: what every object carries.
    value: the priority; the greater, the more important; at most 1000000000 for users.
    global_default: whether pods without a class get this one; at most one class has it.
    description: for whom the class is.
    preemption_policy: Never, or PreemptLowerPriority (the default).
    """

    metadata: ObjectMeta = ObjectMeta()
    value: Required[Int32] = 0
    global_default: bool = False
    description: str = ""
    preemption_policy: Annotated[str, one_of("Never", "PreemptLowerPriority")] | None = None


PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", PriorityClass, namespaced=False)
