"""Admission on a control plane in virtual time: workloads in, quota out, and what is written about it."""

from typing import Any

import msgspec
import pytest
from tests.system.plane import World, under, virtual
from tests.system.queueing.queueing_world import (
    admitted,
    cohort,
    finish,
    flavor,
    get,
    give_back,
    is_,
    local_queue,
    queue,
    why,
    workload,
)

from muster.api.core import EVENT
from muster.api.core.quota import LIMIT_RANGE, LimitRange
from muster.api.groups.runtimeclass import RUNTIME_CLASS, RuntimeClass
from muster.api.kueue import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    RESOURCE_FLAVOR,
    WORKLOAD,
    AdmissionCheck,
    ClusterQueue,
    Workload,
)
from muster.api.status import ApiError


@virtual
async def test_what_fits_is_admitted_whole_and_the_rest_says_what_it_lacks(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=4)
    await workload(world, "first", "team", cpu=1, count=3)
    await world.settle()
    await workload(world, "second", "team", cpu=1, count=2)
    await world.settle()
    assert await admitted(world) == ["first"]
    first = await get(world, "first")
    (assignment,) = first.status.admission.pod_set_assignments
    assert (assignment.flavors, assignment.resource_usage, assignment.count) == ({"cpu": "default"}, {"cpu": "3"}, 3)
    assert await why(world, "second") == (
        "WaitingForQuota",
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 1 more needed",
    )
    await finish(world, "first")
    await world.settle()
    assert await admitted(world) == ["second"]


@virtual
async def test_objects_may_come_in_any_order(world: World) -> None:
    await workload(world, "early", "team")
    await local_queue(world, "team", "team")
    await world.settle()
    assert await why(world, "early") == ("Misconfigured", "ClusterQueue team doesn't exist")
    await queue(world, "team", cpu=4, local=False)
    await world.settle()
    assert await why(world, "early") == ("Suspended", "ClusterQueue team is inactive")
    await flavor(world)
    await world.settle()
    assert await admitted(world) == ["early"]


@virtual
async def test_a_workload_of_higher_priority_takes_the_place_of_others_once_they_have_gone(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=2, preemption={"withinClusterQueue": "LowerPriority"})
    await workload(world, "low", "team", cpu=2, priority=1)
    await world.settle()
    await workload(world, "high", "team", cpu=2, priority=2)
    await world.settle()
    assert await is_(world, "low", "Evicted")
    uid = (await get(world, "high")).metadata.uid
    reason, message = await why(world, "low", "Preempted")
    assert reason == "InClusterQueue"
    assert message == (
        f"Preempted to accommodate a workload (UID: {uid}, JobUID: UNKNOWN) due to prioritization in the ClusterQueue; "
        "preemptor path: /team; preemptee path: /team"
    )
    assert await admitted(world) == ["low"], "its quota is its own until it has stopped"
    await give_back(world, "low")
    await world.settle()
    assert await admitted(world) == ["high"]
    await finish(world, "high")
    await world.settle()
    assert await admitted(world) == ["low"]
    assert not await is_(world, "low", "Evicted")


@virtual
async def test_what_a_cohort_lends_is_taken_back(world: World) -> None:
    await flavor(world)
    await cohort(world, "all")
    await queue(world, "a", cpu=2, cohortName="all", preemption={"reclaimWithinCohort": "Any"})
    await queue(world, "b", cpu=2, cohortName="all")
    await workload(world, "borrower", "b", cpu=4)
    await world.settle()
    assert await admitted(world) == ["borrower"]
    await workload(world, "owner", "a", cpu=2)
    await world.settle()
    assert (await why(world, "borrower", "Preempted"))[0] == "InCohortReclamation"
    await give_back(world, "borrower")
    await world.settle()
    assert await admitted(world) == ["owner"]
    assert (await why(world, "borrower"))[0] == "WaitingForQuota"


FAIR = "fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare, LessThanInitialShare]}"


async def pools(world: World, **queues: dict[str, int]) -> None:
    """ClusterQueues of a cohort, with CPUs and GPUs of one flavor; the Cohort has one more GPU."""
    await flavor(world)
    for name, nominal in queues.items():
        resources = [{"name": resource, "nominalQuota": amount} for resource, amount in nominal.items()]
        group = {"coveredResources": list(nominal), "flavors": [{"name": "default", "resources": resources}]}
        spec = {
            "namespaceSelector": {},
            "cohortName": "all",
            "resourceGroups": [group],
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        }
        document = {"metadata": {"name": name}, "spec": spec}
        await world.client.create(CLUSTER_QUEUE, msgspec.convert(document, ClusterQueue))
        await local_queue(world, name, name)
    gpu = {
        "coveredResources": ["gpu"],
        "flavors": [{"name": "default", "resources": [{"name": "gpu", "nominalQuota": 1}]}],
    }
    await cohort(world, "all", resourceGroups=[gpu])


