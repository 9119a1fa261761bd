"""What one decision about a JobSet asks of the shell.

The shell carries out everything, and then stores the status; only that a JobSet runs is stored before its first Job
does. Events are told once it is stored. A crash between any two writes leaves what the next decision goes on with.
"""

from datetime import datetime

from msgspec import Struct

from muster.api.batch import Job
from muster.api.core import PersistentVolumeClaim, Service
from muster.api.jobset import JobSetStatus
from muster.api.notes import Note
from muster.jobs.jobset.start.decide import StartPlan


class Change(Struct, frozen=True):
    """A Job that is there, and as it is to be."""

    job: Job
    wanted: Job


class JobSetPlan(Struct, frozen=True):
    """What to do about one JobSet now.

    status: to store if it differs from what is stored.
    delete: Jobs that go, with their pods before them.
    service, claims: that there have to be.
    change: Jobs that are there and not as they are to be.
    create: Jobs that are missing.
    notes: events, once `status` is stored.
    wake_at: when to decide again even if nothing changes.
    more: there was more to create or delete than one plan may hold; decide again as soon as this one is done.
    expired: the JobSet itself goes, now that it has ended for so long.
    start: what else the start of the group asks for.
    """

    status: JobSetStatus
    delete: tuple[Job, ...] = ()
    service: Service | None = None
    claims: tuple[PersistentVolumeClaim, ...] = ()
    change: tuple[Change, ...] = ()
    create: tuple[Job, ...] = ()
    notes: tuple[Note, ...] = ()
    wake_at: datetime | None = None
    more: bool = False
    expired: bool = False
    start: StartPlan | None = None
