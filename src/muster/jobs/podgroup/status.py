"""Write the status of a PodGroup in the fields and phases of its dialect."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

import msgspec

from muster.api.conditions import find, is_true
from muster.api.groups import scheduling_v1alpha2 as native
from muster.api.meta import Condition
from muster.api.podgroups import coscheduling, kep, kubebatch, sigs, volcano
from muster.api.podgroups.fields import PodGroupCondition
from muster.api.podgroups.names import INITIALLY_SCHEDULED, READY, SCHEDULED, UNSCHEDULABLE
from muster.jobs.podgroup.groupstate import GroupState, Stage

C = TypeVar("C", Condition, PodGroupCondition)


def status_of(group: Any, standing: GroupState, now: datetime) -> Any:
    """Return the desired status of a PodGroup, of the status type of its kind. Unchanged parts keep their values."""
    return _WRITERS[type(group)](group, standing, now)


def _write_kep(group: kep.PodGroup, standing: GroupState, now: datetime) -> kep.PodGroupStatus:
    census = standing.census
    return msgspec.structs.replace(
        group.status,
        admitted=census.admitted,
        running=census.running,
        succeeded=census.succeeded,
        failed=census.failed,
        conditions=_set_unschedulable(group.status.conditions, standing, _make_standard(now)),
    )


def _write_kube_batch(group: kubebatch.PodGroup, standing: GroupState, now: datetime) -> kubebatch.PodGroupStatus:
    phases = {Stage.BROKEN: "Unknown", Stage.READY: "Running", Stage.DONE: "Running"}
    return msgspec.structs.replace(
        group.status,
        phase=phases.get(standing.stage, "Pending"),
        running=standing.census.running,
        succeeded=standing.census.succeeded,
        failed=standing.census.failed,
        conditions=_set_unschedulable(group.status.conditions, standing, _make_older(group, now)),
    )


def _write_volcano(group: volcano.PodGroup, standing: GroupState, now: datetime) -> volcano.PodGroupStatus:
    # Volcano's controllers create pods once the group is in the queue. Muster has no such queue to wait for.
    phases = {Stage.BROKEN: "Unknown", Stage.READY: "Running", Stage.DONE: "Completed"}
    phase = phases.get(standing.stage, "Inqueue")
    if standing.stage is Stage.EMPTY and group.status.phase == "Completed":
        phase = "Completed"  # the group's pods are cleaned up
    make = _make_older(group, now)
    conditions = _set_unschedulable(group.status.conditions, standing, make)
    if standing.stage is Stage.READY:
        conditions = _set_condition(conditions, make(SCHEDULED, "True", READY, ""))
    elif standing.reason and find(conditions, SCHEDULED) is not None:
        conditions = _set_condition(conditions, make(SCHEDULED, "False", standing.reason, standing.message))
    return msgspec.structs.replace(
        group.status,
        phase=phase,
        running=standing.census.running,
        succeeded=standing.census.succeeded,
        failed=standing.census.failed,
        conditions=conditions,
    )


def _write_coscheduling(
    group: coscheduling.PodGroup, standing: GroupState, now: datetime
) -> coscheduling.PodGroupStatus:
    census, old = standing.census, group.status
    phase = _find_coscheduling_phase(group, standing)
    started = old.schedule_start_time
    if started is None and phase == "Scheduling":
        started = now
    return msgspec.structs.replace(
        old,
        phase=phase,
        occupied_by=",".join(census.owners) or old.occupied_by,
        running=census.running,
        succeeded=census.succeeded,
        failed=census.failed,
        schedule_start_time=started,
    )


def _find_coscheduling_phase(group: coscheduling.PodGroup, standing: GroupState) -> str:
    """Return the phase by the rules of the coscheduling plugin's controller.

    A finished or failed group keeps its phase, and so does a group without pods.
    """
    census, least, old = standing.census, group.spec.min_member or 0, group.status.phase
    if old in ("Finished", "Failed") or not census.members + census.failed:
        return old or "Pending"
    if census.succeeded >= least:
        return "Finished"
    if census.failed and census.failed + census.running + census.succeeded >= least:
        return "Failed"
    if census.members + census.failed < least:
        return "Pending"
    return "Running" if census.succeeded + census.running >= least else "Scheduling"


def _write_native(group: native.PodGroup, standing: GroupState, now: datetime) -> native.PodGroupStatus:
    """Return the status of Kubernetes' own PodGroup. A group that was scheduled once stays scheduled."""
    conditions, make = group.status.conditions, _make_standard(now)
    if is_true(conditions, INITIALLY_SCHEDULED):
        return group.status
    if standing.stage in (Stage.READY, Stage.DONE):
        conditions = _set_condition(conditions, make(INITIALLY_SCHEDULED, "True", "Scheduled", ""))
    elif standing.reason:
        conditions = _set_condition(conditions, make(INITIALLY_SCHEDULED, "False", UNSCHEDULABLE, standing.message))
    return msgspec.structs.replace(group.status, conditions=conditions)


_Make: TypeAlias = Callable[[str, str, str, str], C]


def _make_standard(now: datetime) -> _Make[Condition]:
    def make(type_: str, status: str, reason: str, message: str) -> Condition:
        return Condition(type=type_, status=status, reason=reason, message=message, last_transition_time=now)

    return make


def _make_older(group: kubebatch.PodGroup | volcano.PodGroup, now: datetime) -> _Make[PodGroupCondition]:
    # The resource version before a change identifies the change, because only one change can start from a version.
    def make(type_: str, status: str, reason: str, message: str) -> PodGroupCondition:
        return PodGroupCondition(
            type=type_,
            status=status,
            transition_id=group.metadata.resource_version,
            reason=reason,
            message=message,
            last_transition_time=now,
        )

    return make


def _set_unschedulable(conditions: tuple[C, ...], standing: GroupState, make: _Make[C]) -> tuple[C, ...]:
    """Return the conditions with one that says why the group cannot be scheduled, or that it can be again.

    A group without pods has no such condition. It stays unchanged while the group waits without a reason.
    """
    if standing.reason:
        return _set_condition(conditions, make(UNSCHEDULABLE, "True", standing.reason, standing.message))
    if standing.stage is Stage.EMPTY:
        return tuple(one for one in conditions if one.type != UNSCHEDULABLE)
    if find(conditions, UNSCHEDULABLE) is None or standing.stage is Stage.WAITING:
        return conditions
    return _set_condition(conditions, make(UNSCHEDULABLE, "False", SCHEDULED, ""))


def _set_condition(conditions: tuple[C, ...], new: C) -> tuple[C, ...]:
    """Return the conditions with this one replacing the existing one of the same type.

    The transition time changes only if the status changes.
    """
    old = find(conditions, new.type)
    if old is None:
        return conditions + (new,)  # noqa: RUF005  (mypy knows no unpacking of a variable's type)
    if (old.status, old.reason, old.message) == (new.status, new.reason, new.message):
        return conditions
    if old.status == new.status:
        new = msgspec.structs.replace(new, last_transition_time=old.last_transition_time)
    return tuple(new if one is old else one for one in conditions)


_WRITERS: Mapping[type, Callable[[Any, GroupState, datetime], Any]] = {
    kep.PodGroup: _write_kep,
    kubebatch.PodGroup: _write_kube_batch,
    sigs.PodGroup: _write_kube_batch,
    volcano.PodGroup: _write_volcano,
    coscheduling.PodGroup: _write_coscheduling,
    native.PodGroup: _write_native,
}