async def evictions(world: World, *names: str) -> list[int]:
    """How often workloads were evicted, as their status counts it."""
    found = [(await get(world, name)).status.scheduling_stats for name in names]
    return [sum(each.count for each in stats.evictions) if stats is not None else 0 for stats in found]


@under(FAIR)
async def test_what_victims_give_back_one_by_one_is_their_preemptors(world: World) -> None:  # kueue 13662, 14682
    await pools(world, one={"cpu": 2, "gpu": 0}, two={"cpu": 0, "gpu": 0})
    for name in ("first", "second"):
        await workload(world, name, "two")
    await world.settle()
    owner = {"name": "c", "image": "none", "resources": {"requests": {"cpu": 2, "gpu": 1}}}
    template = {"spec": {"containers": [owner], "restartPolicy": "Never"}}
    await workload(world, "owner", "one", podSets=[{"name": "main", "count": 1, "template": template}])
    for name in ("first", "second"):
        await world.settle()
        assert await is_(world, name, "Evicted")
        await give_back(world, name)
    await world.settle()
    assert await admitted(world) == ["owner"]
    assert await evictions(world, "first", "second") == [1, 1]


@pytest.mark.parametrize("on", [True, False])
def test_what_is_its_own_is_taken_back_whatever_the_shares_unless_that_is_switched_off(on: bool) -> None:
    @under(f"{FAIR}\nfeatureGates: {{FairSharingPreemptWithinNominal: {str(on).lower()}}}")
    async def scenario(world: World) -> None:
        await pools(world, one={"cpu": 2, "gpu": 0}, two={"cpu": 0, "gpu": 0})
        gpu = {"name": "c", "image": "none", "resources": {"requests": {"gpu": 1}}}
        template = {"spec": {"containers": [gpu], "restartPolicy": "Never"}}
        await workload(world, "guest", "one", podSets=[{"name": "main", "count": 1, "template": template}])
        await workload(world, "borrower", "two", cpu=2)
        await world.settle()
        await workload(world, "owner", "one", cpu=1)
        await world.settle()
        assert await is_(world, "borrower", "Evicted") == on

    scenario()


@under(FAIR)
async def test_no_workload_is_evicted_by_right_of_one_that_is_spared(world: World) -> None:  # kueue 14543
    await pools(world, ann={"cpu": 0}, bob={"cpu": 0}, bank={"cpu": 5})
    await workload(world, "small", "ann", cpu=1, priority=-1)
    await workload(world, "other", "bob", cpu=4)
    await world.settle()
    await workload(world, "big", "ann", cpu=3)
    await world.settle()
    assert await admitted(world) == ["other", "small"]
    assert await evictions(world, "other", "small") == [0, 0]


@virtual
async def test_a_workload_that_changed_between_decision_and_write_is_decided_on_again(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=4)
    await workload(world, "one", "team", cpu=4)
    await world.client.patch(WORKLOAD, "one", {"metadata": {"labels": {"a": "b"}}}, "default")
    await world.settle()
    assert await admitted(world) == ["one"]


@virtual
async def test_quota_of_a_workload_that_is_deleted_is_free(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=1)
    await workload(world, "one", "team")
    await workload(world, "two", "team")
    await world.settle()
    gone = (await admitted(world))[0]
    await world.client.delete(WORKLOAD, gone, "default")
    await world.settle()
    assert len(await admitted(world)) == 1
    assert gone not in await admitted(world)


@virtual
async def test_more_quota_is_used_at_once(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=1)
    for name in "abc":
        await workload(world, name, "team")
    await world.settle()
    assert len(await admitted(world)) == 1
    quota = [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": 3}]}]
    patch = {"spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": quota}]}}
    await world.client.patch(CLUSTER_QUEUE, "team", patch)
    await world.settle()
    assert len(await admitted(world)) == 3


@virtual
async def test_while_nothing_happens_nothing_is_written(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=1)
    for name in "abc":
        await workload(world, name, "team")
    await world.settle(30)
    before = world.plane.store.revision
    await world.settle(1500)
    assert world.plane.store.revision == before


@virtual
async def test_events_tell_of_reservation_admission_and_waiting(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=1)
    await workload(world, "one", "team")
    await world.settle()
    await workload(world, "two", "team")
    await world.settle(30)
    events = (await world.client.list(EVENT, "default")).items
    told = {(event.involved_object.name, event.reason, event.type) for event in events}
    assert {("one", "QuotaReserved", "Normal"), ("one", "Admitted", "Normal"), ("two", "Pending", "Warning")} <= told


