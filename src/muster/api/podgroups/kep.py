# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`incubator.scheduling.k8s.io/v1alpha1`: the PodGroup of scheduler KEP-34, with the policy that it leaves open."""

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
    """What is done when fewer pods run than must; scheduler KEP-34 names it and leaves open what it says.

    on_below_min: None: nothing. Restart: all pods of the group go, so that their controllers make them anew. Fail: all
        unfinished pods go, and the group is failed.
    max_restarts: after so many restarts the group is failed; without it there is no limit.
    backoff_seconds: how long to wait before the first restart; each later one waits twice as long as that before it.
    """

    on_below_min: Annotated[str, one_of(NONE, RESTART, FAIL), DEFAULTED] = NONE
    max_restarts: Count | None = None
    backoff_seconds: Count | None = None


class PodGroupSpec(Struct):
    """What is asked for the pods of a group.

    min_members: how many of them start together, or none.
    min_member: another spelling of minMembers, that of those who came later.
    total_resources: what the group asks of the namespace's quota, set aside for it when it is made.
    policy: what is done when fewer pods run than must; without it that is the business of their controller.
    """

    min_members: Count | None = None
    min_member: Count | None = None
    total_resources: ResourceList = {}
    policy: PodGroupPolicy | None = None


class PodGroupStatus(Struct):
    """What was observed of a group.

    admitted: pods that have a node.
    running: pods that run.
    succeeded: pods that have succeeded.
    failed: pods that have failed.
    start_time: when the minimum first ran, since the last restart.
    below_min_time: since when fewer run; absent while enough do.
    restarts: how many times all pods have been ended so that their controllers make them anew.
    restarted_until: pods made up to then are of the time before the last restart.
    completion_time: when enough pods had succeeded and none was left, or the group failed; what was set aside of the
        namespace's quota is given back then.
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
    """Pods that start together or not at all. The annotation scheduling.k8s.io/group-name of a pod names its group.

    metadata: what every object carries.
    spec: what is asked for the pods; it never changes.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


POD_GROUP = Kind("incubator.scheduling.k8s.io", "v1alpha1", "PodGroup", "podgroups", PodGroup)
