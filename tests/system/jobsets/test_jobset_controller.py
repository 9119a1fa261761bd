"""The JobSet controller on a real server; the test plays the Job controller where it is not said otherwise."""

from collections.abc import Awaitable, Callable, Collection

import msgspec
from tests.system.jobsets.jobset_cluster import PARTS, Cluster, role
from tests.system.plane import looks, running

from muster.api.batch import JOB, Job, JobSpec
from muster.api.core import NAMESPACE, PERSISTENT_VOLUME_CLAIM, SERVICE, Namespace, PodTemplateSpec, Service
from muster.api.core.quota import RESOURCE_QUOTA, ResourceQuota
from muster.api.groups.coordination import LEASE, Lease
from muster.api.jobset import JOB_SET, JobSet, names
from muster.api.meta import ObjectMeta
from muster.api.server.admissionregistration import (
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY_BINDING,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from muster.controllers.engine import Part
from muster.controllers.jobset.upstream import LEASE_NAME
from muster.jobs.interruption import count_interruptions
from muster.jobs.jobset.slices import MAX_JOBS
from muster.runtime.clock import run_virtual
from muster.runtime.refusals import ignoring

# With the Job controller, placement and garbage collection.
WHOLE: tuple[Part, ...] = ()


def on(parts: Collection[Part]) -> Callable[[Callable[[Cluster], Awaitable[None]]], Callable[[], None]]:
    """Run a test on a control plane of these parts."""

    def decorate(test: Callable[[Cluster], Awaitable[None]]) -> Callable[[], None]:
        async def body() -> None:
            async with running(parts=parts) as plane:
                await test(Cluster(plane))

        def run() -> None:
            run_virtual(body())

        run.__name__ = test.__name__
        return run

    return decorate


@on(PARTS)
async def test_a_job_of_another_namespace_does_not_fail_a_jobset(cluster: Cluster) -> None:
    """Anybody may name a JobSet's UID as the owner of a Job in a namespace of their own."""
    jobset = await cluster.jobset(role("a", 1))
    [own] = (await cluster.jobs()).values()
    await cluster.client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name="other")))
    owner = JOB_SET.refer_to_controller(jobset.metadata)
    meta = ObjectMeta(name="js-a-0", labels=own.metadata.labels, owner_references=(owner,))
    template = PodTemplateSpec(spec=own.spec.template.spec)
    await cluster.client.create(JOB, Job(metadata=meta, spec=JobSpec(template=template)), "other")
    ends = [{"type": kind, "status": "True", "reason": "r", "message": "m"} for kind in ("FailureTarget", "Failed")]
    failed = {"conditions": ends, "failed": 1, "startTime": "2026-01-01T00:00:00Z"}
    await cluster.client.patch(JOB, "js-a-0", {"status": failed}, "other", subresource="status")
    await cluster.ready("js-a-0")
    assert await cluster.condition(names.FAILED) is None
    assert (await cluster.counts())["a"][2] == 0


@on(PARTS)
async def test_jobset_should_succeed_after_all_jobs_succeed(cluster: Cluster) -> None:
    await cluster.jobset(role("a", 1), role("b", 2))
    assert list(await cluster.jobs()) == ["js-a-0", "js-b-0", "js-b-1"]
    await cluster.complete("js-a-0", "js-b-0")
    assert await cluster.condition(names.COMPLETED) is None
    await cluster.complete("js-b-1")
    assert await cluster.condition(names.COMPLETED) == ("True", "AllJobsCompleted", "jobset completed successfully")
    assert (await cluster.seen()).status.terminal_state == "Completed"
    assert len(await cluster.jobs()) == 3
    assert await cluster.reasons() == {"AllJobsCompleted"}
    assert cluster.metric("jobset_completed_total") == 1
    assert cluster.metric("jobset_failed_total") == 0


