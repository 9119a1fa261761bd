"""The observed state of one dispatched workload in all clusters, and the plan for it. Pure."""

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
    """The job of a workload in a worker cluster, created by this manager.

    workload: the Workload that the job names.
    started: whether it runs or has run.
    ended: whether it has finished.
    active: whether some of its pods have not finished.
    is_going: whether it is being deleted before it has finished.
    """

    workload: str
    started: bool = False
    ended: bool = False
    active: bool = False
    is_going: bool = False


class Remote(Struct, frozen=True):
    """The state of a workload in one worker cluster.

    chosen_for: whether the MultiKueueConfig names the cluster and the cluster serves such jobs; otherwise it only has
    leftovers.
    lost_since: when the connection was lost; None while connected. The objects in a lost cluster are not known.
    workload: the clone; None if there is none.
    job: the clone's job; None if there is none.
    is_barred: whether a foreign object, which this manager never changes, has the name of an object to create.
    is_tried: whether this manager has attempted to connect since its start.
    seconds: the estimated wait; None if it is not known or does not matter.
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
        """Whether the cluster contains no object that this manager created, as far as is known."""
        return self.workload is None and self.job is None

    @property
    def has_room(self) -> bool:
        """Whether the cluster's queue has room for the workload now, as far as is known."""
        return self.seconds == 0.0

    @property
    def has_ended(self) -> bool:
        """Whether the workload has finished there, by its job or its clone."""
        ended = self.workload is not None and is_true(self.workload.status.conditions, FINISHED)
        return ended or (self.job is not None and self.job.ended)

    @property
    def is_over(self) -> bool:
        """Whether the workload has finished there with all its pods, so that none of them can run again."""
        return self.has_ended and not (self.job is not None and self.job.active)

    @property
    def may_run(self) -> bool:
        """Whether the cluster has a job with pods, or with a chance to get some."""
        return self.job is not None and not self.is_over


class Lead(Struct, frozen=True):
    """The head start of a nominated cluster: until it ends, only this cluster gets a clone (`dispatch.lead`).

    since: when the head start began.
    """

    cluster: str
    since: datetime


class DispatchView(Struct, frozen=True):
    """The input of a decision about one workload.

    check: the name of the workload's MultiKueue check; "" if there is none.
    home: the one cluster that may have a job of the workload, as stored with the workload; "" if there is none.
    objection: why its job cannot be dispatched at all; "" if it can.
    mirrored: whether the manager's job shows the status of the finished job at home, or home has no job.
    ended_since: since when the manager's job itself shows that it has finished, so that the job's own controller
    finishes the workload; None if it does not.
    remotes: the clusters, in order of preference.
    lead: the head start from an earlier decision; None if none is known.
    """

    workload: Workload
    check: str
    home: str = ""
    objection: str = ""
    mirrored: bool = False
    ended_since: datetime | None = None
    remotes: tuple[Remote, ...] = ()
    lead: Lead | None = None


class DispatchSettings(Struct, frozen=True):
    """The settings for dispatching, from the Configuration.

    lost_timeout: how long a lost cluster keeps its workloads.
    dispatcher: the dispatcher that nominates clusters.
    step: how many more clusters the incremental dispatcher nominates each round.
    began: when this manager started.
    """

    lost_timeout: timedelta
    dispatcher: str
    step: int = 3
    began: datetime = FIRST


def dispatch_settings(configuration: MultiKueue, began: datetime) -> DispatchSettings:
    """Return the settings for dispatching from the Configuration's section. began: when the manager started."""
    lost_timeout = timedelta(seconds=configuration.worker_lost_timeout / SECOND)
    settings = DispatchSettings(lost_timeout, configuration.dispatcher_name, began=began)
    rounds = configuration.incremental_dispatcher_config
    return settings if rounds is None else replace(settings, step=rounds.step_size)


class DispatchPlan(Struct, frozen=True):
    """The plan for one workload.

    home: the home to store before any other step if it differs from the stored home; then decide again. A home is given
    up only if a read of that cluster shows none of the workload's objects, or if the cluster is given up as lost.
    status: the status to store if it differs from the stored one.
    create: the clusters that get a clone.
    align: the clusters whose clones get the workload's priority and pod counts.
    remove: the clusters where the job, and then the clone, are deleted.
    evict: the cluster whose clone is stopped.
    mirror: the cluster whose job is created if it is missing, and whose status the manager's job gets.
    stopped: whether no pod of the job runs anywhere any more; the manager's job then shows that.
    lead: the head start to remember while the process runs.
    notes: Events to record after `status` is stored.
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
    lead: Lead | None = None
    notes: tuple[Note, ...] = ()
    wake_at: datetime | None = None
