"""Convert API objects to the values with which admission computes.

Objects are in the form in which the server stores them: defaulted and validated. An object may still contain an error,
such as a malformed quantity in the template of a Workload. The caller reports that error and continues with the other
objects.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from fractions import Fraction
from typing import NamedTuple, Self, cast

from msgspec import Struct, field
from msgspec.structs import replace

from muster.api import kueue
from muster.api.conditions import find, find_true, is_true
from muster.api.config import Configuration
from muster.api.kueue.names import (
    ADMISSION_CHECK_EVICTION,
    ADMITTED,
    EVICTED,
    PODS_READY,
    PODS_READY_TIMEOUT,
    PRIORITY_BOOST,
    QUOTA_RESERVED,
    WAITING_FOR_PREEMPTED_WORKLOADS,
)
from muster.api.managed.variants import allowed_flavors, has_closed_gate, parent_of
from muster.api.meta import Condition
from muster.api.ours.creation import created_at
from muster.api.ours.submitter import SUBMITTER_ANNOTATION
from muster.api.ours.teams import read_limits, read_users
from muster.api.ours.users import short_user
from muster.api.pods import parse_amounts, pod_requests
from muster.api.values.nodeaffinity import list_required_terms
from muster.api.values.quantity import Quantity, parse, parse_amount
from muster.api.values.selectors import label_matcher
from muster.queueing.devices import PodDevices
from muster.queueing.model import (
    CohortSpec,
    FlavorResource,
    FlavorSpec,
    Fungibility,
    Migration,
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
from muster.queueing.requests import ResourceRules, requests_of, scale_usage
from muster.queueing.topology.conversion import places_of, request_of
from muster.queueing.workload.checks import of_queue


class ConversionSettings(Struct, frozen=True):
    """The settings of a Configuration that determine how a Workload is converted.

    rules: how the resources of pods are counted.
    by_eviction: whether a Workload whose pods were not ready in time is requeued by the time of its eviction, behind
    the others (`requeuingStrategy.timestamp`: Eviction).
    boost: whether the annotation priority-boost counts (upstream gate PriorityBoost).
    topology: whether the topology requests of podsets count (upstream gate TopologyAwareScheduling).
    partial: whether podsets may be admitted with fewer pods (upstream gate PartialAdmission).
    reclaims: whether pods that have ended release their quota before their job ends (upstream gate ReclaimablePods).
    variants: whether a Workload may have variants, one for each flavor (upstream gate ConcurrentAdmission).
    """

    rules: ResourceRules = field(default_factory=ResourceRules)
    by_eviction: bool = True
    boost: bool = False
    topology: bool = True
    partial: bool = True
    reclaims: bool = True
    variants: bool = False

    @classmethod
    def of(cls, configuration: Configuration) -> Self:
        """Return the settings of a Configuration. Raises `QuantityError`."""
        base, features = configuration.wait_for_pods_ready, configuration.features
        strategy = base.requeuing_strategy.timestamp if base is not None else "Eviction"
        return cls(
            rules=ResourceRules.of(configuration.resources),
            by_eviction=strategy == "Eviction",
            boost=features.is_enabled("PriorityBoost"),
            topology=features.is_enabled("TopologyAwareScheduling"),
            partial=features.is_enabled("PartialAdmission"),
            reclaims=features.is_enabled("ReclaimablePods"),
            variants=features.is_enabled("ConcurrentAdmission"),
        )


def queue_spec(queue: kueue.ClusterQueue) -> QueueSpec:
    """Convert a ClusterQueue. Raises `QuantityError` and `SelectorError`."""
    spec = queue.spec
    return QueueSpec(
        name=queue.metadata.name,
        cohort=spec.cohort_name,
        groups=tuple(
            ResourceGroup(group.covered_resources, tuple(flavor.name for flavor in group.flavors))
            for group in spec.resource_groups
        ),
        quotas=convert_quotas(spec.resource_groups),
        strict=spec.queueing_strategy == kueue.STRICT_FIFO,
        fungibility=_convert_fungibility(spec.flavor_fungibility),
        preemption=_convert_preemption(spec.preemption),
        namespaces=label_matcher(spec.namespace_selector) if spec.namespace_selector is not None else None,
        weight=_convert_weight(spec.fair_sharing),
        checks=of_queue(spec),
        stop=cast("StopPolicy", spec.stop_policy),
        by_usage=spec.admission_scope is not None
        and spec.admission_scope.admission_mode == kueue.USAGE_BASED_ADMISSION,
        migration=_convert_migration(spec.concurrent_admission_policy),
        users=read_users(queue.metadata.annotations),
        limits=read_limits(queue.metadata.annotations),
    )


def _convert_migration(policy: kueue.ConcurrentAdmissionPolicy | None) -> Migration | None:
    if policy is None:
        return None
    constraints = policy.migration.constraints
    return Migration(
        retains=policy.migration.mode == kueue.RETAIN_FIRST_ADMISSION,
        last=constraints.last_acceptable_flavor_name if constraints is not None else "",
    )


def cohort_spec(cohort: kueue.Cohort) -> CohortSpec:
    """Convert a Cohort. Raises `QuantityError`."""
    spec = cohort.spec
    return CohortSpec(
        cohort.metadata.name,
        spec.parent_name,
        convert_quotas(spec.resource_groups),
        _convert_weight(spec.fair_sharing),
    )


def flavor_spec(flavor: kueue.ResourceFlavor, levels: tuple[str, ...] | None = None) -> FlavorSpec:
    """Convert a ResourceFlavor.

    levels: the node labels of its Topology; None if topologies are ignored.
    """
    meta, spec = flavor.metadata, flavor.spec
    return FlavorSpec(meta.name, spec.node_labels, spec.node_taints, spec.tolerations, spec.topology_name, levels)


def levels_of(topology: kueue.Topology | None) -> tuple[str, ...]:
    """Return the node labels of a Topology, from the widest level; empty if there is no such Topology."""
    return tuple(level.node_label for level in topology.spec.levels) if topology is not None else ()


def flavor_in(flavor: kueue.ResourceFlavor, topology: kueue.Topology | None, *, enabled: bool) -> FlavorSpec:
    """Convert a ResourceFlavor.

    topology: the Topology that it names; None if that does not exist.
    enabled: whether topologies count at all.
    """
    if not enabled:
        return replace(flavor_spec(flavor), topology="")
    return flavor_spec(flavor, levels_of(topology))


def list_flavors(
    flavors: Iterable[kueue.ResourceFlavor], topologies: Iterable[kueue.Topology], *, topology: bool
) -> dict[str, FlavorSpec]:
    """Convert all ResourceFlavors of a cluster.

    topology: whether topologies count at all.
    """
    topologies_by_name = {one.metadata.name: one for one in topologies}
    return {
        one.metadata.name: flavor_in(one, topologies_by_name.get(one.spec.topology_name), enabled=topology)
        for one in flavors
    }


_DEFAULTS = ConversionSettings()

# The device counts of one pod, by the name of its podset.
Devices = Mapping[str, PodDevices]
_NO_DEVICES: Devices = {}


def convert_workload(
    obj: kueue.Workload, queue: str, settings: ConversionSettings = _DEFAULTS, devices: Devices = _NO_DEVICES
) -> WorkloadInfo:
    """Convert a Workload. Raises `QuantityError`.

    If the Workload holds quota, its ClusterQueue and usage are those in its admission.

    queue: the ClusterQueue of its LocalQueue.
    """
    meta, spec, status = obj.metadata, obj.spec, obj.status
    reserved = find_true(status.conditions, QUOTA_RESERVED)
    admission = status.admission if reserved is not None else None
    created = created_at(meta)
    counts = _count_pods(obj, admission, reclaims=settings.reclaims)
    parent = parent_of(meta) if settings.variants else None
    allowed = allowed_flavors(meta) if settings.variants else frozenset[str]()
    return WorkloadInfo(
        key=f"{meta.namespace}/{meta.name}",
        uid=meta.uid,
        queue=admission.cluster_queue if admission else queue,
        local_queue=f"{meta.namespace}/{spec.queue_name}",
        priority=(spec.priority or 0) + (_parse_boost(obj) if settings.boost else 0),
        created=created,
        queued=_find_requeue_time(obj, settings) or created,
        podsets=tuple(
            _convert_podset(podset, counts[podset.name].needed, settings, devices.get(podset.name), allowed)
            for podset in spec.pod_sets
        ),
        usage=_compute_usage(admission, counts) if admission else None,
        reserved=reserved.last_transition_time if reserved and admission else None,
        admitted=admission is not None and is_true(status.conditions, ADMITTED),
        evicted=is_true(status.conditions, EVICTED),
        ready=is_true(status.conditions, PODS_READY),
        places=_convert_places(obj, admission) if admission else (),
        preempting=_is_preempting(status.conditions),
        family=parent.uid if parent is not None else "",
        gated=settings.variants and has_closed_gate(obj),
        owner=short_user(meta.annotations.get(SUBMITTER_ANNOTATION, "")),
    )


def _is_preempting(conditions: tuple[Condition, ...]) -> bool:
    reserved = find(conditions, QUOTA_RESERVED)
    return reserved is not None and reserved.reason == WAITING_FOR_PREEMPTED_WORKLOADS


def convert_quotas(groups: Iterable[kueue.ResourceGroup]) -> dict[FlavorResource, Quota]:
    """Return the quotas of resource groups, in the units of decisions."""
    return {
        FlavorResource(flavor.name, quota.name): Quota(
            parse_amount(quota.name, quota.nominal_quota),
            _convert_limit(quota.name, quota.borrowing_limit),
            _convert_limit(quota.name, quota.lending_limit),
        )
        for group in groups
        for flavor in group.flavors
        for quota in flavor.resources
    }


def _convert_limit(resource: str, quantity: Quantity | None) -> int | None:
    return None if quantity is None else parse_amount(resource, quantity)


def _convert_weight(sharing: kueue.FairSharing | None) -> Fraction:
    return Fraction(1) if sharing is None else parse(sharing.weight)


def _convert_fungibility(policy: kueue.FlavorFungibility) -> Fungibility:
    over_borrowing = policy.preference == kueue.PREEMPTION_OVER_BORROWING
    return Fungibility(
        try_next_before_borrowing=policy.when_can_borrow == kueue.TRY_NEXT_FLAVOR,
        try_next_before_preempting=policy.when_can_preempt == kueue.TRY_NEXT_FLAVOR,
        preference="PreemptionOverBorrowing" if over_borrowing else "BorrowingOverPreemption",
    )


def _convert_preemption(policy: kueue.ClusterQueuePreemption) -> Preemption:
    return Preemption(
        within_queue=cast("PreemptionPolicy", policy.within_cluster_queue),
        within_cohort=cast("PreemptionPolicy", policy.reclaim_within_cohort),
        while_borrowing=policy.borrow_within_cohort.policy == kueue.LOWER_PRIORITY,
        threshold=policy.borrow_within_cohort.max_priority_threshold,
    )


def _convert_podset(
    podset: kueue.PodSet, count: int, settings: ConversionSettings, devices: PodDevices | None, allowed: frozenset[str]
) -> PodSet:
    """Convert a podset of a Workload.

    count: the number of pods that count, which may be smaller than the podset's.
    devices: the devices that each pod claims; None if they do not count.
    """
    spec, rules = podset.template.spec, settings.rules
    topology = podset.topology_request
    requests = requests_of(spec, rules)
    if devices is not None:
        requests = devices.apply(requests)
    return PodSet(
        name=podset.name,
        count=count,
        requests=requests,
        least=podset.min_count if settings.partial else None,
        selector=spec.node_selector,
        terms=list_required_terms(spec),
        tolerations=spec.tolerations,
        together=(topology.pod_set_group_name or "") if topology is not None else "",
        asks=pod_requests(spec) if rules.excluded or rules.transformations or devices is not None else {},
        topology=request_of(topology) if settings.topology else None,
        allowed=allowed,
    )


def _convert_places(obj: kueue.Workload, admission: kueue.Admission) -> tuple[Places, ...]:
    if all(assignment.topology_assignment is None for assignment in admission.pod_set_assignments):
        return ()
    return places_of(admission, {podset.name: podset.template.spec for podset in obj.spec.pod_sets})


class _Count(NamedTuple):
    """The pods of a podset: the number admitted, and the number of admitted pods that still need quota."""

    admitted: int
    needed: int


_WHOLE = _Count(1, 1)


def _count_pods(obj: kueue.Workload, admission: kueue.Admission | None, *, reclaims: bool) -> dict[str, _Count]:
    """Return, for each podset, how many pods were admitted and how many of these still need quota.

    If partial admission left pods out, reclaimable pods are first subtracted from the left-out pods.
    """
    reclaimable = {pods.name: pods.count for pods in obj.status.reclaimable_pods} if reclaims else {}
    admitted_counts = {podset.name: podset.count for podset in admission.pod_set_assignments} if admission else {}
    counts = {}
    for podset in obj.spec.pod_sets:
        admitted = admitted_counts.get(podset.name)
        admitted = podset.count if admitted is None else admitted
        # Until the admission follows an elastic Job that shrank, reclaimable pods may be of the removed part.
        reclaimed = 0 if admitted > podset.count else reclaimable.get(podset.name, 0)
        remaining = max(0, podset.count - reclaimed)
        counts[podset.name] = _Count(admitted, min(admitted, remaining))
    return counts


def _compute_usage(admission: kueue.Admission, counts: Mapping[str, _Count]) -> Usage:
    """Return the quota that a workload holds: the assigned amounts, reduced to the pods that still need quota."""
    usage: dict[FlavorResource, int] = {}
    for podset in admission.pod_set_assignments:
        for resource, total in scale_usage(
            parse_amounts(podset.resource_usage), *counts.get(podset.name, _WHOLE)
        ).items():
            if flavor := podset.flavors.get(resource):
                fr = FlavorResource(flavor, resource)
                usage[fr] = usage.get(fr, 0) + total
    return usage


def _find_requeue_time(obj: kueue.Workload, settings: ConversionSettings) -> datetime | None:
    """Return when a workload was requeued behind the others; None if its creation time orders it."""
    evicted = find_true(obj.status.conditions, EVICTED)
    behind = evicted is not None and requeues_behind(evicted.reason, settings)
    return evicted.last_transition_time if evicted is not None and behind else None


def requeues_behind(reason: str, settings: ConversionSettings) -> bool:
    """Return whether an eviction for this reason, which the workload itself caused, requeues it behind others."""
    return reason == ADMISSION_CHECK_EVICTION or (reason == PODS_READY_TIMEOUT and settings.by_eviction)


def _parse_boost(obj: kueue.Workload) -> int:
    """Return the priority boost of the annotation; 0 without the annotation, or if it is not a 32-bit number.

    The webhook refuses such a value, so only an object that the webhook did not check has one.
    """
    try:
        boost = int(obj.metadata.annotations.get(PRIORITY_BOOST, "0"))
    except ValueError:
        return 0
    return boost if -(2**31) <= boost < 2**31 else 0
