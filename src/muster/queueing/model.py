"""What admission decides on: queues, flavors and workloads with everything that decisions do not need left out.

Amounts are integers in the units of `api.quantity.amount` (thousandths of a CPU, whole units of everything else).
Values are frozen; what changes is held by `quota.tree.Tree` (usage) and `queues.Queues` (who waits). Those of which
there are as many as workloads are spared the collector, as in `api.meta.Struct`.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum
from fractions import Fraction
from typing import Literal, NamedTuple

from msgspec import Struct, field

from muster.api.core import NodeSelectorTerm, Taint, Toleration
from muster.api.values.selectors import LabelMatcher

# The resource whose amount is the number of pods; counted only where a ClusterQueue covers it.
PODS = "pods"


class FlavorResource(NamedTuple):
    """The unit in which quota is kept: cpu of flavor spot is something else than cpu of flavor on-demand."""

    flavor: str
    resource: str


Usage = Mapping[FlavorResource, int]


class Quota(Struct, frozen=True):
    """Of one flavor and resource in one ClusterQueue or Cohort.

    borrowing: how much more than its own it may use; None is no limit.
    lending: how much of its own others may use; None is all of it.
    """

    nominal: int
    borrowing: int | None = None
    lending: int | None = None


class ResourceGroup(Struct, frozen=True):
    """Resources that are always taken from the same flavor, and the flavors in the order in which they are tried."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]


class Fungibility(Struct, frozen=True):
    """When to look at the next flavor (`whenCanBorrow`, `whenCanPreempt`), and which of two is better."""

    try_next_before_borrowing: bool = False
    try_next_before_preempting: bool = True
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] = "BorrowingOverPreemption"


PreemptionPolicy = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any"]


class Preemption(Struct, frozen=True):
    """Whom a workload of the queue may displace.

    while_borrowing: `borrowWithinCohort` is LowerPriority.
    threshold: of `borrowWithinCohort`: only workloads of at most this priority.
    """

    within_queue: PreemptionPolicy = "Never"
    within_cohort: PreemptionPolicy = "Never"
    while_borrowing: bool = False
    threshold: int | None = None


StopPolicy = Literal["None", "Hold", "HoldAndDrain"]


class QueueSpec(Struct, frozen=True):
    """A ClusterQueue.

    namespaces: which namespaces may use it; None is no namespace at all.
    weight: for fair sharing; 0 is a share that is always infinite once it borrows.
    checks: names of AdmissionChecks, and of the flavors that each is for (empty is all).
    by_usage: order its LocalQueues by their past usage (admission fair sharing).
    """

    name: str
    cohort: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    strict: bool = False
    fungibility: Fungibility = Fungibility()
    preemption: Preemption = Preemption()
    namespaces: LabelMatcher | None = None
    weight: Fraction = Fraction(1)
    checks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    stop: StopPolicy = "None"
    by_usage: bool = False

    def group_of(self, resource: str) -> ResourceGroup | None:
        """The group that covers the resource."""
        return next((group for group in self.groups if resource in group.resources), None)


class CohortSpec(Struct, frozen=True):
    """A Cohort. Its quota comes on top of that of its members."""

    name: str
    parent: str = ""
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    weight: Fraction = Fraction(1)


