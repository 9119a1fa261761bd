# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`incubator.scheduling.k8s.io/v1alpha1`: the PodGroup of scheduler KEP-34 (kube-batch), with a policy."""

from datetime import datetime
from typing import Annotated, Final

from muster.api.kinds import Kind
from muster.api.markers import DEFAULTED, Int32, limits, map_by, one_of
from muster.api.meta import Condition, ObjectMeta, Struct
from muster.api.podgroups.fields import Count
from muster.api.values.quantity import ResourceList

NONE: Final = "None"
RESTART: Final = "Restart"
FAIL: Final = "Fail"


class PodGroupPolicy(Struct):
    """The policy for a group of which fewer pods run than required. Scheduler KEP-34 leaves its content open.

    on_below_min: None does nothing. Restart deletes all pods of the group, so that their controllers create them again.
        Fail deletes all unfinished pods and fails the group.
    max_restarts: the number of restarts after which the group fails; no limit if absent.
    backoff_seconds: the wait before the first restart, which doubles with each later one.
    """

    on_below_min: Annotated[str, one_of(NONE, RESTART, FAIL), DEFAULTED] = NONE
    max_restarts: Count | None = None
    backoff_seconds: Count | None = None


class PodGroupSpec(Struct):
    """The desired scheduling of the pods of a group.

    min_members: the number of pods that start together; with fewer, none starts.
    min_member: the spelling of minMembers in later dialects.
    total_resources: the part of the namespace's quota that is reserved when the group is created.
    policy: the policy if fewer pods run than required; if absent, the controller of the pods decides.
    """

    min_members: Count | None = None
    min_member: Count | None = None
    total_resources: ResourceList = {}
    policy: PodGroupPolicy | None = None


class PodGroupStatus(Struct):
    """The observed state of a group.

    admitted: the number of pods with a node.
    running: the number of running pods.
    succeeded: the number of succeeded pods.
    failed: the number of failed pods.
    start_time: when enough pods first ran since the last restart.
    below_min_time: when too few pods began to run; absent while enough run.
    restarts: the number of restarts of the group.
    restarted_until: the time up to which pods belong to the group before its last restart.
    completion_time: when enough pods had succeeded and none was left, or the group failed. The reserved quota of the
        namespace is released then.
    conditions: observed aspects.
    """

    admitted: Int32 = 0
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    start_time: datetime | None = None
    below_min_time: datetime | None = None
    restarts: Int32 = 0
    restarted_until: datetime | None = None
    completion_time: datetime | None = None
    conditions: Annotated[tuple[Condition, ...], map_by("type"), limits(max_items=16)] = ()


class PodGroup(Struct):
    """A group of pods that start together or not at all. The annotation scheduling.k8s.io/group-name of a pod names it.

    metadata: the standard metadata of an object.
    spec: the desired scheduling of the pods, which never changes.
    status: the observed state.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


POD_GROUP = Kind("incubator.scheduling.k8s.io", "v1alpha1", "PodGroup", "podgroups", PodGroup)
