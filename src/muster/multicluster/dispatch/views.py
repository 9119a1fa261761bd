"""What is known of one workload that goes to another cluster, here and in the workers, and what is to be done. Pure."""

from datetime import datetime, timedelta

from msgspec import Struct

from muster.api.conditions import is_true
from muster.api.kueue import Workload, WorkloadStatus
from muster.api.kueue.names import FINISHED
from muster.api.notes import Note
from muster.queueing.moments import FIRST


class RemoteJob(Struct, frozen=True):
    """The job of a workload's owner as a worker cluster has it: this manager has made it, and no other counts.

    workload: the Workload that it names.
    started: it runs, or has run.
    ended: it has come to its end. active: pods of it have not.
    """

    workload: str
    started: bool = False
    ended: bool = False
    active: bool = False


class Remote(Struct, frozen=True):
    """What one worker cluster has of a workload.

    chosen_for: the MultiKueueConfig names it, and it takes such jobs; else it only has what was left there.
    lost_since: when the connection was lost; None while there is one. What a lost cluster has is not known.
    workload: the clone. job: its job.
    is_barred: a job of another maker has the name that ours would have there, and is never touched.
    seconds: until it would start there, as far as is known; asked for by the earliest-start dispatcher alone.
    """

    cluster: str
    chosen_for: bool = True
    lost_since: datetime | None = None
    workload: Workload | None = None
    job: RemoteJob | None = None
    seconds: float | None = None
    is_barred: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing that this manager made is there, as far as is known."""
        return self.workload is None and self.job is None

    @property
    def has_ended(self) -> bool:
        """Whether its job there has come to its end, as the job or the clone says."""
        ended = self.workload is not None and is_true(self.workload.status.conditions, FINISHED)
        return ended or (self.job is not None and self.job.ended)

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs there, or ever will: it has ended, and so have its pods."""
        return self.has_ended and not (self.job is not None and self.job.active)

    @property
    def may_run(self) -> bool:
        """Whether a job is there that has pods, or may get some."""
        return self.job is not None and not self.is_over


class DispatchView(Struct, frozen=True):
    """Everything that is decided on.

    check: the AdmissionCheck of MultiKueue that stands between the workload's quota and its admission; "" if none does.
    home: the one cluster where a job of it may be, as stored with the workload; "" if there is none.
    objection: why its job cannot be dispatched at all; "" if it can.
    mirrored: the status of the job here is that of the job at home.
    remotes: in order of preference.
    """

    workload: Workload
    check: str
    home: str = ""
    objection: str = ""
    mirrored: bool = False
    remotes: tuple[Remote, ...] = ()


class DispatchSettings(Struct, frozen=True):
    """What the Configuration says.

    lost_timeout: how long a lost cluster keeps its workloads.
    dispatcher: who nominates clusters. step: how many more the incremental one nominates each round.
    began: when this manager did, which knew nothing of any cluster then.
    """

    lost_timeout: timedelta
    dispatcher: str
    step: int = 3
    began: datetime = FIRST


class DispatchPlan(Struct, frozen=True):
    """What to do about one workload now.

    home: to store before anything else is done, and then to decide again, if it differs from what is stored. It is
        taken back only where a look at that cluster itself finds it clear, or the cluster is given up for lost.
    status: to store if it differs.
    create: clusters that get a clone. align: whose clone gets priority and counts from here.
    remove: clusters where the job, and then the clone, go.
    evict: the cluster whose clone has to stop.
    mirror: the cluster whose job is made if it is missing, and whose job's status is brought here.
    stopped: nothing of the job runs anywhere any more: its status here says so.
    notes: events, once `status` is stored.
    wake_at: when to decide again even if nothing changes.
    """

    home: str
    status: WorkloadStatus
    create: tuple[str, ...] = ()
    align: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    evict: str = ""
    mirror: str = ""
    stopped: bool = False
    notes: tuple[Note, ...] = ()
    wake_at: datetime | None = None
