"""The life of Workloads through the API, in virtual time: what the controller writes, when, and what it leaves be."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.system.integrations.queued_jobs import Queued, story
from tests.system.plane import World, virtual
from tests.system.queueing.queueing_world import finish, flavor, get, give_back, is_, local_queue, queue, why, workload
from tests.system.queueing.workload_cluster import LifeWorld, life, living

from muster.api.conditions import find
from muster.api.config import Configuration, WaitForPodsReady
from muster.api.config.types import ObjectRetentionPolicies, RequeuingStrategy, WorkloadRetention
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD, Workload
from muster.api.status import ApiError
from muster.api.values.durations import MINUTE, SECOND
from muster.runtime.clock import run_virtual

QUIET = Configuration(wait_for_pods_ready=None)
IN_TIME = Configuration(
    wait_for_pods_ready=WaitForPodsReady(
        timeout=5 * MINUTE,
        recovery_timeout=MINUTE,
        requeuing_strategy=RequeuingStrategy(backoff_limit_count=1, backoff_base_seconds=60),
    )
)
KEP = Configuration(wait_for_pods_ready=WaitForPodsReady(timeout=5 * MINUTE, clock="JobStart", recovery_timeout=None))
KEPT = Configuration(
    wait_for_pods_ready=None,
    object_retention_policies=ObjectRetentionPolicies(workloads=WorkloadRetention(after_finished=60 * SECOND)),
)


async def team(world: World, **spec: Any) -> None:
    await flavor(world)
    await queue(world, "team", 10, **spec)


async def stop(world: World, kind: Any, policy: str) -> None:
    namespace = "default" if kind is LOCAL_QUEUE else ""
    await world.client.patch(kind, "team", {"spec": {"stopPolicy": policy}}, namespace)


# --- All or nothing in time.


@living(IN_TIME)
async def test_a_gang_that_does_not_get_ready_yields_waits_and_is_given_up_in_the_end(world: LifeWorld) -> None:
    await team(world)
    await workload(world, "slow", "team")
    await world.reserve("slow")
    await world.settle()
    assert await is_(world, "slow", "Admitted")
    await world.settle(290)
    assert not await is_(world, "slow", "Evicted")
    await world.settle(10)
    assert await why(world, "slow", "Evicted") == ("PodsReadyTimeout", "Exceeded the PodsReady timeout default/slow")
    evicted = await get(world, "slow")
    assert evicted.status.admission is not None
    state = evicted.status.requeue_state
    since = find(evicted.status.conditions, "Evicted").last_transition_time
    assert since is not None
    assert (state.count, state.requeue_at) == (1, since + timedelta(seconds=60))

    await give_back(world, "slow")
    await world.settle(40)
    assert not await is_(world, "slow", "Requeued")
    await world.settle(20)
    assert await why(world, "slow", "Requeued") == ("BackoffFinished", "The workload backoff was finished")
    assert (await get(world, "slow")).status.requeue_state.requeue_at is None

    await world.reserve("slow")
    await world.settle(310)
    stopped = await get(world, "slow")
    assert not stopped.spec.active
    assert await why(world, "slow", "Evicted") == (
        "DeactivatedDueToRequeuingLimitExceeded",
        "The workload is deactivated due to exceeding the maximum number of re-queuing retries",
    )
    assert find(stopped.status.conditions, "DeactivationTarget") is None
    assert stopped.status.requeue_state is None
    await give_back(world, "slow")
    await world.settle(9999)
    assert await why(world, "slow") == ("Deactivated", "The workload is deactivated")
    assert [reason for reason, _ in await world.told("slow")] == [
        "Admitted",
        "EvictedDueToPodsReadyTimeout",
        "EvictedDueToDeactivatedDueToRequeuingLimitExceeded",
    ]

    await world.activate("slow", active=True)
    await world.settle()
    assert await why(world, "slow", "Requeued") == ("Reactivated", "The workload was reactivated")
    assert (await why(world, "slow"))[0] == "PendingEvaluation"


@living(IN_TIME)
async def test_lost_pods_have_the_time_to_recover(world: LifeWorld) -> None:
    await team(world)
    await workload(world, "gang", "team")
    await world.reserve("gang")
    await world.settle()
    await world.say("gang", "PodsReady", True, "Started")
    await world.settle(9999)
    assert not await is_(world, "gang", "Evicted")
    await world.say("gang", "PodsReady", False, "WaitForRecovery")
    await world.settle(55)
    assert not await is_(world, "gang", "Evicted")
    await world.settle(10)
    (eviction,) = (await get(world, "gang")).status.scheduling_stats.evictions
    assert (eviction.reason, eviction.underlying_cause) == ("PodsReadyTimeout", "WaitForRecovery")


@living(KEP)
async def test_by_the_kep_the_time_counts_from_the_start_of_the_job(world: LifeWorld) -> None:
    await team(world)
    await workload(world, "gang", "team")
    await world.reserve("gang")
    await world.settle(3600)
    assert not await is_(world, "gang", "Evicted")
    annotations = {"muster.dev/job-start": world.clock.now().isoformat()}
    await world.client.patch(WORKLOAD, "gang", {"metadata": {"annotations": annotations}}, "default")
    await world.settle(295)
    assert not await is_(world, "gang", "Evicted")
    await world.settle(10)
    assert await is_(world, "gang", "Evicted")


@pytest.mark.parametrize(
    ("kind", "name"),
    [(WORKLOAD, "job"), (RESOURCE_FLAVOR, "default"), (CLUSTER_QUEUE, "team")],
    ids=["workload", "flavor", "queue"],
)
def test_readiness_may_be_asked_for_where_it_is_needed_at_any_time(kind: Any, name: str) -> None:
    async def scenario() -> None:
        async with life(QUIET) as world:
            await team(world)
            await workload(world, "job", "team")
            await world.reserve("job")
            await world.settle(600)
            said = {"metadata": {"annotations": {"muster.dev/wait-for-pods-ready": "timeout=11m"}}}
            await world.client.patch(kind, name, said, "default" if kind is WORKLOAD else "")
            await world.settle(50)
            assert not await is_(world, "job", "Evicted")
            await world.settle(15)
            assert await is_(world, "job", "Evicted")

    run_virtual(scenario())


# --- Checks.


@living(QUIET)
async def test_checks_stand_between_quota_and_admission(world: LifeWorld) -> None:
    strategy = {"admissionChecks": [{"name": "all"}, {"name": "some", "onFlavors": ["default"]}]}
    flavors = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": 9}]} for name in ("default", "other")]
    await flavor(world)
    await queue(
        world,
        "team",
        9,
        resourceGroups=[{"coveredResources": ["cpu"], "flavors": flavors}],
        admissionChecksStrategy=strategy,
    )
    await workload(world, "job", "team")
    await world.settle()
    assert (await get(world, "job")).status.admission_checks == ()
    await world.say("job", "QuotaReserved", False, "WaitingForQuota")
    await world.settle()
    assert [check.name for check in (await get(world, "job")).status.admission_checks] == ["all"]
    await world.reserve("job")
    await world.settle()
    assert await why(world, "job", "Admitted") == (
        "UnsatisfiedAdmissionChecks",
        "The workload has not all checks ready",
    )
    await world.check("job", "all", "Ready")
    await world.settle()
    assert not await is_(world, "job", "Admitted")
    await world.check("job", "some", "Ready")
    await world.settle()
    assert await is_(world, "job", "Admitted")
    message = "Admitted by ClusterQueue team, wait time since reservation was 10s"
    assert await world.told("job") == [("Admitted", message)]


@living(QUIET)
async def test_a_check_may_send_back_and_may_refuse(world: LifeWorld) -> None:
    await team(world, admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]})
    await workload(world, "job", "team")
    await world.reserve("job")
    await world.settle()
    await world.check("job", "budget", "Retry", requeueAfterSeconds=100)
    await world.settle()
    assert await why(world, "job", "Evicted") == (
        "AdmissionCheck",
        'Evicted due to AdmissionCheck in Retry state: "budget" (by test)',
    )
    (check,) = (await get(world, "job")).status.admission_checks
    assert (check.state, check.retry_count) == ("Pending", 1)
    await give_back(world, "job")
    await world.settle(90)
    assert not await is_(world, "job", "Requeued")
    await world.settle(10)
    assert await is_(world, "job", "Requeued")

    await world.reserve("job")
    await world.settle()
    await world.check("job", "budget", "Rejected")
    await world.settle()
    assert not (await get(world, "job")).spec.active
    assert (await why(world, "job", "Evicted"))[0] == "DeactivatedDueToAdmissionCheck"
    said = 'AdmissionCheck in Rejected state: "budget" (by test)'
    assert (await world.told("job"))[-2:] == [
        ("AdmissionCheckRejected", f"Deactivated due to {said}"),
        ("EvictedDueToDeactivatedDueToAdmissionCheck", f"The workload is deactivated due to {said}"),
    ]


@living(QUIET)
async def test_a_queue_gets_a_check(world: LifeWorld) -> None:
    await team(world)
    await workload(world, "waits", "team")
    await world.say("waits", "QuotaReserved", False, "WaitingForQuota")
    await workload(world, "runs", "team")
    await world.reserve("runs")
    await world.settle()
    checks = {"admissionChecksStrategy": {"admissionChecks": [{"name": "new"}]}}
    await world.client.patch(CLUSTER_QUEUE, "team", {"spec": checks})
    await world.settle()
    for name in ("waits", "runs"):
        assert [check.state for check in (await get(world, name)).status.admission_checks] == ["Pending"]
    assert await is_(world, "runs", "Admitted")


# --- Queues that stop or go.


@pytest.mark.parametrize(
    ("kind", "name"), [(LOCAL_QUEUE, "LocalQueue"), (CLUSTER_QUEUE, "ClusterQueue")], ids=["local", "cluster"]
)
def test_a_queue_drains_and_goes_on(kind: Any, name: str) -> None:
    async def scenario() -> None:
        async with life(QUIET) as world:
            await team(world, admissionChecksStrategy={"admissionChecks": [{"name": "c"}]})
            for job in ("runs", "starts"):
                await workload(world, job, "team")
                await world.reserve(job)
            await world.settle()
            await world.check("runs", "c", "Ready")
            await world.settle()
            await stop(world, kind, "Hold")
            await world.settle()
            assert await why(world, "starts") == ("Suspended", f"{name} team is stopped")
            assert (await get(world, "starts")).status.admission is None
            assert not await is_(world, "runs", "Evicted")
            await stop(world, kind, "HoldAndDrain")
            await world.settle()
            assert await why(world, "runs", "Evicted") == (f"{name}Stopped", f"The {name} is stopped")
            await give_back(world, "runs")
            await world.settle(9999)
            assert not await is_(world, "runs", "Requeued")
            await stop(world, kind, "None")
            await world.settle()
            said = f"The {name} was restarted after being stopped"
            assert await why(world, "runs", "Requeued") == (f"{name}Restarted", said)

    run_virtual(scenario())


@pytest.mark.parametrize("kind", [LOCAL_QUEUE, CLUSTER_QUEUE], ids=["local", "cluster"])
def test_a_queue_that_is_deleted_takes_reservations_with_it_and_lets_run_what_runs(kind: Any) -> None:
    async def scenario() -> None:
        async with life(QUIET) as world:
            await team(world, admissionChecksStrategy={"admissionChecks": [{"name": "c"}]})
            for job in ("runs", "starts"):
                await workload(world, job, "team")
                await world.reserve(job)
            await world.settle()
            await world.check("runs", "c", "Ready")
            await world.settle()
            await world.client.delete(kind, "team", "default" if kind is LOCAL_QUEUE else "")
            await world.settle()
            name = kind.kind
            assert await why(world, "starts") == ("Misconfigured", f"{name} team is terminating or missing")
            assert (await why(world, "starts", "Admitted"))[0] == "NoReservation"
            assert await is_(world, "runs", "Admitted")
            assert not await is_(world, "runs", "Evicted")

    run_virtual(scenario())


# --- Users.


@living(QUIET)
async def test_a_user_deactivates_and_activates(world: LifeWorld) -> None:
    await team(world)
    await workload(world, "job", "team")
    await world.reserve("job")
    await world.settle()
    await world.activate("job", active=False)
    await world.settle()
    assert await why(world, "job", "Evicted") == ("Deactivated", "The workload is deactivated")
    assert await is_(world, "job", "QuotaReserved")
    await give_back(world, "job")
    await world.activate("job", active=True)
    await world.settle()
    assert await why(world, "job", "Requeued") == ("Reactivated", "The workload was reactivated")


@living(QUIET)
async def test_gates_are_lifted(world: LifeWorld) -> None:
    await team(world)
    gate = "kueue.x-k8s.io/admission-gated-by"
    await workload(world, "job", "team", metadata={"annotations": {gate: "example.com/a"}})
    await world.settle()
    assert await why(world, "job") == ("AdmissionGated", "Admission is gated by: example.com/a")
    await world.client.patch(WORKLOAD, "job", {"metadata": {"annotations": {gate: None}}}, "default")
    await world.settle()
    assert await why(world, "job") == ("PendingEvaluation", "AdmissionGatedBy cleared, waiting for quota reservation")
    assert [reason for reason, _ in await world.told("job")] == ["AdmissionGated", "AdmissionGateCleared"]


# --- Ends.


@living(QUIET)
async def test_who_may_run_no_longer_is_deactivated_and_all_times_count(world: LifeWorld) -> None:
    await team(world)
    await workload(world, "job", "team", maximumExecutionTimeSeconds=100)
    await world.reserve("job")
    await world.settle(40)
    await world.say("job", "Evicted", True, "Preempted")
    await give_back(world, "job")
    await world.settle(9999)
    past = (await get(world, "job")).status.accumulated_past_execution_time_seconds
    assert past == 40
    await world.reserve("job")
    await world.settle(55)
    assert (await get(world, "job")).spec.active
    await world.settle(10)
    assert not (await get(world, "job")).spec.active
    assert (await why(world, "job", "Evicted"))[0] == "DeactivatedDueToMaximumExecutionTimeExceeded"
    assert ("MaximumExecutionTimeExceeded", "The maximum execution time (100s) exceeded") in await world.told("job")
    await give_back(world, "job")
    await world.activate("job", active=True)
    await world.settle()
    assert (await get(world, "job")).status.accumulated_past_execution_time_seconds is None


@living(KEPT)
async def test_finished_workloads_are_kept_for_a_while(world: LifeWorld) -> None:
    await team(world)
    await workload(world, "done", "team", metadata={"finalizers": ["kueue.x-k8s.io/resource-in-use"]})
    await workload(world, "waits", "team")
    await finish(world, "done")
    await world.settle(55)
    await get(world, "done")
    await world.settle(10)
    with pytest.raises(ApiError, match="not found"):
        await get(world, "done")
    await get(world, "waits")
    assert await world.told("done") == [("Deleted", "Deleted finished workload due to elapsed retention")]


@living(QUIET)
async def test_an_orphan_ends_and_may_go(world: LifeWorld) -> None:
    await team(world)
    labels = {"kueue.x-k8s.io/job-uid": "gone"}
    await workload(world, "job", "team", metadata={"labels": labels, "finalizers": ["kueue.x-k8s.io/resource-in-use"]})
    await world.settle()
    assert await why(world, "job", "Finished") == ("OwnerNotFound", "The workload's owner no longer exists")
    await world.client.delete(WORKLOAD, "job", "default")
    with pytest.raises(ApiError, match="not found"):
        await get(world, "job")


# --- Work, and the lack of it.


@living(IN_TIME)
async def test_an_idle_world_is_written_nothing(world: LifeWorld) -> None:
    await team(world)
    for name in ("ready", "waits", "off"):
        await workload(world, name, "team")
    await world.reserve("ready")
    await world.settle()
    await world.say("ready", "PodsReady", True, "Started")
    await world.activate("off", active=False)
    await world.settle(30)
    writes, looks = len(world.wire.writes), world.looks
    await world.settle(24 * 3600)
    assert (len(world.wire.writes), world.looks) == (writes, looks)


@living(QUIET)
async def test_only_those_are_looked_at_whom_a_change_concerns(world: LifeWorld) -> None:
    await team(world)
    await local_queue(world, "side", "team")
    for number in range(30):
        await workload(world, f"w{number}", "team" if number < 20 else "side")
    await world.settle()

    async def looks(kind: Any, name: str, patch: dict[str, Any], namespace: str = "", **how: Any) -> int:
        before = world.looks
        await world.client.patch(kind, name, patch, namespace, **how)
        await world.settle()
        return world.looks - before

    touched = {"metadata": {"labels": {"a": "b"}}}
    assert await looks(WORKLOAD, "w7", touched, "default") == 1
    assert await looks(CLUSTER_QUEUE, "team", touched) == 0
    assert await looks(CLUSTER_QUEUE, "team", {"status": {"pendingWorkloads": 5}}, subresource="status") == 0
    assert await looks(LOCAL_QUEUE, "side", {"status": {"pendingWorkloads": 5}}, "default", subresource="status") == 0
    assert await looks(RESOURCE_FLAVOR, "default", touched) == 0
    assert await looks(LOCAL_QUEUE, "side", {"spec": {"stopPolicy": "Hold"}}, "default") == 10
    assert await looks(CLUSTER_QUEUE, "team", {"spec": {"stopPolicy": "Hold"}}) == 30
    assert world.wire.writes == []


@living(IN_TIME)
async def test_each_step_is_one_write(world: LifeWorld) -> None:
    await team(world)
    await workload(world, "job", "team")
    await world.reserve("job")
    await world.settle(310)
    assert await is_(world, "job", "Evicted")
    assert len(world.wire.writes) == 2  # admitted, evicted
    await give_back(world, "job")
    await world.settle(120)
    assert await is_(world, "job", "Requeued")
    assert len(world.wire.writes) == 3


# --- Killed anywhere.


async def tell_its_life(world: LifeWorld) -> None:
    """Two admissions whose pods do not get ready, with a check in between, and the end by deactivation."""
    await team(world, admissionChecksStrategy={"admissionChecks": [{"name": "c"}]})
    await workload(world, "job", "team")
    await world.settle(9)


async def help_on(world: LifeWorld) -> None:
    """Admission, the check and the job do what is theirs to do."""
    job = await get(world, "job")
    conditions = {one.type: one for one in job.status.conditions}
    reserved, evicted = (conditions.get(name) for name in ("QuotaReserved", "Evicted"))
    requeued = conditions.get("Requeued")
    if reserved is not None and reserved.status == "True":
        if evicted is not None and evicted.status == "True":
            await give_back(world, "job")
        elif any(check.state == "Pending" for check in job.status.admission_checks):
            await world.check("job", "c", "Ready")
    elif job.spec.active and (requeued is None or requeued.status == "True"):
        await world.reserve("job")


def end_of(job: Workload) -> Any:
    status = msgspec.to_builtins(job.status)
    for condition in status["conditions"]:
        del condition["lastTransitionTime"]
    for check in status["admissionChecks"]:
        del check["lastTransitionTime"]
    del status["accumulatedPastExecutionTimeSeconds"]
    conditions = sorted(status.pop("conditions"), key=lambda condition: condition["type"])
    return job.spec.active, status, conditions


async def lived(writes: int | None = None, lost: int | None = None) -> tuple[Any, int]:
    """How a life ends, and how many writes the last controller made.

    writes: the first one is killed after so many. lost: the answer to the write of this number does not arrive.
    """
    async with life(IN_TIME, writes=writes) as world:
        world.wire.lost_answers = set() if lost is None else {lost}
        await tell_its_life(world)
        for _ in range(60):
            if world.wire.writes_left == 0:
                await world.kill()
                await world.start()
            await help_on(world)
            await world.settle(30)
        return end_of(await get(world, "job")), len(world.wire.writes)


def test_a_life_ends_the_same_way_wherever_its_controller_is_killed() -> None:
    async def scenario() -> None:
        expected, all_writes = await lived()
        active, status, _ = expected
        assert not active
        assert [one["count"] for one in status["schedulingStats"]["evictions"]] == [1, 1]
        assert all_writes >= 7
        for writes in range(all_writes):
            found, _ = await lived(writes)
            assert found == expected, f"killed after {writes} of {all_writes} writes"
            found, _ = await lived(lost=writes)
            assert found == expected, f"without the answer to write {writes} of {all_writes}"

    run_virtual(scenario())


# --- With everybody else.


@virtual
async def test_with_admission_a_gang_that_is_not_ready_comes_again_behind_others(world: World) -> None:
    await flavor(world)
    await queue(world, "team", 1)
    await workload(world, "slow", "team")
    await world.settle()
    await workload(world, "next", "team")
    await world.settle(30 * 60)
    assert await is_(world, "slow", "Evicted")
    assert not await is_(world, "next", "QuotaReserved")
    await give_back(world, "slow")
    await world.settle()
    assert await is_(world, "next", "Admitted")
    await world.settle(60)
    assert await is_(world, "slow", "Requeued")
    assert not await is_(world, "slow", "QuotaReserved")
    await finish(world, "next")
    await world.settle()
    assert await is_(world, "slow", "Admitted")
    assert not await is_(world, "slow", "Evicted")


def nowhere() -> dict[str, Any]:
    """The spec of a Job whose pods fit on no node."""
    container = {"name": "c", "image": "none", "command": ["x"], "resources": {"requests": {"cpu": "1"}}}
    pods = {"restartPolicy": "Never", "containers": [container], "nodeSelector": {"kubernetes.io/hostname": "nowhere"}}
    return {"template": {"spec": pods}}


@story
async def test_a_gang_that_finds_no_place_yields_to_the_next_and_comes_again(q: Queued) -> None:
    """The story of KEP-349, with Jobs and pods: there is quota for the gang, but no node that takes it."""
    half_an_hour, a_minute = 30 * 60, 60
    await q.queue(cpu=4)
    await q.job("wide", 4, **nowhere())
    await q.job("next", 2)
    assert (await q.held("wide"), await q.held("next")) == (4, 0)
    await q.world.settle(half_an_hour)
    assert (await q.now("wide")).spec.suspend
    assert await q.world.pods("wide") == []
    assert (await q.held("wide"), await q.held("next")) == (0, 2)
    assert await q.running("next") == [0, 1]
    state = await q.state("wide")
    assert (state["Evicted"], state["Requeued"]) == ("True PodsReadyTimeout", "False PodsReadyTimeout")
    await q.world.settle(a_minute)
    assert (await q.state("wide"))["Requeued"] == "True BackoffFinished"
    assert (await q.state("next"))["PodsReady"] == "True Started"
