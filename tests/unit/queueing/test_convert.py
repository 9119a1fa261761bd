"""Tests of the conversion of manifests to the values that decisions see."""

from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from muster.api import kueue
from muster.api.config.types import Resources
from muster.api.core import NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration
from muster.api.meta import ObjectMeta
from muster.api.ours.creation import CREATED_ANNOTATION
from muster.api.values.quantity import QuantityError
from muster.queueing.convert import (
    ConversionSettings,
    cohort_spec,
    convert_workload,
    flavor_spec,
    levels_of,
    queue_spec,
)
from muster.queueing.model import (
    CohortSpec,
    FlavorResource,
    FlavorSpec,
    Fungibility,
    Migration,
    PodSet,
    Preemption,
    QueueSpec,
    Quota,
    ResourceGroup,
)
from muster.queueing.requests import ResourceRules

CREATED, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
MI = 2**20


def cluster_queue(**spec: Any) -> QueueSpec:
    return queue_spec(msgspec.convert({"metadata": {"name": "q"}, "spec": spec}, kueue.ClusterQueue))


def flavors(name: str, **resources: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "resources": [{"name": resource, **quota} for resource, quota in resources.items()]}


# --- Queues, Cohorts, flavors.


def test_a_queue_with_nothing_said_has_the_defaults() -> None:
    assert cluster_queue() == QueueSpec("q")


def test_a_queue_with_everything_said() -> None:
    result = cluster_queue(
        cohortName="team",
        queueingStrategy="StrictFIFO",
        stopPolicy="HoldAndDrain",
        resourceGroups=[
            {
                "coveredResources": ["memory", "cpu"],
                "flavors": [
                    flavors("z", memory={"nominalQuota": "1Mi"}, cpu={"nominalQuota": "1.5", "borrowingLimit": "500m"}),
                    flavors("a", memory={"nominalQuota": 0, "lendingLimit": "0"}, cpu={"nominalQuota": 2}),
                ],
            },
            {"coveredResources": ["gpu"], "flavors": [flavors("g", gpu={"nominalQuota": "8"})]},
        ],
        flavorFungibility={
            "whenCanBorrow": "TryNextFlavor",
            "whenCanPreempt": "TryNextFlavor",
            "preference": "PreemptionOverBorrowing",
        },
        preemption={
            "withinClusterQueue": "LowerOrNewerEqualPriority",
            "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 100},
        },
        admissionChecksStrategy={"admissionChecks": [{"name": "all"}, {"name": "some", "onFlavors": ["z"]}]},
        fairSharing={"weight": "750m"},
        admissionScope={"admissionMode": "UsageBasedAdmissionFairSharing"},
    )
    assert result == QueueSpec(
        "q",
        cohort="team",
        groups=(ResourceGroup(("memory", "cpu"), ("z", "a")), ResourceGroup(("gpu",), ("g",))),
        quotas={
            FlavorResource("z", "memory"): Quota(MI),
            FlavorResource("z", "cpu"): Quota(1500, 500),
            FlavorResource("a", "memory"): Quota(0, None, 0),
            FlavorResource("a", "cpu"): Quota(2000),
            FlavorResource("g", "gpu"): Quota(8),
        },
        strict=True,
        fungibility=Fungibility(True, True, "PreemptionOverBorrowing"),
        preemption=Preemption("LowerOrNewerEqualPriority", "Any", True, 100),
        weight=Fraction(3, 4),
        checks={"all": frozenset(), "some": frozenset({"z"})},
        stop="HoldAndDrain",
        by_usage=True,
    )


@pytest.mark.parametrize(
    ("selector", "allowed"),
    [
        pytest.param({}, False, id="pitfall 43: none is nobody"),
        pytest.param({"namespaceSelector": {}}, True, id="pitfall 43: an empty one is everybody"),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, False),
    ],
)
def test_whose_namespaces_may_use_it(selector: dict[str, Any], allowed: bool) -> None:
    namespaces = cluster_queue(**selector).namespaces
    assert (namespaces is not None and namespaces.matches({"team": "a"})) is allowed