@on(WHOLE)
async def test_a_failure_restarts_everything_and_the_last_one_fails_it(cluster: Cluster) -> None:
    await cluster.node("n")
    await cluster.jobset(role("a", 2), failurePolicy={"maxRestarts": 1})
    for attempt in ("0", "1"):
        assert dict(await cluster.attempts()) == {attempt: 2}
        (pod, _) = await cluster.pods()
        await cluster.finish(pod, "Failed")
        await cluster.settle()
        await cluster.nodes_let_go()
    message = "jobset failed due to reaching max number of restarts (first failed job: js-a-0)"
    assert await cluster.condition(names.FAILED) == ("True", "ReachedMaxRestarts", message)
    assert cluster.metric("jobset_failed_total") == 1
    assert await cluster.reasons() == {
        "DefaultFailurePolicy",
        "RestartJobSetFailurePolicyAction",
        "ReachedMaxRestarts",
        "JobSetFailed",
    }


@on(PARTS)
async def test_a_foreign_job_with_the_name_of_a_child_is_told_of_and_waited_for(cluster: Cluster) -> None:
    other = msgspec.convert({"metadata": {"name": "js-a-1"}, "spec": role()["template"]["spec"]}, Job)
    await cluster.client.create(JOB, other, "default")
    await cluster.jobset(role("a", 3))
    jobs = await cluster.jobs()
    assert list(jobs) == ["js-a-0", "js-a-1", "js-a-2"]
    assert not jobs["js-a-1"].metadata.owner_references
    (event,) = await cluster.events()
    assert (event.type, event.reason) == ("Warning", "JobCreationFailed")
    assert event.message == 'job "js-a-1" creation failed: another Job, not of this JobSet, has the name'
    await cluster.client.delete(JOB, "js-a-1", "default")
    await cluster.settle()
    assert (await cluster.jobs())["js-a-1"].metadata.owner_references


@on(PARTS)
async def test_names_that_others_have_keep_no_other_job_from_being_created(cluster: Cluster) -> None:
    for index in range(MAX_JOBS + 1):
        document = {"metadata": {"name": f"js-a-{index}"}, "spec": role()["template"]["spec"]}
        await cluster.client.create(JOB, msgspec.convert(document, Job), "default")
    await cluster.jobset(role("a", MAX_JOBS + 1), role("b", 1))
    assert (await cluster.jobs())["js-b-0"].metadata.owner_references
    before = looks(cluster.plane, "jobset-controller")
    await cluster.settle(60)
    assert looks(cluster.plane, "jobset-controller") == before
    await cluster.client.delete(JOB, f"js-a-{MAX_JOBS}", "default")
    await cluster.settle()
    assert (await cluster.jobs())[f"js-a-{MAX_JOBS}"].metadata.owner_references


@on(PARTS)
async def test_jobs_that_are_refused_for_good_keep_no_other_job_from_being_created(cluster: Cluster) -> None:
    await _refuse(cluster, "CREATE")
    await cluster.jobset(role("a", MAX_JOBS), role("b", 1))
    await cluster.settle(60)
    assert list(await cluster.jobs()) == ["js-b-0"]
    assert await cluster.reasons() == {"JobCreationFailed"}


