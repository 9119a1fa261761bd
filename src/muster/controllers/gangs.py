"""Defines gangs as the scheduler sees them.

Which pods belong together, how many there should be, and what is half bound.

`GangSource`s find the gangs: one for each kind of job that has gangs, and one for groups of pods.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from muster.api.batch import JOB, Job
from muster.api.config.types import SCHEDULER_NAMES
from muster.api.core import Pod
from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta, controller_of
from muster.api.ours.elastic import GANG_ANNOTATION, HELD_ANNOTATION, is_elastic
from muster.api.ours.interruptions import PREEMPTED_ANNOTATION
from muster.gang.demands import Demand, Size, split_demands
from muster.gang.order.ends import End, end_of
from muster.gang.quorum import Quorum
from muster.gang.topology import TopologyConstraint
from muster.runtime.objects import key_of, meta_of

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

# More digits than any number of members has.
_LONGEST_NUMBER = 10

# The rest of a half bound gang has so long to find room before the bound pods are deleted: as long as pods stay on an
# unreachable node.
PATIENCE_SECONDS = 300.0

# The names of our scheduler: pods with one of these names are ours to place.
SCHEDULERS = frozenset(SCHEDULER_NAMES)

# Lower than any pod's priority.
LOWEST_PRIORITY = -(2**31) - 1


class Turn(Struct, frozen=True):
    """Pods that are placed together: as many as there is room for, if that meets every quorum, or none.

    pods: the preferred ones first.
    quorums: the minima to meet; without any, all of the pods are placed or none.
    topology: how near to each other, and to the gang's running pods, they must be.
    surplus: whether the gang also runs without these pods.
    demand: what the pods are for.
    """

    pods: tuple[Pod, ...]
    quorums: tuple[Quorum, ...] = ()
    topology: TopologyConstraint | None = None
    surplus: bool = False
    demand: Demand = Demand.START

    @property
    def repairs(self) -> bool:
        """Whether a running gang lost these pods, and cannot go on without them."""
        return self.demand is Demand.REPAIR

    @property
    def grows(self) -> bool:
        """Whether the gang counts on these pods from now on, and did not before."""
        return self.demand is Demand.GROWTH and not self.surplus

    def one_by_one(self) -> "tuple[Turn, ...]":
        """Return the turns of a next wave, whose pods pass others one by one; any other turn stays whole."""
        if self.demand is not Demand.WAVE:
            return (self,)
        return tuple(Turn((pod,), topology=self.topology, demand=self.demand) for pod in self.pods)


class Due(Struct, frozen=True):
    """The part of a gang to place now: its turns, one after the other.

    lacking: why there are none, if people should know; "" for a gang whose pods are still being created.
    """

    turns: tuple[Turn, ...] = ()
    lacking: str = ""


class Members(Struct, frozen=True):
    """The pods of a gang: those without a node that could get one, those with one, and the rest.

    others: pods that have ended, are being deleted, are gated or another scheduler's; only the gated, unless the source
        `counts_others`.
    jobs: the Jobs that make pods of the gang and count some of them as done, where the source `counts_others`. A pod
        that a Job counts may be gone: with its lost node, or because somebody deleted it.
    """

    unbound: Collection[Pod]
    bound: Collection[Pod] = ()
    others: Collection[Pod] = ()
    jobs: Collection[Job] = ()

    @property
    def first(self) -> Pod:
        """One of the unbound pods; all say the same of their gang."""
        return next(iter(self.unbound))

    def count_succeeded(self) -> int:
        """Return how many members have succeeded: each pod once, whether its object, its Job or both say so."""
        seen = Counter(owner_uid(pod) for pod in self.others if pod.status.phase == "Succeeded")
        gone = (job.status.succeeded - seen[job.metadata.uid] for job in self.jobs)
        return seen.total() + sum(max(0, number) for number in gone)


class GangSource(Protocol[T_contra]):
    """One sort of gang: which pods are together, how many there should be, and which object carries it. Pure.

    The carrier of a gang is the object that records its size and gets the events about its wait: the Job, the PodGroup.
    """

    @property
    def kinds(self) -> tuple[Kind[Any], ...]:
        """The kinds of carriers; of two with the gang's name, the first kind wins. Empty if there are only pods."""
        return ()

    @property
    def optional(self) -> bool:
        """Whether a server may lack the carriers' kinds."""
        return False

    @property
    def counts_others(self) -> bool:
        """Whether the pods and their Jobs, not the carrier, tell how many pods have succeeded."""
        return False

    def key(self, pod: Pod) -> str:
        """Return the key of a pod's gang, `namespace/name/more` with the carrier's name.

        "" if it is in none of this sort.
        """
        ...

    def key_of(self, carrier: T_contra) -> str:  # noqa: ARG002  (some have no carriers)
        """Return the key of a carrier's gang."""
        return ""

    def end(self, carrier: T_contra, started: float) -> End | None:
        """Return when a gang that started then ends, as far as its carrier says; in seconds since the epoch."""
        return end_of(meta_of(carrier), None, started)

    def needs(self, carrier: T_contra, pods: Collection[Pod]) -> tuple[Quorum, ...]:  # noqa: ARG002
        """Return the quorums of these running pods that the gang needs to continue; (): it needs all of them."""
        return ()

    def patience(self, carrier: T_contra) -> float:  # noqa: ARG002
        """Return for how many seconds a half bound gang may wait for room for its rest."""
        return PATIENCE_SECONDS

    def members(self, carrier: T_contra, pods: Iterable[Pod]) -> list[Pod]:  # noqa: ARG002  (most have no others)
        """Return the unfinished pods that count; the others are about to be deleted."""
        return list(pods)

    def held(self, carrier: T_contra, pods: Collection[Pod]) -> int:  # noqa: ARG002
        """Return how many members a gang with these running pods has, to be recorded on its carrier."""
        return len(pods)

    def most(self, carrier: T_contra) -> int | None:  # noqa: ARG002
        """Return how many members a gang that recorded more can have by now; None if it never shrinks."""
        return None

    def due(self, carrier: T_contra | None, members: Members) -> Due:
        """Return what to place now. carrier: None if there is none, or not yet. members: some of them are unbound."""
        ...


