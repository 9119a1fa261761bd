"""Gangs as the scheduler keeps them: which pods belong together, how many there should be, and what is half done.

Where gangs come from is said by `GangSource`s: that of each kind of job that has one, and that of groups of pods.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from msgspec import Struct, field

from muster.api.core import Pod
from muster.api.elastic import GANG_ANNOTATION
from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta
from muster.api.pods import controller_of
from muster.runtime.objects import key_of, meta_of

T = TypeVar("T")

BINDING_ANNOTATION = "muster.dev/binding-since"

# Less than any priority that a pod can have.
LOWEST_PRIORITY = -(2**31) - 1


class GangSource(Protocol[T]):
    """One sort of gang: which pods are together, how many there should be, and which object carries it. Pure.

    The carrier of a gang is the object on which the intent to bind it is recorded, and that is told why it waits: the
    Job. Without it there is no gang, unless the sort has no carriers at all.
    """

    @property
    def kind(self) -> Kind[T] | None:
        """That of the carriers; None if there is nothing but the pods."""
        ...

    @property
    def counts_succeeded(self) -> bool:
        """Whether only the pods themselves tell how many have succeeded."""
        return False

    def key(self, pod: Pod) -> str:
        """The gang of a pod, "" if it is in none of this sort: `namespace/name/more`, as the carrier is called."""
        ...

    def key_of(self, carrier: T) -> str:  # noqa: ARG002  (some have no carriers)
        """The gang of a carrier."""
        return ""

    def starts_together(self, carrier: T) -> bool:  # noqa: ARG002  (some have no carriers)
        """Whether the pods are bound together or not at all; if not, one by one."""
        return True

    def wanted(self, carrier: T, pod: Pod, succeeded: int) -> int:
        """How many unfinished pods there should be now. pod: one of them; succeeded: 0 unless `counts_succeeded`."""
        ...

    def members(self, carrier: T, pods: Iterable[Pod]) -> list[Pod]:  # noqa: ARG002  (some have no carriers)
        """Those of the unfinished pods that count."""
        return list(pods)


class OwnedGangs(GangSource[T], Protocol[T]):
    """Gangs of pods that their carrier controls, as Jobs do theirs."""

    @property
    def kind(self) -> Kind[T]:
        """That of the carriers."""
        ...

    def key(self, pod: Pod) -> str:
        """`namespace/job/uid`."""
        owner = controller_of(pod)
        if owner is None or not self.kind.is_of(owner):
            return ""
        return f"{pod.metadata.namespace}/{owner.name}/{owner.uid}"

    def key_of(self, carrier: T) -> str:
        """`namespace/job/uid`."""
        return f"{key_of(carrier)}/{meta_of(carrier).uid}"

    def starts_together(self, carrier: T) -> bool:
        """Unless it says otherwise."""
        return starts_together(meta_of(carrier))


class Gang(Struct):
    """The unfinished pods of one gang, by UID. Its priority is the highest that one of them ever had.

    source: None for a pod that stands alone.
    """

    source: GangSource[Any] | None = None
    unbound: dict[str, Pod] = field(default_factory=dict)
    bound: dict[str, Pod] = field(default_factory=dict)
    priority: int = LOWEST_PRIORITY

    @property
    def pods(self) -> list[Pod]:
        """All of them."""
        return [*self.bound.values(), *self.unbound.values()]


def gang_of(pod: Pod, sources: Sequence[GangSource[Any]]) -> tuple[str, GangSource[Any] | None]:
    """The key of a pod's gang, and the first source that has it: `namespace/uid` for a pod that stands alone."""
    for source in sources:
        if key := source.key(pod):
            return key, source
    return f"{pod.metadata.namespace}/{pod.metadata.uid}", None


def starts_together(meta: ObjectMeta) -> bool:
    """Whether the pods of a job are bound together or not at all, which is so unless it says otherwise."""
    return meta.annotations.get(GANG_ANNOTATION) != "false"


def created(meta: ObjectMeta) -> datetime:
    """When the server made the object."""
    assert meta.creation_timestamp is not None, "the server stamps every object"
    return meta.creation_timestamp


def by_age(pods: Iterable[Pod]) -> list[Pod]:
    """The oldest first."""
    return sorted(pods, key=lambda pod: (created(pod.metadata), pod.metadata.name))


def made_by(pod: Pod, moment: datetime) -> bool:
    """Whether it existed then; to the second, which is all that the server stamps."""
    return created(pod.metadata) <= moment


def binding_since(carrier: ObjectMeta) -> datetime | None:
    """When a scheduler last began to bind the whole gang, if it needed several writes."""
    try:
        since = datetime.fromisoformat(carrier.annotations.get(BINDING_ANNOTATION, ""))
    except ValueError:  # absent, or another program wrote there: no intent of ours
        return None
    return since if since.tzinfo else None


def is_marked(pod: Pod) -> bool:
    """Whether it has been told that it cannot be placed."""
    return any(c.type == "PodScheduled" and c.reason == "Unschedulable" for c in pod.status.conditions)
