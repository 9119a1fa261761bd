"""The work that one decision about a CronJob requests from the shell.

The shell deletes Jobs, creates the new one, and then stores the status that names it. The name of a Job says which
start it was made for. After a crash in between, the next decision creates the Job again, and finds it by its name.
"""

from datetime import datetime

from msgspec import Struct

from muster.api.batch import CronJobStatus, Job
from muster.api.notes import Note


class Start(Struct, frozen=True):
    """The Job to create for a start that is due.

    replaces: the running Jobs to delete before the Job is created.
    """

    at: datetime
    job: Job
    replaces: tuple[Job, ...] = ()


class CronJobPlan(Struct, frozen=True):
    """The work to do for one CronJob now.

    status: the status to store if it differs from the stored one; the controller adds the new Job to it.
    remove: ended Jobs beyond the limits of the history.
    start: the Job to create.
    notes: events to record once the status is stored.
    wake_at: when to decide again even if nothing changes.
    """

    status: CronJobStatus
    remove: tuple[Job, ...] = ()
    start: Start | None = None
    notes: tuple[Note, ...] = ()
    wake_at: datetime | None = None
