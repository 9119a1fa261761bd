"""The work that one decision about a JobSet requests from the shell.

The shell carries out all the work, and then stores the status. Only the condition that says "resumed" is stored before
the first Job runs. Events are recorded once the status is stored. After a crash between any two writes the next
decision can continue.
"""

from datetime import datetime

from msgspec import Struct

from muster.api.batch import Job
from muster.api.core import PersistentVolumeClaim, Service
from muster.api.jobset import JobSetStatus
from muster.api.notes import Note
from muster.jobs.jobset.start.decide import StartPlan


class JobChange(Struct, frozen=True):
    """An existing Job, and its desired state."""

    job: Job
    wanted: Job


class JobSetPlan(Struct, frozen=True):
    """The work to do for one JobSet now.

    status: the status to store if it differs from the stored one.
    delete: Jobs to delete, their pods first.
    service, claims: objects that must exist.
    change: existing Jobs that differ from their desired state.
    create: missing Jobs.
    notes: events to record after `status` is stored.
    wake_at: when to decide again even if nothing changes; None if that is not needed.
    more: whether there is more to create, delete or change than one plan may hold. If so, decide again as soon as this
    plan is done.
    expired: whether the JobSet's TTL is over, so that the JobSet itself is deleted.
    start: the further work for the start of the group.
    """

    status: JobSetStatus
    delete: tuple[Job, ...] = ()
    service: Service | None = None
    claims: tuple[PersistentVolumeClaim, ...] = ()
    change: tuple[JobChange, ...] = ()
    create: tuple[Job, ...] = ()
    notes: tuple[Note, ...] = ()
    wake_at: datetime | None = None
    more: bool = False
    expired: bool = False
    start: StartPlan | None = None
