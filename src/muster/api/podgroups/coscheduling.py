# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`scheduling.x-k8s.io/v1alpha1`: the PodGroup of the coscheduling plugin (kubernetes-sigs/scheduler-plugins)."""

from datetime import datetime
from typing import Annotated

from muster.api.kinds import Kind
from muster.api.markers import Int32, limits
from muster.api.meta import ObjectMeta, Struct
from muster.api.values.quantity import ResourceList


class PodGroupSpec(Struct):
    """What is asked for the pods of a group.

    min_member: how many of them start together, or none.
    min_resources: what there must be before the group is looked at.
    schedule_timeout_seconds: how long some of them hold their places while the others have none; here, after a
        crash alone.
    """

    min_member: Annotated[Int32, limits(minimum=1)] | None = None
    min_resources: ResourceList = {}
    schedule_timeout_seconds: Int32 | None = None


class PodGroupStatus(Struct):
    """What was observed of a group.

    phase: Pending, Scheduling, Running, Unknown, Finished or Failed.
    occupied_by: what owns the pods.
    running: pods that run.
    succeeded: pods that have succeeded.
    failed: pods that have failed.
    schedule_start_time: when there were first enough pods.
    """

    phase: str = ""
    occupied_by: str = ""
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    schedule_start_time: datetime | None = None


class PodGroup(Struct):
    """Pods that start together or not at all. The label scheduling.x-k8s.io/pod-group of a pod names its group.

    metadata: what every object carries.
    spec: what is asked for the pods.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


POD_GROUP = Kind("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups", PodGroup)
