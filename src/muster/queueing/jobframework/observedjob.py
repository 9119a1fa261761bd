"""A job of any kind, as its Workload sees it."""

from collections.abc import Mapping

from msgspec import Struct, field

from muster.api.core import Toleration
from muster.api.kueue import PodSet, PriorityClassRef, ReclaimablePod


class End(Struct, frozen=True):
    """The end of a job: success or failure, and its message."""

    success: bool
    message: str


class ObservedJob(Struct, frozen=True):
    """The observed state of a job.

    suspended: it makes no pods.
    active: pods of it run or are ending.
    ready: its pods are ready (Kueue KEP-349: ready + succeeded >= wanted).
    podsets: its podsets as they are now.
    reclaimable: pods that have ended and need no quota any more, of as many as the job has now.
    queue: the name of its LocalQueue; empty if it has none.
    priority_class: the class that its priority comes from.
    priority: None if there is no such class.
    lacks_injection: it makes pods without what an admission injects, because another program has resumed it.
    elastic: it may change size while it runs.
    composed: it is made of jobs. These are recreated if they are deleted, and may run on for a while after its end.
    prebuilt: it names a Workload that another program has made.
    annotations: the annotations that its Workload has, too.
    """

    suspended: bool
    active: bool
    ready: bool
    podsets: tuple[PodSet, ...]
    end: End | None = None
    reclaimable: tuple[ReclaimablePod, ...] = ()
    queue: str = ""
    priority_class: PriorityClassRef | None = None
    priority: int | None = 0
    maximum_execution_time_seconds: int | None = None
    lacks_injection: bool = False
    elastic: bool = False
    composed: bool = False
    prebuilt: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)


class PodSetInfo(Struct, frozen=True):
    """The fields injected into the pods of a podset when its job starts, and removed when it stops.

    gates: scheduling gates that hold the pods until a place is assigned to them.
    """

    name: str
    count: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    node_selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...] = ()
    gates: tuple[str, ...] = ()
