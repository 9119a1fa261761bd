"""Defines what the engine needs to know of a kind of job so that it queues: an `Integration`, all of it pure.

Kinds that come with the engine and kinds from outside are the same here. A kind with an `Integration` gets its queue at
creation, waits, starts whole, is preempted and is restarted. `table` has those that come with the engine.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from muster.api.kinds import Kind
from muster.api.kueue import PodSet, ReclaimablePod
from muster.api.validation.fields import Errors
from muster.controllers.gangs import GangSource
from muster.queueing.jobframework.observedjob import End, PodSetInfo

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class UnreadableJobError(Exception):
    """A job whose podsets cannot be read; `path` is the field, `why` is for people."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


class Step(Struct, frozen=True):
    """One write to the job: a JSON merge patch, of the object or of its status subresource.

    operations: a JSON patch instead, for values in lists: a merge patch would replace a list whole, and with it the
    fields of another version of the kind.

    Steps are written in order, each only if the job is as it was decided on; after a crash they are decided again.
    """

    patch: dict[str, Any] = {}
    subresource: str = ""
    operations: tuple[dict[str, Any], ...] = ()


class Observable(Protocol[T_contra]):
    """The observable state of one kind of job. `job` is always as the API server has it."""

    def podsets(self, job: T_contra) -> tuple[PodSet, ...]:
        """Return the podsets in the size that the job asks for now. Raises `UnreadableJobError`."""
        ...

    def is_suspended(self, job: T_contra) -> bool:
        """Return whether the job makes no pods."""
        ...

    def lacks_injection(self, job: T_contra) -> bool:
        """Return whether the job makes pods without what an admission injects: another program has let it run."""
        ...

    def is_active(self, job: T_contra) -> bool:
        """Return whether pods of the job still run, or are ending."""
        ...

    def is_ready(self, job: T_contra) -> bool:
        """Return whether all its pods are ready or have succeeded."""
        ...

    def end(self, job: T_contra) -> End | None:
        """Return how the job ended; None while it has not."""
        ...

    def reclaimable(self, job: T_contra) -> tuple[ReclaimablePod, ...]:
        """Return how many of the pods that `podsets` counts have ended and will not be replaced."""
        ...

    def started_at(self, job: T_contra) -> datetime | None:
        """Return when the job was last started."""
        ...

    def priority_class(self, job: T_contra) -> str:
        """Return the name of the PriorityClass that the kind itself asks for; empty if it asks for none."""
        ...


class Integration(Observable[T], Protocol[T]):
    """The behaviour of one kind of job in a queue. `job` is always as the API server has it.

    Methods with a body are for kinds that have more to say than their queue; a subclass inherits their defaults.
    """

    @property
    def kind(self) -> Kind[T]:
        """The kind."""
        ...

    @property
    def name(self) -> str:
        """The name in `integrations.frameworks` of the Configuration: `batch/job`."""
        ...

    def is_managed(self, job: T) -> bool:
        """Return whether the job is ours to start and stop: not if it names another controller."""
        ...

    def start(self, job: T, infos: Sequence[PodSetInfo]) -> Sequence[Step]:
        """Return the writes that start the job, its pods with what was injected."""
        ...

    def stop(self, job: T, why: str = "") -> Sequence[Step]:
        """Return the writes that suspend the job.

        Its pods end, and no more are made. why: for people; "" for a new job.
        """
        ...

    def restore(self, job: T, original: Sequence[PodSet]) -> Sequence[Step]:
        """Return the writes that make the pods of a stopped job again what they were before the injection."""
        ...

    @property
    def optional(self) -> bool:
        """Whether a server may lack the kind: the engine starts where it is not served."""
        return False

    @property
    def parts(self) -> "tuple[Integration[Any], ...]":
        """The kinds of jobs that this job makes: it counts as running while any of its parts runs."""
        return ()

    @property
    def is_told_by_parts(self) -> bool:
        """Whether the podsets of the job are those of its parts: see `beside`."""
        return False

    def beside(self, job: T, parts: Sequence[Any]) -> T:  # noqa: ARG002  (most kinds say all of it themselves)
        """Return the job with what its existing parts say of it."""
        return job

    @property
    def gangs(self) -> GangSource[Any] | None:
        """The gang source for pods of this kind; None if another source has them, or none."""
        return None

    # Admission. `job` is as its client sent it.

    def defaults(self, job: T) -> dict[str, Any]:  # noqa: ARG002  (most kinds need none)
        """Return a merge patch of what a new job that queues gets, beside its queue and its suspension."""
        return {}

    def hand_over(self, job: T) -> dict[str, Any]:  # noqa: ARG002  (most kinds have no field for it)
        """Return a merge patch that leaves a new job to MultiKueue.

        Return {} if the kind cannot be left to it, or another controller runs the job.
        """
        return {}

    def keeping(self, new: T, old: T, original: Sequence[PodSet]) -> Sequence[dict[str, Any]]:  # noqa: ARG002
        """Return a JSON patch with the injected values that a change leaves out.

        A manifest may be applied again unchanged.

        original: the podsets as they were before anything was injected. Kinds whose templates are in a list need this,
        since applying a manifest replaces the whole list.
        """
        return ()

    def rules(self, job: T, old: T | None) -> Errors:  # noqa: ARG002  (most kinds have none)
        """Return what is wrong with a job; `old` is the one before the change, None for a new one."""
        return iter(())

    def changes(self, new: T, old: T) -> Errors:  # noqa: ARG002  (most kinds have none)
        """Return what is wrong with a change."""
        return iter(())
