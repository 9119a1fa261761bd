"""Decide what to do about a parent Workload and its variants, one Workload for each flavor.

One variant is admitted at a time. The parent copies its admission, and the job runs with that. If the variant must be
evicted, the parent is evicted first: its job stops, the parent releases its quota, and then the variant does. So quota
is never free while pods use it. The order of the rules is that of Kueue's controller.

There are four differences from Kueue:

- Only an eviction of the variant with which the job runs stops the job.
- If the parent is evicted for a reason of its own, such as pods that are not ready in time, its variant is evicted,
  too. The variants then wait as long as the parent has to.
- A variant whose checks were rejected stays inactive; if all were rejected, the parent is deactivated.
- The parent reports why its variants wait, and copies the fields that their checks inject into the job's pods.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from muster.api.conditions import find, find_true, is_true
from muster.api.kueue import GATE_OPEN, PreemptionGateState, Workload, WorkloadSpec, WorkloadStatus
from muster.api.kueue.names import (
    ADMISSION_CHECK_EVICTION,
    ADMISSION_GATED_BY,
    ADMITTED,
    BLOCKED_ON_PREEMPTION_GATES,
    CONCURRENT_ADMISSION,
    CONCURRENT_ADMISSION_GATE,
    DEACTIVATED,
    DEACTIVATED_DUE_TO,
    DEACTIVATION_TARGET,
    EVICTED,
    FINISHED,
    INADMISSIBLE,
    PENDING,
    PENDING_EVALUATION,
    PODS_READY,
    PREEMPTED,
    QUOTA_RESERVED,
    VARIANT_EVICTED,
    WAITING,
)
from muster.api.managed.variants import flavor_of, has_open_gate
from muster.api.meta import Condition
from muster.api.ours.elastic import is_elastic
from muster.queueing.conditions import find_last_change, put, reset
from muster.queueing.elastic.growth import limit_granted_pods
from muster.queueing.variants.family import Family, has_quota, is_running, name_of, spec_of
from muster.queueing.workload.eviction import evict, not_before, release, release_evicted

# For how long one variant may preempt before the next variant may preempt as well.
PREEMPTION_TIMEOUT: Final = timedelta(minutes=5)

# Reasons that are meaningless when a workload is active. Its next decision removes them.
_FLEETING: Final = (DEACTIVATED, PENDING, INADMISSIBLE, WAITING)

_NO_VARIANT: Final = "No variant is running"
_GONE_FLAVOR: Final = 'flavor "{}" no longer in ClusterQueue'


class WorkloadChange(Struct, frozen=True):
    """A change to write to one Workload: to its spec, its status or its annotations.

    annotations: the annotations to set, or to remove if the value is None.
    why: the reason for messages, if the change activates or deactivates the Workload.
    """

    workload: Workload
    annotations: Mapping[str, str | None] = {}
    status: WorkloadStatus | None = None
    spec: WorkloadSpec | None = None
    why: str = ""


class FamilyPlan(Struct, frozen=True):
    """The writes to make for a parent Workload and its variants.

    create: flavors that lack a variant.
    delete: variants that are no longer needed.
    changes: changes to Workloads, in this order.
    opened: the variant whose preemption gate one of the changes opens; None if none does.
    wake_at: when to decide again at the latest; None if that is not needed.
    """

    create: tuple[str, ...] = ()
    delete: tuple[Workload, ...] = ()
    changes: tuple[WorkloadChange, ...] = ()
    opened: Workload | None = None
    wake_at: datetime | None = None


def decide(family: Family, now: datetime) -> FamilyPlan:
    """Decide which writes to make now for a family, with at most one write for each Workload."""
    parent = family.parent
    if parent.metadata.deletion_timestamp is not None:
        return FamilyPlan()
    if (end := find_true(parent.status.conditions, FINISHED)) is not None:
        return FamilyPlan(changes=tuple(_finish(family, end, now)))
    flavors = {flavor_of(one) for one in family.variants}
    plan = FamilyPlan(
        create=tuple(flavor for flavor in family.flavors if flavor not in flavors),
        delete=tuple(one for one in family.strays if not has_quota(one)),
    )
    if (leaving := _leave(family, now)) is not None:
        return replace(plan, changes=leaving)
    changes = [*_follow(family), *_switch_variants(family, now), *_mirror_variants(family, now)]
    plan = replace(plan, changes=_keep_first(changes))
    return _open_gate(plan, family, now)


def _keep_first(changes: list[WorkloadChange]) -> tuple[WorkloadChange, ...]:
    """Return the first change of each Workload. Later decisions make the other changes."""
    first: dict[str, WorkloadChange] = {}
    for change in changes:
        first.setdefault(change.workload.metadata.uid, change)
    return tuple(first.values())


def _finish(family: Family, end: Condition, now: datetime) -> Iterator[WorkloadChange]:
    for variant in family.all:
        conditions = put(variant.status.conditions, FINISHED, True, end.reason, end.message, now)
        if not is_true(variant.status.conditions, FINISHED):
            yield _write_status(variant, msgspec.structs.replace(variant.status, conditions=conditions))


# Evictions.


def _leave(family: Family, now: datetime) -> tuple[WorkloadChange, ...] | None:
    """Return the next changes while the parent or a variant is being evicted; None if none is being evicted.

    Return no changes while the job has not stopped.
    """
    parent = family.parent
    own = _find_own_eviction(family)
    for variant in family.all:
        if not has_quota(variant):
            continue
        if is_true(variant.status.conditions, EVICTED):
            if not has_quota(parent) or not family.is_mirrored(variant):
                return (_write_status(variant, _wait_like(parent, release_evicted(variant.status, now))),)
            if is_true(parent.status.conditions, EVICTED):
                return ()  # wait until the job has stopped
            evicted = find_true(variant.status.conditions, EVICTED)
            message = f"Admitted variant was evicted: {evicted.message if evicted is not None else ''}".removesuffix(
                ": "
            )
            return (_write_status(parent, evict(parent.status, VARIANT_EVICTED, message, now)),)
        if own is not None and _is_of_last_round(family, variant):
            return (_write_status(variant, evict(variant.status, own.reason, own.message, now)),)
    if is_true(parent.status.conditions, EVICTED) and has_quota(parent):
        return ()
    return None


def _find_own_eviction(family: Family) -> Condition | None:
    """Return the parent's condition Evicted, unless a variant caused the eviction."""
    evicted = find_true(family.parent.status.conditions, EVICTED)
    return None if evicted is None or evicted.reason in (VARIANT_EVICTED, CONCURRENT_ADMISSION) else evicted


