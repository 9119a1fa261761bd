"""What is easily got wrong about JobSets, each by itself."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.jobs.jobset.world import START, World, begun, job_of, jobset, role

from muster.api.batch import JobCondition, JobStatus
from muster.api.conditions import is_true
from muster.api.core import Toleration
from muster.api.jobset import ReplicatedJobStatus, names
from muster.api.ours.interruptions import STOPPED_ANNOTATION
from muster.jobs.interruption import count_interruptions, count_suspensions, last_interruption
from muster.jobs.jobset.census import Census
from muster.jobs.jobset.children import Children
from muster.jobs.jobset.decide import decide
from muster.jobs.jobset.failure import is_met
from muster.jobs.jobset.slices import MAX_JOBS
from muster.jobs.jobset.status import has_started, is_ready

RESTARTS = {"maxRestarts": 1, "restartStrategy": "Recreate"}
SAYS_SUSPENDED = JobCondition(type="Suspended", status="True")


def test_a_failure_is_seen_before_a_success_that_came_with_it():
    world = begun(role("a"), role("b"), successPolicy={"operator": "Any"})
    world.end("js-a-0", "Complete")
    world.fail("js-b-0")
    assert world.state() == "Failed"


def test_the_failure_policy_is_kept_while_suspended_too():
    world = begun(role("a"), failurePolicy=RESTARTS)
    world.ready("js-a-0")
    world.end("js-a-0", "Failed")
    world.set(suspend=True)
    assert world.restarts == (1, 1)
    world.collect()
    assert world.attempts == {1: 1}
    assert world.jobs["js-a-0"].spec.suspend


def test_nothing_is_made_in_the_look_that_sees_a_failure():
    world = begun(role("a", 2))
    del world.jobs["js-a-1"]
    world.end("js-a-0", "Failed")
    plan = decide(world.jobset, tuple(world.jobs.values()), now=world.now)
    assert (plan.create, plan.service, plan.claims) == ((), None, ())


@pytest.mark.parametrize(
    ("spec", "status", "ready"),
    [
        # partial jobs are ready, no succeeded jobs
        ({"parallelism": 1, "completions": 2}, {"ready": 1, "succeeded": 1}, True),
        ({"parallelism": 5}, {"ready": 2, "succeeded": 3}, True),
        ({"parallelism": 3, "completions": 2}, {"ready": 1, "succeeded": 1}, True),
        ({"parallelism": 2, "completions": 3}, {"ready": 2, "succeeded": 1}, True),
        ({"parallelism": 4, "completions": 5}, {"ready": 2, "succeeded": 1}, False),
        ({}, {}, False),
        ({}, {"ready": 1}, True),
        ({"parallelism": 0}, {}, True),
        # A suspended Job has to start yet, whatever of it has succeeded.
        ({"parallelism": 1, "completions": 3, "suspend": True}, {"succeeded": 1}, False),
        ({"parallelism": 0, "suspend": True}, {}, False),
    ],
)
def test_ready_is_what_runs_at_once(spec, status, ready):
    job = job_of(jobset(), "js-replicated-job-a-0")
    job = replace(job, spec=replace(job.spec, **spec), status=JobStatus(**status))
    assert is_ready(job) == ready


@pytest.mark.parametrize(
    ("depends", "spec"), [({}, {"startupPolicy": {"startupPolicyOrder": "InOrder"}}), ({"a": "Ready"}, {})]
)
def test_a_role_of_which_part_has_succeeded_is_resumed_before_those_that_come_after_it(depends, spec):
    world = begun(role("a", completions=3), role("b", depends=depends), **spec)
    world.ready("js-a-0")
    world.report("js-a-0", ready=0, active=0, succeeded=1)
    world.set(suspend=True)
    world.suspended()
    world.change(suspend=False)
    world.look()
    assert not world.suspends("js-a-0")
    assert world.suspends("js-b-0")
    world.ready("js-a-0")
    assert not world.suspends("js-b-0")


def test_a_job_that_has_completed_is_no_longer_ready():
    world = begun(role("a", 2))
    world.ready("js-a-0", "js-a-1")
    world.complete("js-a-0")
    assert world.counts() == {"a": (1, 1, 0, 1, 0)}


def test_a_restart_is_a_number_first_and_deletions_after_it():
    world = begun(failurePolicy=RESTARTS)
    world.end("js-replicated-job-a-0", "Failed")
    first = decide(world.jobset, tuple(world.jobs.values()), now=world.now)
    assert (first.status.restarts, first.delete, first.create) == (1, (), ())
    world.jobset = replace(world.jobset, status=first.status)
    second = decide(world.jobset, tuple(world.jobs.values()), now=world.now)
    assert len(second.delete) == 4
    assert not second.create


def test_a_name_is_taken_until_its_job_is_gone():
    world = begun(role("a", 2))
    world.delete("js-a-0")
    world.settle()
    assert world.created == ["js-a-0", "js-a-1"]
    world.collect()
    assert world.created == ["js-a-0", "js-a-1", "js-a-0"]


@pytest.mark.parametrize(
    ("labels", "bucket"),
    [
        ({"RESTART_ATTEMPT": "2", "JOB_RESTART_ATTEMPT": "1"}, "active"),
        ({"RESTART_ATTEMPT": "1", "JOB_RESTART_ATTEMPT": "1"}, "previous"),
        ({"RESTART_ATTEMPT": "3", "JOB_RESTART_ATTEMPT": "1"}, "active"),
        ({"RESTART_ATTEMPT": "2", "JOB_RESTART_ATTEMPT": "0"}, "previous"),
        # A single label that is no number does not hold up all the others.
        ({"RESTART_ATTEMPT": "two", "JOB_RESTART_ATTEMPT": "1"}, "previous"),
        ({"RESTART_ATTEMPT": "2", "JOB_RESTART_ATTEMPT": "-1"}, "previous"),
        ({}, "previous"),
        # Made before Jobs were restarted one by one.
        ({"RESTART_ATTEMPT": "2"}, "active"),
    ],
)
def test_of_which_attempt_a_job_is(labels, bucket):
    record = {"name": "a", "jobRestarts": [0, 1]}
    made = jobset(role("a", 2), status={"restarts": 2, "replicatedJobsStatus": [record]})
    census = Census.of(made, [job_of(made, "js-a-1", **labels)])
    assert [bucket] == [name for name in census.__struct_fields__ if getattr(census, name)]


@pytest.mark.parametrize("name", ["js-b-0", "js-a-01", "js-a-x", "other-a-0", "js-a", "js-a-99999999999", "js-a-१"])
def test_jobs_of_names_that_it_does_not_give_are_left_alone(name):
    made = jobset(role("a", 2))
    plan = decide(made, [job_of(made, name, RESTART_ATTEMPT="0")], now=START)
    assert (plan.delete, plan.change) == ((), ())
    assert [job.metadata.name for job in plan.create] == ["js-a-0", "js-a-1"]


def test_resume_overwrites_what_was_injected_before():
    """Kueue gives another flavor when it admits again: what the first one wanted may not stay."""

    def placed(node: str):
        pods = {"nodeSelector": {node: "1"}, "tolerations": [{"key": node, "operator": "Exists"}]}
        containers = [{"name": "main", "image": "none"}]
        template = {"metadata": {"labels": {node: "1"}}, "spec": pods | {"containers": containers}}
        return [role("a", template=template)]

    world = begun(role("a"), suspend=True)
    world.suspended()
    for node in ("first", "second"):
        world.set(replicatedJobs=placed(node))
        world.set(suspend=False)
        assert not world.suspends("js-a-0")
        world.ready("js-a-0")
        world.set(suspend=True)
        world.suspended()
    pods = world.jobs["js-a-0"].spec.template
    assert pods.spec.node_selector == {"second": "1"}
    assert pods.spec.tolerations == (Toleration(key="second", operator="Exists"),)
    assert "first" not in pods.metadata.labels
    assert pods.metadata.labels["batch.kubernetes.io/job-name"] == "js-a-0"
    assert pods.metadata.labels[names.JOBSET_NAME] == "js"


def test_a_template_that_changed_waits_for_the_last_pod_of_the_old_one():
    world = begun(role("a"))
    world.ready("js-a-0")
    world.set(suspend=True)
    pods = {"nodeSelector": {"n": "1"}, "containers": [{"name": "main", "image": "none"}]}
    world.set(replicatedJobs=[role("a", template={"spec": pods})])
    world.set(suspend=False)
    assert world.suspends("js-a-0")
    world.report("js-a-0", active=0, ready=0)  # between two pods, or after the last one: the Job says which
    world.settle()
    assert world.suspends("js-a-0")
    world.report("js-a-0", active=1, start_time=None, conditions=(SAYS_SUSPENDED,))  # one could not be deleted yet
    world.settle()
    assert world.suspends("js-a-0")
    world.suspended("js-a-0")
    assert not world.suspends("js-a-0")
    assert world.jobs["js-a-0"].spec.template.spec.node_selector == {"n": "1"}


def test_41_a_job_that_is_resumed_after_others_came_says_the_same_as_its_pods():
    world = begun(role("a"), role("b"))
    world.set(suspend=True)
    world.set(replicatedJobs=[role("a", 3), role("b")])
    for name in ("js-a-0", "js-b-0"):
        world.suspended(name)
    world.set(suspend=False)
    job = world.jobs["js-b-0"]
    said = {label: job.metadata.labels[label] for label in (names.JOB_GLOBAL_INDEX, names.GLOBAL_REPLICAS)}
    assert said == {names.JOB_GLOBAL_INDEX: "3", names.GLOBAL_REPLICAS: "4"}
    assert said.items() <= job.metadata.annotations.items()
    assert said.items() <= job.spec.template.metadata.labels.items()


def test_a_template_that_did_not_change_waits_for_nothing():
    world = begun(role("a"))
    world.set(suspend=True)
    world.set(suspend=False)
    assert not world.jobs["js-a-0"].spec.suspend


def test_a_job_that_is_being_deleted_is_left_as_it_is():
    world = begun(role("a"))
    world.delete("js-a-0")
    world.set(suspend=True)
    assert not world.suspends("js-a-0")


def test_one_that_is_suspended_while_it_restarts_does_not_say_that_it_is_ready():
    world = begun(role("a"), failurePolicy=RESTARTS)
    world.fail("js-a-0")
    world.collect()
    world.report("js-a-0", start_time=world.now, active=1, ready=1)
    world.set(suspend=True)
    assert world.condition(names.RESTARTING) == ("False", "JobSetSuspended")
    assert "JobsReady" not in world.reasons()


@pytest.mark.parametrize(
    ("counts", "started"),
    [
        ({"ready": 3}, True),
        ({"ready": 1, "succeeded": 1, "failed": 1}, True),
        ({"failed": 3}, True),
        ({"ready": 2}, False),
        ({"ready": 2, "active": 3, "suspended": 1}, False),
    ],
)
def test_a_role_has_started_once_all_its_jobs_are_ready_or_have_ended(counts, started):
    assert has_started(ReplicatedJobStatus(name="a", **counts), 3) is started


def test_a_jobset_without_a_success_policy_needs_all_jobs():
    world = begun(role("a", 2), successPolicy=None)
    world.complete("js-a-0")
    assert world.state() == ""
    world.complete("js-a-1")
    assert world.state() == "Completed"


@pytest.mark.parametrize(
    ("pattern", "message", "found"),
    [
        ("^job failed because.*", "job failed because of a bug", True),
        ("^job failed because.*", "another error message", False),
        ("exit code 3$", "container x failed with exit code 3", True),
        (r"\bOOM\b", "it was OOM-killed", True),
        (r"OOM\z", "it was OOM", True),
        (r"(?i)oom", "it was OOM", True),
        ("", "anything", True),
        # What RE2 has not matches nothing, and holds up no other rule.
        ("(?=x)", "x", False),
        (r"(a)\1", "aa", False),
        ("(", "(", False),
        ("(a*)*b", "a" * 5000, False),
    ],
)
def test_patterns_are_searched_for_as_re2_does(pattern, message, found):
    made = jobset(
        role("a"),
        failurePolicy={"rules": [{"name": "r", "action": "FailJobSet", "onJobFailureMessagePatterns": [pattern]}]},
    )
    job = job_of(made, "js-a-0", RESTART_ATTEMPT="0")
    failed = JobCondition(type="Failed", status="True", reason="r", message=message, last_transition_time=START)
    census = Census.of(made, [replace(job, status=JobStatus(conditions=(failed,)))])
    assert is_met(made.spec.failure_policy.rules[0], census.failed[0]) == found


def test_of_several_failures_the_first_that_a_rule_is_about_is_named():
    world = begun(
        role("a", 3),
        failurePolicy={"rules": [{"name": "r", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}]},
    )
    world.end("js-a-0", "Failed", "BackoffLimitExceeded")
    world.now += timedelta(seconds=2)
    world.end("js-a-1", "Failed", "PodFailurePolicy")
    world.now -= timedelta(seconds=1)
    world.end("js-a-2", "Failed", "PodFailurePolicy")
    world.settle()
    (condition,) = world.conditions()
    assert condition.message == "applying FailJobSet failure policy action (first failed job: js-a-2)"


def test_roles_are_told_in_the_order_of_the_spec():
    world = begun(role("b"), role("c"), role("a"))
    assert list(world.counts()) == ["b", "c", "a"]
    assert not world.look()


def test_conditions_are_never_added_as_false_and_keep_their_time():
    world = begun(role("a"), failurePolicy={"maxRestarts": 5, "restartStrategy": "Recreate"})
    assert world.conditions() == []
    for attempt in (1, 2):
        world.now += timedelta(minutes=1)
        world.fail("js-a-0")
        (condition,) = world.conditions()
        assert condition.last_transition_time == START + timedelta(minutes=1), attempt
        world.collect()


def test_a_finished_jobset_keeps_jobs_that_have_ended_and_expires_by_the_time_of_its_end():
    world = begun(role("a"), role("b"), successPolicy={"operator": "Any"}, ttlSecondsAfterFinished=60)
    world.now += timedelta(hours=1)
    world.complete("js-a-0")
    world.collect()
    assert list(world.jobs) == ["js-a-0"]
    plan = decide(world.jobset, tuple(world.jobs.values()), now=world.now)
    assert (plan.expired, plan.wake_at) == (False, START + timedelta(hours=1, seconds=60))
    world.wait(60)
    assert world.expired


def test_a_finished_jobset_takes_the_jobs_away_that_are_beyond_its_replicas_too():
    world = begun(role("a", 3), successPolicy={"operator": "Any"})
    world.end("js-a-0", "Complete")
    world.look()
    assert world.state() == "Completed"
    world.set(replicatedJobs=[role("a", 2)])
    assert [name for name, job in world.jobs.items() if job.metadata.deletion_timestamp] == ["js-a-1", "js-a-2"]


@pytest.mark.parametrize(
    ("mode", "parallelism", "completions", "size"),
    [
        ("Indexed", 5, 5, (5, 5)),
        ("Indexed", 5, 2, (2, 2)),
        ("Indexed", None, None, (2, 2)),
        ("NonIndexed", 5, 5, (2, 2)),
        ("NonIndexed", None, None, (2, 2)),
    ],
)
def test_only_indexed_jobs_are_scaled_and_only_in_tandem(mode, parallelism, completions, size):
    world = begun(role("a", 1, 2))
    world.set(replicatedJobs=[role("a", parallelism=parallelism, completions=completions, completionMode=mode)])
    job = world.jobs["js-a-0"]
    assert (job.spec.parallelism, job.spec.completions) == size
    assert not world.look()


def test_more_replicas_are_more_jobs_and_fewer_take_the_highest():
    world = begun(role("a", 2), role("b"))
    world.set(replicatedJobs=[role("a", 4), role("b")])
    assert list(world.jobs) == ["js-a-0", "js-a-1", "js-b-0", "js-a-2", "js-a-3"]
    world.ready(*world.jobs)
    assert world.counts()["a"] == (4, 0, 0, 4, 0)
    world.set(replicatedJobs=[role("a", 1), role("b")])
    world.collect()
    assert list(world.jobs) == ["js-a-0", "js-b-0"]
    assert world.counts()["a"] == (1, 0, 0, 1, 0)
    world.complete()
    assert world.state() == "Completed"


def test_what_is_beyond_the_replicas_fails_nobody():
    world = begun(role("a", 2))
    world.end("js-a-1", "Failed")
    world.set(replicatedJobs=[role("a", 1)])
    assert world.state() == ""
    world.complete("js-a-0")
    assert world.state() == "Completed"


def test_restarts_of_single_jobs_are_counted_for_as_many_as_there_are():
    policy = {"maxRestarts": 9, "rules": [{"name": "r", "action": "RestartJob"}]}
    world = begun(role("a", 2), failurePolicy=policy)
    world.fail("js-a-1")
    world.collect()
    world.set(replicatedJobs=[role("a", 3)])
    assert world.job_restarts() == [(0, 1, 0)]
    world.set(replicatedJobs=[role("a", 1)])
    assert world.job_restarts() == [(0,)]


def test_a_name_that_the_server_completed_is_that_of_the_service():
    made = jobset(role("a"), name="long-x7k2p")
    (job,) = decide(made, [], now=START).create
    assert job.spec.template.spec.subdomain == "long-x7k2p"


def test_many_jobs_are_made_and_taken_away_by_several_decisions():
    world = World(jobset(role("a", MAX_JOBS + 1)))
    plan = decide(world.jobset, (), now=START)
    assert (len(plan.create), plan.more) == (MAX_JOBS, True)
    world.settle()
    assert len(world.jobs) == MAX_JOBS + 1
    world.end("js-a-0", "Failed")
    world.look()
    plan = decide(world.jobset, tuple(world.jobs.values()), now=START)
    assert (len(plan.delete), plan.more) == (MAX_JOBS, False)
    world = begun(role("a", MAX_JOBS + 1), failurePolicy=RESTARTS)
    world.end("js-a-0", "Failed")
    world.look()
    plan = decide(world.jobset, tuple(world.jobs.values()), now=START)
    assert (len(plan.delete), plan.more) == (MAX_JOBS, True)
    world.settle()
    world.collect()
    assert world.attempts == {1: MAX_JOBS + 1}


def test_many_jobs_are_suspended_by_several_decisions_and_the_last_one_says_so():
    world = begun(role("a", MAX_JOBS + 1))
    wanted = replace(world.jobset, spec=replace(world.jobset.spec, suspend=True))
    plan = decide(wanted, tuple(world.jobs.values()), now=START)
    assert (len(plan.change), plan.more) == (MAX_JOBS, True)
    assert not is_true(plan.status.conditions, names.SUSPENDED)  # what runs still holds quota
    world.set(suspend=True)
    assert all(job.spec.suspend for job in world.jobs.values())
    assert is_true(world.jobset.status.conditions, names.SUSPENDED)
    world.suspended()
    world.set(suspend=False)
    assert not any(job.spec.suspend for job in world.jobs.values())


def test_what_children_share_does_not_depend_on_when_they_are_made():
    made = jobset(role("a", 2))
    assert Children(made).job(made.spec.replicated_jobs[0], 1) == decide(made, [], now=START).create[1]


def test_refused_jobs_keep_no_others_from_being_created_changed_or_deleted():
    refused = {f"js-a-{index}": 1 for index in range(MAX_JOBS)}
    others = {f"js-a-{index}" for index in range(MAX_JOBS, 2 * MAX_JOBS)}
    world = World(jobset(role("a", 2 * MAX_JOBS)))
    plan = decide(world.jobset, (), now=START, refused=refused)
    assert {job.metadata.name for job in plan.create} == others
    assert not plan.more
    world = begun(role("a", 2 * MAX_JOBS))
    wanted = replace(world.jobset, spec=replace(world.jobset.spec, suspend=True))
    plan = decide(wanted, tuple(world.jobs.values()), now=START, refused=refused)
    assert {change.job.metadata.name for change in plan.change} == others
    assert not is_true(plan.status.conditions, names.SUSPENDED)  # the refused ones still hold quota
    world.end("js-a-0", "Failed")
    world.look()
    plan = decide(world.jobset, tuple(world.jobs.values()), now=START, refused=refused)
    assert {job.metadata.name for job in plan.delete} == others


def test_the_suspension_of_a_jobset_that_runs_is_an_interruption_and_its_pods_count_it():
    world = begun(role("a", 2), role("b"), annotations={STOPPED_ANNOTATION: "Preempted"})
    world.ready("js-a-0", "js-a-1")
    world.set(suspend=True)
    assert world.condition("muster.dev/Interrupted") == ("True", "Interrupted")
    told = world.jobset.status.conditions
    assert (count_interruptions(told), count_suspensions(told)) == (1, 1)
    assert last_interruption(told) == "it was stopped by its queue: Preempted"
    world.suspended()
    world.set(suspend=False)
    for job in world.jobs.values():
        assert not job.spec.suspend
        assert job.metadata.labels[names.RESTART_ATTEMPT] == "0", "it is the Job of before"
        assert job.spec.template.metadata.labels[names.RESTART_ATTEMPT] == "1"
    assert (world.jobset.status.restarts, len(world.created)) == (0, 3)


def test_a_jobset_whose_jobs_have_stopped_already_is_interrupted_too():
    world = begun(role("a"))
    world.ready("js-a-0")
    world.change(suspend=True)
    world.report("js-a-0", active=0, ready=0)
    world.settle()
    assert count_interruptions(world.jobset.status.conditions) == 1


def test_the_suspension_of_a_jobset_that_never_ran_is_no_interruption():
    world = begun(role("a"), annotations={STOPPED_ANNOTATION: "Preempted"})
    world.active("js-a-0")
    world.set(suspend=True)
    assert count_interruptions(world.jobset.status.conditions) == 0