async def _refuse(cluster: Cluster, operation: str) -> None:
    """Refuse one operation on Jobs of the role a."""
    rule = {"operations": [operation], "apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"]}
    policy = {
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "!object.metadata.name.startsWith('js-a-')"}],
        },
    }
    binding = {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
    await cluster.client.create(VALIDATING_ADMISSION_POLICY, msgspec.convert(policy, ValidatingAdmissionPolicy))
    await cluster.client.create(
        VALIDATING_ADMISSION_POLICY_BINDING, msgspec.convert(binding, ValidatingAdmissionPolicyBinding)
    )


@on(PARTS)
async def test_a_jobset_one_of_whose_jobs_cannot_be_suspended_does_not_say_that_it_is(cluster: Cluster) -> None:
    await cluster.jobset(role("a", 1), role("b", 1))
    await cluster.ready("js-a-0", "js-b-0")
    await _refuse(cluster, "UPDATE")
    await cluster.change(suspend=True)
    await cluster.settle(60)
    assert {name: job.spec.suspend for name, job in (await cluster.jobs()).items()} == {"js-a-0": False, "js-b-0": True}
    assert (await cluster.condition(names.SUSPENDED) or ("False",))[0] == "False"
    await cluster.client.delete(VALIDATING_ADMISSION_POLICY_BINDING, "b")
    await cluster.settle(600)
    assert await cluster.condition(names.SUSPENDED) == ("True", "SuspendedJobs", "jobset is suspended")
    assert (await cluster.seen()).status.restarts == 0
    assert count_interruptions((await cluster.seen()).status.conditions) == 1


@on(PARTS)
async def test_a_job_loses_its_start_time_before_its_template_changes(cluster: Cluster) -> None:
    """As servers before 1.35 want it."""
    await cluster.jobset(role("a", 1))
    await cluster.ready("js-a-0")
    await cluster.change(suspend=True)
    stopped = {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}
    await cluster.report("js-a-0", active=0, ready=0, conditions=[stopped])
    assert (await cluster.jobs())["js-a-0"].status.start_time is not None
    await cluster.change(suspend=False)
    job = (await cluster.jobs())["js-a-0"]
    assert (job.spec.suspend, job.status.start_time) == (False, None)
    assert job.spec.template.metadata.labels[names.RESTART_ATTEMPT] == "1"


@on(PARTS)
async def test_the_counts_of_a_job_that_is_about_to_succeed_wait_for_its_end(cluster: Cluster) -> None:
    await cluster.jobset(role("a", 2))
    await cluster.ready("js-a-0", "js-a-1")
    for job in ("js-a-0", "js-a-1"):
        await cluster.announce(job)
    await cluster.settle(0.05)
    assert (await cluster.counts())["a"] == (2, 0, 0, 2, 0)
    await cluster.complete("js-a-0")
    assert (await cluster.counts())["a"] == (0, 1, 0, 0, 0)  # the other Job takes longer, and is shown as it is


@on(PARTS)
async def test_jobsets_that_want_the_same_name_have_it_one_after_the_other(cluster: Cluster) -> None:
    wanted = {"a": role("b-c", 1), "a-b": role("c", 1)}
    other = msgspec.convert({"metadata": {"name": "a-b-c-0"}, "spec": role()["template"]["spec"]}, Job)
    await cluster.client.create(JOB, other, "default")
    for name, only in wanted.items():
        await cluster.jobset(only, name=name)
    had = []
    for _ in wanted:
        await cluster.client.delete(JOB, "a-b-c-0", "default")
        await cluster.settle()
        (owner,) = (await cluster.jobs())["a-b-c-0"].metadata.owner_references
        had.append(owner.name)
        await cluster.client.delete(JOB_SET, owner.name, "default")
        await cluster.settle()
    assert set(had) == set(wanted)


@on(PARTS)
async def test_a_job_of_an_earlier_jobset_of_that_name_is_waited_for_in_silence(cluster: Cluster) -> None:
    """jobset should ignore jobs with same owner name but different owner UID."""
    await cluster.jobset(role("a", 1))
    await cluster.client.delete(JOB_SET, "js", "default", propagation="Orphan")
    await cluster.client.patch(JOB_SET, "js", {"metadata": {"finalizers": None}}, "default")
    old = (await cluster.jobs())["js-a-0"]
    await cluster.fail("js-a-0")
    await cluster.client.delete(JOB, "js-a-0", "default", propagation="Foreground")
    await cluster.jobset(role("a", 1))
    assert (await cluster.jobs())["js-a-0"].metadata.uid == old.metadata.uid
    assert (await cluster.seen()).status.terminal_state == ""
    assert await cluster.events() == []
    await cluster.client.patch(JOB, "js-a-0", {"metadata": {"finalizers": None}}, "default")
    await cluster.settle()
    assert (await cluster.jobs())["js-a-0"].metadata.uid != old.metadata.uid


@on(PARTS)
async def test_service_deleted(cluster: Cluster) -> None:
    await cluster.jobset(role("a", 1))
    service = await cluster.client.get(SERVICE, "js", "default")
    assert service.spec.cluster_ip == "None"
    await cluster.client.delete(SERVICE, "js", "default")
    await cluster.settle()
    again = await cluster.client.get(SERVICE, "js", "default")
    assert again.metadata.uid != service.metadata.uid


@on(PARTS)
async def test_a_foreign_service_of_that_name_is_used_and_not_adopted(cluster: Cluster) -> None:
    spec = {"clusterIP": "None", "selector": {"my": "own"}}
    own = await cluster.client.create(
        SERVICE, msgspec.convert({"metadata": {"name": "net"}, "spec": spec}, Service), "default"
    )
    await cluster.jobset(role("a", 1), network={"enableDNSHostnames": True, "subdomain": "net"})
    assert await cluster.client.get(SERVICE, "net", "default") == own
    assert (await cluster.jobs())["js-a-0"].spec.template.spec.subdomain == "net"


@on(PARTS)
async def test_jobset_with_volumeclaimpolicies_should_create_pvcs_while_suspended_too(cluster: Cluster) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    kept = {"retentionPolicy": {"whenDeleted": "Retain"}}
    policies = [
        {"templates": [{"metadata": {"name": "gone"}, "spec": spec}]},
        {"templates": [{"metadata": {"name": "kept"}, "spec": spec}]} | kept,
    ]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("gone", "kept")]
    container = {"name": "main", "image": "none", "volumeMounts": mounts}
    pods = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    await cluster.jobset(role("a", 1, spec={"template": pods}), volumeClaimPolicies=policies, suspend=True)
    claims = (await cluster.client.list(PERSISTENT_VOLUME_CLAIM, "default")).items
    assert [(claim.metadata.name, bool(claim.metadata.owner_references)) for claim in claims] == [
        ("gone-js", True),
        ("kept-js", False),
    ]


