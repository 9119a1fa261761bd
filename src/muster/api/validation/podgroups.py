"""The rules of PodGroups beyond their schemas."""

from collections.abc import Mapping
from typing import Any, Final

from muster.api.groups.scheduling_v1alpha2 import PodGroup as NativePodGroup
from muster.api.podgroups import coscheduling, kep, kubebatch, sigs, volcano
from muster.api.validation.fields import Errors, forbidden, immutable, invalid, not_negative, positive, required
from muster.api.validation.kueue.rules import not_negative as no_negative_amount
from muster.api.validation.standard import Standard
from muster.api.values.quantity import Quantity, QuantityError, canonical

_NOT_SUPPORTED: Final = "update to PodGroup is not supported"


def _kep(group: kep.PodGroup) -> Errors:
    spec = group.spec
    if spec.min_members is None and spec.min_member is None:
        yield required("spec.minMembers")
    yield from _one_spelling(spec.min_members, spec.min_member)
    yield from _amounts("spec.totalResources", spec.total_resources)


def _unchanged(new: kep.PodGroup, old: kep.PodGroup) -> Errors:
    if _meaning(new) != _meaning(old):
        yield forbidden("spec", _NOT_SUPPORTED)


def _meaning(group: kep.PodGroup) -> Any:
    """Return the meaning of a spec, independent of its spelling."""
    spec = group.spec
    minimum = spec.min_member if spec.min_members is None else spec.min_members
    return minimum, {name: _shown(quantity) for name, quantity in spec.total_resources.items()}, spec.policy


def _shown(quantity: Quantity) -> str:
    try:
        return canonical(quantity)
    except QuantityError:
        return str(quantity)


def _kube_batch(group: kubebatch.PodGroup) -> Errors:
    yield from not_negative("spec.minMember", group.spec.min_member)
    yield from not_negative("spec.minMembers", group.spec.min_members)
    yield from _one_spelling(group.spec.min_members, group.spec.min_member)


def _volcano(group: volcano.PodGroup) -> Errors:
    yield from _amounts("spec.minResources", group.spec.min_resources)
    for task, least in group.spec.min_task_member.items():
        yield from not_negative(f"spec.minTaskMember[{task}]", least)


def _coscheduling(group: coscheduling.PodGroup) -> Errors:
    yield from _amounts("spec.minResources", group.spec.min_resources)
    yield from not_negative("spec.scheduleTimeoutSeconds", group.spec.schedule_timeout_seconds)


def _native(group: NativePodGroup) -> Errors:
    policy = group.spec.scheduling_policy
    if (policy.basic is None) == (policy.gang is None):
        yield invalid("spec.schedulingPolicy", policy, "must specify exactly one of: `basic`, `gang`")
    if policy.gang is not None:
        yield from positive("spec.schedulingPolicy.gang.minCount", policy.gang.min_count)


def _native_changed(new: NativePodGroup, old: NativePodGroup) -> Errors:
    yield from immutable("spec", new.spec, old.spec)


def _one_spelling(members: int | None, member: int | None) -> Errors:
    if members is not None and member is not None and members != member:
        yield invalid("spec.minMember", member, "must be the same as minMembers, of which it is another spelling")


def _amounts(path: str, amounts: Mapping[str, Quantity]) -> Errors:
    for resource, quantity in amounts.items():
        yield from no_negative_amount(f"{path}[{resource}]", quantity)


NATIVE = Standard(_native, _native_changed)

# The rules by `Kind.resource`.
VALIDATIONS: Mapping[str, Standard] = {
    kep.POD_GROUP.resource: Standard(_kep, _unchanged, custom=True),
    kubebatch.POD_GROUP.resource: Standard(_kube_batch, custom=True),
    sigs.POD_GROUP.resource: Standard(_kube_batch, custom=True),
    volcano.POD_GROUP.resource: Standard(_volcano, custom=True),
    coscheduling.POD_GROUP.resource: Standard(_coscheduling, custom=True),
}
