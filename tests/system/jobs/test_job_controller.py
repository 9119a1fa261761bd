"""The Job controller on the API server in process, in virtual time; pods are driven by hand."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.system.jobs.job_cluster import NAMESPACE_NAME, JobCluster, conditions, is_over, virtual

from muster.api.batch import JOB, TRACKING_FINALIZER, Job, JobSpec
from muster.api.core import NAMESPACE, POD, Container, Namespace, Pod, PodSpec
from muster.api.meta import ObjectMeta
from muster.api.status import ApiError, Status, StatusCause, StatusDetails
from muster.jobs.interruption import INTERRUPTIONS
from muster.runtime.clock import run_virtual
from muster.runtime.transport import Request, Response

THREE = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}


@virtual
async def test_a_job_runs_to_its_end(cluster: JobCluster) -> None:
    await cluster.create(THREE)
    job = await cluster.job()
    assert (job.status.active, job.status.ready, job.status.succeeded) == (3, 0, 0)
    assert await cluster.active_indexes() == [0, 1, 2]
    await cluster.bind_all()
    await cluster.rest()
    assert (await cluster.job()).status.ready == 3
    for index in range(3):
        await cluster.finish(index)
    await cluster.rest()
    job = await cluster.job()
    assert conditions(job) == ["SuccessCriteriaMet", "Complete"]
    assert (job.status.succeeded, job.status.completed_indexes, job.status.active) == (3, "0-2", 0)
    assert job.status.completion_time is not None
    assert [pod.metadata.finalizers for pod in await cluster.pods()] == [()] * 3
    events = [(event.reason, event.message) for event in await cluster.events()]
    assert ("Completed", "Job completed") in events
    assert [reason for reason, _ in events].count("SuccessfulCreate") == 3


@virtual
async def test_a_pod_of_another_namespace_is_none_of_a_jobs(cluster: JobCluster) -> None:
    """Anybody may name a Job's UID as the owner of a pod, and its labels, in a namespace of their own."""
    job = await cluster.create({})
    [own] = await cluster.active()
    namespace = Namespace(metadata=ObjectMeta(name="other"))
    await cluster.client.create(NAMESPACE, namespace)
    meta = ObjectMeta(
        name="stranger",
        labels=own.metadata.labels,
        finalizers=(TRACKING_FINALIZER,),
        owner_references=(JOB.refer_to_controller(job.metadata),),
    )
    await cluster.client.create(POD, Pod(metadata=meta, spec=own.spec), "other")
    await cluster.poke()
    await cluster.rest()
    assert (await cluster.job()).status.active == 1
    assert [pod.metadata.uid for pod in await cluster.active()] == [own.metadata.uid]
    assert (await cluster.client.get(POD, "stranger", "other")).metadata.deletion_timestamp is None


@virtual
async def test_a_small_job_is_looked_at_at_once(cluster: JobCluster) -> None:
    await cluster.create({})
    await cluster.bind_all()
    await cluster.rest()
    await cluster.set_phase((await cluster.active())[0], "Succeeded")
    await cluster.rest(0.02)
    assert is_over(await cluster.job())


@virtual
async def test_many_jobs_of_one_owner_delay_no_other_job(cluster: JobCluster) -> None:
    """A JobSet of a hundred Jobs and a Job of its own share a namespace; a controller that starts finds them all."""
    await cluster.kill_controller()
    owner = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "name": "large",
        "uid": "1",
        "controller": True,
    }
    for number in range(100):
        await cluster.create({"suspend": True}, f"large-{number:02}", ownerReferences=[owner])
    await cluster.create({"suspend": True}, "own")
    await cluster.start_controller()
    await cluster.rest()
    jobs = [request.path.split("/")[-2] for request in cluster.wire.writes if request.path.endswith("/status")]
    assert len(jobs) == 101
    assert jobs.index("own") < 50


@virtual
async def test_few_writes_for_many_pods(cluster: JobCluster) -> None:
    """Created, bound, running, ended, let go: what nodes and schedulers write is not counted here."""
    await cluster.create({"completionMode": "Indexed", "completions": 100, "parallelism": 100})
    await cluster.bind_all()
    await cluster.rest()
    for index in range(100):
        await cluster.finish(index)
    await cluster.rest()
    assert is_over(await cluster.job())
    assert len(cluster.wire.writes) <= 2 * 100 + 10
    await cluster.rest(3600)
    quiet = len(cluster.wire.writes)
    await cluster.rest(3600)
    assert len(cluster.wire.writes) == quiet


