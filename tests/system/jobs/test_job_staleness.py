"""Pitfall 22: a controller whose caches are behind, and that is made to look nevertheless."""

import random

import pytest
from tests.system.jobs.job_cluster import NAMESPACE_NAME, JobCluster, is_over, virtual

from muster.api.batch import JOB
from muster.api.core import POD, Container, Pod, PodSpec
from muster.api.meta import ObjectMeta
from muster.jobs.interruption import INTERRUPTIONS, count_interruptions
from muster.jobs.job.census import completion_index
from muster.runtime.clock import run_virtual

THREE = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}


async def poke(cluster: JobCluster, times: int = 10) -> None:
    for _ in range(times):
        await cluster.poke()
        await cluster.rest(0.2)


@virtual
async def test_pods_that_are_not_seen_yet_are_not_made_again(cluster: JobCluster) -> None:
    cluster.wire.lags = {"pods": 3.0}
    await cluster.create(THREE | {"suspend": True})
    await cluster.set_spec(suspend=False)
    await poke(cluster)
    await cluster.rest(30)
    assert cluster.wire.count("POST") == 3
    assert "job_controller_stale_sync_skips_total" in cluster.registry.text().decode()


@virtual
async def test_deletions_that_are_not_seen_yet_are_not_repeated(cluster: JobCluster) -> None:
    await cluster.create(THREE)
    await cluster.bind_all()
    await cluster.rest()
    cluster.wire.lags = {"pods": 3.0}
    await cluster.scale(1)
    await poke(cluster, 50)  # the finalizers are seen going before the deletions are
    await cluster.rest(30)
    assert cluster.wire.count("DELETE") == 2
    assert (await cluster.job()).status.terminating == 2


@virtual
async def test_an_index_whose_success_is_not_seen_yet_is_not_run_again(cluster: JobCluster) -> None:
    await cluster.create(THREE)
    await cluster.bind_all()
    await cluster.rest()
    cluster.wire.lags = {"jobs": 3.0}
    for index in range(2):
        await cluster.finish(index)
        await cluster.rest(0.5)
    await cluster.rest(30)
    assert cluster.wire.count("POST") == 3
    assert (await cluster.job()).status.completed_indexes == "0,1"


@virtual
async def test_failures_that_are_not_seen_yet_are_not_counted_again(cluster: JobCluster) -> None:
    await cluster.create({"parallelism": 3, "completions": 9})
    await cluster.bind_all()
    await cluster.rest()
    cluster.wire.lags = {"pods": 0.7}
    for pod in await cluster.active():
        await cluster.set_phase(pod, "Failed")
        await poke(cluster, 3)
    await cluster.rest(60)
    assert (await cluster.job()).status.failed == 3


@virtual
async def test_a_job_is_not_suspended_before_deletions_of_our_own_are_seen(cluster: JobCluster) -> None:
    await cluster.create({"completions": 4, "parallelism": 4})
    await cluster.bind_all()
    await cluster.rest()
    cluster.wire.lags = {"pods": 3.0}
    await cluster.set_spec(parallelism=3)
    await cluster.rest(0.2)
    await cluster.set_spec(suspend=True)
    await poke(cluster)
    job = await cluster.job()
    assert (cluster.wire.count("DELETE"), job.status.active, job.status.ready) == (1, 3, 3)
    assert job.status.conditions == ()
    await cluster.rest(30)
    job = await cluster.job()
    assert (cluster.wire.count("DELETE"), job.status.active, job.status.failed) == (4, 0, 0)
    assert {condition.type for condition in job.status.conditions} == {"Suspended", INTERRUPTIONS}
    assert count_interruptions(job.status.conditions) == 1


@virtual
async def test_a_job_does_not_fail_before_creations_of_our_own_are_seen(cluster: JobCluster) -> None:
    await cluster.create({"backoffLimit": 0, "completions": 2, "parallelism": 2, "suspend": True})
    cluster.wire.lags = {"pods": 2.0}
    await cluster.set_spec(suspend=False)
    await cluster.rest(0.2)
    await cluster.set_phase((await cluster.active())[0], "Failed")
    await poke(cluster, 5)
    assert cluster.wire.count("DELETE") == 0
    await cluster.rest(30)
    job = await cluster.job()
    assert cluster.wire.count("DELETE") == 1  # of the pod that was not seen yet, and could not have been deleted
    assert job.status.failed == 2


