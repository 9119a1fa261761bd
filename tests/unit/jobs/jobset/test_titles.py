"""What upstream's integration tests say, one by one; their titles are the names of the cases here."""

import pytest
from msgspec.structs import replace
from tests.unit.jobs.jobset.world import START, World, begun, jobset, role

from muster.api.jobset import names

A, B = "js-replicated-job-a-0", ("js-replicated-job-b-0", "js-replicated-job-b-1", "js-replicated-job-b-2")
ALL = (A, *B)
POLICY = "PodFailurePolicy"
INDEXES = "MaxFailedIndexesExceeded"


def rule(action, *reasons, targets=(), patterns=(), name=""):
    return {
        "name": name or "Rule",
        "action": action,
        "onJobFailureReasons": list(reasons),
        "targetReplicatedJobs": list(targets),
        "onJobFailureMessagePatterns": list(patterns),
    }


def policy(*rules, most=1, strategy="Recreate"):
    return {"maxRestarts": most, "restartStrategy": strategy, "rules": list(rules)}


def test_jobset_should_successfully_create_jobs():
    assert tuple(begun().jobs) == ALL


def test_jobset_should_not_succeed_if_any_job_is_not_completed():
    world = begun()
    world.complete(A, *B[:2])
    assert world.state() == ""
    world.complete(B[2])
    assert world.state() == "Completed"
    assert set(world.jobs) == set(ALL)


@pytest.mark.parametrize(
    ("operator", "targets", "jobs", "state"),
    [
        ("All", (), ALL, "Completed"),
        ("All", (), ALL[:3], ""),
        ("All", ("replicated-job-b",), B, "Completed"),
        ("All", ("replicated-job-b",), ALL[:3], ""),
        ("All", ("replicated-job-a",), (A,), "Completed"),
        ("Any", ("replicated-job-b",), B[1:2], "Completed"),
        ("Any", ("replicated-job-b",), (A,), ""),
        ("Any", (), B[:1], "Completed"),
    ],
)
def test_success_policy(operator, targets, jobs, state):
    world = begun(successPolicy={"operator": operator, "targetReplicatedJobs": list(targets)})
    world.complete(*jobs)
    assert world.state() == state


def test_jobset_with_no_failure_policy_should_fail_if_any_jobs_fail():
    world = begun()
    world.fail(B[0])
    assert world.state() == "Failed"
    assert world.condition(names.FAILED) == ("True", "FailedJobs")
    (condition,) = world.jobset.status.conditions
    assert condition.message == f"jobset failed due to one or more job failures (first failed job: {B[0]})"


