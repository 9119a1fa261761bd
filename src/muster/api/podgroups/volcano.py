# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`scheduling.volcano.sh/v1beta1`: Volcano's PodGroup, whose status is no subresource."""

from typing import Annotated

from muster.api.kinds import Kind
from muster.api.markers import ATOMIC, DEFAULTED, Format, Int32, limits, one_of
from muster.api.meta import LabelSelector, ObjectMeta, Struct
from muster.api.podgroups.fields import Count, PodGroupCondition
from muster.api.values.quantity import ResourceList

_Name = Annotated[str, limits(max_length=253)]
_QUEUE = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


class NetworkTopologySpec(Struct):
    """The constraint on how close together the pods must be in the network.

    mode: hard for a requirement, soft for a preference.
    highest_tier_allowed: the number of the widest tier over which the pods may be spread.
    highest_tier_name: the name of that tier.
    """

    mode: Annotated[str, one_of("hard", "soft"), DEFAULTED] = "hard"
    highest_tier_allowed: Annotated[int, Format("int"), limits(minimum=0)] | None = None
    highest_tier_name: _Name = ""


class SubGroupPolicySpec(Struct):
    """A policy for pods of a group that must be closer together.

    name: the name of the policy.
    network_topology: the constraint of each sub-group.
    sub_group_size: the number of pods in each sub-group.
    min_sub_groups: the number of sub-groups that start together; with fewer, none starts.
    label_selector: the pods of the policy.
    match_label_keys: the labels whose equal values make pods one sub-group.
    """

    name: _Name = ""
    network_topology: NetworkTopologySpec | None = None
    sub_group_size: Annotated[Int32, limits(minimum=1), DEFAULTED] = 1
    min_sub_groups: Annotated[Count, DEFAULTED] = 0
    label_selector: LabelSelector | None = None
    match_label_keys: Annotated[tuple[str, ...], ATOMIC] = ()


class PodGroupSpec(Struct):
    """The desired scheduling of the pods of a group.

    min_member: the number of pods that start together; with fewer, none starts.
    min_task_member: the same for each task; the annotation volcano.sh/task-spec of a pod names its task.
    queue: the queue of the group.
    priority_class_name: the name of the PriorityClass.
    min_resources: the resources that must be available before the group is considered.
    network_topology: the constraint on how close together the pods must be.
    sub_group_policy: the policies for pods that must be closer together.
    """

    min_member: Count = 0
    min_task_member: dict[str, Int32] = {}
    queue: Annotated[str, limits(max_length=253, pattern=_QUEUE), DEFAULTED] = "default"
    priority_class_name: _Name = ""
    min_resources: ResourceList = {}
    network_topology: NetworkTopologySpec | None = None
    sub_group_policy: tuple[SubGroupPolicySpec, ...] = ()


class PodGroupStatus(Struct):
    """The observed state of a group.

    phase: Pending, Inqueue, Running, Unknown or Completed.
    conditions: observed aspects: Scheduled, Unschedulable.
    running: the number of running pods.
    succeeded: the number of succeeded pods.
    failed: the number of failed pods.
    """

    phase: Annotated[str, one_of("Pending", "Running", "Unknown", "Inqueue", "Completed")] = ""
    conditions: tuple[PodGroupCondition, ...] = ()
    running: Count = 0
    succeeded: Count = 0
    failed: Count = 0


class PodGroup(Struct):
    """A group of pods that start together or not at all. The annotation scheduling.k8s.io/group-name of a pod names it.

    metadata: the standard metadata of an object.
    spec: the desired scheduling of the pods.
    status: the observed state.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


POD_GROUP = Kind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", PodGroup)