class OwnedGangs(GangSource[T], Protocol[T]):
    """Gangs of pods that their carrier controls, as Jobs do theirs."""

    @property
    def kind(self) -> Kind[T]:
        """The kind of the carriers."""
        ...

    @property
    def kinds(self) -> tuple[Kind[Any], ...]:
        """The one kind."""
        return (self.kind,)

    def wanted(self, carrier: T) -> int:
        """Return how many unfinished pods there should be now."""
        ...

    def size(self, carrier: T, bound: Collection[Pod], gated: Collection[Pod] = ()) -> Size:  # noqa: ARG002
        """Return the present and wanted size of the gang. bound: its running pods. gated: its pods that have gates."""
        wanted, recorded = self.wanted(carrier), held_members(meta_of(carrier))
        return Size(wanted, len(bound), max(len(bound), wanted if recorded is None else recorded))

    def place(self, carrier: T) -> Callable[[Pod], int] | None:  # noqa: ARG002  (some have none)
        """Return the function that gives the place of a pod in its gang; None: its pods have no places."""
        return None

    def key(self, pod: Pod) -> str:
        """Return `namespace/job/uid`."""
        owner = controller_of(pod.metadata)
        if owner is None or not self.kind.is_of(owner):
            return ""
        return f"{pod.metadata.namespace}/{owner.name}/{owner.uid}"

    def key_of(self, carrier: T) -> str:
        """Return `namespace/job/uid`."""
        return f"{key_of(carrier)}/{meta_of(carrier).uid}"

    def needs(self, carrier: T, pods: Collection[Pod]) -> tuple[Quorum, ...]:
        """Return no quorum if the pods start together, so that all are needed; else a quorum that needs none."""
        return () if starts_together(meta_of(carrier)) else (Quorum(frozenset(pod.metadata.uid for pod in pods), 0),)

    def due(self, carrier: T | None, members: Members) -> Due:
        """Return the pods to place: all at once when all wanted pods exist, or one by one if the carrier is no gang."""
        if carrier is None:
            return Due()
        if not starts_together(meta_of(carrier)):
            return one_by_one(members.unbound)
        bound = self.members(carrier, members.bound)
        size = self.size(carrier, bound, members.others)
        # The pods of a starting gang come one by one: count each in constant time.
        if not bound and not size.in_waves and len(members.unbound) < size.wanted:
            return Due()
        return due_of(self.members(carrier, members.unbound), size, self.place(carrier))


def due_of(unbound: Iterable[Pod], size: Size, place: Callable[[Pod], int] | None = None) -> Due:
    """Return the demands of a gang as turns, in the order in which they are tried. place: see `split_demands`."""
    demands = split_demands(by_age(unbound), size, place)
    together = (
        Turn(pods, demand=demand)
        for pods, demand in (
            (demands.start, Demand.START),
            (demands.repair, Demand.REPAIR),
            (demands.growth, Demand.GROWTH),
        )
        if pods
    )
    return Due((*together, *wave_of(demands.wave)))