@virtual
async def test_a_pod_that_is_gone_already_is_no_error(cluster: JobCluster) -> None:
    await cluster.create(THREE)
    await cluster.bind_all()
    await cluster.rest()
    cluster.wire.lags = {"pods": 3.0}
    (pod,) = (pod for pod in await cluster.active() if completion_index(pod) == 2)
    await cluster.client.patch(POD, pod.metadata.name, {"metadata": {"finalizers": None}}, NAMESPACE_NAME)
    await cluster.client.delete(POD, pod.metadata.name, NAMESPACE_NAME, grace_period_seconds=0)
    await cluster.scale(2)
    await cluster.rest(30)
    job = await cluster.job()
    assert (job.status.active, job.status.failed, job.status.terminating) == (2, 0, 0)
    assert not [event for event in await cluster.events() if event.type == "Warning"]


@virtual
async def test_a_status_that_met_a_conflict_is_written_again_once_the_newer_job_is_seen(cluster: JobCluster) -> None:
    await cluster.create(THREE)
    await cluster.bind_all()
    await cluster.rest()
    cluster.wire.lags, cluster.wire.answers_lag = {"jobs": 0.2}, 0.4
    before = len(cluster.wire.writes)
    await cluster.client.patch(JOB, "job", {"metadata": {"annotations": {"example.com/a": "b"}}}, NAMESPACE_NAME)
    await cluster.set_phase((await cluster.active())[0], "Failed")
    await cluster.rest(0.9)  # the event of the newer job comes before the answer of the refused write
    assert [one.path.rpartition("/")[2] for one in cluster.wire.writes[before:]][:2] == ["status", "status"]
    assert (await cluster.job()).status.ready == 2


@virtual
async def test_a_job_that_is_going_adopts_nothing(cluster: JobCluster) -> None:
    job = await cluster.create(THREE)
    cluster.wire.lags = {"jobs": 5.0}
    await cluster.client.delete(JOB, "job", NAMESPACE_NAME, propagation="Foreground")
    meta = ObjectMeta(
        name="orphan", namespace=NAMESPACE_NAME, labels={"batch.kubernetes.io/controller-uid": job.metadata.uid}
    )
    spec = PodSpec(containers=(Container(name="main", image="none"),), restart_policy="Never")
    await cluster.client.create(POD, Pod(metadata=meta, spec=spec))
    await cluster.rest(30)
    assert (await cluster.client.get(POD, "orphan", NAMESPACE_NAME)).metadata.owner_references == ()


@virtual
async def test_a_time_to_live_that_was_raised_is_respected(cluster: JobCluster) -> None:
    await cluster.create({"ttlSecondsAfterFinished": 60})
    await cluster.bind_all()
    await cluster.set_phase((await cluster.active())[0], "Succeeded")
    await cluster.rest(50)
    assert is_over(await cluster.job())
    cluster.wire.lags = {"jobs": 300.0}
    await cluster.set_spec(ttlSecondsAfterFinished=100_000)
    await cluster.rest(100)
    assert (await cluster.job()).metadata.deletion_timestamp is None


@pytest.mark.parametrize("seed", range(12))
def test_whatever_comes_late(seed: int) -> None:
    """Random delays, changes and looks; in the end every index has succeeded, each with as few pods as can be."""
    chance = random.Random(seed)

    async def scenario() -> None:
        async with JobCluster() as cluster:
            await cluster.create(THREE | {"backoffLimit": 100})
            size, failures = 3, 0
            for _ in range(25):
                cluster.wire.lags = {resource: chance.choice([0.0, 0.05, 0.6]) for resource in ("jobs", "pods")}
                match chance.randrange(5):
                    case 0:
                        await cluster.bind_all()
                    case 1 if pods := await cluster.active():
                        await cluster.set_phase(chance.choice(pods), "Failed")
                        failures += 1
                    case 2 if not (await cluster.job()).status.conditions:
                        size = chance.randint(1, 5)
                        await cluster.scale(size)
                    case 3:
                        await cluster.end_deleted()
                    case _:
                        await cluster.poke()
                await cluster.rest(chance.choice([0.01, 0.1, 1.0, 20.0]))
                indexes = await cluster.active_indexes()
                assert len(indexes) == len(set(indexes)), "an index twice"
            cluster.wire.lags = {}
            for _ in range(10):
                await cluster.rest(700)
                await cluster.end_deleted()
                await cluster.bind_all()
                for pod in await cluster.active():
                    await cluster.set_phase(pod, "Succeeded")
                await cluster.rest(10)
            job = await cluster.job()
            assert is_over(job), job.status
            assert job.status.succeeded == size
            assert job.status.failed <= failures
            assert not any(pod.metadata.finalizers for pod in await cluster.pods())

    run_virtual(scenario())
