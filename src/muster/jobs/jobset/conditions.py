"""The status of a JobSet as it is written down, and what is said of each change: conditions, reasons and messages."""

from datetime import datetime
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from muster.api.jobset import JobSetStatus, names
from muster.api.meta import Condition
from muster.api.notes import Note
from muster.jobs.jobset.start.decide import StartPlan

# Of these two, the one that is set True makes the other False, and nothing else about it changes.
_EXCLUSIVE = {names.STARTUP_IN_PROGRESS: names.STARTUP_COMPLETED, names.STARTUP_COMPLETED: names.STARTUP_IN_PROGRESS}


class Record(Struct, frozen=True):
    """A status that is being decided on, and the events that are told once it is stored.

    now: whole seconds, as the API keeps it.
    """

    status: JobSetStatus
    now: datetime
    notes: tuple[Note, ...] = ()

    def set(self, type: str, reason: str, message: str, *, true: bool = True, warns: bool = False) -> Self:
        """With a condition, and an event if that changes anything."""
        new = Condition(
            type=type,
            status="True" if true else "False",
            reason=reason,
            message=message,
            last_transition_time=self.now,
        )
        found = _updated(self.status.conditions, new)
        if found == self.status.conditions:
            return self
        status = replace(self.status, conditions=found)
        return replace(self, status=status).told(Note("Warning" if warns else "Normal", reason, message))

    def told(self, *notes: Note) -> Self:
        """With further events."""
        return replace(self, notes=(*self.notes, *notes))

    def with_status(self, status: JobSetStatus) -> Self:
        """With another status."""
        return replace(self, status=status)

    # What a JobSet says of itself.

    def completed(self) -> Self:
        """It has succeeded."""
        message = "jobset completed successfully"
        record = self.set(names.COMPLETED, "AllJobsCompleted", message)
        return record.not_restarting("JobSetCompleted", message).ended(names.COMPLETED)

    def failed(self, reason: str, message: str) -> Self:
        """It has failed."""
        record = self.set(names.FAILED, reason, message, warns=True)
        return record.not_restarting("JobSetFailed", "jobset failed").ended(names.FAILED)

    def suspended(self) -> Self:
        """No pods are to run."""
        message = "jobset is suspended"
        return self.set(names.SUSPENDED, "SuspendedJobs", message).not_restarting("JobSetSuspended", message)

    def resumed(self) -> Self:
        """Pods are to run again."""
        return self.set(names.SUSPENDED, "ResumeJobs", "jobset is resumed", true=False)

    def all_ready(self) -> Self:
        """All Jobs are ready, or have succeeded."""
        return self.not_restarting("JobsReady", "all jobs are ready")

    def restarting(self, reason: str, message: str) -> Self:
        """All Jobs are made anew."""
        return self.set(names.RESTARTING, reason, message, warns=True)

    def not_restarting(self, reason: str, message: str) -> Self:
        """It has been restarted, or has not to be any more."""
        return self.set(names.RESTARTING, reason, message, true=False)

    def starting_in_order(self) -> Self:
        """A role is waited for before the next one starts."""
        message = "in order startup policy is in progress"
        return self.set(names.STARTUP_IN_PROGRESS, "InOrderStartupPolicyInProgress", message)

    def started_in_order(self) -> Self:
        """All roles have started."""
        message = "in order startup policy has completed"
        return self.set(names.STARTUP_COMPLETED, "InOrderStartupPolicyCompleted", message)

    def starting(self, plan: StartPlan) -> Self:
        """So far is the start of the group. Its condition is there from the first, as False."""
        status, new = self.status, plan.condition
        if new is not None:
            found = tuple(new if each.type == new.type else each for each in status.conditions)
            status = replace(status, conditions=found if new in found else (*found, new))
        return self.with_status(replace(status, group_scheduling=plan.status)).told(*plan.notes)

    def ended(self, state: str) -> Self:
        """Nothing more happens to it."""
        return self.with_status(replace(self.status, terminal_state=state))


def _updated(conditions: tuple[Condition, ...], new: Condition) -> tuple[Condition, ...]:
    """With a condition set. One that is not there is never added as False.

    `lastTransitionTime` stays unless the status flips.
    """
    true = new.status == "True"
    rival = _EXCLUSIVE.get(new.type) if true else None
    found = tuple(_next(old, new, rival) for old in conditions)
    missing = true and all(old.type != new.type for old in conditions)
    return (*found, new) if missing else found


def _next(old: Condition, new: Condition, rival: str | None) -> Condition:
    if old.type == rival and old.status == "True":
        return replace(old, status="False")
    if old.type != new.type:
        return old
    return replace(new, last_transition_time=old.last_transition_time) if old.status == new.status else new