@virtual
async def test_requests_above_limits_are_said_to_be_wrong(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=4)
    resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
    podset = {"name": "main", "count": 1, "template": {"spec": {"containers": [{"name": "c", "resources": resources}]}}}
    await workload(world, "odd", "team", podSets=[podset])
    await world.settle()
    reason, message = await why(world, "odd")
    assert reason == "Misconfigured"
    assert "requests must not exceed its limits" in message


@virtual
async def test_a_check_in_use_does_not_go(world: World) -> None:
    check = {"metadata": {"name": "c"}, "spec": {"controllerName": "example.com/c"}}
    await world.client.create(ADMISSION_CHECK, msgspec.convert(check, AdmissionCheck))
    await queue(world, "team", cpu=1, admissionChecksStrategy={"admissionChecks": [{"name": "c"}]})
    await world.settle()
    held = (await world.client.get(ADMISSION_CHECK, "c")).metadata
    assert held.finalizers == ("kueue.x-k8s.io/resource-in-use",)
    await world.client.delete(ADMISSION_CHECK, "c")
    await world.settle()
    assert (await world.client.get(ADMISSION_CHECK, "c")).metadata.deletion_timestamp is not None
    await world.client.patch(CLUSTER_QUEUE, "team", {"spec": {"admissionChecksStrategy": None}})
    await world.settle()
    with pytest.raises(ApiError, match="not found"):
        await world.client.get(ADMISSION_CHECK, "c")


@virtual
async def test_a_flavor_in_use_does_not_go(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=1)
    await world.client.delete(RESOURCE_FLAVOR, "default")
    await world.settle()
    assert (await world.client.get(RESOURCE_FLAVOR, "default")).metadata.deletion_timestamp is not None
    await world.client.delete(CLUSTER_QUEUE, "team")
    await world.settle()
    with pytest.raises(ApiError, match="not found"):
        await world.client.get(RESOURCE_FLAVOR, "default")


@virtual
async def test_defaults_of_the_namespace_and_overhead_of_the_class_count(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=4)
    limit = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "3"}}]}}
    await world.client.create(LIMIT_RANGE, msgspec.convert(limit, LimitRange), "default")
    runtime = {"metadata": {"name": "vm"}, "handler": "vm", "overhead": {"podFixed": {"cpu": "500m"}}}
    await world.client.create(RUNTIME_CLASS, msgspec.convert(runtime, RuntimeClass))
    for name, more in {"first": {}, "second": {"runtimeClassName": "vm"}}.items():
        podset = {"count": 1, "template": {"spec": {"containers": [{"name": "c", "image": "none"}], **more}}}
        document = {"metadata": {"name": name}, "spec": {"queueName": "team", "podSets": [podset]}}
        await world.client.create(WORKLOAD, msgspec.convert(document, Workload), "default")
        await world.settle()
    assert await admitted(world) == ["first"]
    (assignment,) = (await get(world, "first")).status.admission.pod_set_assignments
    assert assignment.resource_usage == {"cpu": "3"}
    (asked,) = (await get(world, "second")).status.resource_requests
    assert asked.resources == {"cpu": "3500m"}
    # Those who wait are read again as the defaults change.
    smaller = {"spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "500m"}}]}}
    await world.client.patch(LIMIT_RANGE, "l", smaller, "default")
    await world.settle()
    assert await admitted(world) == ["first", "second"]
    (assignment,) = (await get(world, "second")).status.admission.pod_set_assignments
    assert assignment.resource_usage == {"cpu": "1"}


@virtual
async def test_what_a_limit_range_forbids_waits_until_it_allows_it(world: World) -> None:
    def limits(most: str) -> dict[str, Any]:
        return {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Pod", "max": {"cpu": most}}]}}

    await flavor(world)
    await queue(world, "team", cpu=4)
    await world.client.create(LIMIT_RANGE, msgspec.convert(limits("1"), LimitRange), "default")
    await workload(world, "large", "team", cpu=2)
    await world.settle()
    reason, message = await why(world, "large")
    assert reason == "Misconfigured"
    assert message == (
        "resources didn't satisfy LimitRange constraints: spec.podSets[0].template.spec: "
        'Invalid value: ["cpu"]: requests must not be above the limitRange max'
    )
    await world.client.patch(LIMIT_RANGE, "l", limits("2"), "default")
    await world.settle()
    assert await admitted(world) == ["large"]


@virtual
async def test_the_victims_of_one_workload_are_one_series_of_events(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=2, preemption={"withinClusterQueue": "LowerPriority"})
    for name in ("a", "b"):
        await workload(world, name, "team", priority=1)
    await world.settle()
    await workload(world, "high", "team", cpu=2, priority=2)
    await world.settle()
    events = (await world.client.list(EVENT, "default")).items
    (told,) = [event for event in events if event.reason == "PreemptedWorkload"]
    assert (told.involved_object.name, told.count) == ("high", 2)
    assert len([event for event in events if event.reason == "Preempted"]) == 2
