# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`scheduling.volcano.sh/v1beta1`: Volcano's PodGroup. Its status is no subresource but written with the rest."""

from typing import Annotated

from muster.api.kinds import Kind
from muster.api.markers import ATOMIC, DEFAULTED, Format, Int32, limits, one_of
from muster.api.meta import LabelSelector, ObjectMeta, Struct
from muster.api.podgroups.fields import Count, PodGroupCondition
from muster.api.values.quantity import ResourceList

_Name = Annotated[str, limits(max_length=253)]
_QUEUE = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


class NetworkTopologySpec(Struct):
    """How close together the pods must be.

    mode: hard: they must be. soft: they should be.
    highest_tier_allowed: the widest tier of the network that they may be spread over, by number.
    highest_tier_name: the same by name.
    """

    mode: Annotated[str, one_of("hard", "soft"), DEFAULTED] = "hard"
    highest_tier_allowed: Annotated[int, Format("int"), limits(minimum=0)] | None = None
    highest_tier_name: _Name = ""


class SubGroupPolicySpec(Struct):
    """Pods of a group that belong closer together.

    name: name of the policy.
    network_topology: how close together.
    sub_group_size: pods in each sub-group.
    min_sub_groups: how many sub-groups start together, or none.
    label_selector: which pods.
    match_label_keys: pods with the same values of these labels are one sub-group.
    """

    name: _Name = ""
    network_topology: NetworkTopologySpec | None = None
    sub_group_size: Annotated[Int32, limits(minimum=1), DEFAULTED] = 1
    min_sub_groups: Annotated[Count, DEFAULTED] = 0
    label_selector: LabelSelector | None = None
    match_label_keys: Annotated[tuple[str, ...], ATOMIC] = ()


class PodGroupSpec(Struct):
    """What is asked for the pods of a group.

    min_member: how many of them start together, or none.
    min_task_member: how many of each task; the annotation volcano.sh/task-spec of a pod names its task.
    queue: the queue that they are in.
    priority_class_name: name of the PriorityClass.
    min_resources: what there must be before the group is looked at.
    network_topology: how close together they must be.
    sub_group_policy: which of them belong closer together.
    """

    min_member: Count = 0
    min_task_member: dict[str, Int32] = {}
    queue: Annotated[str, limits(max_length=253, pattern=_QUEUE), DEFAULTED] = "default"
    priority_class_name: _Name = ""
    min_resources: ResourceList = {}
    network_topology: NetworkTopologySpec | None = None
    sub_group_policy: tuple[SubGroupPolicySpec, ...] = ()


class PodGroupStatus(Struct):
    """What was observed of a group.

    phase: Pending, Inqueue, Running, Unknown or Completed.
    conditions: observed aspects: Scheduled, Unschedulable.
    running: pods that run.
    succeeded: pods that have succeeded.
    failed: pods that have failed.
    """

    phase: Annotated[str, one_of("Pending", "Running", "Unknown", "Inqueue", "Completed")] = ""
    conditions: tuple[PodGroupCondition, ...] = ()
    running: Count = 0
    succeeded: Count = 0
    failed: Count = 0


class PodGroup(Struct):
    """Pods that start together or not at all. The annotation scheduling.k8s.io/group-name of a pod names its group.

    metadata: what every object carries.
    spec: what is asked for the pods.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


POD_GROUP = Kind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", PodGroup)
