"""The observed state of one workload that goes to another cluster, and the plan for it. Pure."""

from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from muster.api.conditions import is_true
from muster.api.config.types import MultiKueue
from muster.api.kueue import Workload, WorkloadStatus
from muster.api.kueue.names import FINISHED
from muster.api.notes import Note
from muster.api.values.durations import SECOND
from muster.queueing.moments import FIRST


class RemoteJob(Struct, frozen=True):
    """The job of a workload's owner in a worker cluster, created by this manager.

    workload: the Workload that it names. started: whether it runs or has run. ended: whether it has ended.
    active: whether some of its pods have not ended.
    """

    workload: str
    started: bool = False
    ended: bool = False
    active: bool = False


class Remote(Struct, frozen=True):
    """The state of a workload in one worker cluster.

    chosen_for: whether the MultiKueueConfig names the cluster and it takes such jobs; else it only has leftovers.
    lost_since: when the connection was lost; None while there is one. What a lost cluster has is not known.
    workload: the clone. job: its job. is_barred: whether a job of another maker has the name, and is never touched.
    is_tried: whether this manager has tried to connect since its start.
    seconds: the estimated wait, for the earliest-start dispatcher alone.
    """

    cluster: str
    chosen_for: bool = True
    lost_since: datetime | None = None
    workload: Workload | None = None
    job: RemoteJob | None = None
    seconds: float | None = None
    is_barred: bool = False
    is_tried: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing that this manager created is there, as far as is known."""
        return self.workload is None and self.job is None

    @property
    def has_ended(self) -> bool:
        """Whether its job there has ended, as the job or the clone says."""
        ended = self.workload is not None and is_true(self.workload.status.conditions, FINISHED)
        return ended or (self.job is not None and self.job.ended)

    @property
    def is_over(self) -> bool:
        """Whether nothing of the workload runs there or ever will: it has ended, and so have its pods."""
        return self.has_ended and not (self.job is not None and self.job.active)

    @property
    def may_run(self) -> bool:
        """Whether a job is there that has pods or may get some."""
        return self.job is not None and not self.is_over


class DispatchView(Struct, frozen=True):
    """Everything that a decision takes.

    check: the AdmissionCheck of MultiKueue between the workload's quota and its admission; "" if there is none.
    home: the one cluster where a job of it may be, as stored with the workload; "" if there is none.
    objection: why its job cannot be dispatched at all; "" if it can.
    mirrored: whether the status of the job here is that of the ended job at home, or none is there.
    remotes: in order of preference.
    """

    workload: Workload
    check: str
    home: str = ""
    objection: str = ""
    mirrored: bool = False
    remotes: tuple[Remote, ...] = ()


class DispatchSettings(Struct, frozen=True):
    """The settings of the Configuration.

    lost_timeout: how long a lost cluster keeps its workloads. dispatcher: who nominates clusters.
    step: how many more clusters the incremental dispatcher nominates each round. began: when this manager started.
    """

    lost_timeout: timedelta
    dispatcher: str
    step: int = 3
    began: datetime = FIRST


def dispatch_settings(configuration: MultiKueue, began: datetime) -> DispatchSettings:
    """Return the settings of a Configuration. began: when the manager started."""
    lost_timeout = timedelta(seconds=configuration.worker_lost_timeout / SECOND)
    settings = DispatchSettings(lost_timeout, configuration.dispatcher_name, began=began)
    rounds = configuration.incremental_dispatcher_config
    return settings if rounds is None else replace(settings, step=rounds.step_size)


class DispatchPlan(Struct, frozen=True):
    """The plan for one workload.

    home: to store before anything else, and then to decide again, if it differs from what is stored. It is taken back
    only where a look at that cluster itself finds it clear, or where the cluster is given up as lost.
    status: to store if it differs. create: the clusters that get a clone. align: the cluster whose clone gets priority
    and counts from here. remove: the clusters where the job, and then the clone, go. evict: the cluster whose clone
    stops.
    mirror: the cluster whose job is created if it is missing, and whose job's status is shown here.
    stopped: whether nothing of the job runs anywhere any more, which its status here then says.
    notes: Events, once `status` is stored. wake_at: when to decide again even if nothing changes.
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
