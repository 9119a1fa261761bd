"""Read PodGroups of every dialect into one record."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from muster.api.conditions import find_true
from muster.api.groups import scheduling_v1alpha2 as native
from muster.api.kinds import Kind
from muster.api.kueue.names import POD_SET_PREFERRED_TOPOLOGY, POD_SET_REQUIRED_TOPOLOGY
from muster.api.meta import ObjectMeta
from muster.api.podgroups import coscheduling, kep, kubebatch, sigs, volcano
from muster.api.podgroups.names import FAILED, TAKEN_BACK_ANNOTATION
from muster.api.values.quantity import ResourceList
from muster.jobs.podgroup.reference import By


class PodGroup(Struct, frozen=True):
    """The fields of a PodGroup of any dialect.

    kind: the kind of the object.
    by: how pods name the group.
    min_members: the number of pods that start together. If it is 0, each pod starts alone.
    roles: the number of pods of each task; empty if the group names no tasks, or more pods in tasks than the minimum.
    queue, priority_class: the names in the group's spec; "" for none.
    total_resources: the part of the namespace's quota that is reserved for the group.
    min_resources: the resources that must exist before the group is considered; the pods' own requests are more
    precise.
    required_topology, preferred_topology: the node label of a topology level. All pods must, or should, run in one
    domain of that level.
    schedule_timeout_seconds: how long a partly placed group may stay after a crash; None for the limit of all gangs.
    policy: what to do when fewer pods run than the minimum. If it is None, the controllers of the pods decide.
    failed: why no further pod of the group may start; "" unless the group has failed.
    taken_back: which of its pods were deleted because the other pods found no room; "" if none were, or if the group
    has started since.
    """

    kind: Kind[Any]
    meta: ObjectMeta
    by: By
    min_members: int
    roles: Mapping[str, int] = {}
    queue: str = ""
    priority_class: str = ""
    total_resources: ResourceList = {}
    min_resources: ResourceList = {}
    schedule_timeout_seconds: int | None = None
    required_topology: str = ""
    preferred_topology: str = ""
    policy: kep.PodGroupPolicy | None = None
    failed: str = ""
    taken_back: str = ""

    @property
    def namespace(self) -> str:
        """The namespace of the group and its pods."""
        return self.meta.namespace

    @property
    def name(self) -> str:
        """The name by which pods name the group."""
        return self.meta.name

    @property
    def uid(self) -> str:
        """The UID of the object."""
        return self.meta.uid


def _read_kep(kind: Kind[Any], group: kep.PodGroup) -> PodGroup:
    spec, failed = group.spec, find_true(group.status.conditions, FAILED)
    return _make_record(
        kind,
        group.metadata,
        By.ANNOTATION,
        _pick_nonzero(spec.min_members, spec.min_member),
        total_resources=spec.total_resources,
        policy=spec.policy,
        failed=failed.message if failed is not None else "",
    )


def _read_kube_batch(kind: Kind[Any], group: kubebatch.PodGroup) -> PodGroup:
    spec = group.spec
    minimum = _pick_nonzero(spec.min_member, spec.min_members)
    return _make_record(
        kind, group.metadata, By.ANNOTATION, minimum, queue=spec.queue, priority_class=spec.priority_class_name
    )


def _read_volcano(kind: Kind[Any], group: volcano.PodGroup) -> PodGroup:
    spec = group.spec
    # As in upstream, roles count only if their sum is at most the group's minimum.
    roles = spec.min_task_member if sum(spec.min_task_member.values()) <= spec.min_member else {}
    return _make_record(
        kind,
        group.metadata,
        By.ANNOTATION,
        spec.min_member,
        roles=roles,
        queue=spec.queue,
        priority_class=spec.priority_class_name,
        min_resources=spec.min_resources,
    )


def _read_coscheduling(kind: Kind[Any], group: coscheduling.PodGroup) -> PodGroup:
    spec = group.spec
    return _make_record(
        kind,
        group.metadata,
        By.LABEL,
        spec.min_member or 0,
        min_resources=spec.min_resources,
        schedule_timeout_seconds=spec.schedule_timeout_seconds,
    )


def _read_native(kind: Kind[Any], group: native.PodGroup) -> PodGroup:
    spec = group.spec
    gang, constraints = spec.scheduling_policy.gang, spec.scheduling_constraints
    topology = constraints.topology if constraints is not None else ()
    topology_fields = {"required_topology": topology[0].key} if topology else {}
    minimum = gang.min_count if gang is not None else 0
    return _make_record(
        kind, group.metadata, By.FIELD, minimum, priority_class=spec.priority_class_name, **topology_fields
    )


def _make_record(kind: Kind[Any], meta: ObjectMeta, by: By, minimum: int, **more: Any) -> PodGroup:
    requests = {
        "required_topology": meta.annotations.get(POD_SET_REQUIRED_TOPOLOGY, ""),
        "preferred_topology": meta.annotations.get(POD_SET_PREFERRED_TOPOLOGY, ""),
        "taken_back": meta.annotations.get(TAKEN_BACK_ANNOTATION, ""),
    }
    return PodGroup(kind=kind, meta=meta, by=by, min_members=max(minimum, 0), **(requests | more))


def _pick_nonzero(one: int | None, other: int | None) -> int:
    return (one if one is not None else other) or 0


NATIVE = native.POD_GROUP
# In the order in which a name without a kind is resolved.
KINDS: tuple[Kind[Any], ...] = (
    kep.POD_GROUP,
    volcano.POD_GROUP,
    sigs.POD_GROUP,
    kubebatch.POD_GROUP,
    coscheduling.POD_GROUP,
    NATIVE,
)
_Read: TypeAlias = Callable[[Kind[Any], Any], PodGroup]
_READERS: Mapping[type, tuple[Kind[Any], _Read]] = {
    kep.PodGroup: (kep.POD_GROUP, _read_kep),
    volcano.PodGroup: (volcano.POD_GROUP, _read_volcano),
    sigs.PodGroup: (sigs.POD_GROUP, _read_kube_batch),
    kubebatch.PodGroup: (kubebatch.POD_GROUP, _read_kube_batch),
    coscheduling.PodGroup: (coscheduling.POD_GROUP, _read_coscheduling),
    native.PodGroup: (native.POD_GROUP, _read_native),
}


def read(obj: Any) -> PodGroup:
    """Return the record of a PodGroup of any kind."""
    kind, reader = _READERS[type(obj)]
    return reader(kind, obj)
