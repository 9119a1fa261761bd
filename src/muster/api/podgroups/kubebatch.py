"""`scheduling.incubator.k8s.io/v1alpha1`: kube-batch's PodGroup, first.

Its definition lets through what it does not name; what kube-batch writes of that is named here.
"""

from muster.api.kinds import Kind
from muster.api.markers import Int32
from muster.api.meta import ObjectMeta, Struct
from muster.api.podgroups.fields import PodGroupCondition


class PodGroupSpec(Struct):
    """What is asked for the pods of a group.

    min_member: how many of them start together, or none.
    min_members: another spelling of minMember, scheduler KEP-34's.
    queue: the queue that they are in.
    priority_class_name: name of the PriorityClass.
    """

    min_member: Int32 | None = None
    min_members: Int32 | None = None
    queue: str = ""
    priority_class_name: str = ""


class PodGroupStatus(Struct):
    """What was observed of a group.

    phase: Pending, Running or Unknown.
    conditions: observed aspects: Unschedulable.
    running: pods that run.
    succeeded: pods that have succeeded.
    failed: pods that have failed.
    """

    phase: str = ""
    conditions: tuple[PodGroupCondition, ...] = ()
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0


class PodGroup(Struct):
    """Pods that start together or not at all. The annotation scheduling.k8s.io/group-name of a pod names its group.

    metadata: what every object carries.
    spec: what is asked for the pods.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


POD_GROUP = Kind("scheduling.incubator.k8s.io", "v1alpha1", "PodGroup", "podgroups", PodGroup)