def _is_of_last_round(family: Family, variant: Workload) -> bool:
    """Return whether the variant belongs to the parent's latest admission, which has ended or is ending.

    While the parent holds quota, that is the variant whose admission the parent copied. Afterwards it is any variant
    that was admitted before the parent lost its quota.
    """
    parent, admitted = family.parent, find_true(variant.status.conditions, ADMITTED)
    if has_quota(parent):
        return family.is_mirrored(variant)
    reserved = find(parent.status.conditions, QUOTA_RESERVED)
    if admitted is None or reserved is None or reserved.last_transition_time is None:
        return False
    return find_last_change(admitted, reserved.last_transition_time) < reserved.last_transition_time


# The specs of variants.


def _follow(family: Family) -> Iterator[WorkloadChange]:
    """Yield the changes that copy the parent's spec and waiting time to the variants."""
    parent = family.parent
    for variant in family.variants:
        spec = spec_of(parent, active=variant.spec.active)
        if has_quota(variant):
            spec = _follow_spec(variant.spec, spec, resized=is_elastic(parent.metadata.annotations))
        gates = [one.metadata.annotations.get(ADMISSION_GATED_BY) for one in (parent, variant)]
        if gates[0] != gates[1]:
            yield WorkloadChange(variant, annotations={ADMISSION_GATED_BY: gates[0]})
        if spec != variant.spec:
            yield WorkloadChange(variant, spec=spec)
        if not has_quota(variant) and (status := _wait_like(parent, variant.status)) is not variant.status:
            yield _write_status(variant, status)


def _follow_spec(spec: WorkloadSpec, parent_spec: WorkloadSpec, *, resized: bool) -> WorkloadSpec:
    """Return the variant's spec with the changes of the parent's spec that a variant with quota may have.

    resized: whether it may have other sizes as well.
    """
    sizes = {podset.name: podset.count for podset in parent_spec.pod_sets} if resized else {}
    podsets = tuple(msgspec.structs.replace(one, count=sizes.get(one.name, one.count)) for one in spec.pod_sets)
    priority, reference = parent_spec.priority, parent_spec.priority_class_ref
    return msgspec.structs.replace(spec, pod_sets=podsets, priority=priority, priority_class_ref=reference)


def _wait_like(parent: Workload, status: WorkloadStatus) -> WorkloadStatus:
    """Return the status of a variant without quota, with the parent's `requeueAt`."""
    state = parent.status.requeue_state
    return status if state is None or state.requeue_at is None else not_before(status, state.requeue_at)