def test_may_stop_search() -> None:
    fungibility = cluster_queue(flavorFungibility={"whenCanPreempt": "MayStopSearch"}).fungibility
    assert fungibility == Fungibility(False, False, "BorrowingOverPreemption")


@pytest.mark.parametrize(
    ("migration", "expected"),
    [
        ({"mode": "TryPreferredFlavors"}, Migration()),
        ({"mode": "RetainFirstAdmission"}, Migration(retains=True)),
        (
            {"mode": "TryPreferredFlavors", "constraints": {"lastAcceptableFlavorName": "f"}},
            Migration(retains=False, last="f"),
        ),
    ],
)
def test_whether_a_workload_moves_to_a_better_flavor(migration: dict[str, Any], expected: Migration) -> None:
    assert cluster_queue().migration is None
    assert cluster_queue(concurrentAdmissionPolicy={"migration": migration}).migration == expected


def test_cohort() -> None:
    groups = [{"coveredResources": ["gpu"], "flavors": [flavors("g", gpu={"nominalQuota": "8", "lendingLimit": 9})]}]
    spec = {"parentName": "top", "resourceGroups": groups, "fairSharing": {"weight": 0}}
    result = cohort_spec(msgspec.convert({"metadata": {"name": "team"}, "spec": spec}, kueue.Cohort))
    assert result == CohortSpec("team", "top", {FlavorResource("g", "gpu"): Quota(8, None, 9)}, Fraction(0))


def test_flavor() -> None:
    spec = {
        "nodeLabels": {"a": "b"},
        "nodeTaints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "topologyName": "racks",
    }
    result = flavor_spec(msgspec.convert({"metadata": {"name": "f"}, "spec": spec}, kueue.ResourceFlavor))
    taint, toleration = Taint(key="k", value="v", effect="NoSchedule"), Toleration(key="k", operator="Exists")
    assert result == FlavorSpec("f", {"a": "b"}, (taint,), (toleration,), "racks")


def test_levels_are_those_of_the_topology_from_the_widest() -> None:
    spec = {"levels": [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]}
    assert levels_of(msgspec.convert({"metadata": {"name": "t"}, "spec": spec}, kueue.Topology)) == ("block", "rack")
    assert levels_of(None) == ()


# --- Workloads.


def made(
    *podsets: dict[str, Any],
    conditions: list[dict[str, Any]] | None = None,
    annotations: dict[str, str] | None = None,
    priority: int | None = None,
    **status: Any,
) -> kueue.Workload:
    metadata = {
        "name": "w",
        "namespace": "ns",
        "uid": "u",
        "creationTimestamp": CREATED,
        "annotations": annotations or {},
    }
    spec = {"queueName": "lq", "podSets": podsets, "priority": priority}
    status["conditions"] = conditions or []
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, kueue.Workload)


def pods(name: str = "main", count: int = 1, spec: dict[str, Any] | None = None, **requests: Any) -> dict[str, Any]:
    containers = [{"name": "c", "resources": {"requests": requests}}]
    return {"name": name, "count": count, "template": {"spec": {"containers": containers, **(spec or {})}}}


def condition(type: str, reason: str = "Why", status: str = "True") -> dict[str, Any]:
    return {"type": type, "status": status, "reason": reason, "message": "", "lastTransitionTime": LATER}


def admitted(*podsets: dict[str, Any], queue: str = "theirs") -> dict[str, Any]:
    return {
        "conditions": [condition("QuotaReserved")],
        "admission": {"clusterQueue": queue, "podSetAssignments": podsets},
    }


def test_a_workload_that_waits() -> None:
    affinity = {"key": "zone", "operator": "In", "values": ["a"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [affinity]}]}
    spec = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
    }
    podset = pods(count=5, spec=spec, cpu="10m", memory="512Ki") | {
        "minCount": 3,
        "topologyRequest": {"podSetGroupName": "ranks"},
    }
    result = convert_workload(made(podset, priority=7), "q")
    assert (result.key, result.uid, result.queue, result.local_queue, result.namespace) == (
        "ns/w",
        "u",
        "q",
        "ns/lq",
        "ns",
    )
    assert (result.priority, result.created, result.queued) == (7, CREATED, CREATED)
    assert (result.usage, result.reserved, result.evicted, result.ready) == (None, None, False, False)
    term = NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key="zone", operator="In", values=("a",)),))
    assert result.podsets == (
        PodSet(
            name="main",
            count=5,
            requests={"cpu": 10, "memory": 512 * 1024},
            least=3,
            selector={"disk": "ssd"},
            terms=(term,),
            tolerations=(Toleration(key="k", operator="Exists"),),
            together="ranks",
        ),
    )


