"""Gangs as the scheduler keeps them: which pods belong together, how many there should be, and what is half done.

Where gangs come from is said by `GangSource`s: that of each kind of job that has one, and that of groups of pods.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from msgspec import Struct, field

from muster.api.conditions import find
from muster.api.config.types import SCHEDULER_NAMES
from muster.api.core import Pod
from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta, controller_of
from muster.api.ours.elastic import GANG_ANNOTATION
from muster.gang.order.ends import End, end_of
from muster.gang.quorum import Quorum
from muster.gang.topology import TopologyConstraint
from muster.runtime.objects import key_of, meta_of

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

BINDING_ANNOTATION = "muster.dev/binding-since"

# The rest of a gang that is half bound, and whose bound pods would be lost, is given so long to find room: as long as
# pods stay on a node that does not answer.
PATIENCE_SECONDS = 300.0

# The schedulers that we are: what pods name that are ours to place.
SCHEDULERS = frozenset(SCHEDULER_NAMES)

# Less than any priority that a pod can have.
LOWEST_PRIORITY = -(2**31) - 1


class Turn(Struct, frozen=True):
    """Pods that are placed together: as many as there is room for, if that meets every quorum, or none.

    pods: those that are to go first come first.
    quorums: none: all of them or none.
    topology: how near to each other, and to those that run, they have to be.
    surplus: the gang runs without them.
    repairs: the gang cannot go on without them, and others of it run.
    """

    pods: tuple[Pod, ...]
    quorums: tuple[Quorum, ...] = ()
    topology: TopologyConstraint | None = None
    surplus: bool = False
    repairs: bool = False


class Due(Struct, frozen=True):
    """What of a gang is to be placed now: its turns, one after the other.

    lacking: why there are none, if people should be told; a gang whose pods are still being made says nothing.
    """

    turns: tuple[Turn, ...] = ()
    lacking: str = ""


class Members(Struct, frozen=True):
    """The pods of a gang: those without a node that could get one, those with one, and the rest.

    others: that have ended, are on their way out, are gated or another scheduler's; none unless the source
        `counts_others`.
    """

    unbound: Collection[Pod]
    bound: Collection[Pod] = ()
    others: Collection[Pod] = ()

    @property
    def first(self) -> Pod:
        """One of the unbound; they all say the same of their gang."""
        return next(iter(self.unbound))

    @property
    def succeeded(self) -> tuple[Pod, ...]:
        """Those of the others that have succeeded."""
        return tuple(pod for pod in self.others if pod.status.phase == "Succeeded")


class GangSource(Protocol[T_contra]):
    """One sort of gang: which pods are together, how many there should be, and which object carries it. Pure.

    The carrier of a gang is the object on which the intent to bind it is recorded, and that is told why it waits: the
    Job, the PodGroup.
    """

    @property
    def kinds(self) -> tuple[Kind[Any], ...]:
        """Those of the carriers, the first that has one of the gang's name first; none if there is nothing but pods."""
        return ()

    @property
    def optional(self) -> bool:
        """Whether a server may do without the carriers' kinds."""
        return False

    @property
    def counts_others(self) -> bool:
        """Whether only the pods themselves tell how many have succeeded, and what else becomes of them."""
        return False

    def key(self, pod: Pod) -> str:
        """The gang of a pod, "" if it is in none of this sort: `namespace/name/more`, as the carrier is called."""
        ...

    def key_of(self, carrier: T_contra) -> str:  # noqa: ARG002  (some have no carriers)
        """The gang of a carrier."""
        return ""

    def end(self, carrier: T_contra, started: float) -> End | None:
        """When a gang that started then ends, as far as its carrier says; seconds since the epoch."""
        return end_of(meta_of(carrier), None, started)

    def needs(self, carrier: T_contra, pods: Collection[Pod]) -> tuple[Quorum, ...]:  # noqa: ARG002
        """Of these pods, which run, those that a gang needs to go on; none: all of them."""
        return ()

    def patience(self, carrier: T_contra) -> float:  # noqa: ARG002
        """For how many seconds a gang that is half bound may wait for room for its rest."""
        return PATIENCE_SECONDS

    def due(self, carrier: T_contra | None, members: Members) -> Due:
        """What is to be placed now. carrier: None if there is none, or not yet. members: some of them are unbound."""
        ...