@pytest.mark.parametrize(
    ("rules", "reason", "message", "job", "state", "restarts"),
    [
        # jobset fails immediately with FailJobSet failure policy action.
        ((rule("FailJobSet", POLICY),), POLICY, "", A, "Failed", (0, 0)),
        # jobset does not fail immediately ... as the failure reason is not matched.
        ((rule("FailJobSet", POLICY),), INDEXES, "", A, "", (1, 1)),
        # ... as the failure message is not matched.
        ((rule("FailJobSet", patterns=["^job .*"]),), "", "another error", A, "", (1, 1)),
        # ... as the failure message is not matched, even if reason is matched.
        ((rule("FailJobSet", POLICY, patterns=["abc"]),), POLICY, "xyz", A, "", (1, 1)),
        # jobset fails immediately ... as the failure reason and message are matched.
        ((rule("FailJobSet", POLICY, patterns=["abc"]),), POLICY, "abc", A, "Failed", (0, 0)),
        # ... even if message string is not exactly equal to pattern string.
        ((rule("FailJobSet", POLICY, patterns=["exit code 3"]),), POLICY, "with exit code 3 at", A, "Failed", (0, 0)),
        # jobset restarts with RestartJobSet failure policy action.
        ((rule("RestartJobSet", POLICY), rule("FailJobSet")), POLICY, "", A, "", (1, 1)),
        # jobset restarts with RestartJobSetAndIgnoreMaxRestarts failure policy action.
        ((rule("RestartJobSetAndIgnoreMaxRestarts", POLICY), rule("FailJobSet")), POLICY, "", A, "", (1, 0)),
        # job fails and the parent replicated job is contained in TargetReplicatedJobs.
        ((rule("FailJobSet", targets=["replicated-job-a"]),), INDEXES, "", A, "Failed", (0, 0)),
        # job fails and the parent replicated job is not contained in TargetReplicatedJobs.
        ((rule("FailJobSet", targets=["replicated-job-a"]),), INDEXES, "", B[0], "", (1, 1)),
        # failure policy rules order verification test 1, 2 and 3
        (
            (rule("FailJobSet", INDEXES, targets=["replicated-job-a"]), rule("RestartJobSet", INDEXES)),
            INDEXES,
            "",
            A,
            "Failed",
            (0, 0),
        ),
        (
            (rule("RestartJobSet", INDEXES, targets=["replicated-job-a"]), rule("FailJobSet", INDEXES)),
            INDEXES,
            "",
            A,
            "",
            (1, 1),
        ),
        (
            (rule("RestartJobSetAndIgnoreMaxRestarts", INDEXES, targets=["replicated-job-a"]), rule("FailJobSet")),
            INDEXES,
            "",
            B[0],
            "Failed",
            (0, 0),
        ),
    ],
)
def test_failure_policy(rules, reason, message, job, state, restarts):
    world = begun(failurePolicy=policy(*rules))
    world.fail(job, reason, message)
    assert (world.state(), world.restarts) == (state, restarts)


def test_jobset_fails_after_reaching_max_restarts():
    world = begun(failurePolicy=policy(most=1))
    world.fail(A)
    world.collect()
    assert (world.restarts, world.attempts) == ((1, 1), {1: 4})
    world.fail(A)
    assert world.condition(names.FAILED) == ("True", "ReachedMaxRestarts")
    assert world.condition(names.RESTARTING) == ("False", "JobSetFailed")
    assert world.reasons() == [
        "DefaultFailurePolicy",
        "RestartJobSetFailurePolicyAction",
        "ReachedMaxRestarts",
        "JobSetFailed",
    ]


def test_ignoring_the_maximum_jobs_restart_for_ever():
    world = begun(failurePolicy=policy(rule("RestartJobSetAndIgnoreMaxRestarts", INDEXES), most=0))
    for attempt in (1, 2, 3):
        world.fail(A, INDEXES)
        world.collect()
        assert (world.restarts, world.attempts) == ((attempt, 0), {attempt: 4})


def test_job_succeeds_after_one_failure():
    world = begun(failurePolicy=policy())
    world.fail(A)
    world.collect()
    world.complete()
    assert world.state() == "Completed"
    assert world.condition(names.RESTARTING) == ("False", "JobSetCompleted")


def test_jobset_restarting_condition_transitions():
    world = begun(failurePolicy=policy(rule("RestartJobSet", POLICY, name="Rule1")))
    world.fail(A, POLICY)
    assert world.condition(names.RESTARTING) == ("True", "FailurePolicy_Rule1")
    world.collect()
    world.ready(*ALL)
    assert world.condition(names.RESTARTING) == ("False", "JobsReady")


@pytest.mark.parametrize(("action", "counted"), [("RestartJob", (1,)), ("RestartJobAndIgnoreMaxRestarts", ())])
def test_jobset_restarts_one_job(action, counted):
    world = begun(failurePolicy=policy(rule(action, POLICY), rule("FailJobSet")))
    world.fail(A, POLICY)
    record = world.jobset.status.replicated_jobs_status[0]
    assert (record.job_restarts, record.job_restarts_count_towards_max) == ((1,), counted)
    assert world.restarts == (0, 0)
    assert world.condition(names.RESTARTING) is None
    assert world.reasons() == [f"{action}FailurePolicyAction"]
    world.collect()
    assert world.created[4:] == [A]
    assert world.jobs[A].metadata.labels[names.JOB_RESTART_ATTEMPT] == "1"
    assert {world.jobs[name].metadata.labels[names.JOB_RESTART_ATTEMPT] for name in B} == {"0"}