@virtual
async def test_failures_are_replaced_after_a_while_and_limited(cluster: JobCluster) -> None:
    await cluster.create({"backoffLimit": 2})
    for failures, wait in ((1, 10), (2, 20)):
        await cluster.bind_all()
        await cluster.set_phase((await cluster.active())[0], "Failed")
        await cluster.rest(wait - 1)
        job = await cluster.job()
        assert (job.status.failed, job.status.active) == (failures, 0)
        await cluster.rest(2)
        assert (await cluster.job()).status.active == 1
    await cluster.set_phase((await cluster.active())[0], "Failed")
    await cluster.rest()
    job = await cluster.job()
    assert conditions(job) == ["FailureTarget", "Failed"]
    assert job.status.conditions[-1].reason == "BackoffLimitExceeded"
    assert job.status.failed == 3


@virtual
async def test_a_deadline_passes(cluster: JobCluster) -> None:
    await cluster.create(THREE | {"activeDeadlineSeconds": 60})
    await cluster.bind_all()
    await cluster.rest(50)
    assert conditions(await cluster.job()) == []
    await cluster.rest(10)
    job = await cluster.job()
    assert conditions(job) == ["FailureTarget"]
    assert (job.status.terminating, job.status.failed) == (3, 3)
    await cluster.end_deleted()
    await cluster.rest()
    assert is_over(await cluster.job(), "Failed")
    assert await cluster.pods() == []


@virtual
async def test_suspend_and_resume(cluster: JobCluster) -> None:
    await cluster.create(THREE)
    await cluster.bind_all()
    await cluster.finish(1)
    await cluster.set_spec(suspend=True)
    await cluster.rest()
    await cluster.end_deleted()
    await cluster.rest()
    job = await cluster.job()
    assert set(conditions(job)) == {"Suspended", INTERRUPTIONS}
    status = job.status
    assert (status.active, status.terminating, status.failed, status.completed_indexes) == (0, 0, 0, "1")
    assert status.start_time is None
    await cluster.set_spec(suspend=False)
    await cluster.rest()
    job = await cluster.job()
    assert conditions(job) == [INTERRUPTIONS]
    assert job.status.start_time is not None
    assert await cluster.active_indexes() == [0, 2]


@virtual
async def test_a_new_suspended_job_has_a_moment_to_be_resumed(cluster: JobCluster) -> None:
    creation = asyncio.create_task(cluster.create(THREE | {"suspend": True}))
    await cluster.rest(0.9)
    assert cluster.wire.writes == []
    await cluster.set_spec(suspend=False)
    await creation
    assert (conditions(await cluster.job()), await cluster.active_indexes()) == ([], [0, 1, 2])


@virtual
async def test_a_job_that_stays_suspended_says_so(cluster: JobCluster) -> None:
    await cluster.create(THREE | {"suspend": True})
    assert conditions(await cluster.job()) == ["Suspended"]


@virtual
async def test_a_job_managed_elsewhere_is_left_alone(cluster: JobCluster) -> None:
    await cluster.create({"managedBy": "example.com/other"})
    assert await cluster.pods() == []
    assert (await cluster.job()).status.start_time is None
    text = cluster.registry.text().decode()
    assert 'jobs_by_external_controller_total{controller_name="example.com/other"} 1.0' in text


@virtual
async def test_a_finished_job_goes_after_its_time(cluster: JobCluster) -> None:
    await cluster.create({"ttlSecondsAfterFinished": 100})
    await cluster.bind_all()
    await cluster.set_phase((await cluster.active())[0], "Succeeded")
    await cluster.rest(50)
    assert is_over(await cluster.job())
    await cluster.set_spec(ttlSecondsAfterFinished=200)
    await cluster.rest(100)
    assert (await cluster.job()).metadata.deletion_timestamp is None
    await cluster.rest(60)
    # Foreground: the collector, which is not here, deletes the pods first.
    assert (await cluster.job()).metadata.deletion_timestamp is not None


def test_a_deleted_job_takes_its_pods_with_it() -> None:
    async def scenario(propagation: Any) -> None:
        async with JobCluster(collector=True) as cluster:
            await cluster.create(THREE)
            await cluster.bind_all()
            await cluster.finish(0)
            await cluster.client.delete(JOB, "job", NAMESPACE_NAME, propagation=propagation)
            await cluster.rest()
            for _ in range(3):
                await cluster.end_deleted()
                await cluster.rest()
            assert await cluster.pods() == []
            with pytest.raises(ApiError, match="not found"):
                await cluster.job()

    for propagation in ("Background", "Foreground"):
        run_virtual(scenario(propagation))