class OwnedGangs(GangSource[T], Protocol[T]):
    """Gangs of pods that their carrier controls, as Jobs do theirs."""

    @property
    def kind(self) -> Kind[T]:
        """That of the carriers."""
        ...

    @property
    def kinds(self) -> tuple[Kind[Any], ...]:
        """The one."""
        return (self.kind,)

    def wanted(self, carrier: T) -> int:
        """How many unfinished pods there should be now."""
        ...

    def members(self, carrier: T, pods: Iterable[Pod]) -> list[Pod]:  # noqa: ARG002  (most have no others)
        """Those of the unfinished pods that count."""
        return list(pods)

    def key(self, pod: Pod) -> str:
        """`namespace/job/uid`."""
        owner = controller_of(pod.metadata)
        if owner is None or not self.kind.is_of(owner):
            return ""
        return f"{pod.metadata.namespace}/{owner.name}/{owner.uid}"

    def key_of(self, carrier: T) -> str:
        """`namespace/job/uid`."""
        return f"{key_of(carrier)}/{meta_of(carrier).uid}"

    def needs(self, carrier: T, pods: Collection[Pod]) -> tuple[Quorum, ...]:
        """All of them, if they start together; else each may go for itself."""
        return () if starts_together(meta_of(carrier)) else (Quorum(frozenset(pod.metadata.uid for pod in pods), 0),)

    def due(self, carrier: T | None, members: Members) -> Due:
        """All pods together once there are as many as there should be; one by one if the carrier says so."""
        if carrier is None:
            return Due()
        if not starts_together(meta_of(carrier)):
            return one_by_one(members.unbound)
        wanted = self.wanted(carrier)
        if len(members.unbound) + len(members.bound) < wanted:  # pods come one by one: each is counted, not looked at
            return Due()
        unbound, bound = self.members(carrier, members.unbound), self.members(carrier, members.bound)
        return whole(Members(unbound, bound), wanted)


def whole(members: Members, wanted: int) -> Due:
    """All that are unbound together, once so many are there."""
    complete = len(members.unbound) + len(members.bound) >= wanted
    if not members.unbound or not complete:
        return Due()
    return Due((Turn(tuple(by_age(members.unbound)), repairs=bool(members.bound)),))


def one_by_one(pods: Iterable[Pod], *, surplus: bool = False, topology: TopologyConstraint | None = None) -> Due:
    """Each pod for itself, the oldest first. surplus: the gang runs without them. topology: near to those that run."""
    return Due(tuple(Turn((pod,), topology=topology, surplus=surplus) for pod in by_age(pods)))


class Gang(Struct):
    """The unfinished pods of one gang, by UID. Its priority is the highest that one of them ever had.

    source: None for a pod that stands alone.
    version: another whenever something of its pods is.
    """

    source: GangSource[Any] | None = None
    unbound: dict[str, Pod] = field(default_factory=dict)
    bound: dict[str, Pod] = field(default_factory=dict)
    priority: int = LOWEST_PRIORITY
    version: int = 0

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


def bound_since(pods: Iterable[Pod]) -> datetime | None:
    """When the first of some bound pods got its node, by what the server says; None if that is not known of all."""
    found = [find(pod.status.conditions, "PodScheduled") for pod in pods]
    times = [one.last_transition_time for one in found if one is not None and one.status == "True"]
    known = [time for time in times if time is not None]
    return min(known) if known and len(known) == len(found) else None


def is_marked(pod: Pod) -> bool:
    """Whether it has been told that it cannot be placed."""
    return any(c.type == "PodScheduled" and c.reason == "Unschedulable" for c in pod.status.conditions)
