"""Define gangs for the scheduler: which pods belong together, how many there should be, and which are bound.

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
from muster.gang.order.ends import EndTime, end_of
from muster.gang.quorum import Quorum
from muster.gang.topology import TopologyConstraint
from muster.runtime.objects import key_of, meta_of

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

# More digits than the number of members of any gang has.
_LONGEST_NUMBER = 10

# For this time the other pods of a half-bound gang may wait for room before the bound pods are deleted. It is as long
# as pods stay on an unreachable node.
PATIENCE_SECONDS = 300.0

# The names of Muster's scheduler, which places pods with one of these names.
SCHEDULERS = frozenset(SCHEDULER_NAMES)

# Lower than the priority of any pod.
LOWEST_PRIORITY = -(2**31) - 1


class Turn(Struct, frozen=True):
    """A set of pods that the scheduler places together: as many as fit and meet every quorum, or none.

    pods: the pods, the preferred ones first.
    quorums: the minimum numbers of pods to place. Without a quorum, the scheduler places all pods or none.
    topology: how close to each other, and to the gang's running pods, the pods must be.
    surplus: whether the gang also runs without these pods.
    demand: why the pods are placed, such as the start or the growth of the gang.
    """

    pods: tuple[Pod, ...]
    quorums: tuple[Quorum, ...] = ()
    topology: TopologyConstraint | None = None
    surplus: bool = False
    demand: Demand = Demand.START

    @property
    def repairs(self) -> bool:
        """Whether a running gang lost these pods, and cannot continue without them."""
        return self.demand is Demand.REPAIR

    @property
    def grows(self) -> bool:
        """Whether these pods enlarge the number of members that the gang needs."""
        return self.demand is Demand.GROWTH and not self.surplus

    def one_by_one(self) -> "tuple[Turn, ...]":
        """Return one turn for each pod if this turn is of a next wave, so that other gangs are placed in between.

        Return any other turn unchanged.
        """
        if self.demand is not Demand.WAVE:
            return (self,)
        return tuple(Turn((pod,), topology=self.topology, demand=self.demand) for pod in self.pods)


class DueTurns(Struct, frozen=True):
    """The turns of a gang to place now, in order.

    lacking: why there are no turns, as a message for users; "" for a gang whose pods are still being created.
    """

    turns: tuple[Turn, ...] = ()
    lacking: str = ""


class Members(Struct, frozen=True):
    """The pods of a gang: unbound pods that could get a node, bound pods, and other pods.

    others: the gated pods. If the source `counts_others`, also the pods that have ended, are being deleted or name
    another scheduler.
    jobs: the Jobs that create pods of the gang and count some of them as done, if the source `counts_others`. A pod
    that a Job has counted may already be deleted, with its lost node or by a user.
    """

    unbound: Collection[Pod]
    bound: Collection[Pod] = ()
    others: Collection[Pod] = ()
    jobs: Collection[Job] = ()

    @property
    def first(self) -> Pod:
        """Any unbound pod of the gang. All pods of a gang name the same gang, so one is enough to find it."""
        return next(iter(self.unbound))

    def count_succeeded(self) -> int:
        """Return how many members have succeeded.

        A pod counts once, whether its object, its Job or both show its success.
        """
        counts = Counter(owner_uid(pod) for pod in self.others if pod.status.phase == "Succeeded")
        deleted_counts = (job.status.succeeded - counts[job.metadata.uid] for job in self.jobs)
        return counts.total() + sum(max(0, number) for number in deleted_counts)


class GangSource(Protocol[T_contra]):
    """A kind of gang: which pods belong together, how many there should be, and which object carries it. Pure.

    The *carrier* of a gang is the object that records its size and gets the events about its wait: the Job, the
    PodGroup.
    """

    @property
    def kinds(self) -> tuple[Kind[Any], ...]:
        """The kinds of carriers; empty if gangs have no carrier.

        If objects of two kinds have the gang's name, the object of the first kind is the carrier.
        """
        return ()

    @property
    def optional(self) -> bool:
        """Whether a server may lack these kinds."""
        return False

    @property
    def counts_others(self) -> bool:
        """Whether the number of succeeded pods is read from the pods and their Jobs, not from the carrier."""
        return False

    def key(self, pod: Pod) -> str:
        """Return the key of a pod's gang, `namespace/name/more` with the carrier's name.

        Return "" if the pod is in no gang of this kind. The key must not depend on the status of the pod.
        """
        ...

    def key_of(self, carrier: T_contra) -> str:  # noqa: ARG002  (some have no carriers)
        """Return the key of a carrier's gang."""
        return ""

    def end(self, carrier: T_contra, started: float) -> EndTime | None:
        """Return when a gang that started at `started` ends, by its carrier; None if the carrier does not define that.

        Both times are in seconds since the epoch.
        """
        return end_of(meta_of(carrier), None, started)

    def needs(self, carrier: T_contra, pods: Collection[Pod]) -> tuple[Quorum, ...]:  # noqa: ARG002
        """Return the quorums (minimum numbers) of these pods that the running gang needs to continue.

        An empty tuple means that the gang needs all of them.
        """
        return ()

    def patience(self, carrier: T_contra) -> float:  # noqa: ARG002
        """Return for how many seconds a partly bound gang may wait for room for its other pods."""
        return PATIENCE_SECONDS

    def members(self, carrier: T_contra, pods: Iterable[Pod]) -> list[Pod]:  # noqa: ARG002  (most have no others)
        """Return the unfinished pods that are members. Other pods of the gang are about to be deleted."""
        return list(pods)

    def held(self, carrier: T_contra, pods: Collection[Pod]) -> int:  # noqa: ARG002
        """Return the size of a gang with these running pods, to be stored on the object that represents the gang."""
        return len(pods)

    def most(self, carrier: T_contra) -> int | None:  # noqa: ARG002
        """Return the current maximum size of a gang, to compare with its recorded size; None if it never shrinks."""
        return None

    def due(self, carrier: T_contra | None, members: Members) -> DueTurns:
        """Return the turns of a gang: sets of pods to place now, each of them together.

        carrier: the object of the gang, such as its Job; None if the gang has none, or it is not in the cache yet.
        members: the pods of the gang. At least one of them is unbound.
        """
        ...


