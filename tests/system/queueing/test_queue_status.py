"""How queues, Cohorts and flavors stand, as their status says it, and when they may go."""

from typing import Any

import msgspec
from tests.system.plane import World, under, virtual
from tests.system.queueing.queueing_world import cohort, finish, flavor, is_, local_queue, queue, why, workload

from muster.api.conditions import find
from muster.api.core import EVENT
from muster.api.kinds import Kind
from muster.api.kueue import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    COHORT,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    TOPOLOGY,
    WORKLOAD,
    AdmissionCheck,
)
from muster.runtime.objects import meta_of


async def status_of(world: World, kind: Kind[Any], name: str, namespace: str = "") -> Any:
    return (await world.client.get(kind, name, namespace)).status


async def active(world: World, kind: Kind[Any], name: str, namespace: str = "") -> tuple[str, str, str]:
    condition = find((await status_of(world, kind, name, namespace)).conditions, "Active")
    assert condition is not None
    return condition.status, condition.reason, condition.message


def counts(status: Any) -> tuple[int | None, int | None, int | None]:
    return status.pending_workloads, status.reserving_workloads, status.admitted_workloads


def amounts(flavors: Any) -> Any:
    return {one.name: {each.name: each.total for each in one.resources} for one in flavors}


async def exists(world: World, kind: Kind[Any], name: str) -> bool:
    return name in [meta_of(one).name for one in (await world.client.list(kind)).items]


@virtual
async def test_counts_and_usage_follow_workloads(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=4)
    await local_queue(world, "other", "team")
    for number in range(5):
        await workload(world, f"w{number}", "team", cpu=1)
    await workload(world, "late", "other", cpu=1)
    await world.settle()
    status = await status_of(world, CLUSTER_QUEUE, "team")
    assert counts(status) == (2, 4, 4)
    assert amounts(status.flavors_usage) == amounts(status.flavors_reservation) == {"default": {"cpu": "4"}}
    assert counts(await status_of(world, LOCAL_QUEUE, "team", "default")) == (1, 4, 4)
    other = await status_of(world, LOCAL_QUEUE, "other", "default")
    assert counts(other) == (1, 0, 0)
    assert amounts(other.flavors_usage) == {"default": {"cpu": "0"}}
    for name in ("w0", "w1", "w2"):
        await finish(world, name)
    await world.settle()
    status = await status_of(world, CLUSTER_QUEUE, "team")
    assert counts(status) == (0, 3, 3)
    assert amounts(status.flavors_usage) == {"default": {"cpu": "3"}}
    assert counts(await status_of(world, LOCAL_QUEUE, "other", "default")) == (0, 1, 1)


@virtual
async def test_what_waits_for_checks_is_reserved_and_not_used(world: World) -> None:
    await flavor(world)
    checks = {"admissionChecks": [{"name": "check"}]}
    await queue(world, "team", cpu=4, admissionChecksStrategy=checks)
    await world.settle()
    inactive = "Can't admit new workloads: references missing AdmissionCheck(s): check."
    assert await active(world, CLUSTER_QUEUE, "team") == ("False", "AdmissionCheckNotFound", inactive)
    document = {"metadata": {"name": "check"}, "spec": {"controllerName": "example.com/c"}}
    await world.client.create(ADMISSION_CHECK, msgspec.convert(document, AdmissionCheck))
    now = world.clock.now().isoformat()
    condition = {"type": "Active", "status": "True", "reason": "R", "message": "", "lastTransitionTime": now}
    patch = {"status": {"conditions": [condition]}}
    await world.client.patch(ADMISSION_CHECK, "check", patch, subresource="status")
    await workload(world, "w", "team", cpu=3)
    await world.settle()
    status = await status_of(world, CLUSTER_QUEUE, "team")
    assert counts(status) == (0, 1, 0)
    assert amounts(status.flavors_reservation) == {"default": {"cpu": "3"}}
    assert amounts(status.flavors_usage) == {"default": {"cpu": "0"}}


@virtual
async def test_everything_in_a_moment_is_one_write_and_idle_queues_write_nothing(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=100)
    await world.settle()
    seen: list[Any] = []
    world.plane.manager.informer(CLUSTER_QUEUE).on_change(lambda _old, new: seen.append(new))
    seen.clear()
    for number in range(50):
        await workload(world, f"w{number}", "team", cpu=1)
    await world.settle(60)
    assert 1 <= len(seen) <= 2
    assert counts(await status_of(world, CLUSTER_QUEUE, "team")) == (0, 50, 50)


