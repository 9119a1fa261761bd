"""The work that one decision about a Job requests from the shell.

The shell creates the children, marks pods, stores the status, and only then deletes and creates pods. After a crash
between any two writes, the next decision can continue.
"""

from datetime import datetime

from msgspec import Struct

from muster.api.core import Pod
from muster.api.notes import Note
from muster.api.volcano import JobStatus
from muster.jobs.volcano.children import Children


class VolcanoJobPlan(Struct, frozen=True):
    """The work to do for one Job now.

    status: the status to store if it differs from the stored one.
    children: the desired objects other than pods; None to leave them unchanged.
    replaced: pods that the retry with the number `retry` replaces. Each of them is annotated with that number.
    retry: the number of that retry.
    delete: pods to delete.
    create: missing pods.
    notes: events to record after the status is stored.
    wake_at: when to decide again even if nothing changes; None if that is not needed.
    more: whether there is more to create or delete than one plan holds. If so, decide again as soon as this plan is
    done.
    ungroup: whether to delete the PodGroup, because no pod is placed any more.
    expired: whether to delete the Job itself, because its TTL is over.
    """

    status: JobStatus
    children: Children | None = None
    replaced: tuple[Pod, ...] = ()
    retry: int = 0
    delete: tuple[Pod, ...] = ()
    create: tuple[Pod, ...] = ()
    notes: tuple[Note, ...] = ()
    wake_at: datetime | None = None
    more: bool = False
    ungroup: bool = False
    expired: bool = False
