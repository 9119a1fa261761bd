"""What the engine has to know of a kind of job so that it queues: an `Integration`, all of it pure.

Kinds that come with the engine and kinds from outside are the same here: a kind with an `Integration` gets its queue as
it comes in, waits, starts whole, is preempted and is started again. `table` has those that come with the engine.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from muster.api.kinds import Kind
from muster.api.kueue import PodSet, ReclaimablePod
from muster.api.validation.fields import Errors
from muster.controllers.gangs import GangSource
from muster.queueing.jobframework.observed import End, PodSetInfo

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Step(Struct, frozen=True):
    """One write to the job: a JSON merge patch, of the object or of its status subresource.

    operations: a JSON patch instead, for what is in lists: a merge patch would replace them whole, and with them what
        another version of the kind has there.

    Steps are written in order, each only if the job is as it was decided on; after a crash they are decided anew.
    """

    patch: dict[str, Any] = {}
    subresource: str = ""
    operations: tuple[dict[str, Any], ...] = ()


class Observable(Protocol[T_contra]):
    """What there is to see of one kind of job. `job` is always as the API server has it."""

    def podsets(self, job: T_contra) -> tuple[PodSet, ...]:
        """What would have to run, in the size that the job asks for now."""
        ...

    def is_suspended(self, job: T_contra) -> bool:
        """Whether it makes no pods."""
        ...

    def lacks_injection(self, job: T_contra) -> bool:
        """Whether it makes pods without what an admission injects: another program has let it run."""
        ...

    def is_active(self, job: T_contra) -> bool:
        """Whether pods of it still run, or are ending."""
        ...

    def is_ready(self, job: T_contra) -> bool:
        """Whether all its pods are ready or have succeeded."""
        ...

    def end(self, job: T_contra) -> End | None:
        """How it ended, once it has."""
        ...

    def reclaimable(self, job: T_contra) -> tuple[ReclaimablePod, ...]:
        """Pods that have ended and will not be replaced, of as many as `podsets` says."""
        ...

    def started_at(self, job: T_contra) -> datetime | None:
        """When it was started last."""
        ...

    def priority_class(self, job: T_contra) -> str:
        """The name of the PriorityClass that the kind itself asks for; empty if it asks for none."""
        ...


class Integration(Observable[T], Protocol[T]):
    """How one kind of job queues. `job` is always as the API server has it.

    Methods with a body are for kinds that have more to say than their queue; who inherits from this has the others'.
    """

    @property
    def kind(self) -> Kind[T]:
        """The kind."""
        ...

    @property
    def name(self) -> str:
        """As `integrations.frameworks` of the Configuration names it: `batch/job`."""
        ...

    def is_managed(self, job: T) -> bool:
        """Whether it is ours to start and stop: not if it names another controller."""
        ...

    def start(self, job: T, infos: Sequence[PodSetInfo]) -> Sequence[Step]:
        """Let it run, its pods with what was injected."""
        ...

    def stop(self, job: T) -> Sequence[Step]:
        """Suspend it: its pods end, and no more are made."""
        ...

    def restore(self, job: T, original: Sequence[PodSet]) -> Sequence[Step]:
        """Make the pods of a stopped job again what they were before anything was injected."""
        ...

    @property
    def parts(self) -> "tuple[Integration[Any], ...]":
        """Of the jobs that it makes: as long as one of them runs, so does it."""
        return ()

    @property
    def gangs(self) -> GangSource[Any] | None:
        """Which of its pods are placed together; None if another sort of gang has them, or none."""
        return None

    # On the way in. `job` is as its writer sent it.

    def defaults(self, job: T) -> dict[str, Any]:  # noqa: ARG002  (most kinds need none)
        """A merge patch of what a new job that queues gets, beside its queue and being stopped."""
        return {}

    def hand_over(self, job: T) -> dict[str, Any]:  # noqa: ARG002  (most kinds have no field for it)
        """A merge patch that leaves a new job to MultiKueue; empty if that cannot be, or another controller runs it."""
        return {}

    def keeping(self, new: T, old: T, original: Sequence[PodSet]) -> Sequence[dict[str, Any]]:  # noqa: ARG002
        """A JSON patch that puts back what was injected and a change leaves out: a manifest may be put as it was.

        original: the podsets as they were before anything was injected. For kinds whose templates are in a list, which
        who applies a manifest sends whole.
        """
        return ()

    def rules(self, job: T, old: T | None) -> Errors:  # noqa: ARG002  (most kinds have none)
        """What is wrong with a job; `old` is the one before the change, None for a new one."""
        return iter(())

    def changes(self, new: T, old: T) -> Errors:  # noqa: ARG002  (most kinds have none)
        """What is wrong with a change."""
        return iter(())
