"""The values with which admission computes: queues, flavors and workloads with only the fields that it needs.

Amounts are integers in the units of `api.values.quantity.parse_amount` (thousandths of a CPU, whole units of all other
resources). Values are frozen. The changing state is in `quota.tree.Tree` (usage) and `queues.Queues` (waiting
workloads).

Structs with an instance for each workload opt out of garbage collection, as in `api.meta.Struct`.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum
from fractions import Fraction
from typing import Literal, NamedTuple

from msgspec import Struct, field

from muster.api.core import NodeSelectorTerm, Taint, Toleration
from muster.api.ours.teams import NO_LIMITS, UserLimits
from muster.api.values.selectors import LabelMatcher

# The resource that counts pods. It is limited only if a ClusterQueue has quota for it.
PODS = "pods"


class FlavorResource(NamedTuple):
    """A flavor and a resource, for which quota is counted: CPUs of flavor spot are not CPUs of flavor on-demand."""

    flavor: str
    resource: str


Usage = Mapping[FlavorResource, int]


class PendingReason(NamedTuple):
    """The reason why a workload waits: reason and message of its condition QuotaReserved=False."""

    reason: str
    message: str


class Quota(Struct, frozen=True):
    """The quota of one flavor and resource in one ClusterQueue or Cohort.

    borrowing: the most that the ClusterQueue or Cohort may use beyond its own quota; None for no limit.
    lending: the most of its own quota that other queues may use; None for no limit.
    """

    nominal: int
    borrowing: int | None = None
    lending: int | None = None


class ResourceGroup(Struct, frozen=True):
    """Resources that a workload always gets from the same flavor, and their flavors in the order of the search."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]


class Fungibility(Struct, frozen=True):
    """The rules by which a workload tries the next flavor (`whenCanBorrow`, `whenCanPreempt`) or prefers one."""

    try_next_before_borrowing: bool = False
    try_next_before_preempting: bool = True
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] = "BorrowingOverPreemption"


PreemptionPolicy = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any"]


class Preemption(Struct, frozen=True):
    """The rules by which workloads of the queue may preempt others.

    while_borrowing: whether `borrowWithinCohort` is LowerPriority.
    threshold: the highest priority that `borrowWithinCohort` allows to preempt.
    """

    within_queue: PreemptionPolicy = "Never"
    within_cohort: PreemptionPolicy = "Never"
    while_borrowing: bool = False
    threshold: int | None = None


StopPolicy = Literal["None", "Hold", "HoldAndDrain"]


class Migration(Struct, frozen=True):
    """The rules for moving a workload to a better flavor (Kueue KEP-8691).

    retains: whether the workload stays in the flavor of its first admission.
    last: the last flavor to which the workload may move; "" for any.
    """

    retains: bool = False
    last: str = ""


class QueueSpec(Struct, frozen=True):
    """A ClusterQueue.

    namespaces: the namespaces that may use the queue; None for no namespace at all.
    weight: the weight for fair sharing; with 0 the share is infinite as soon as the queue borrows.
    checks: the AdmissionChecks by name, each with the flavors to which it applies (empty for all).
    by_usage: whether past usage orders the LocalQueues (admission fair sharing).
    migration: whether a better variant replaces a running one; None if there are no variants.
    users: short names of the only users whose workloads may use the queue; None for all users.
    limits: the limits of each user in the queue.
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
    migration: Migration | None = None
    users: frozenset[str] | None = None
    limits: UserLimits = NO_LIMITS

    def group_of(self, resource: str) -> ResourceGroup | None:
        """Return the group that covers the resource; None if the ClusterQueue has no quota for it."""
        return next((group for group in self.groups if resource in group.resources), None)


class CohortSpec(Struct, frozen=True):
    """A Cohort. Its own quota is added to the quota of its members."""

    name: str
    parent: str = ""
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    weight: Fraction = Fraction(1)


class FlavorSpec(Struct, frozen=True):
    """A ResourceFlavor.

    topology: the name of the Topology of its nodes; "" if it names none.
    levels: the labels of the Topology's levels, from the widest; empty if there is no such Topology, None if topologies
    are ignored.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str = ""
    levels: tuple[str, ...] | None = None


class TopologyRequest(Struct, frozen=True, gc=False):
    """A podset's topology request: how close together its pods must run.

    how: whether all pods must run in one domain of the level, should run in as few as possible, or may run anywhere.
    level: the node label of the level; "" if the request names none.
    slices: sizes and levels of slices, the larger first. A slice is a number of pods with consecutive ranks that run in
    one domain of its level.
    """

    how: Literal["required", "preferred", "unconstrained"]
    level: str = ""
    slices: tuple[tuple[str, int], ...] = ()


class Places(Struct, frozen=True, gc=False):
    """The topology domains assigned to the pods of a podset.

    podset: the name of the podset.
    flavors: the flavors of the podset, one of which has a topology.
    levels: the node labels that identify a domain, from the widest.
    requests: the requests of each pod, as a node counts them.
    domains: the label values of each domain, and the number of pods in it, in the order of the pods' ranks.
    """

    podset: str
    flavors: tuple[str, ...]
    levels: tuple[str, ...]
    requests: tuple[tuple[str, int], ...]
    domains: tuple[tuple[tuple[str, ...], int], ...]


