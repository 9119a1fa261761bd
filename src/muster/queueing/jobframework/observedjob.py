"""A job of any kind, with the fields that its Workload needs."""

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

    suspended: whether the job creates no pods.
    active: whether pods of the job run or are terminating.
    ready: whether the job's pods are ready (Kueue KEP-349: ready + succeeded >= desired).
    podsets: the job's current podsets.
    reclaimable: how many of the job's current pods have ended and need no quota any more, by podset.
    queue: the name of the job's LocalQueue; "" if the job has none.
    priority_class: the class that defines the job's priority.
    priority: the value of that class; None if there is no such class.
    lacks_injection: whether the job creates pods without the fields of its admission, because another program resumed
    it.
    elastic: whether the job may change its size while it runs.
    composed: whether the job consists of child jobs. These are recreated if they are deleted, and may still run after
    the job's end.
    prebuilt: whether the job names a Workload that another program has made.
    annotations: the annotations to copy to the Workload.
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
    """The fields that are injected into the pods of a podset when its job starts, and removed when it stops.

    gates: scheduling gates that hold the pods until their topology domain is assigned.
    """

    name: str
    count: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    node_selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...] = ()
    gates: tuple[str, ...] = ()
