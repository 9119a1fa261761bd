# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`scheduling.x-k8s.io/v1alpha1`: the PodGroup of the coscheduling plugin (kubernetes-sigs/scheduler-plugins)."""

from datetime import datetime
from typing import Annotated

from muster.api.kinds import Kind
from muster.api.markers import Int32, limits
from muster.api.meta import ObjectMeta, Struct
from muster.api.values.quantity import ResourceList


class PodGroupSpec(Struct):
    """The desired scheduling of the pods of a group.

    min_member: the number of pods that start together; with fewer, none starts.
    min_resources: the resources that must be available before the group is considered.
    schedule_timeout_seconds: how long some pods keep their nodes while others have none; here only after a crash.
    """

    min_member: Annotated[Int32, limits(minimum=1)] | None = None
    min_resources: ResourceList = {}
    schedule_timeout_seconds: Int32 | None = None


class PodGroupStatus(Struct):
    """The observed state of a group.

    phase: Pending, Scheduling, Running, Unknown, Finished or Failed.
    occupied_by: the owner of the pods.
    running: the number of running pods.
    succeeded: the number of succeeded pods.
    failed: the number of failed pods.
    schedule_start_time: when the group first had enough pods.
    """

    phase: str = ""
    occupied_by: str = ""
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    schedule_start_time: datetime | None = None


class PodGroup(Struct):
    """A group of pods that start together or not at all. The label scheduling.x-k8s.io/pod-group of a pod names it.

    metadata: the standard metadata of an object.
    spec: the desired scheduling of the pods.
    status: the observed state.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


POD_GROUP = Kind("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups", PodGroup)