@virtual
async def test_the_pods_of_a_job_that_is_gone_are_let_go(cluster: JobCluster) -> None:
    """Without a collector: nothing but the Job changes."""
    await cluster.create(THREE)
    await cluster.bind_all()
    await cluster.client.delete(JOB, "job", NAMESPACE_NAME, propagation="Background")
    await cluster.rest()
    assert [pod.metadata.finalizers for pod in await cluster.pods()] == [(), (), ()]


@virtual
async def test_orphaned_pods_are_let_go_and_not_adopted(cluster: JobCluster) -> None:
    """The test plays the collector, which takes the owner references away."""
    await cluster.create(THREE)
    await cluster.bind_all()
    await cluster.client.delete(JOB, "job", NAMESPACE_NAME, propagation="Orphan")
    for pod in await cluster.pods():
        patch = {"metadata": {"ownerReferences": None}}
        await cluster.client.patch(POD, pod.metadata.name, patch, NAMESPACE_NAME)
        await cluster.rest()
    await cluster.client.patch(JOB, "job", {"metadata": {"finalizers": None}}, NAMESPACE_NAME)
    await cluster.rest()
    pods = await cluster.pods()
    assert [(pod.metadata.finalizers, pod.metadata.owner_references) for pod in pods] == [((), ())] * 3


@virtual
async def test_a_pod_of_a_job_that_never_was_loses_the_finalizer(cluster: JobCluster) -> None:
    job = await cluster.create({"suspend": True})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "controller": True}
    for name, uid in (("stray", "gone"), ("ours", job.metadata.uid)):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "finalizers": [TRACKING_FINALIZER], "ownerReferences": [owner | {"uid": uid}]},
            "spec": {"containers": [{"name": "main", "image": "none"}]},
        }
        await cluster.client.raw(
            Request(
                "POST", POD.path(NAMESPACE_NAME), body=msgspec.json.encode({"apiVersion": "v1", "kind": "Pod"} | pod)
            )
        )
    await cluster.rest()
    stray = await cluster.client.get(POD, "stray", NAMESPACE_NAME)
    assert stray.metadata.finalizers == ()


@virtual
async def test_a_matching_pod_is_adopted_and_a_stranger_let_go(cluster: JobCluster) -> None:
    job = await cluster.create({"parallelism": 2, "completions": 5})
    label = "batch.kubernetes.io/controller-uid"
    orphan = Pod(
        metadata=ObjectMeta(name="orphan", namespace=NAMESPACE_NAME, labels={label: job.metadata.uid}),
        spec=PodSpec(containers=(Container(name="main", image="none"),), restart_policy="Never"),
    )
    await cluster.client.create(POD, orphan)
    await cluster.rest()
    # One too many: the newest of those that wait goes, whichever it is.
    assert (await cluster.job()).status.active == 2
    stranger = (await cluster.active())[0]
    await cluster.client.patch(POD, stranger.metadata.name, {"metadata": {"labels": {label: "other"}}}, NAMESPACE_NAME)
    await cluster.rest()
    found = await cluster.client.get(POD, stranger.metadata.name, NAMESPACE_NAME)
    assert (found.metadata.owner_references, found.metadata.finalizers) == ((), ())
    assert (await cluster.job()).status.active == 2


@virtual
async def test_an_adopted_pod_is_tracked(cluster: JobCluster) -> None:
    job = await cluster.create({"parallelism": 1, "completions": 1, "suspend": True})
    orphan = Pod(
        metadata=ObjectMeta(
            name="orphan",
            namespace=NAMESPACE_NAME,
            labels={"batch.kubernetes.io/controller-uid": job.metadata.uid},
        ),
        spec=PodSpec(containers=(Container(name="main", image="none"),), restart_policy="Never"),
    )
    await cluster.client.create(POD, orphan)
    await cluster.set_phase(orphan, "Succeeded")
    await cluster.set_spec(suspend=False)
    await cluster.rest()
    job = await cluster.job()
    assert is_over(job)
    assert job.status.succeeded == 1