@pytest.mark.parametrize(("reclaimable", "count"), [(2, 3), (5, 0), (7, 0)])
def test_pods_given_back_do_not_wait_for_quota(reclaimable: int, count: int) -> None:
    result = convert_workload(
        made(pods(count=5, cpu="1"), reclaimablePods=[{"name": "main", "count": reclaimable}]), "q"
    )
    assert [podset.count for podset in result.podsets] == [count]


def test_gates_turn_off_smaller_sizes_and_pods_given_back() -> None:
    settings = ConversionSettings(partial=False, reclaims=False)
    one = made(pods(count=5, cpu="1") | {"minCount": 3}, reclaimablePods=[{"name": "main", "count": 2}])
    assert [(podset.count, podset.least) for podset in convert_workload(one, "q").podsets] == [(3, 3)]
    assert [(podset.count, podset.least) for podset in convert_workload(one, "q", settings).podsets] == [(5, None)]


def test_a_workload_that_holds_quota() -> None:
    driver = {"name": "driver", "flavors": {"cpu": "big"}, "resourceUsage": {"cpu": "1", "memory": "9"}, "count": 1}
    workers = {
        "name": "workers",
        "flavors": {"cpu": "big", "gpu": "a100"},
        "resourceUsage": {"cpu": "1500m", "gpu": "3"},
        "count": 3,
    }
    result = convert_workload(
        made(pods("driver", cpu="1"), pods("workers", 3, cpu="500m", gpu=1), **admitted(driver, workers)), "q"
    )
    assert result.usage == {FlavorResource("big", "cpu"): 2500, FlavorResource("a100", "gpu"): 3}
    assert (result.queue, result.reserved) == ("theirs", LATER)


@pytest.mark.parametrize(
    ("admitted_with", "reclaimable", "needed"),
    [
        pytest.param(10, 0, 10, id="all"),
        pytest.param(10, 4, 6, id="some given back"),
        pytest.param(5, 0, 5, id="pitfall 29: in part"),
        pytest.param(5, 4, 5, id="pitfall 29: those left out are given back first"),
        pytest.param(5, 7, 3, id="pitfall 29: fewer left than were admitted"),
        pytest.param(5, 20, 0, id="more given back than there are"),
        pytest.param(None, 4, 6, id="the count of the podset where none was noted"),
    ],
)
def test_what_is_held_shrinks_with_the_pods(admitted_with: int | None, reclaimable: int, needed: int) -> None:
    count = admitted_with or 10
    assignment = {"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": str(count)}, "count": admitted_with}
    given_back = [{"name": "main", "count": reclaimable}]
    result = convert_workload(made(pods(count=10, cpu="1"), **admitted(assignment), reclaimablePods=given_back), "q")
    assert result.usage == {FlavorResource("f", "cpu"): needed * 1000}
    assert [podset.count for podset in result.podsets] == [needed]


def test_an_assignment_of_a_podset_that_is_not_there_still_counts() -> None:
    stray = {"name": "stray", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "3"}, "count": 3}
    result = convert_workload(made(pods(cpu="1"), **admitted(stray)), "q")
    assert result.usage == {FlavorResource("f", "cpu"): 3000}


def test_the_condition_without_an_admission_holds_nothing() -> None:
    result = convert_workload(made(pods(cpu="1"), conditions=[condition("QuotaReserved"), condition("Admitted")]), "q")
    assert (result.usage, result.reserved, result.admitted, result.queue) == (None, None, False, "q")