class FlavorSpec(Struct, frozen=True):
    """A ResourceFlavor.

    topology: the name of the Topology that its nodes are in; "" if it says nothing of where they are.
    levels: labels of the levels of that, from the widest; empty: there is no such Topology; None: not looked at.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str = ""
    levels: tuple[str, ...] | None = None


class TopologyRequest(Struct, frozen=True, gc=False):
    """How close together the pods of a podset are to be.

    how: all in one domain of the level; or if need be in several; or wherever there is room.
    level: its label; "" where none is asked for.
    slices: so many pods, one after the other by rank, are in one domain of that level; the larger first.
    """

    how: Literal["required", "preferred", "unconstrained"]
    level: str = ""
    slices: tuple[tuple[str, int], ...] = ()


class Places(Struct, frozen=True, gc=False):
    """Where the pods of a podset are, or will be.

    podset: its name.
    flavors: that the podset has; one of them is of a topology.
    levels: the labels that name a domain, from the widest.
    requests: of each pod, as a node counts them.
    domains: their values, and how many of the pods are in each; ranks follow their order.
    """

    podset: str
    flavors: tuple[str, ...]
    levels: tuple[str, ...]
    requests: tuple[tuple[str, int], ...]
    domains: tuple[tuple[tuple[str, ...], int], ...]


class PodSet(Struct, frozen=True, gc=False):
    """Identical pods of a workload.

    count: how many still need quota (those that can be reclaimed are not among them).
    least: with how many the workload would start too (partial admission); None is all.
    requests: of each pod.
    terms: the required node affinity, alternatives; empty is none.
    together: the name of the podsets' group that must get the same flavor, if there is one.
    flavors: the only flavor that it may get, by resource; empty is any.
    asks: what a node has to have for each pod, if that is not what quotas count.
    topology: how close together they are to be, if it says so.
    """

    name: str
    count: int
    requests: Mapping[str, int]
    least: int | None = None
    selector: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[NodeSelectorTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    together: str = ""
    flavors: Mapping[str, str] = field(default_factory=dict)
    asks: Mapping[str, int] = field(default_factory=dict)
    topology: TopologyRequest | None = None


class Mode(IntEnum):
    """How a podset could get a flavor, from worst to best (upstream granularMode)."""

    NO_FIT = 0
    NO_CANDIDATES = 1  # would fit by preemption, and there is none to preempt
    PREEMPT = 2  # by preempting in its own queue
    RECLAIM = 3  # by taking back what others borrow
    FIT = 4


class Choice(Struct, frozen=True, gc=False):
    """The flavor of one resource of a podset.

    level: 0 within the quota of the queue, else the height of the subtree that the request stays within.
    tried: index in the group of the last flavor looked at, -1 if it was the last there is.
    """

    flavor: str
    mode: Mode
    level: int = 0
    tried: int = -1


# Why a flavor is out of the question, from the least to the most serious; reasons of the condition QuotaReserved=False.
Cause = Literal["", "TopologyPlacementFailed", "WaitingForQuota", "ExceedsMaxQuota", "NoMatchingFlavor"]


class FlavorAttempt(Struct, frozen=True, gc=False):
    """A flavor that was looked at for a podset.

    group: index of its resource group in the ClusterQueue.
    level: the highest over the resources.
    cause: why it does not fit; "" where it does, or would after preemption.
    """

    flavor: str
    group: int
    mode: Mode
    level: int = 0
    reasons: tuple[str, ...] = ()
    cause: Cause = ""


class PodSetAssignment(Struct, frozen=True, gc=False):
    """What a podset was given, or why not.

    requests: of all its pods together.
    reasons: what was wrong with the flavors that do not fit, sorted.
    attempts: the flavors that were looked at, by name.
    error: what in the podset itself made it impossible to look at all.
    places: where its pods go, if its flavor has a topology.
    unplaced: why there is no place for them.
    """

    name: str
    count: int
    flavors: Mapping[str, Choice]
    requests: Mapping[str, int]
    reasons: tuple[str, ...] = ()
    attempts: tuple[FlavorAttempt, ...] = ()
    error: str = ""
    places: Places | None = None
    unplaced: str = ""

    @property
    def mode(self) -> Mode:
        """The worst over its resources."""
        refused = self.reasons or self.error
        return min((choice.mode for choice in self.flavors.values()), default=Mode.NO_FIT if refused else Mode.FIT)


class Assignment(Struct, frozen=True, gc=False):
    """What a workload would be given.

    usage: in all, by flavor and resource.
    level: how far it borrows, the highest of its choices.
    """

    podsets: tuple[PodSetAssignment, ...]
    usage: Usage
    level: int = 0

    @property
    def mode(self) -> Mode:
        """The worst over its podsets."""
        return min((podset.mode for podset in self.podsets), default=Mode.FIT)

    @property
    def places(self) -> tuple[Places, ...]:
        """Where its pods go, as far as that is said."""
        return tuple(podset.places for podset in self.podsets if podset.places is not None)

    @property
    def has_more_flavors(self) -> bool:
        """Whether flavors are left that were not looked at."""
        return any(choice.tried != -1 for podset in self.podsets for choice in podset.flavors.values())


class WorkloadInfo(Struct, frozen=True, eq=False, gc=False):
    """A workload that waits for quota or holds some. One value is one state of it; equality is identity.

    key: `namespace/name`. queue: its ClusterQueue. local_queue: `namespace/name` of its LocalQueue.
    growth_of: if it is what an elastic workload that runs wants on top of what it holds, the key of that workload.
    priority: with the boost. queued: the moment that orders it among equals (creation, or eviction).
    usage: what it holds; None while it holds nothing. places: where its pods are.
    reserved: since when. admitted: all checks are passed. evicted: asked to give back what it holds.
    ready: its pods are (condition PodsReady).
    blocks: whether others wait for its pods, as it says itself; None leaves it to `blocking.Blocking`.
    """

    key: str
    uid: str
    queue: str
    local_queue: str
    priority: int
    created: datetime
    queued: datetime
    podsets: tuple[PodSet, ...]
    usage: Usage | None = None
    reserved: datetime | None = None
    admitted: bool = False
    evicted: bool = False
    ready: bool = False
    blocks: bool | None = None
    growth_of: str = ""
    places: tuple[Places, ...] = ()

    @property
    def whole(self) -> str:
        """The key of the workload that it is, or that grows by it."""
        return self.growth_of or self.key

    @property
    def namespace(self) -> str:
        """The first half of the key."""
        return self.key.partition("/")[0]