@on(PARTS)
async def test_what_its_jobs_need_and_is_refused_is_told_of_and_tried_again(cluster: Cluster) -> None:
    refused = {"count/services": "0", "count/persistentvolumeclaims": "0"}
    quota = msgspec.convert({"metadata": {"name": "none"}, "spec": {"hard": refused}}, ResourceQuota)
    await cluster.client.create(RESOURCE_QUOTA, quota, "default")
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    mounts = [{"name": "data", "mountPath": "/data"}]
    pods = {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none", "volumeMounts": mounts}]}
    }
    policies = [{"templates": [{"metadata": {"name": "data"}, "spec": spec}]}]
    await cluster.jobset(role("a", 1, spec={"template": pods}), volumeClaimPolicies=policies)
    told = {(event.type, event.reason): event.message for event in await cluster.events()}
    assert set(told) == {("Warning", "HeadlessServiceCreationFailed"), ("Warning", "PVCCreationFailed")}
    assert all("exceeded quota: none" in message for message in told.values())
    await cluster.client.delete(RESOURCE_QUOTA, "none", "default")
    await cluster.settle(60)
    assert await cluster.client.find(SERVICE, "js", "default") is not None
    assert await cluster.client.find(PERSISTENT_VOLUME_CLAIM, "data-js", "default") is not None


@on(PARTS)
async def test_a_jobset_that_another_controller_manages_is_left_alone(cluster: Cluster) -> None:
    """Should not create any jobs for it, when unsuspended; updates to its status are preserved."""
    await cluster.jobset(role("a", 1), managedBy="example.com/other")
    status = {"restarts": 7, "terminalState": "Completed"}
    await cluster.client.patch(JOB_SET, "js", {"status": status}, "default", subresource="status")
    await cluster.settle()
    assert await cluster.jobs() == {}
    assert (await cluster.seen()).status.restarts == 7
    assert (await cluster.client.find(SERVICE, "js", "default")) is None


@on(PARTS)
async def test_it_is_deleted_after_configured_ttl_duration_passes(cluster: Cluster) -> None:
    await cluster.jobset(role("a", 1), ttlSecondsAfterFinished=60)
    await cluster.complete("js-a-0")
    await cluster.settle(30)
    assert (await cluster.seen()).metadata.deletion_timestamp is None
    await cluster.settle(30)
    assert (await cluster.seen()).metadata.deletion_timestamp is not None
    assert (await cluster.seen()).metadata.finalizers == ("foregroundDeletion",)


async def hold_lease(cluster: Cluster, namespace: str, seconds: int) -> None:
    with ignoring("AlreadyExists"):
        await cluster.client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name=namespace)))
    spec = {"holderIdentity": "upstream-0", "leaseDurationSeconds": seconds}
    lease = msgspec.convert({"metadata": {"name": LEASE_NAME}, "spec": spec}, Lease)
    await cluster.client.create(LEASE, lease, namespace)