def test_restarts_of_one_job_and_of_all_count_together():
    world = begun(failurePolicy=policy(rule("RestartJob", POLICY), most=2))
    world.fail(B[1], POLICY)
    world.collect()
    world.fail(A)
    world.collect()
    assert world.restarts == (1, 1)
    world.fail(B[0], POLICY)
    assert world.condition(names.FAILED) == ("True", "ReachedMaxRestarts")


def test_jobs_are_restarted_individually_with_recreate_strategy():
    world = begun(failurePolicy=policy(strategy="Recreate"))
    world.fail(A)
    world.collect(3)
    assert world.attempts == {0: 1, 1: 3}
    world.collect(1)
    assert world.attempts == {1: 4}


def test_jobs_are_recreated_after_all_jobs_are_deleted_with_blockingrecreate_strategy():
    world = begun(failurePolicy=policy(strategy="BlockingRecreate"))
    world.fail(A)
    world.collect(3)
    assert world.attempts == {0: 1}
    world.collect(1)
    assert world.attempts == {1: 4}


def test_jobset_created_in_suspended_state():
    world = begun(suspend=True)
    assert all(job.spec.suspend for job in world.jobs.values())
    assert world.condition(names.SUSPENDED) == ("True", "SuspendedJobs")
    assert world.counts() == {"replicated-job-a": (0, 0, 0, 0, 1), "replicated-job-b": (0, 0, 0, 0, 3)}


def test_resume_a_suspended_jobset():
    """Template updates propagate."""
    world = begun(suspend=True)
    updated = {
        "metadata": {"labels": {"l": "1"}, "annotations": {"a": "2"}},
        "spec": {
            "containers": [{"name": "main", "image": "none"}],
            "nodeSelector": {"n": "3"},
            "tolerations": [{"key": "t", "operator": "Exists"}],
            "schedulingGates": [{"name": "g"}],
        },
    }
    world.set(replicatedJobs=[role("replicated-job-a", 1, template=updated), role("replicated-job-b", 3)])
    world.suspended()
    world.set(suspend=False)
    assert not any(job.spec.suspend for job in world.jobs.values())
    assert world.condition(names.SUSPENDED) == ("False", "ResumeJobs")
    pods = world.jobs[A].spec.template
    assert (pods.metadata.labels["l"], pods.metadata.annotations["a"]) == ("1", "2")
    assert pods.spec.node_selector == {"n": "3"}
    assert [toleration.key for toleration in pods.spec.tolerations] == ["t"]
    assert [gate.name for gate in pods.spec.scheduling_gates] == ["g"]
    assert pods.metadata.labels["batch.kubernetes.io/job-name"] == A
    assert world.jobs[B[0]].spec.template.spec.node_selector == {}


def test_suspend_a_running_jobset():
    world = begun()
    world.ready(*ALL)
    world.set(suspend=True)
    assert all(job.spec.suspend for job in world.jobs.values())
    assert world.condition(names.SUSPENDED) == ("True", "SuspendedJobs")


def test_update_replicatedjobsstatuses():
    world = begun()
    world.ready(A)
    assert world.counts() == {"replicated-job-a": (1, 0, 0, 1, 0), "replicated-job-b": (0, 0, 0, 0, 0)}
    world.complete()
    assert world.counts() == {"replicated-job-a": (0, 1, 0, 0, 0), "replicated-job-b": (0, 3, 0, 0, 0)}


@pytest.mark.parametrize("ends", ["succeeds", "fails"])
def test_active_jobs_are_deleted_after_jobset(ends):
    world = begun(successPolicy={"operator": "Any"})
    world.complete(A) if ends == "succeeds" else world.fail(A)
    assert [name for name, job in world.jobs.items() if job.metadata.deletion_timestamp] == list(B)
    world.collect()
    assert list(world.jobs) == [A]
    assert world.created == list(ALL)


