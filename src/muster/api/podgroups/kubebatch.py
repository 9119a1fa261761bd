"""`scheduling.incubator.k8s.io/v1alpha1`: kube-batch's first PodGroup.

kube-batch's definition allows undeclared fields. The types here declare the undeclared fields that kube-batch writes.
"""

from muster.api.kinds import Kind
from muster.api.markers import Int32
from muster.api.meta import ObjectMeta, Struct
from muster.api.podgroups.fields import PodGroupCondition


class PodGroupSpec(Struct):
    """The desired scheduling of the pods of a group.

    min_member: the number of pods that start together; with fewer, none starts.
    min_members: the spelling of minMember in scheduler KEP-34.
    queue: the queue of the group.
    priority_class_name: the name of the PriorityClass.
    """

    min_member: Int32 | None = None
    min_members: Int32 | None = None
    queue: str = ""
    priority_class_name: str = ""


class PodGroupStatus(Struct):
    """The observed state of a group.

    phase: Pending, Running or Unknown.
    conditions: observed aspects: Unschedulable.
    running: the number of running pods.
    succeeded: the number of succeeded pods.
    failed: the number of failed pods.
    """

    phase: str = ""
    conditions: tuple[PodGroupCondition, ...] = ()
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0


class PodGroup(Struct):
    """A group of pods that start together or not at all. The annotation scheduling.k8s.io/group-name of a pod names it.

    metadata: the standard metadata of an object.
    spec: the desired scheduling of the pods.
    status: the observed state.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


POD_GROUP = Kind("scheduling.incubator.k8s.io", "v1alpha1", "PodGroup", "podgroups", PodGroup)