# Activation of variants.


def _switch_variants(family: Family, now: datetime) -> Iterator[WorkloadChange]:
    """Yield the changes that activate the variants that may still be admitted, and deactivate the others."""
    parent, admitted = family.parent, family.admitted
    for stray in family.strays:
        if stray.spec.active and has_quota(stray):
            yield _set_active(stray, False, _GONE_FLAVOR.format(flavor_of(stray)))
    if not parent.spec.active:
        why = f'Parent Workload "{name_of(parent)}" not active'
        yield from (_set_active(one, False, why) for one in family.variants if one.spec.active)
        return
    for variant in family.variants:
        should_be_active, why = _can_try(family, variant, admitted)
        if (
            should_be_active is not None
            and should_be_active != variant.spec.active
            and not (should_be_active and _is_rejected(family, variant, now))
        ):
            yield _set_active(variant, should_be_active, why)


def _can_try(family: Family, variant: Workload, admitted: Workload | None) -> tuple[bool | None, str]:
    """Return whether a variant may still be admitted, and why. Return None to leave its activation unchanged.

    admitted: the admitted variant; None if there is none.
    """
    if admitted is None:
        return True, "no other Variant being admitted"
    if variant is admitted:
        return None, ""
    name, mine = name_of(admitted), family.position(variant)
    if family.retains:
        return False, f'RetainFirstAdmission: another Variant "{name}" is admitted'
    if mine > family.position(admitted):
        return False, f'being lower priority than admitted Variant "{name}"'
    if not family.last:
        return True, f'being higher priority than admitted Variant "{name}"'
    if mine > family.limit():
        return False, f'being below lastAcceptableFlavor: "{family.last}" and another Variant admitted "{name}"'
    reason = f'being at least lastAcceptableFlavor: "{family.last}"'
    return True, f'{reason} and higher priority than admitted Variant "{name}"'


def _is_rejected(family: Family, variant: Workload, now: datetime) -> bool:
    """Return whether an admission check has rejected the variant permanently.

    A rejection from before the parent was last deactivated does not count any more.
    """
    if variant.spec.active:
        return False
    target = find_true(variant.status.conditions, DEACTIVATION_TARGET)
    if target is not None and target.reason == ADMISSION_CHECK_EVICTION:
        return True
    evicted = find_true(variant.status.conditions, EVICTED)
    if evicted is None or evicted.reason != DEACTIVATED_DUE_TO + ADMISSION_CHECK_EVICTION:
        return False
    ended = find_true(family.parent.status.conditions, EVICTED)
    if ended is None or not ended.reason.startswith(DEACTIVATED):
        return True
    return find_last_change(ended, now) < find_last_change(evicted, now)


def _set_active(variant: Workload, value: bool, why: str) -> WorkloadChange:
    return WorkloadChange(variant, spec=replace(variant.spec, active=value), why=why)


# The status of the parent.


def _mirror_variants(family: Family, now: datetime) -> Iterator[WorkloadChange]:
    parent, admitted = family.parent, family.admitted
    if admitted is None:
        yield from _mirror_none(family, now)
    elif not has_quota(parent):
        if parent.spec.active:  # otherwise the variant is evicted, and no job starts on it
            yield _write_status(parent, _adopt(parent.status, admitted, now))
    elif family.is_mirrored(admitted):
        sizes = {podset.name: podset.count for podset in parent.spec.pod_sets}
        fits = all(count <= sizes.get(name, 0) for name, count in _map_sizes(admitted).items())
        if parent.status.admission != admitted.status.admission and fits:  # it has grown, or has other domains
            yield _write_status(parent, msgspec.structs.replace(parent.status, admission=admitted.status.admission))
        yield from _report_back(parent, admitted)


def _mirror_none(family: Family, now: datetime) -> Iterator[WorkloadChange]:
    """Yield the changes of a parent without an admitted variant: evict or deactivate it, or explain its wait."""
    parent = family.parent
    if has_quota(parent):
        yield _write_status(parent, evict(parent.status, CONCURRENT_ADMISSION, _NO_VARIANT, now))
        return
    if not parent.spec.active or parent.metadata.annotations.get(ADMISSION_GATED_BY):
        return  # the parent's own status gives the reason
    if family.variants and len(family.variants) == len(family.flavors):
        rejected = [one for one in family.variants if _is_rejected(family, one, now)]
        if len(rejected) == len(family.variants):
            evicted = find_true(rejected[0].status.conditions, EVICTED)
            message = evicted.message if evicted is not None else ""
            conditions = put(
                parent.status.conditions, DEACTIVATION_TARGET, True, ADMISSION_CHECK_EVICTION, message, now
            )
            yield _write_status(parent, msgspec.structs.replace(parent.status, conditions=conditions))
            return
    trying = [one for one in family.variants if one.spec.active]
    notes = [(flavor_of(one), note) for one in trying if (note := _find_wait(one)) is not None]
    if not notes:
        return
    message = "; ".join(f"{flavor}: {note.message}" for flavor, note in notes)
    reason = next((note.reason for _, note in notes if note.reason not in _FLEETING), PENDING_EVALUATION)
    if (status := release(parent.status, message, now, reason)) is not parent.status:
        yield _write_status(parent, status)


