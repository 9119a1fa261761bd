"""The rules of PodGroups beyond their schemas."""

from collections.abc import Mapping
from typing import Any, Final

from muster.api.groups.scheduling_v1alpha2 import PodGroup as NativePodGroup
from muster.api.podgroups import coscheduling, kep, kubebatch, sigs, volcano
from muster.api.validation.fields import (
    Errors,
    forbidden,
    invalid,
    required,
    validate_immutable,
    validate_not_negative,
    validate_positive,
)
from muster.api.validation.kueue.rules import validate_not_negative as no_negative_amount
from muster.api.validation.standard import Standard
from muster.api.values.quantity import Quantity, QuantityError, format_canonical

_NOT_SUPPORTED: Final = "update to PodGroup is not supported"


def _validate_kep_group(group: kep.PodGroup) -> Errors:
    spec = group.spec
    if spec.min_members is None and spec.min_member is None:
        yield required("spec.minMembers")
    yield from _validate_one_spelling(spec.min_members, spec.min_member)
    yield from _validate_amounts("spec.totalResources", spec.total_resources)


def _validate_unchanged(new: kep.PodGroup, old: kep.PodGroup) -> Errors:
    if _make_canonical(new) != _make_canonical(old):
        yield forbidden("spec", _NOT_SUPPORTED)


def _make_canonical(group: kep.PodGroup) -> Any:
    """Return a value that is equal for specs with the same meaning, however they spell fields and amounts."""
    spec = group.spec
    minimum = spec.min_member if spec.min_members is None else spec.min_members
    return minimum, {name: _format_quantity(quantity) for name, quantity in spec.total_resources.items()}, spec.policy


def _format_quantity(quantity: Quantity) -> str:
    try:
        return format_canonical(quantity)
    except QuantityError:
        return str(quantity)


def _validate_kube_batch(group: kubebatch.PodGroup) -> Errors:
    yield from validate_not_negative("spec.minMember", group.spec.min_member)
    yield from validate_not_negative("spec.minMembers", group.spec.min_members)
    yield from _validate_one_spelling(group.spec.min_members, group.spec.min_member)


def _validate_volcano_group(group: volcano.PodGroup) -> Errors:
    yield from _validate_amounts("spec.minResources", group.spec.min_resources)
    for task, least in group.spec.min_task_member.items():
        yield from validate_not_negative(f"spec.minTaskMember[{task}]", least)


def _validate_coscheduling_group(group: coscheduling.PodGroup) -> Errors:
    yield from _validate_amounts("spec.minResources", group.spec.min_resources)
    yield from validate_not_negative("spec.scheduleTimeoutSeconds", group.spec.schedule_timeout_seconds)


def _validate_native_group(group: NativePodGroup) -> Errors:
    policy = group.spec.scheduling_policy
    if (policy.basic is None) == (policy.gang is None):
        yield invalid("spec.schedulingPolicy", policy, "must specify exactly one of: `basic`, `gang`")
    if policy.gang is not None:
        yield from validate_positive("spec.schedulingPolicy.gang.minCount", policy.gang.min_count)


def _validate_native_changed(new: NativePodGroup, old: NativePodGroup) -> Errors:
    yield from validate_immutable("spec", new.spec, old.spec)


def _validate_one_spelling(members: int | None, member: int | None) -> Errors:
    if members is not None and member is not None and members != member:
        yield invalid("spec.minMember", member, "must be the same as minMembers, of which it is another spelling")


def _validate_amounts(path: str, amounts: Mapping[str, Quantity]) -> Errors:
    for resource, quantity in amounts.items():
        yield from no_negative_amount(f"{path}[{resource}]", quantity)


NATIVE = Standard(_validate_native_group, _validate_native_changed)

# The rules by `Kind.resource`.
VALIDATIONS: Mapping[str, Standard] = {
    kep.POD_GROUP.resource: Standard(_validate_kep_group, _validate_unchanged, custom=True),
    kubebatch.POD_GROUP.resource: Standard(_validate_kube_batch, custom=True),
    sigs.POD_GROUP.resource: Standard(_validate_kube_batch, custom=True),
    volcano.POD_GROUP.resource: Standard(_validate_volcano_group, custom=True),
    coscheduling.POD_GROUP.resource: Standard(_validate_coscheduling_group, custom=True),
}