def test_an_admission_without_the_condition_holds_nothing() -> None:
    status = admitted({"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "3"}, "count": 1})
    result = convert_workload(
        made(pods(cpu="1"), **(status | {"conditions": [condition("QuotaReserved", status="False")]})), "q"
    )
    assert (result.usage, result.reserved, result.queue) == (None, None, "q")


@pytest.mark.parametrize(
    ("conditions", "by_eviction", "by_creation"),
    [
        ([], CREATED, CREATED),
        ([condition("Evicted", "Preempted")], CREATED, CREATED),
        ([condition("Evicted", "PodsReadyTimeout")], LATER, CREATED),
        ([condition("Evicted", "PodsReadyTimeout", "False")], CREATED, CREATED),
        pytest.param([condition("Evicted", "AdmissionCheck")], LATER, LATER, id="pitfall 9: whatever is configured"),
    ],
)
def test_since_when_it_queues(conditions: list[dict[str, Any]], by_eviction: datetime, by_creation: datetime) -> None:
    obj = made(pods(), conditions=conditions)
    assert convert_workload(obj, "q", ConversionSettings(by_eviction=True)).queued == by_eviction
    assert convert_workload(obj, "q").queued == by_eviction, "unless something else is configured"
    assert convert_workload(obj, "q", ConversionSettings(by_eviction=False)).queued == by_creation


@pytest.mark.parametrize(
    ("reason", "status", "preempting"),
    [
        ("WaitingForPreemptedWorkloads", "False", True),
        ("WaitingForQuota", "False", False),
        ("QuotaReserved", "True", False),
    ],
)
def test_who_waits_for_its_victims_is_told_by_the_condition(reason: str, status: str, preempting: bool) -> None:
    result = convert_workload(made(pods(cpu="1"), conditions=[condition("QuotaReserved", reason, status)]), "q")
    assert result.preempting == preempting


def test_evicted_and_ready() -> None:
    result = convert_workload(made(pods(), conditions=[condition("Evicted"), condition("PodsReady")]), "q")
    assert (result.evicted, result.ready) == (True, True)


@pytest.mark.parametrize(
    ("boost", "priority"), [("5", 15), ("-20", -10), ("", 10), ("much", 10), ("99999999999", 10), ("9" * 5000, 10)]
)
def test_priority_boost(boost: str, priority: int) -> None:
    obj = made(pods(), priority=10, annotations={"kueue.x-k8s.io/priority-boost": boost})
    assert convert_workload(obj, "q", ConversionSettings(boost=True)).priority == priority
    assert convert_workload(obj, "q").priority == 10


def test_what_pods_count_as_is_configured() -> None:
    rules = ResourceRules.of(msgspec.convert({"excludeResourcePrefixes": ["example.com/"]}, Resources))
    requests: dict[str, Any] = {"cpu": "1", "example.com/nic": 2}
    obj = made(pods(**requests))
    assert convert_workload(obj, "q", ConversionSettings(rules)).podsets[0].requests == {"cpu": 1000}


def test_a_quantity_that_is_none_is_an_error() -> None:
    with pytest.raises(QuantityError):
        convert_workload(made(pods(cpu="a lot")), "q")


@pytest.mark.parametrize(
    ("written", "created"),
    [
        ("2026-01-01T00:00:00.250000+00:00", "2026-01-01T00:00:00.250000+00:00"),
        ("2025-12-31T23:59:59.900000+00:00", "2025-12-31T23:59:59.900000+00:00"),
        ("2025-01-01T00:00:00+00:00", "2026-01-01T00:00:00+00:00"),  # nobody gets ahead by saying so
        ("2026-01-01T00:00:00.250000", "2026-01-01T00:00:00+00:00"),
        ("soon", "2026-01-01T00:00:00+00:00"),
    ],
)
def test_the_order_of_those_of_one_second_is_that_of_their_making(written: str, created: str) -> None:
    stamp = datetime(2026, 1, 1, tzinfo=UTC)
    meta = ObjectMeta(name="w", namespace="ns", creation_timestamp=stamp, annotations={CREATED_ANNOTATION: written})
    assert convert_workload(kueue.Workload(metadata=meta), "q").queued == datetime.fromisoformat(created)