class PodSet(Struct, frozen=True, gc=False):
    """Identical pods of a workload.

    count: the number of pods that still need quota (without the reclaimable ones).
    least: the smallest number of pods with which the workload also starts (partial admission); None if it needs all.
    requests: the requests of each pod.
    terms: the alternatives of the required node affinity; empty for none.
    together: the name of the group of podsets that must get the same flavor; "" for none.
    flavors: the only flavor that each resource may get; empty for any.
    asks: the requests of each pod from its node, if quotas count other resources; empty if they equal `requests`.
    topology: the topology request, if any.
    allowed: the only flavors that the podset may get; empty for any.
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
    allowed: frozenset[str] = frozenset()


class Mode(IntEnum):
    """The ways in which a podset could get a flavor, from worst to best (upstream granularMode)."""

    NO_FIT = 0
    NO_CANDIDATES = 1  # preemption would free enough quota, but no workload may be preempted
    PREEMPT = 2  # by preempting workloads of the same queue
    RECLAIM = 3  # by reclaiming quota that other queues borrow
    FIT = 4


class FlavorChoice(Struct, frozen=True, gc=False):
    """The flavor chosen for one resource of a podset.

    level: 0 if the quota of the queue suffices, else the height of the subtree whose quota suffices.
    tried: the index in the resource group of the last flavor that was tried; -1 if all flavors of the group were tried.
    """

    flavor: str
    mode: Mode
    level: int = 0
    tried: int = -1


# Why a flavor does not fit, from the least to the most serious: reasons of the condition QuotaReserved=False.
Cause = Literal["", "TopologyPlacementFailed", "WaitingForQuota", "ExceedsMaxQuota", "NoMatchingFlavor"]


class FlavorAttempt(Struct, frozen=True, gc=False):
    """A flavor that was tried for a podset, and the result.

    group: the index of its resource group in the ClusterQueue.
    level: the highest level of all resources.
    cause: why the flavor does not fit; "" if it fits, or would fit after preemption.
    """

    flavor: str
    group: int
    mode: Mode
    level: int = 0
    reasons: tuple[str, ...] = ()
    cause: Cause = ""


class PodSetAssignment(Struct, frozen=True, gc=False):
    """The flavors assigned to a podset, or why it gets none.

    requests: the requests of all its pods together.
    reasons: why the other flavors do not fit, sorted.
    attempts: the flavors that were tried, sorted by name.
    error: the error in the podset itself that prevented any attempt; "" for none.
    places: the topology domains of its pods, if its flavor has a topology.
    unplaced: why no topology domain has room for its pods; "" if one has.
    """

    name: str
    count: int
    flavors: Mapping[str, FlavorChoice]
    requests: Mapping[str, int]
    reasons: tuple[str, ...] = ()
    attempts: tuple[FlavorAttempt, ...] = ()
    error: str = ""
    places: Places | None = None
    unplaced: str = ""

    @property
    def mode(self) -> Mode:
        """The worst of the modes of its resources, in the order of `Mode`; it applies to the whole podset."""
        refused = self.reasons or self.error
        return min((choice.mode for choice in self.flavors.values()), default=Mode.NO_FIT if refused else Mode.FIT)


class Assignment(Struct, frozen=True, gc=False):
    """The flavors and quota that a workload would get.

    usage: its total usage, by flavor and resource.
    level: the highest level of borrowing of its choices.
    """

    podsets: tuple[PodSetAssignment, ...]
    usage: Usage
    level: int = 0

    @property
    def mode(self) -> Mode:
        """The worst of the modes of its podsets; it applies to the whole workload."""
        return min((podset.mode for podset in self.podsets), default=Mode.FIT)

    @property
    def places(self) -> tuple[Places, ...]:
        """The topology domains of its podsets, as far as they are assigned."""
        return tuple(podset.places for podset in self.podsets if podset.places is not None)

    @property
    def has_more_flavors(self) -> bool:
        """Whether there are flavors that were not tried."""
        return any(choice.tried != -1 for podset in self.podsets for choice in podset.flavors.values())


class WorkloadInfo(Struct, frozen=True, eq=False, gc=False):
    """A workload that waits for quota or holds some.

    An instance is one state of a workload and is never changed; equality is identity.

    key: `namespace/name`.
    queue: its ClusterQueue.
    local_queue: `namespace/name` of its LocalQueue.
    priority: its priority, including the boost.
    queued: the time that orders workloads of equal priority: the creation, or the eviction.
    usage: the quota that it holds; None if it holds none.
    reserved: when it got its quota.
    admitted: whether all its checks have passed.
    evicted: whether it is being evicted, and still holds its quota.
    ready: whether its pods are ready (condition PodsReady).
    blocks: whether other workloads wait for its pods, by its own annotation; None if `blocking.Blocking` decides that.
    preempting: whether it waits, and its condition says that it waits for preempted workloads to end.
    growth_of: the key of the running elastic workload if this is a growth; otherwise "".
    places: the topology domains of its pods.
    family: the UID of its parent if it is a variant; otherwise "".
    gated: whether it may not preempt others yet.
    owner: the short name of the user who submitted it; "" if unknown.
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
    preempting: bool = False
    growth_of: str = ""
    places: tuple[Places, ...] = ()
    family: str = ""
    gated: bool = False
    owner: str = ""

    @property
    def whole(self) -> str:
        """The key of the workload. For a growth, it is the key of the running workload that grows."""
        return self.growth_of or self.key

    @property
    def namespace(self) -> str:
        """The namespace in the key."""
        return self.key.partition("/")[0]