@virtual
async def test_activity_is_told_to_both_kinds_of_queues(world: World) -> None:
    await local_queue(world, "team", "team")
    await world.settle()
    message = "Can't submit new workloads to clusterQueue"
    assert await active(world, LOCAL_QUEUE, "team", "default") == ("False", "ClusterQueueDoesNotExist", message)
    await queue(world, "team", cpu=4, local=False)
    await world.settle()
    missing = "Can't admit new workloads: references missing ResourceFlavor(s): default."
    assert await active(world, CLUSTER_QUEUE, "team") == ("False", "FlavorNotFound", missing)
    assert await active(world, LOCAL_QUEUE, "team", "default") == ("False", "ClusterQueueIsInactive", message)
    await flavor(world)
    await world.settle()
    assert await active(world, CLUSTER_QUEUE, "team") == ("True", "Ready", "Can admit new workloads")
    ready = ("True", "Ready", "Can submit new workloads to localQueue")
    assert await active(world, LOCAL_QUEUE, "team", "default") == ready
    await world.client.patch(CLUSTER_QUEUE, "team", {"spec": {"stopPolicy": "Hold"}})
    await world.settle()
    assert await active(world, CLUSTER_QUEUE, "team") == (
        "False",
        "Stopped",
        "Can't admit new workloads: is stopped.",
    )
    await world.client.patch(CLUSTER_QUEUE, "team", {"spec": {"stopPolicy": "None"}})
    await world.client.patch(LOCAL_QUEUE, "team", {"spec": {"stopPolicy": "Hold"}}, "default")
    await world.settle()
    assert await active(world, LOCAL_QUEUE, "team", "default") == ("False", "Stopped", "LocalQueue is stopped")
    events = (await world.client.list(EVENT, "default", fields="involvedObject.kind=ClusterQueue")).items
    assert {event.reason for event in events} == {"FlavorNotFound", "Ready", "Stopped"}


@virtual
async def test_a_cluster_queue_stays_until_nobody_holds_quota_of_it(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=4)
    await workload(world, "w", "team", cpu=1)
    await world.settle()
    await world.client.delete(CLUSTER_QUEUE, "team")
    await world.client.delete(RESOURCE_FLAVOR, "default")
    await world.client.delete(LOCAL_QUEUE, "team", "default")
    await world.settle()
    assert await active(world, CLUSTER_QUEUE, "team") == (
        "False",
        "Terminating",
        "Can't admit new workloads; clusterQueue is terminating",
    )
    assert await exists(world, RESOURCE_FLAVOR, "default")
    await finish(world, "w")
    await world.settle()
    assert not await exists(world, CLUSTER_QUEUE, "team")
    assert not await exists(world, RESOURCE_FLAVOR, "default")


@virtual
async def test_a_workload_that_is_deleted_lets_its_cluster_queue_go(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=4)
    await workload(world, "w", "team", cpu=1)
    await world.settle()
    await world.client.delete(CLUSTER_QUEUE, "team")
    await world.client.delete(LOCAL_QUEUE, "team", "default")
    await world.settle()
    assert await exists(world, CLUSTER_QUEUE, "team")
    await world.client.patch(WORKLOAD, "w", {"metadata": {"finalizers": None}}, "default")
    await world.client.delete(WORKLOAD, "w", "default")
    await world.settle()
    assert not await exists(world, CLUSTER_QUEUE, "team")