class OwnedGangs(GangSource[T], Protocol[T]):
    """Gangs of pods whose controller is the carrier, as for Jobs."""

    @property
    def kind(self) -> Kind[T]:
        """The kind of the carriers."""
        ...

    @property
    def kinds(self) -> tuple[Kind[Any], ...]:
        """The kinds of carriers. This source has one, `kind`."""
        return (self.kind,)

    def count_wanted(self, carrier: T) -> int:
        """Return how many pods of the carrier should run now: the pods that it still needs, at most its parallelism."""
        ...

    def size(self, carrier: T, bound: Collection[Pod], gated: Collection[Pod] = ()) -> Size:  # noqa: ARG002
        """Return the current and desired size of the gang.

        bound: the running pods of the gang.
        gated: the pods of the gang with scheduling gates.
        """
        wanted, recorded = self.count_wanted(carrier), read_recorded_size(meta_of(carrier))
        return Size(wanted, len(bound), max(len(bound), wanted if recorded is None else recorded))

    def place(self, carrier: T) -> Callable[[Pod], int] | None:  # noqa: ARG002  (some have none)
        """Return a function that returns a pod's index in its gang; None if the gang's pods have no index."""
        return None

    def key(self, pod: Pod) -> str:
        """Return the key of the pod's gang: `namespace/job/uid`; "" if no carrier of this kind controls the pod."""
        owner = controller_of(pod.metadata)
        if owner is None or not self.kind.is_of(owner):
            return ""
        return f"{pod.metadata.namespace}/{owner.name}/{owner.uid}"

    def key_of(self, carrier: T) -> str:
        """Return the key of the carrier's gang: `namespace/job/uid`."""
        return f"{key_of(carrier)}/{meta_of(carrier).uid}"

    def needs(self, carrier: T, pods: Collection[Pod]) -> tuple[Quorum, ...]:
        """Return the quorums that a running gang needs to continue.

        If the pods start together, all are needed, and there is no quorum. Otherwise none is needed, and there is one
        quorum of 0 pods.
        """
        return () if starts_together(meta_of(carrier)) else (Quorum(frozenset(pod.metadata.uid for pod in pods), 0),)

    def due(self, carrier: T | None, members: Members) -> DueTurns:
        """Return the pods to place: all in one turn after all exist, or one by one if the job is no gang.

        Return no turns if there is no carrier.
        """
        if carrier is None:
            return DueTurns()
        if not starts_together(meta_of(carrier)):
            return one_by_one(members.unbound)
        bound = self.members(carrier, members.bound)
        size = self.size(carrier, bound, members.others)
        # The pods of a starting gang appear one by one, so this test must take constant time.
        if not bound and not size.in_waves and len(members.unbound) < size.wanted:
            return DueTurns()
        return due_of(self.members(carrier, members.unbound), size, self.place(carrier))


