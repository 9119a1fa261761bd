"""Define `Integration`: the adapter that lets a kind of job queue. Pure.

Kinds that are built into the engine and external kinds are treated alike. A kind with an `Integration` gets its queue
at creation, waits, starts whole, is preempted and is restarted. The module `table` lists the built-in kinds.
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
    """A job whose podsets cannot be read.

    path: the invalid field.
    why: a message for users.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


class Step(Struct, frozen=True):
    """One write to a job: a JSON merge patch of the object or of its status subresource.

    operations: a JSON patch instead of a merge patch, for values in lists. A merge patch would replace a whole list,
    and remove fields that only another version of the kind has.

    Steps are written in order. Each is written only if the job has the version that the decision read. After a crash
    the steps are decided again.
    """

    patch: dict[str, Any] = {}
    subresource: str = ""
    operations: tuple[dict[str, Any], ...] = ()


class Observable(Protocol[T_contra]):
    """The observable state of one kind of job. `job` is always as stored by the API server."""

    def podsets(self, job: T_contra) -> tuple[PodSet, ...]:
        """Return the podsets in the size that the job now requests. Raises `UnreadableJobError`."""
        ...

    def is_suspended(self, job: T_contra) -> bool:
        """Return whether the job is suspended, so that it creates no pods."""
        ...

    def lacks_injection(self, job: T_contra) -> bool:
        """Return whether the job creates pods without the injected fields, because another program resumed it."""
        ...

    def is_active(self, job: T_contra) -> bool:
        """Return whether pods of the job still run or are terminating."""
        ...

    def is_ready(self, job: T_contra) -> bool:
        """Return whether all pods of the job are ready or have succeeded."""
        ...

    def end(self, job: T_contra) -> End | None:
        """Return how the job ended; None if it has not ended."""
        ...

    def reclaimable(self, job: T_contra) -> tuple[ReclaimablePod, ...]:
        """Return, by podset, how many of the job's pods have ended and will not be replaced."""
        ...

    def started_at(self, job: T_contra) -> datetime | None:
        """Return when the job was last started; None if that is unknown."""
        ...

    def priority_class(self, job: T_contra) -> str:
        """Return the PriorityClass in the kind's own field; "" if there is none."""
        ...


class Integration(Observable[T], Protocol[T]):
    """The adapter of one kind of job for queueing. `job` is always as stored by the API server.

    Methods with a body are for kinds with special features; the body is right for all other kinds.
    """

    @property
    def kind(self) -> Kind[T]:
        """The kind of the jobs."""
        ...

    @property
    def name(self) -> str:
        """The kind's name in `integrations.frameworks` of the Configuration, such as `batch/job`."""
        ...

    def is_managed(self, job: T) -> bool:
        """Return whether the engine may start and stop the job. It may not if the job names another controller."""
        ...

    def start(self, job: T, infos: Sequence[PodSetInfo]) -> Sequence[Step]:
        """Return the writes that inject the values of admission into the job's pod templates and start it."""
        ...

    def stop(self, job: T, why: str = "") -> Sequence[Step]:
        """Return the writes that suspend the job, so that its pods end and no more are created.

        why: the reason, for users; "" for a new job.
        """
        ...

    def restore(self, job: T, original: Sequence[PodSet]) -> Sequence[Step]:
        """Return the writes that remove the injected values from a stopped job's pod templates.

        original: the podsets before the injection.
        """
        ...

    @property
    def optional(self) -> bool:
        """Whether a server may lack the kind: the engine starts even if it is not served."""
        return False

    @property
    def parts(self) -> "tuple[Integration[Any], ...]":
        """The integrations of the kinds that this job creates. A job counts as running while any of its parts runs."""
        return ()

    @property
    def needs_parts(self) -> bool:
        """Whether the podsets of the job are read from the objects that it creates; `attach_parts` attaches them."""
        return False

    def attach_parts(self, job: T, parts: Sequence[Any]) -> T:  # noqa: ARG002  (most kinds say all of it themselves)
        """Return the job with its existing parts attached."""
        return job

    @property
    def gangs(self) -> GangSource[Any] | None:
        """The gang source for pods of this kind; None if another source handles them, or if they form no gangs."""
        return None

    # Admission. `job` is the object that its client sent.

    def defaults(self, job: T) -> dict[str, Any]:  # noqa: ARG002  (most kinds need none)
        """Return a merge patch with the kind's own defaults for a new job that queues; the caller suspends the job."""
        return {}

    def hand_over(self, job: T) -> dict[str, Any]:  # noqa: ARG002  (most kinds have no field for it)
        """Return a merge patch with which MultiKueue becomes the controller of a new job.

        Return {} if the kind has no field for its controller, or the job names another controller.
        """
        return {}

    def keeping(self, new: T, old: T, original: Sequence[PodSet]) -> Sequence[dict[str, Any]]:  # noqa: ARG002
        """Return a JSON patch with the injected values that an update omits, so that a user can apply a manifest again.

        original: the podsets before any injection. Kinds whose templates are in a list need this, because applying a
        manifest replaces the whole list.
        """
        return ()

    def rules(self, job: T, old: T | None) -> Errors:  # noqa: ARG002  (most kinds have none)
        """Return the errors in a job.

        old: the job before the update; None for a new job.
        """
        return iter(())

    def changes(self, new: T, old: T) -> Errors:  # noqa: ARG002  (most kinds have none)
        """Return the errors in an update of a job."""
        return iter(())