IN_ORDER = {"startupPolicyOrder": "InOrder"}


@pytest.mark.parametrize("order", ["InOrder", "AnyOrder"])
def test_startuppolicy_suspend_should_keep_jobs_suspended(order):
    world = begun(suspend=True, startupPolicy={"startupPolicyOrder": order})
    assert world.counts() == {"replicated-job-a": (0, 0, 0, 0, 1), "replicated-job-b": (0, 0, 0, 0, 3)}


def test_startuppolicy_with_inorder_resume_suspended_jobset():
    world = begun(suspend=True, startupPolicy=IN_ORDER)
    assert world.condition(names.STARTUP_IN_PROGRESS) is None
    world.set(suspend=False)
    assert world.condition(names.SUSPENDED) == ("False", "ResumeJobs")
    assert world.counts() == {"replicated-job-a": (0, 0, 0, 0, 0), "replicated-job-b": (0, 0, 0, 0, 3)}
    world.ready(A)
    assert world.counts() == {"replicated-job-a": (1, 0, 0, 1, 0), "replicated-job-b": (0, 0, 0, 0, 0)}
    assert world.condition(names.STARTUP_IN_PROGRESS) == ("True", "InOrderStartupPolicyInProgress")
    world.ready(*B)
    assert world.counts() == {"replicated-job-a": (1, 0, 0, 1, 0), "replicated-job-b": (3, 0, 0, 3, 0)}
    assert world.condition(names.STARTUP_COMPLETED) == ("True", "InOrderStartupPolicyCompleted")
    assert world.condition(names.STARTUP_IN_PROGRESS) == ("False", "InOrderStartupPolicyInProgress")


def test_startuppolicy_inorder_replicated_job_a_not_ready_then_replicated_job_b_should_not_run():
    world = begun(startupPolicy=IN_ORDER, failurePolicy=policy())
    assert list(world.jobs) == [A]
    world.active(A)
    assert list(world.jobs) == [A]
    world.ready(A)
    assert list(world.jobs) == list(ALL)
    world.active(*B)
    assert world.condition(names.STARTUP_COMPLETED) is None
    world.ready(*B)
    assert world.condition(names.STARTUP_COMPLETED) == ("True", "InOrderStartupPolicyCompleted")
    # success policy restart; replicated-job-a ready then replicated-job-b should run
    world.end(A, "Complete")
    world.fail(B[0])
    world.collect()
    assert list(world.jobs) == [A]
    assert world.condition(names.STARTUP_IN_PROGRESS) == ("True", "InOrderStartupPolicyInProgress")
    assert world.condition(names.STARTUP_COMPLETED) == ("False", "InOrderStartupPolicyCompleted")
    world.ready(A)
    world.ready(*B)
    assert (world.attempts, world.condition(names.STARTUP_COMPLETED)) == (
        {1: 4},
        ("True", "InOrderStartupPolicyCompleted"),
    )


def test_what_a_jobset_tells_of_its_start_in_upstreams_words():
    world = begun(role("a"), role("b"), suspend=True, startupPolicy=IN_ORDER, failurePolicy=policy(most=2))
    world.set(suspend=False)
    world.ready("js-a-0")
    world.ready("js-b-0")
    world.fail("js-b-0")
    world.collect()
    world.ready("js-a-0")
    world.ready("js-b-0")
    world.fail("js-b-0")
    world.set(suspend=True)
    applying = "applying RestartJobSet failure policy action (first failed job: js-b-0)"
    in_order = [
        ("Normal", "InOrderStartupPolicyInProgress", "in order startup policy is in progress"),
        ("Normal", "InOrderStartupPolicyCompleted", "in order startup policy has completed"),
    ]
    restarting = [
        ("Warning", "DefaultFailurePolicy", applying),
        ("Warning", "RestartJobSetFailurePolicyAction", applying),
    ]
    suspended = ("Normal", "SuspendedJobs", "jobset is suspended")
    assert [(note.type, note.reason, note.message) for note in world.notes] == [
        suspended,
        in_order[0],
        ("Normal", "ResumeJobs", "jobset is resumed"),
        in_order[1],
        *restarting,
        in_order[0],
        ("Normal", "JobsReady", "all jobs are ready"),
        in_order[1],
        *restarting,
        in_order[0],
        suspended,
        ("Normal", "JobSetSuspended", "jobset is suspended"),
    ]


