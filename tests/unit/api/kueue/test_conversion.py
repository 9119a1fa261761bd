"""v1beta1 to v1beta2 and back: what is said, what is lost, and that the result is always a document of its version."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.kinds import Kind
from muster.api.kueue import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    COHORT,
    KUEUE_KINDS,
    LOCAL_QUEUE,
    MULTI_KUEUE_CLUSTER,
    MULTI_KUEUE_CONFIG,
    RESOURCE_FLAVOR,
    WORKLOAD,
)
from muster.api.kueue.conversion import to_v1beta1, to_v1beta2
from muster.api.kueue.conversion.topology import assignment_of_domains, domains_of_assignment
from muster.api.kueue.v1beta1 import V1BETA1_KINDS
from muster.api.schema import make_structural_schema
from muster.api.status import REQUIRED
from muster.cluster.apiserver.schema import compile_custom

Json = dict[str, Any]

WPC = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "low"}
PC = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "low"}
SHARE = {"weightedShare": 5, "admissionFairSharingStatus": {"consumedResources": {"cpu": "1"}, "lastUpdate": "x"}}
ASSIGNED = {"admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "main"}]}}
RULES = [{"name": "a"}, {"name": "b", "onFlavors": ["f"]}]

# kind, part, v1beta1, v1beta2: the same in both directions.
BOTH: list[tuple[Kind[Any], str, Json, Json]] = [
    (CLUSTER_QUEUE, "spec", {}, {}),
    (CLUSTER_QUEUE, "spec", {"cohort": "c"}, {"cohortName": "c"}),
    (
        CLUSTER_QUEUE,
        "spec",
        {"admissionChecksStrategy": {"admissionChecks": RULES}},
        {"admissionChecksStrategy": {"admissionChecks": RULES}},
    ),
    (
        CLUSTER_QUEUE,
        "spec",
        {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "MayStopSearch"}},
        {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "MayStopSearch"}},
    ),
    (CLUSTER_QUEUE, "status", {"pendingWorkloads": 0}, {"pendingWorkloads": 0}),
    (LOCAL_QUEUE, "status", {"flavorUsage": [{"name": "f"}]}, {"flavorsUsage": [{"name": "f"}]}),
    (LOCAL_QUEUE, "status", {"fairSharing": SHARE}, {"fairSharing": SHARE}),
    (WORKLOAD, "spec", {"priority": 1}, {"priority": 1}),
    (
        WORKLOAD,
        "spec",
        {"priorityClassName": "low", "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass"},
        {"priorityClassRef": WPC},
    ),
    (
        WORKLOAD,
        "spec",
        {"priorityClassName": "low", "priorityClassSource": "scheduling.k8s.io/priorityclass"},
        {"priorityClassRef": PC},
    ),
    (
        WORKLOAD,
        "status",
        {"accumulatedPastExexcutionTimeSeconds": 0},
        {"accumulatedPastExecutionTimeSeconds": 0},
    ),
    (WORKLOAD, "status", ASSIGNED, ASSIGNED),
    (
        MULTI_KUEUE_CLUSTER,
        "spec",
        {"kubeConfig": {"location": "l", "locationType": "Path"}},
        {"clusterSource": {"kubeConfig": {"location": "l", "locationType": "Path"}}},
    ),
    (
        MULTI_KUEUE_CLUSTER,
        "spec",
        {"kubeConfig": {"location": "", "locationType": "Secret"}, "clusterProfileRef": {"name": "p"}},
        {"clusterSource": {"clusterProfileRef": {"name": "p"}}},
    ),
    (MULTI_KUEUE_CONFIG, "spec", {"clusters": ["a"]}, {"clusters": ["a"]}),
    (RESOURCE_FLAVOR, "spec", {"nodeLabels": {"a": "b"}}, {"nodeLabels": {"a": "b"}}),
]
UP: list[tuple[Kind[Any], str, Json, Json]] = [
    (
        CLUSTER_QUEUE,
        "spec",
        {"admissionChecks": ["a", "b"]},
        {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b"}]}},
    ),
    (CLUSTER_QUEUE, "spec", {"admissionChecks": []}, {}),
    (CLUSTER_QUEUE, "spec", {"admissionChecksStrategy": {"admissionChecks": []}}, {}),
    (
        CLUSTER_QUEUE,
        "spec",
        {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}},
        {"flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}},
    ),
    (CLUSTER_QUEUE, "status", {"pendingWorkloadsStatus": {"lastChangeTime": "x"}}, {}),
    (CLUSTER_QUEUE, "status", {"fairSharing": SHARE}, {"fairSharing": {"weightedShare": 5}}),
    (COHORT, "status", {"fairSharing": SHARE}, {"fairSharing": {"weightedShare": 5}}),
    (LOCAL_QUEUE, "status", {"flavors": [{"name": "f"}]}, {}),
    (WORKLOAD, "spec", {"priorityClassName": "low", "priorityClassSource": ""}, {}),
    (ADMISSION_CHECK, "spec", {"controllerName": "c", "retryDelayMinutes": 15}, {"controllerName": "c"}),
    (MULTI_KUEUE_CLUSTER, "spec", {"kubeConfig": {"location": ""}}, {"clusterSource": {}}),
]
DOWN: list[tuple[Kind[Any], str, Json, Json]] = [
    (CLUSTER_QUEUE, "spec", {}, {"concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors"}}}),
    (WORKLOAD, "spec", {}, {"preemptionGates": [{"name": "g"}]}),
    (
        WORKLOAD,
        "spec",
        {"podSets": [{"name": "a"}, {"topologyRequest": {"required": "rack"}}]},
        {
            "podSets": [
                {"name": "a"},
                {"topologyRequest": {"required": "rack", "podsetSliceRequiredTopologyConstraints": []}},
            ]
        },
    ),
    (WORKLOAD, "status", {}, {"preemptionGates": [{"name": "g"}]}),
    (MULTI_KUEUE_CONFIG, "spec", {"clusters": ["a"]}, {"clusters": ["a"], "quotaManagement": "Manual"}),
    (
        MULTI_KUEUE_CLUSTER,
        "spec",
        {"kubeConfig": {"location": "", "locationType": "Secret"}},
        {"clusterSource": {}},
    ),
]


def whole(kind: Kind[Any], version: str, **parts: Any) -> Json:
    return {"apiVersion": f"{kind.group}/{version}", "kind": kind.kind, "metadata": {"name": "x"}, **parts}


@pytest.mark.parametrize(("kind", "part", "old", "new"), BOTH + UP)
def test_up(kind: Any, part: str, old: Json, new: Json) -> None:
    given_ = whole(kind, "v1beta1", **{part: old})
    before = copy.deepcopy(given_)
    assert to_v1beta2(kind.resource, given_) == whole(kind, "v1beta2", **{part: new})
    assert given_ == before


@pytest.mark.parametrize(("kind", "part", "old", "new"), BOTH + DOWN)
def test_down(kind: Any, part: str, old: Json, new: Json) -> None:
    given_ = whole(kind, "v1beta2", **{part: new})
    before = copy.deepcopy(given_)
    assert to_v1beta1(kind.resource, given_) == whole(kind, "v1beta1", **{part: old})
    assert given_ == before


LEVELS = ["block", "host"]
# domains as (values, count), values of each level, counts
TOPOLOGIES: list[tuple[list[tuple[list[str], int]], list[Json], Json]] = [
    ([(["b1", "h1"], 2)], [{"universal": "b1"}, {"universal": "h1"}], {"universal": 2}),
    (
        [(["b1", "node-1.x"], 2), (["b1", "node-27.x"], 2)],
        [{"universal": "b1"}, {"individual": {"prefix": "node-", "suffix": ".x", "roots": ["1", "27"]}}],
        {"universal": 2},
    ),
    (
        [(["b1", "a"], 1), (["b2", "c"], 3)],
        [{"individual": {"prefix": "b", "roots": ["1", "2"]}}, {"individual": {"roots": ["a", "c"]}}],
        {"individual": [1, 3]},
    ),
    # One value is the beginning and the end of the other.
    (
        [(["b", "aa"], 1), (["b", "aaa"], 1)],
        [{"universal": "b"}, {"individual": {"prefix": "aa", "roots": ["", "a"]}}],
        {"universal": 1},
    ),
]


@pytest.mark.parametrize(("domains", "values", "counts"), TOPOLOGIES)
def test_topology(domains: Any, values: Any, counts: Any) -> None:
    by_domain = {"levels": LEVELS, "domains": [{"values": each, "count": count} for each, count in domains]}
    part = {"domainCount": len(domains), "valuesPerLevel": values, "podCounts": counts}
    by_slice = {"levels": LEVELS, "slices": [part]}
    assert assignment_of_domains(by_domain) == by_slice
    assert domains_of_assignment(by_slice) == by_domain


def test_no_domains_are_no_slices() -> None:
    assert assignment_of_domains({"levels": LEVELS, "domains": []}) == {"levels": LEVELS, "slices": []}
    assert domains_of_assignment({"levels": LEVELS, "slices": []}) == {"levels": LEVELS, "domains": []}


def test_many_domains_are_several_slices() -> None:
    domains = [{"values": [str(number)], "count": 1} for number in range(100_001)]
    found = assignment_of_domains({"levels": ["host"], "domains": domains})
    assert [part["domainCount"] for part in found["slices"]] == [100_000, 1]
    assert domains_of_assignment(found)["domains"] == domains


def test_a_slice_that_claims_more_than_it_has_costs_nothing() -> None:
    part = {"domainCount": 2**31 - 1, "valuesPerLevel": [{"universal": "a"}], "podCounts": {"universal": 1}}
    found = domains_of_assignment({"levels": ["host"], "slices": [part]})
    assert found["domains"] == [{"values": ["a"], "count": 2**31 - 1}]
    part["podCounts"] = {"individual": [1, 2]}
    found = domains_of_assignment({"levels": ["host"], "slices": [part]})
    assert found["domains"] == [{"values": ["a"], "count": 1}, {"values": ["a"], "count": 2}]


OLD = {resource: compile_custom(make_structural_schema(kind), fill=False) for resource, kind in V1BETA1_KINDS.items()}
NEW = {kind.resource: compile_custom(make_structural_schema(kind), fill=False) for kind in KUEUE_KINDS}


# What the other version cannot say, or says by other words, besides the version itself.
def comparable(document: Json) -> Json:
    result = copy.deepcopy(document)
    spec, status = result.get("spec", {}), result.get("status", {})
    for part, lost in (
        (spec, ("concurrentAdmissionPolicy", "preemptionGates", "quotaManagement")),
        (status, ("preemptionGates",)),
    ):
        for name in lost:
            part.pop(name, None)
    for pod_set in spec.get("podSets", ()):
        pod_set.get("topologyRequest", {}).pop("podsetSliceRequiredTopologyConstraints", None)
    # A cluster's kubeconfig may be there without a location in v1beta1 only.
    if spec.get("clusterSource") == {}:
        del result["spec"]["clusterSource"]
    return result


@pytest.mark.parametrize("kind", KUEUE_KINDS, ids=lambda kind: kind.kind)
@given(data=st.data())
def test_what_is_stored_can_be_shown_and_written_back(kind: Any, documents_of: Any, data: st.DataObject) -> None:
    new = data.draw(documents_of(kind))
    old = to_v1beta1(kind.resource, new)
    checked = OLD[kind.resource](old)
    assert checked.unknown == ()
    # v1beta1 asks for some members of Workloads that v1beta2 lets one leave out.
    assert {error.type for error in checked.errors} <= {REQUIRED}
    assert comparable(to_v1beta2(kind.resource, old)) == comparable(new)


@pytest.mark.parametrize("kind", KUEUE_KINDS, ids=lambda kind: kind.kind)
@given(data=st.data())
def test_what_is_written_can_be_stored(kind: Any, documents_of: Any, data: st.DataObject) -> None:
    old = data.draw(documents_of(V1BETA1_KINDS[kind.resource]))
    new = to_v1beta2(kind.resource, old)
    checked = NEW[kind.resource](new)
    assert (checked.unknown, checked.errors) == ((), ())
    again = to_v1beta2(kind.resource, to_v1beta1(kind.resource, new))
    assert again == new
