"""What the engine has to know of a kind of job so that it queues: an `Integration`, all of it pure.

Kinds that come with the engine and kinds from outside are the same here: whoever writes an `Integration` and gives it
to a `JobReconciler` has a kind that waits in queues, starts whole, is preempted and is started again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from muster.api.kinds import Kind
from muster.api.kueue import PodSet, ReclaimablePod
from muster.queueing.pairing import End, PodSetInfo

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """One write to the job: a JSON merge patch, of the object or of its status subresource.

    Steps are written in order, and each is idempotent: after a crash all are written again.
    """

    patch: dict[str, Any]
    subresource: str = ""


class Integration(Protocol[T]):
    """How one kind of job queues. `job` is always as the API server has it."""

    @property
    def kind(self) -> Kind[T]:
        """The kind."""
        ...

    @property
    def name(self) -> str:
        """As `integrations.frameworks` of the Configuration names it: `batch/job`."""
        ...

    def podsets(self, job: T) -> tuple[PodSet, ...]:
        """What would have to run, in the size that the job asks for now."""
        ...

    def is_suspended(self, job: T) -> bool:
        """Whether it makes no pods."""
        ...

    def is_active(self, job: T) -> bool:
        """Whether pods of it still run, or are ending."""
        ...

    def is_ready(self, job: T) -> bool:
        """Whether all its pods are ready or have succeeded."""
        ...

    def end(self, job: T) -> End | None:
        """How it ended, once it has."""
        ...

    def reclaimable(self, job: T) -> tuple[ReclaimablePod, ...]:
        """Pods that have ended and will not be replaced."""
        ...

    def started_at(self, job: T) -> datetime | None:
        """When it was started last."""
        ...

    def priority_class(self, job: T) -> str:
        """The name of the PriorityClass of its pods; empty if they have none."""
        ...

    def start(self, job: T, infos: Sequence[PodSetInfo]) -> Sequence[Step]:
        """Let it run, its pods with what was injected."""
        ...

    def stop(self, job: T) -> Sequence[Step]:
        """Suspend it: its pods end, and no more are made."""
        ...

    def restore(self, job: T, original: Sequence[PodSet]) -> Sequence[Step]:
        """Put the pod templates of a stopped job back as its Workload has them; empty if they are."""
        ...