def test_dependson_rjob_b_depends_on_ready_status_of_rjob_a():
    world = begun(role("a", 2), role("b", depends={"a": "Ready"}))
    assert list(world.jobs) == ["js-a-0", "js-a-1"]
    world.ready("js-a-0")
    assert list(world.jobs) == ["js-a-0", "js-a-1"]
    world.ready("js-a-1")
    assert list(world.jobs) == ["js-a-0", "js-a-1", "js-b-0"]


def test_dependson_chain():
    """rjob-b depends on complete status of rjob-a, and rjob-c depends on ready status of rjob-b."""
    world = begun(role("a"), role("b", depends={"a": "Complete"}), role("c", depends={"b": "Ready"}))
    world.ready("js-a-0")
    assert list(world.jobs) == ["js-a-0"]
    world.complete("js-a-0")
    assert list(world.jobs) == ["js-a-0", "js-b-0"]
    world.ready("js-b-0")
    assert list(world.jobs) == ["js-a-0", "js-b-0", "js-c-0"]


@pytest.mark.parametrize(("of_a", "of_b"), [("Complete", "Complete"), ("Ready", "Complete"), ("Ready", "Ready")])
def test_dependson_rjob_c_depends_on_both(of_a, of_b):
    world = begun(role("a"), role("b"), role("c", depends={"a": of_a, "b": of_b}))
    for name, status in (("js-a-0", of_a), ("js-b-0", of_b)):
        assert "js-c-0" not in world.jobs
        world.ready(name) if status == "Ready" else world.complete(name)
    assert "js-c-0" in world.jobs


def test_dependson_resume_suspended_jobset():
    world = begun(role("a"), role("b", depends={"a": "Ready"}), suspend=True)
    assert list(world.jobs) == ["js-a-0"]
    world.set(suspend=False)
    assert list(world.jobs) == ["js-a-0"]
    world.ready("js-a-0")
    assert not world.jobs["js-b-0"].spec.suspend


def test_jobset_with_coordinator_set_should_have_annotation_and_label_set_on_all_jobs():
    world = begun(coordinator={"replicatedJob": "replicated-job-b", "jobIndex": 1, "podIndex": 2})
    for job in world.jobs.values():
        for meta in (job.metadata, job.spec.template.metadata):
            assert meta.labels[names.COORDINATOR] == meta.annotations[names.COORDINATOR]
            assert meta.labels[names.COORDINATOR] == "js-replicated-job-b-1-2.js"


def test_jobset_controller_should_delete_it_after_configured_ttl_duration_passes():
    world = begun(ttlSecondsAfterFinished=5)
    world.wait(10)
    world.complete()
    assert not world.expired
    world.wait(4)
    assert not world.expired
    world.wait(1)
    assert world.expired


def test_dynamic_horizontal_pod_scaling_propagates_parallelism_and_completions_to_child_jobs():
    world = begun(role("a", 2, 3), role("b", 1, 1))
    world.ready("js-a-0", "js-a-1")
    world.set(replicatedJobs=[role("a", 2, 5), role("b", 1, 1)])
    assert [(job.spec.parallelism, job.spec.completions) for job in world.jobs.values()] == [(5, 5), (5, 5), (1, 1)]


def test_a_jobset_that_is_being_deleted_is_left_alone():
    made = jobset()
    world = World(replace(made, metadata=replace(made.metadata, deletion_timestamp=START)))
    assert not world.look()