@virtual
async def test_flavors_and_topologies_stay_while_they_are_named(world: World) -> None:
    levels = {"metadata": {"name": "racks"}, "spec": {"levels": [{"nodeLabel": "rack"}]}}
    await world.client.create(TOPOLOGY, msgspec.convert(levels, TOPOLOGY.type))
    await flavor(world, nodeLabels={"zone": "a"}, topologyName="racks")
    await queue(world, "team", cpu=4)
    await world.settle()
    for kind, name in ((TOPOLOGY, "racks"), (RESOURCE_FLAVOR, "default"), (CLUSTER_QUEUE, "team")):
        assert "kueue.x-k8s.io/resource-in-use" in meta_of(await world.client.get(kind, name)).finalizers
    await world.client.delete(TOPOLOGY, "racks")
    await world.client.delete(RESOURCE_FLAVOR, "default")
    await world.settle()
    assert await exists(world, RESOURCE_FLAVOR, "default")
    await world.client.delete(CLUSTER_QUEUE, "team")
    await world.settle()
    for kind, name in ((TOPOLOGY, "racks"), (RESOURCE_FLAVOR, "default"), (CLUSTER_QUEUE, "team")):
        assert not await exists(world, kind, name)


@under("fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare, LessThanInitialShare]}")
async def test_shares_are_told_where_sharing_is_fair(world: World) -> None:
    await flavor(world)
    await cohort(world, "top")
    await cohort(world, "left", parentName="top")
    await queue(world, "a", cpu=2, cohortName="left")
    await queue(world, "b", cpu=8, cohortName="top")
    await workload(world, "w", "a", cpu=4)
    await world.settle()
    assert (await status_of(world, CLUSTER_QUEUE, "a")).fair_sharing.weighted_share == 200
    assert (await status_of(world, CLUSTER_QUEUE, "b")).fair_sharing.weighted_share == 0
    assert (await status_of(world, COHORT, "left")).fair_sharing.weighted_share == 200
    assert (await status_of(world, COHORT, "top")).fair_sharing.weighted_share == 0
    await queue(world, "c", cpu=10, cohortName="top")
    await world.settle()
    assert (await status_of(world, CLUSTER_QUEUE, "a")).fair_sharing.weighted_share == 100
    assert (await status_of(world, COHORT, "left")).fair_sharing.weighted_share == 100


@virtual
async def test_fair_sharing_begins_with_the_first_weight(world: World) -> None:
    await flavor(world)
    await cohort(world, "top")
    await queue(world, "lender", cpu=9, cohortName="top")
    for name, count in (("one", 18), ("two", 9)):
        await queue(world, name, cpu=0, cohortName="top")
        for number in range(count):
            await workload(world, f"{name}-{number:02}", name)
            await world.settle(1)
    held = [await status_of(world, CLUSTER_QUEUE, name) for name in ("one", "two")]
    assert [status.reserving_workloads for status in held] == [9, 0]
    for name, weight in (("one", 1), ("two", 2)):
        await world.client.patch(CLUSTER_QUEUE, name, {"spec": {"fairSharing": {"weight": weight}}})
    await world.settle(5)
    for number in range(9):
        await finish(world, f"one-{number:02}")
    await world.settle(5)
    held = [await status_of(world, CLUSTER_QUEUE, name) for name in ("one", "two")]
    assert [status.reserving_workloads for status in held] == [3, 6]
    assert (await status_of(world, COHORT, "top")).fair_sharing.weighted_share == 0


@virtual
async def test_a_weight_lets_a_queue_take_back_what_it_lent(world: World) -> None:
    await flavor(world)
    reclaims: dict[str, Any] = {
        "cohortName": "top",
        "fairSharing": {"weight": 1},
        "preemption": {"reclaimWithinCohort": "Any"},
    }
    await queue(world, "lender", cpu=4, **reclaims)
    await queue(world, "borrower", cpu=2, **reclaims)
    await queue(world, "other", cpu=2, **reclaims)
    for name in "abcdef":
        await workload(world, name, "borrower")
    await workload(world, "own", "other", cpu=2)
    await world.settle(5)
    await workload(world, "more", "other")  # it can only borrow, and nothing is free
    await world.settle(5)
    assert (await why(world, "more"))[0] == "WaitingForPreemptedWorkloads"
    evicted = [name for name in "abcdef" if await is_(world, name, "Evicted")]
    assert len(evicted) == 1  # all were admitted at the same moment, so the UID decides which


@virtual
async def test_shares_are_not_told_where_they_decide_nothing(world: World) -> None:
    await flavor(world)
    await cohort(world, "top")
    await queue(world, "a", cpu=2, cohortName="top")
    await world.settle()
    assert (await status_of(world, CLUSTER_QUEUE, "a")).fair_sharing is None
    assert (await status_of(world, COHORT, "top")).fair_sharing is None