def wave_of(pods: Collection[Pod]) -> tuple[Turn, ...]:
    """Return the turn of a next wave: as many of its pods as there is room for; none if it has no pods."""
    quorum = Quorum(frozenset(pod.metadata.uid for pod in pods), 1)
    return (Turn(tuple(by_age(pods)), (quorum,), demand=Demand.WAVE),) if pods else ()


def one_by_one(
    pods: Iterable[Pod],
    *,
    surplus: bool = False,
    topology: TopologyConstraint | None = None,
    demand: Demand = Demand.START,
) -> Due:
    """Return a turn for each pod, the oldest first.

    surplus: the gang runs without them. topology: they must be near to the gang's running pods.
    """
    return Due(tuple(Turn((pod,), topology=topology, surplus=surplus, demand=demand) for pod in by_age(pods)))


class Gang(Struct):
    """The unfinished pods of one gang, by UID. Its priority is the highest that one of them ever had.

    source: None for a pod that stands alone.
    version: changes whenever one of its pods does.
    """

    source: GangSource[Any] | None = None
    unbound: dict[str, Pod] = field(default_factory=dict)
    bound: dict[str, Pod] = field(default_factory=dict)
    priority: int = LOWEST_PRIORITY
    version: int = 0

    @property
    def pods(self) -> list[Pod]:
        """All pods of the gang."""
        return [*self.bound.values(), *self.unbound.values()]


def gang_of(pod: Pod, sources: Sequence[GangSource[Any]]) -> tuple[str, GangSource[Any] | None]:
    """Return the key of a pod's gang, and the first source that has it.

    `namespace/uid` for a pod that stands alone.
    """
    for source in sources:
        if key := source.key(pod):
            return key, source
    return f"{pod.metadata.namespace}/{pod.metadata.uid}", None


def find_gang_of_done(job: Job, sources: Sequence[GangSource[Any]]) -> str:
    """Return the key of the gang for which a Job counts done pods.

    "" if none are done, or the Job carries its own gang.
    """
    if not (job.status.succeeded or job.status.failed_indexes):
        return ""
    template, owners = job.spec.template, (JOB.refer_to_controller(job.metadata),)
    meta = replace(template.metadata, namespace=job.metadata.namespace, owner_references=owners)
    key, source = gang_of(Pod(metadata=meta, spec=template.spec), sources)
    return key if source is not None and source.counts_others else ""


def owner_uid(pod: Pod) -> str:
    """Return the UID of the object that controls the pod; "" if nothing does."""
    owner = controller_of(pod.metadata)
    return owner.uid if owner is not None else ""


def starts_together(meta: ObjectMeta) -> bool:
    """Return whether the pods of a job are bound together or not at all; true unless the job says otherwise."""
    return meta.annotations.get(GANG_ANNOTATION) != "false"


def created(meta: ObjectMeta) -> datetime:
    """Return when the server created the object."""
    assert meta.creation_timestamp is not None, "the server stamps every object"
    return meta.creation_timestamp


def by_age(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods, the oldest first."""
    return sorted(pods, key=lambda pod: (created(pod.metadata), pod.metadata.name))


def made_by(pod: Pod, moment: datetime) -> bool:
    """Return whether the pod existed then; to the second, which is the server's precision."""
    return created(pod.metadata) <= moment


def held_members(carrier: ObjectMeta) -> int | None:
    """Return how many members a gang had when it last started or grew; None if no annotation of ours says it."""
    text, slash, uid = carrier.annotations.get(HELD_ANNOTATION, "").partition("/")
    # Muster 0.1.0 wrote the number alone.
    is_ours = (not slash or uid == carrier.uid) and text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER
    return int(text) if is_ours else None


def note_held_members(carrier: ObjectMeta, held: int) -> dict[str, str]:
    """Return the annotation that `held_members` reads."""
    return {HELD_ANNOTATION: f"{held}/{carrier.uid}"}


def shrunk_to(source: GangSource[T], carrier: T) -> int | None:
    """Return how many members a gang can have whose carrier recorded more of them; None if it has not shrunk."""
    recorded = held_members(meta_of(carrier))
    most = source.most(carrier) if recorded is not None else None
    return most if most is not None and recorded is not None and most < recorded else None


def is_counted(carrier: ObjectMeta) -> bool:
    """Return whether the size of the gang may change or has changed, so that even a gang of one member is counted."""
    return is_elastic(carrier.annotations) or held_members(carrier) is not None


def is_preempted(pod: Pod) -> bool:
    """Return whether the pod was chosen as a victim: its gang must not count on it."""
    return PREEMPTED_ANNOTATION in pod.metadata.annotations


def is_marked(pod: Pod) -> bool:
    """Return whether the pod has the condition that it cannot be placed."""
    return any(c.type == "PodScheduled" and c.reason == "Unschedulable" for c in pod.status.conditions)