@on(PARTS)
async def test_while_the_upstream_controller_holds_its_lease_ours_stands_back_and_says_so(cluster: Cluster) -> None:
    await hold_lease(cluster, "jobset-system", 15)
    await cluster.jobset(role("a", 1))
    await cluster.jobset(role("a", 1), name="other")
    for renewal in range(4):
        patch = {"spec": {"leaseTransitions": renewal}}
        await cluster.client.patch(LEASE, LEASE_NAME, patch, "jobset-system")
        await cluster.settle(8)
    assert await cluster.jobs() == {}
    assert cluster.metric("muster_jobset_standing_back") == 1
    told = {event.involved_object.name: (event.reason, event.message) for event in await cluster.events()}
    message = f"JobSet's own controller runs it: upstream-0 holds the Lease jobset-system/{LEASE_NAME}"
    assert told == {"js": ("LeftToUpstream", message), "other": ("LeftToUpstream", message)}
    await cluster.settle(20)
    assert list(await cluster.jobs()) == ["js-a-0", "other-a-0"]
    assert cluster.metric("muster_jobset_standing_back") == 0


@on(PARTS)
async def test_when_the_upstream_controller_gives_its_lease_back_ours_goes_on(cluster: Cluster) -> None:
    await hold_lease(cluster, "jobset-system", 600)
    await cluster.jobset(role("a", 1))
    assert await cluster.jobs() == {}
    await cluster.client.patch(LEASE, LEASE_NAME, {"spec": {"holderIdentity": None}}, "jobset-system")
    await cluster.settle(1)
    assert list(await cluster.jobs()) == ["js-a-0"]


@on(PARTS)
async def test_a_lease_of_that_name_in_another_namespace_is_nothing_to_us(cluster: Cluster) -> None:
    await hold_lease(cluster, "default", 600)
    await cluster.jobset(role("a", 1))
    assert list(await cluster.jobs()) == ["js-a-0"]


@on(PARTS)
async def test_a_lease_that_says_it_lasts_for_ever_is_believed_for_a_minute(cluster: Cluster) -> None:
    await hold_lease(cluster, "jobset-system", 2**31 - 1)
    await cluster.jobset(role("a", 1))
    await cluster.settle(50)
    assert await cluster.jobs() == {}
    await cluster.settle(10)
    assert list(await cluster.jobs()) == ["js-a-0"]


@on(PARTS)
async def test_one_look_for_all_jobsets_waits_for_the_lease(cluster: Cluster) -> None:
    await hold_lease(cluster, "jobset-system", 15)
    for number in range(20):
        await cluster.jobset(name=f"js-{number}")
        patch = {"spec": {"leaseTransitions": number}}
        await cluster.client.patch(LEASE, LEASE_NAME, patch, "jobset-system")
    before = looks(cluster.plane, "jobset-controller")
    for renewal in range(10):
        patch = {"spec": {"leaseTransitions": 100 + renewal}}
        await cluster.client.patch(LEASE, LEASE_NAME, patch, "jobset-system")
        await cluster.settle(10)
    assert await cluster.jobs() == {}
    assert looks(cluster.plane, "jobset-controller") - before < 20


@on(PARTS)
async def test_what_a_jobset_does_not_count_is_not_looked_at(cluster: Cluster) -> None:
    await cluster.jobset(role("a", 2, 8))
    await cluster.report("js-a-0", startTime="2026-01-01T00:00:00Z", active=1)
    await cluster.settle()
    before = looks(cluster.plane, "jobset-controller")
    for ready in range(7):
        await cluster.report("js-a-0", active=8, ready=ready)
    await cluster.settle()
    assert looks(cluster.plane, "jobset-controller") == before
    await cluster.report("js-a-0", active=8, ready=8)
    await cluster.settle()
    assert (await cluster.counts())["a"] == (1, 0, 0, 1, 0)


@on(PARTS)
async def test_one_that_the_queue_admits_at_once_is_never_made_suspended(cluster: Cluster) -> None:
    document = {"metadata": {"name": "js"}, "spec": {"replicatedJobs": [role("a", 2)], "suspend": True}}
    await cluster.client.create(JOB_SET, msgspec.convert(document, JobSet), "default")
    await cluster.settle(0.9)
    await cluster.change(suspend=False)
    assert [(job.spec.suspend, job.metadata.generation) for job in (await cluster.jobs()).values()] == [(False, 1)] * 2
    assert await cluster.events() == []
    assert (await cluster.seen()).status.conditions == ()
