"""The one record that PodGroups of every dialect are read into."""

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
    """What a PodGroup asks for, whatever its kind.

    kind: that of the object.
    by: how pods name it.
    min_members: how many pods start together, or none; 0: each for itself.
    roles: how many of each task; empty if it does not say, or says more than the minimum.
    queue, priority_class: the names that it has for them; "" for none.
    total_resources: what is set aside for it of the namespace's quota.
    min_resources: what there must be before it is looked at; the pods themselves say it better.
    required_topology, preferred_topology: the label of the level in whose one domain its pods must, or should, be.
    schedule_timeout_seconds: how long a half of it may be there after a crash; None: as long as for any gang.
    policy: what is done when fewer pods run than must; None: that is left to the controllers of its pods.
    failed: why nothing of it starts any more; "" unless it has failed.
    taken_back: which of its pods were deleted when the rest found no room; "" if none, or if it has started since.
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
        """Where it and its pods are."""
        return self.meta.namespace

    @property
    def name(self) -> str:
        """What pods call it."""
        return self.meta.name

    @property
    def uid(self) -> str:
        """The very object."""
        return self.meta.uid


def _kep(kind: Kind[Any], group: kep.PodGroup) -> PodGroup:
    spec, failed = group.spec, find_true(group.status.conditions, FAILED)
    return _record(
        kind,
        group.metadata,
        By.ANNOTATION,
        _either(spec.min_members, spec.min_member),
        total_resources=spec.total_resources,
        policy=spec.policy,
        failed=failed.message if failed is not None else "",
    )


def _kube_batch(kind: Kind[Any], group: kubebatch.PodGroup) -> PodGroup:
    spec = group.spec
    minimum = _either(spec.min_member, spec.min_members)
    return _record(
        kind, group.metadata, By.ANNOTATION, minimum, queue=spec.queue, priority_class=spec.priority_class_name
    )


def _volcano(kind: Kind[Any], group: volcano.PodGroup) -> PodGroup:
    spec = group.spec
    # As upstream: roles count only where all of them together are no more than the group.
    roles = spec.min_task_member if sum(spec.min_task_member.values()) <= spec.min_member else {}
    return _record(
        kind,
        group.metadata,
        By.ANNOTATION,
        spec.min_member,
        roles=roles,
        queue=spec.queue,
        priority_class=spec.priority_class_name,
        min_resources=spec.min_resources,
    )


def _coscheduling(kind: Kind[Any], group: coscheduling.PodGroup) -> PodGroup:
    spec = group.spec
    return _record(
        kind,
        group.metadata,
        By.LABEL,
        spec.min_member or 0,
        min_resources=spec.min_resources,
        schedule_timeout_seconds=spec.schedule_timeout_seconds,
    )


def _native(kind: Kind[Any], group: native.PodGroup) -> PodGroup:
    spec = group.spec
    gang, constraints = spec.scheduling_policy.gang, spec.scheduling_constraints
    topology = constraints.topology if constraints is not None else ()
    asked = {"required_topology": topology[0].key} if topology else {}
    minimum = gang.min_count if gang is not None else 0
    return _record(kind, group.metadata, By.FIELD, minimum, priority_class=spec.priority_class_name, **asked)


def _record(kind: Kind[Any], meta: ObjectMeta, by: By, minimum: int, **more: Any) -> PodGroup:
    asked = {
        "required_topology": meta.annotations.get(POD_SET_REQUIRED_TOPOLOGY, ""),
        "preferred_topology": meta.annotations.get(POD_SET_PREFERRED_TOPOLOGY, ""),
        "taken_back": meta.annotations.get(TAKEN_BACK_ANNOTATION, ""),
    }
    return PodGroup(kind=kind, meta=meta, by=by, min_members=max(minimum, 0), **(asked | more))


def _either(one: int | None, other: int | None) -> int:
    return (one if one is not None else other) or 0


NATIVE = native.POD_GROUP
# In the order in which a name that says no kind is looked up.
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
    kep.PodGroup: (kep.POD_GROUP, _kep),
    volcano.PodGroup: (volcano.POD_GROUP, _volcano),
    sigs.PodGroup: (sigs.POD_GROUP, _kube_batch),
    kubebatch.PodGroup: (kubebatch.POD_GROUP, _kube_batch),
    coscheduling.PodGroup: (coscheduling.POD_GROUP, _coscheduling),
    native.PodGroup: (native.POD_GROUP, _native),
}


def read(obj: Any) -> PodGroup:
    """The record of a PodGroup of any kind."""
    kind, reader = _READERS[type(obj)]
    return reader(kind, obj)
