"""From API objects to the values that decisions are made with.

Objects are as the server stores them: defaulted and validated. What is wrong with one nevertheless (a quantity that is
none, in the template of a Workload) is an error for the caller to show; it never keeps the others from being read.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import NamedTuple, cast

from msgspec import Struct, field

from muster.api import kueue
from muster.api.conditions import find_true, is_true
from muster.api.kueue.names import (
    ADMISSION_CHECK_EVICTION,
    ADMITTED,
    EVICTED,
    PODS_READY,
    PODS_READY_TIMEOUT,
    PRIORITY_BOOST,
    QUOTA_RESERVED,
)
from muster.api.meta import ObjectMeta
from muster.api.pods import amounts, pod_requests
from muster.api.values.nodeaffinity import required_terms
from muster.api.values.quantity import Quantity, amount, parse
from muster.api.values.selectors import label_matcher
from muster.queueing.model import (
    CohortSpec,
    FlavorResource,
    FlavorSpec,
    Fungibility,
    Places,
    PodSet,
    Preemption,
    PreemptionPolicy,
    QueueSpec,
    Quota,
    ResourceGroup,
    StopPolicy,
    Usage,
    WorkloadInfo,
)
from muster.queueing.requests import ResourceRules, requests_of, scaled
from muster.queueing.topology.written import places_of, request_of
from muster.queueing.workload.checks import of_queue

# On a Workload: when it was made, more exactly than the server's stamp says. Not believed if it is far from that.
CREATED_ANNOTATION = "muster.dev/created"
_STAMP = timedelta(seconds=2)

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class ConversionSettings(Struct, frozen=True):
    """What the Configuration says about how workloads are read.

    rules: what pods count as.
    by_eviction: a workload evicted because its pods did not get ready in time queues up again behind the others
        (`requeuingStrategy.timestamp`: Eviction).
    boost: the annotation priority-boost counts (upstream gate PriorityBoost).
    topology: what podsets say of their topology counts (upstream gate TopologyAwareScheduling).
    """

    rules: ResourceRules = field(default_factory=ResourceRules)
    by_eviction: bool = True
    boost: bool = False
    topology: bool = True


def queue_spec(queue: kueue.ClusterQueue) -> QueueSpec:
    """A ClusterQueue. Raises `QuantityError` and `SelectorError`."""
    spec = queue.spec
    return QueueSpec(
        name=queue.metadata.name,
        cohort=spec.cohort_name,
        groups=tuple(
            ResourceGroup(group.covered_resources, tuple(flavor.name for flavor in group.flavors))
            for group in spec.resource_groups
        ),
        quotas=_quotas(spec.resource_groups),
        strict=spec.queueing_strategy == kueue.STRICT_FIFO,
        fungibility=_fungibility(spec.flavor_fungibility),
        preemption=_preemption(spec.preemption),
        namespaces=label_matcher(spec.namespace_selector) if spec.namespace_selector is not None else None,
        weight=_weight(spec.fair_sharing),
        checks=of_queue(spec),
        stop=cast("StopPolicy", spec.stop_policy),
        by_usage=spec.admission_scope is not None
        and spec.admission_scope.admission_mode == kueue.USAGE_BASED_ADMISSION,
    )


def cohort_spec(cohort: kueue.Cohort) -> CohortSpec:
    """A Cohort. Raises `QuantityError`."""
    spec = cohort.spec
    return CohortSpec(cohort.metadata.name, spec.parent_name, _quotas(spec.resource_groups), _weight(spec.fair_sharing))


def flavor_spec(flavor: kueue.ResourceFlavor, levels: tuple[str, ...] | None = None) -> FlavorSpec:
    """A ResourceFlavor. levels: of its Topology, if that is looked at."""
    meta, spec = flavor.metadata, flavor.spec
    return FlavorSpec(meta.name, spec.node_labels, spec.node_taints, spec.tolerations, spec.topology_name, levels)


def levels_of(topology: kueue.Topology | None) -> tuple[str, ...]:
    """The node labels of a Topology, from the widest level; none where there is no such Topology."""
    return tuple(level.node_label for level in topology.spec.levels) if topology is not None else ()


_USUAL = ConversionSettings()


def workload(obj: kueue.Workload, queue: str, settings: ConversionSettings = _USUAL) -> WorkloadInfo:
    """A Workload. While it holds quota, where and how much is what its admission says. Raises `QuantityError`.

    queue: the ClusterQueue behind its LocalQueue.
    """
    meta, spec, status = obj.metadata, obj.spec, obj.status
    reserved = find_true(status.conditions, QUOTA_RESERVED)
    admission = status.admission if reserved is not None else None
    created = _created(meta)
    counts = _counts(obj, admission)
    return WorkloadInfo(
        key=f"{meta.namespace}/{meta.name}",
        uid=meta.uid,
        queue=admission.cluster_queue if admission else queue,
        local_queue=f"{meta.namespace}/{spec.queue_name}",
        priority=(spec.priority or 0) + (_boost(obj) if settings.boost else 0),
        created=created,
        queued=_queued(obj, settings) or created,
        podsets=tuple(_podset(podset, counts[podset.name].needed, settings) for podset in spec.pod_sets),
        usage=_usage(admission, counts) if admission else None,
        reserved=reserved.last_transition_time if reserved and admission else None,
        admitted=admission is not None and is_true(status.conditions, ADMITTED),
        evicted=is_true(status.conditions, EVICTED),
        ready=is_true(status.conditions, PODS_READY),
        places=_places(obj, admission) if admission else (),
    )


def _quotas(groups: Iterable[kueue.ResourceGroup]) -> dict[FlavorResource, Quota]:
    return {
        FlavorResource(flavor.name, quota.name): Quota(
            amount(quota.name, quota.nominal_quota),
            _limit(quota.name, quota.borrowing_limit),
            _limit(quota.name, quota.lending_limit),
        )
        for group in groups
        for flavor in group.flavors
        for quota in flavor.resources
    }


def _limit(resource: str, quantity: Quantity | None) -> int | None:
    return None if quantity is None else amount(resource, quantity)


def _weight(sharing: kueue.FairSharing | None) -> Fraction:
    return Fraction(1) if sharing is None else parse(sharing.weight)


def _fungibility(written: kueue.FlavorFungibility) -> Fungibility:
    over_borrowing = written.preference == kueue.PREEMPTION_OVER_BORROWING
    return Fungibility(
        try_next_before_borrowing=written.when_can_borrow == kueue.TRY_NEXT_FLAVOR,
        try_next_before_preempting=written.when_can_preempt == kueue.TRY_NEXT_FLAVOR,
        preference="PreemptionOverBorrowing" if over_borrowing else "BorrowingOverPreemption",
    )


def _preemption(written: kueue.ClusterQueuePreemption) -> Preemption:
    return Preemption(
        within_queue=cast("PreemptionPolicy", written.within_cluster_queue),
        within_cohort=cast("PreemptionPolicy", written.reclaim_within_cohort),
        while_borrowing=written.borrow_within_cohort.policy == kueue.LOWER_PRIORITY,
        threshold=written.borrow_within_cohort.max_priority_threshold,
    )


def _podset(podset: kueue.PodSet, count: int, settings: ConversionSettings) -> PodSet:
    spec, rules = podset.template.spec, settings.rules
    topology = podset.topology_request
    requests = requests_of(spec, rules)
    return PodSet(
        name=podset.name,
        count=count,
        requests=requests,
        least=podset.min_count,
        selector=spec.node_selector,
        terms=required_terms(spec),
        tolerations=spec.tolerations,
        together=(topology.pod_set_group_name or "") if topology is not None else "",
        asks=pod_requests(spec) if rules.excluded or rules.transformations else {},
        topology=request_of(topology) if settings.topology else None,
    )


def _places(obj: kueue.Workload, admission: kueue.Admission) -> tuple[Places, ...]:
    if all(assignment.topology_assignment is None for assignment in admission.pod_set_assignments):
        return ()
    return places_of(admission, {podset.name: podset.template.spec for podset in obj.spec.pod_sets})


class _Count(NamedTuple):
    """Pods of a podset: with how many it was admitted, and how many of those still need quota."""

    admitted: int
    needed: int


_WHOLE = _Count(1, 1)


def _counts(obj: kueue.Workload, admission: kueue.Admission | None) -> dict[str, _Count]:
    """By podset. Pods that were left out by partial admission are the first that have nothing left to do."""
    reclaimable = {pods.name: pods.count for pods in obj.status.reclaimable_pods}
    given = {podset.name: podset.count for podset in admission.pod_set_assignments} if admission else {}
    counts = {}
    for podset in obj.spec.pod_sets:
        admitted = given.get(podset.name)
        admitted = podset.count if admitted is None else admitted
        # Until what was granted has followed an elastic Job that shrank, pods of the part that went may be reclaimable.
        done = 0 if admitted > podset.count else reclaimable.get(podset.name, 0)
        left = max(0, podset.count - done)
        counts[podset.name] = _Count(admitted, min(admitted, left))
    return counts


def _usage(admission: kueue.Admission, counts: Mapping[str, _Count]) -> Usage:
    """What is held: what was assigned, in proportion to the pods that still need it."""
    usage: dict[FlavorResource, int] = {}
    for podset in admission.pod_set_assignments:
        for resource, total in scaled(amounts(podset.resource_usage), *counts.get(podset.name, _WHOLE)).items():
            if flavor := podset.flavors.get(resource):
                fr = FlavorResource(flavor, resource)
                usage[fr] = usage.get(fr, 0) + total
    return usage


def _created(meta: ObjectMeta) -> datetime:
    """To a fraction of a second where that is known: the server's stamp would leave the order of many to chance."""
    stamp = meta.creation_timestamp or _LONG_AGO
    try:
        exact = datetime.fromisoformat(meta.annotations.get(CREATED_ANNOTATION, ""))
    except ValueError:
        return stamp
    return exact if exact.tzinfo is not None and abs(exact - stamp) < _STAMP else stamp


def _queued(obj: kueue.Workload, settings: ConversionSettings) -> datetime | None:
    """Since when it queues, if that is not since its creation: evictions that were its own doing put it behind."""
    evicted = find_true(obj.status.conditions, EVICTED)
    if evicted is None:
        return None
    behind = evicted.reason == ADMISSION_CHECK_EVICTION or (
        evicted.reason == PODS_READY_TIMEOUT and settings.by_eviction
    )
    return evicted.last_transition_time if behind else None


def _boost(obj: kueue.Workload) -> int:
    """0 where the annotation is no number of 32 bits: the webhook refuses that."""
    try:
        boost = int(obj.metadata.annotations.get(PRIORITY_BOOST, "0"))
    except ValueError:
        return 0
    return boost if -(2**31) <= boost < 2**31 else 0
