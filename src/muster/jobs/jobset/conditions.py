"""Record the status of a JobSet and the events of each change: conditions, reasons and messages."""

from datetime import datetime
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from muster.api.jobset import JobSetStatus, names
from muster.api.meta import Condition
from muster.api.notes import Note
from muster.jobs.interruption import INTERRUPTED, INTERRUPTIONS, add_interruptions
from muster.jobs.jobset.start.decide import StartPlan

# Setting one of these two conditions True sets the other to False, and changes no other field of it.
_EXCLUSIVE = {names.STARTUP_IN_PROGRESS: names.STARTUP_COMPLETED, names.STARTUP_COMPLETED: names.STARTUP_IN_PROGRESS}


class StatusRecord(Struct, frozen=True):
    """A status under construction, and the events to record once it is stored.

    now: whole seconds, as the API keeps it.
    """

    status: JobSetStatus
    now: datetime
    notes: tuple[Note, ...] = ()

    def set(self, type: str, reason: str, message: str, *, true: bool = True, warns: bool = False) -> Self:
        """Return the record with this condition set. If that changes the condition, an event is added, too.

        true: whether the condition's status is True.
        warns: whether the event is a warning.
        """
        new = Condition(
            type=type,
            status="True" if true else "False",
            reason=reason,
            message=message,
            last_transition_time=self.now,
        )
        conditions = _set_condition(self.status.conditions, new)
        if conditions == self.status.conditions:
            return self
        status = replace(self.status, conditions=conditions)
        return replace(self, status=status).with_notes(Note("Warning" if warns else "Normal", reason, message))

    def with_notes(self, *notes: Note) -> Self:
        """Return the record with further events."""
        return replace(self, notes=(*self.notes, *notes))

    def with_status(self, status: JobSetStatus) -> Self:
        """Return the record with another status."""
        return replace(self, status=status)

    # The conditions of a JobSet.

    def mark_completed(self) -> Self:
        """Return the record of a JobSet that has succeeded."""
        message = "jobset completed successfully"
        record = self.set(names.COMPLETED, "AllJobsCompleted", message)
        return record.not_restarting("JobSetCompleted", message).set_end(names.COMPLETED)

    def mark_failed(self, reason: str, message: str) -> Self:
        """Return the record of a JobSet that has failed."""
        record = self.set(names.FAILED, reason, message, warns=True)
        return record.not_restarting("JobSetFailed", "jobset failed").set_end(names.FAILED)

    def mark_suspended(self) -> Self:
        """Return the record with the condition Suspended set to True.

        If there is a condition Restarting, it becomes False.
        """
        message = "jobset is suspended"
        return self.set(names.SUSPENDED, "SuspendedJobs", message).not_restarting("JobSetSuspended", message)

    def mark_resumed(self) -> Self:
        """Return the record with the condition Suspended set to False."""
        return self.set(names.SUSPENDED, "ResumeJobs", "jobset is resumed", true=False)

    def all_ready(self) -> Self:
        """Return the record with the condition Restarting set to False, because all Jobs are ready or succeeded."""
        return self.not_restarting("JobsReady", "all jobs are ready")

    def mark_restarting(self, reason: str, message: str) -> Self:
        """Return the record with the condition that says that all child Jobs are being recreated."""
        return self.set(names.RESTARTING, reason, message, warns=True)

    def add_interruption(self, message: str, *, by_suspension: bool = False) -> Self:
        """Return the record with one more interruption, after the platform ended pods of the JobSet."""
        message = add_interruptions(self.status.conditions, 1, message, by_suspension=by_suspension)
        return replace(self.set(INTERRUPTIONS, INTERRUPTED, message), notes=self.notes)

    def not_restarting(self, reason: str, message: str) -> Self:
        """Return the record with the condition `Restarting` False: the restart is complete, or no longer needed."""
        return self.set(names.RESTARTING, reason, message, true=False)

    def starting_in_order(self) -> Self:
        """Return the record with the condition that says that roles start in order, and some have not started yet."""
        message = "in order startup policy is in progress"
        return self.set(names.STARTUP_IN_PROGRESS, "InOrderStartupPolicyInProgress", message)

    def started_in_order(self) -> Self:
        """Return the record with the condition that says that all roles have started in order."""
        message = "in order startup policy has completed"
        return self.set(names.STARTUP_COMPLETED, "InOrderStartupPolicyCompleted", message)

    def add_start_plan(self, plan: StartPlan) -> Self:
        """Return the record with the plan for the group's start: its condition, its status and its events.

        The condition is added even if it is False.
        """
        status, new = self.status, plan.condition
        if new is not None:
            conditions = tuple(new if each.type == new.type else each for each in status.conditions)
            status = replace(status, conditions=conditions if new in conditions else (*conditions, new))
        return self.with_status(replace(status, group_scheduling=plan.status)).with_notes(*plan.notes)

    def set_end(self, state: str) -> Self:
        """Return the record with this terminal state: completed or failed."""
        return self.with_status(replace(self.status, terminal_state=state))


def _set_condition(conditions: tuple[Condition, ...], new: Condition) -> tuple[Condition, ...]:
    """Return the conditions with this one set. A missing condition is never added as False.

    `lastTransitionTime` changes only if the status changes.
    """
    true = new.status == "True"
    rival = _EXCLUSIVE.get(new.type) if true else None
    updated = tuple(_flip_rival(old, new, rival) for old in conditions)
    missing = true and all(old.type != new.type for old in conditions)
    return (*updated, new) if missing else updated


def _flip_rival(old: Condition, new: Condition, rival: str | None) -> Condition:
    if old.type == rival and old.status == "True":
        return replace(old, status="False")
    if old.type != new.type:
        return old
    return replace(new, last_transition_time=old.last_transition_time) if old.status == new.status else new