def _find_wait(variant: Workload) -> Condition | None:
    """Return the condition that says why a variant is not admitted; None if there is none."""
    key = ADMITTED if has_quota(variant) else QUOTA_RESERVED
    condition = find(variant.status.conditions, key)
    return condition if condition is not None and condition.status == "False" else None


def _adopt(status: WorkloadStatus, variant: Workload, now: datetime) -> WorkloadStatus:
    """Return the status of a parent with the admission of this variant copied into it."""
    admission = variant.status.admission
    assert admission is not None, "an admitted variant holds quota"
    conditions = status.conditions
    for old in (EVICTED, PREEMPTED):
        conditions = reset(conditions, old, QUOTA_RESERVED, now)
    message = f"Quota reserved in ClusterQueue {admission.cluster_queue}"
    conditions = put(conditions, QUOTA_RESERVED, True, QUOTA_RESERVED, message, now)
    message = f"The variant {variant.metadata.name} is admitted"
    return msgspec.structs.replace(
        status,
        conditions=put(conditions, ADMITTED, True, ADMITTED, message, now),
        admission=admission,
        admission_checks=variant.status.admission_checks,
    )


def _report_back(parent: Workload, variant: Workload) -> Iterator[WorkloadChange]:
    """Yield the change that copies the reported state of the job's pods to the variant, which holds their quota."""
    ready, status = find(parent.status.conditions, PODS_READY), variant.status
    conditions = tuple(one for one in status.conditions if one.type != PODS_READY)
    conditions = status.conditions if ready is None or ready in status.conditions else (*conditions, ready)
    updated = limit_granted_pods(status, {podset.name: podset.count for podset in parent.spec.pod_sets})
    updated = msgspec.structs.replace(updated, conditions=conditions, reclaimable_pods=parent.status.reclaimable_pods)
    if updated != status:
        yield _write_status(variant, updated)


def _map_sizes(workload: Workload) -> dict[str, int]:
    """Return, for each podset, the number of pods for which a Workload holds quota."""
    admission = workload.status.admission
    return {one.name: one.count or 0 for one in (admission.pod_set_assignments if admission is not None else ())}


def _write_status(workload: Workload, status: WorkloadStatus) -> WorkloadChange:
    return WorkloadChange(workload, status=status)


# Preemption gates.


def _open_gate(plan: FamilyPlan, family: Family, now: datetime) -> FamilyPlan:
    """Return the plan with one waiting variant's preemption gate opened, at most one every few minutes."""
    trying = [one for one in family.variants if one.spec.active and not has_quota(one)]
    blocked = [one for one in trying if is_true(one.status.conditions, BLOCKED_ON_PREEMPTION_GATES)]
    candidate = next((one for one in blocked if not has_open_gate(one)), None)
    if candidate is None:
        return plan
    moments = [
        gate.last_transition_time
        for one in trying
        for gate in one.status.preemption_gates
        if gate.name == CONCURRENT_ADMISSION_GATE and gate.position == GATE_OPEN and gate.last_transition_time
    ]
    if moments and (at := max(moments) + PREEMPTION_TIMEOUT) > now:
        return replace(plan, wake_at=at)
    if any(change.workload is candidate for change in plan.changes):
        return plan
    others = tuple(gate for gate in candidate.status.preemption_gates if gate.name != CONCURRENT_ADMISSION_GATE)
    moment = now.replace(microsecond=0)
    gate = PreemptionGateState(name=CONCURRENT_ADMISSION_GATE, position=GATE_OPEN, last_transition_time=moment)
    status = msgspec.structs.replace(candidate.status, preemption_gates=(*others, gate))
    return replace(plan, changes=(*plan.changes, _write_status(candidate, status)), opened=candidate)


__all__ = ["PREEMPTION_TIMEOUT", "FamilyPlan", "WorkloadChange", "decide", "is_running"]