def due_of(unbound: Iterable[Pod], size: Size, place: Callable[[Pod], int] | None = None) -> DueTurns:
    """Return the pods of a gang as turns, in the order in which the scheduler tries them.

    size: the current and desired size of the gang.
    place: returns the index of a pod in its gang; None if its pods have no index.
    """
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
    return DueTurns((*together, *wave_of(demands.wave)))


def wave_of(pods: Collection[Pod]) -> tuple[Turn, ...]:
    """Return a turn that places as many of these pods of a next wave as fit; no turn if there are no pods."""
    quorum = Quorum(frozenset(pod.metadata.uid for pod in pods), 1)
    return (Turn(tuple(by_age(pods)), (quorum,), demand=Demand.WAVE),) if pods else ()


def one_by_one(
    pods: Iterable[Pod],
    *,
    surplus: bool = False,
    topology: TopologyConstraint | None = None,
    demand: Demand = Demand.START,
) -> DueTurns:
    """Return a turn for each pod, the oldest first.

    surplus: whether the gang also runs without these pods.
    topology: how close to the gang's running pods they must be; None if there is no constraint.
    """
    return DueTurns(tuple(Turn((pod,), topology=topology, surplus=surplus, demand=demand) for pod in by_age(pods)))


class Gang(Struct):
    """The unfinished pods of one gang, by UID. The gang's priority is the highest that one of its pods ever had.

    source: the kind of the gang; None for a single pod.
    version: a number that changes whenever a pod of the gang changes.
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
    """Return the key of a pod's gang, and the source of the gang: the first source that returns a key.

    For a single pod, the key is `namespace/uid`, and the source is None.
    """
    for source in sources:
        if key := source.key(pod):
            return key, source
    return f"{pod.metadata.namespace}/{pod.metadata.uid}", None


def find_gang_of_done(job: Job, sources: Sequence[GangSource[Any]]) -> str:
    """Return the key of the gang whose succeeded pods a Job counts.

    Return "" if the Job counts no such pods, or if the gang's source does not read counts from Jobs.
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


def read_creation_time(meta: ObjectMeta) -> datetime:
    """Return when the server created the object."""
    assert meta.creation_timestamp is not None, "the server stamps every object"
    return meta.creation_timestamp


def by_age(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods, the oldest first."""
    return sorted(pods, key=lambda pod: (read_creation_time(pod.metadata), pod.metadata.name))


def existed_at(pod: Pod, moment: datetime) -> bool:
    """Return whether the pod existed at this time. Creation times have whole seconds."""
    return read_creation_time(pod.metadata) <= moment


def read_recorded_size(carrier: ObjectMeta) -> int | None:
    """Return the size that Muster last recorded for a gang; None if there is no record."""
    text, slash, uid = carrier.annotations.get(HELD_ANNOTATION, "").partition("/")
    # Muster 0.1.0 wrote the number alone.
    is_ours = (not slash or uid == carrier.uid) and text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER
    return int(text) if is_ours else None


def note_held_members(carrier: ObjectMeta, held: int) -> dict[str, str]:
    """Return the annotation that records the size of a gang, as `read_recorded_size` reads it."""
    return {HELD_ANNOTATION: f"{held}/{carrier.uid}"}


def shrunk_to(source: GangSource[T], carrier: T) -> int | None:
    """Return the current maximum size of a gang whose recorded size is larger; None if the gang has not shrunk.

    source: the kind of the gang.
    """
    recorded = read_recorded_size(meta_of(carrier))
    most = source.most(carrier) if recorded is not None else None
    return most if most is not None and recorded is not None and most < recorded else None


def is_counted(carrier: ObjectMeta) -> bool:
    """Return whether to record the size of a gang even if the gang has one member, because its size may change."""
    return is_elastic(carrier.annotations) or read_recorded_size(carrier) is not None


def is_preempted(pod: Pod) -> bool:
    """Return whether the pod was chosen as a preemption victim, so that its gang must not rely on it."""
    return PREEMPTED_ANNOTATION in pod.metadata.annotations


def is_marked(pod: Pod) -> bool:
    """Return whether the pod's condition `PodScheduled` has the reason `Unschedulable`."""
    return any(c.type == "PodScheduled" and c.reason == "Unschedulable" for c in pod.status.conditions)