class Refusing:
    """Refuses the creation of pods while it is told to."""

    def __init__(self, cluster: JobCluster, code: int, cause: str = "", *, after: int = 0) -> None:
        self.wire = cluster.wire
        self.inner = cluster.wire.request
        self.status = Status(
            status="Failure",
            code=code,
            reason="Forbidden",
            message="exceeded quota",
            details=StatusDetails(causes=(StatusCause(reason=cause),)),
        )
        self.after = after
        self.asked = 0

    async def request(self, request: Request) -> Response:
        if request.method == "POST" and request.path.endswith("/pods"):
            self.asked += 1
            if self.asked > self.after:
                return Response(self.status.code, msgspec.json.encode(self.status))
        return await self.inner(request)

    def start(self) -> None:
        self.wire.request = self.request  # type: ignore[method-assign]

    def stop(self) -> None:
        self.wire.request = self.inner  # type: ignore[method-assign]


@virtual
async def test_where_all_pods_are_refused_few_are_tried(cluster: JobCluster) -> None:
    refusing = Refusing(cluster, 403)
    refusing.start()
    await cluster.create({"parallelism": 100, "completions": 100})
    await cluster.rest(1)
    assert 1 <= refusing.asked < 30  # slow start begins anew with each try, and each try waits longer
    assert (await cluster.job()).status.active == 0
    assert "exceeded quota" in next(e.message for e in await cluster.events() if e.reason == "FailedCreate")
    refusing.stop()
    await cluster.rest(120)
    assert (await cluster.job()).status.active == 100


@virtual
async def test_batches_double_until_one_fails(cluster: JobCluster) -> None:
    """Pitfall 14: the first is of one pod."""
    refusing = Refusing(cluster, 403, after=40)
    refusing.start()
    await cluster.create({"parallelism": 100, "completions": 100, "suspend": True})
    await cluster.set_spec(suspend=False)
    await cluster.rest(0.002)  # before the next try
    assert refusing.asked == 1 + 2 + 4 + 8 + 16 + 32
    await cluster.rest(0.2)
    assert (await cluster.job()).status.active == 40


@virtual
async def test_in_a_namespace_that_goes_nothing_is_reported(cluster: JobCluster) -> None:
    refusing = Refusing(cluster, 403, "NamespaceTerminating")
    refusing.start()
    await cluster.create({"parallelism": 100, "completions": 100})
    await cluster.rest(600)
    assert refusing.asked == 1
    assert [event.reason for event in await cluster.events()] == []


@virtual
async def test_our_own_status_is_no_news_whether_its_event_or_its_answer_comes_first(cluster: JobCluster) -> None:
    refusing = Refusing(cluster, 403, "NamespaceTerminating")  # each look asks once more
    refusing.start()
    for number, (answers, events) in enumerate(((0.0, 0.0), (0.5, 0.0), (0.0, 0.5)), 1):
        cluster.wire.answers_lag, cluster.wire.lags = answers, {"jobs": events}
        await cluster.create({"parallelism": 100, "completions": 100}, f"job-{number}")
        await cluster.rest(60)
        assert refusing.asked == number


@virtual
async def test_what_another_program_writes_before_our_answer_comes_is_looked_at(cluster: JobCluster) -> None:
    refusing = Refusing(cluster, 403, "NamespaceTerminating")
    refusing.start()
    cluster.wire.answers_lag = 0.5
    await cluster.create({"parallelism": 100, "completions": 100})
    await cluster.rest(0.2)  # the status is stored and seen
    await cluster.poke()
    await cluster.rest(60)
    assert refusing.asked == 2


@virtual
async def test_a_job_of_the_same_name_is_another_job(cluster: JobCluster) -> None:
    await cluster.create(THREE)
    await cluster.client.delete(JOB, "job", NAMESPACE_NAME)
    job = await cluster.create(THREE)
    pods = await cluster.pods()
    assert sum(pod.metadata.owner_references[0].uid == job.metadata.uid for pod in pods) == 3
    assert (await cluster.job()).status.active == 3


@virtual
async def test_what_is_remembered_of_a_job_is_not_of_the_next(cluster: JobCluster) -> None:
    await cluster.create({})
    await cluster.bind_all()
    await cluster.set_phase((await cluster.active())[0], "Failed")
    await cluster.rest(1)
    assert await cluster.active() == []  # in back-off
    job = await cluster.job()
    await cluster.client.delete(JOB, "job", NAMESPACE_NAME)
    fresh = Job(metadata=ObjectMeta(name="job", namespace=NAMESPACE_NAME), spec=replaced_selector(job))
    await cluster.client.create(JOB, fresh)
    await cluster.rest(0.1)
    assert len(await cluster.active()) == 1


def replaced_selector(job: Job) -> JobSpec:
    """The spec as the user wrote it: the server makes selector and labels anew."""
    template = msgspec.structs.replace(job.spec.template, metadata=ObjectMeta())
    return msgspec.structs.replace(job.spec, selector=None, template=template)
