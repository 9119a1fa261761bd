"""Which pods the platform ended, and what a Job makes of them."""

from typing import Any

import pytest
from tests.unit.jobs.test_policies import conditions, exits, rules
from tests.unit.jobs.world import START, World, job_of

from muster.api.batch import COMPLETION_INDEX, INDEX_FAILURE_COUNT, TRACKING_FINALIZER, PodFailurePolicy
from muster.api.conditions import find
from muster.api.core import Pod, PodCondition, PodSpec, PodStatus
from muster.api.jobset.names import GROUP_SCHEDULING_EPOCH
from muster.api.meta import ObjectMeta, OwnerReference
from muster.api.ours.embedded import CLUSTER_STOPPED
from muster.api.ours.interruptions import (
    ATTEMPT_ANNOTATION,
    PREEMPTED_ANNOTATION,
    STOPPED_ANNOTATION,
    SUSPENDED_ANNOTATION,
)
from muster.api.pods import FORGOTTEN_MESSAGE, SHUTDOWN_MESSAGE
from muster.jobs.interruption import (
    INTERRUPTIONS,
    add_interruptions,
    count_interruptions,
    count_suspensions,
    interruption_of,
    last_interruption,
)
from muster.jobs.job.conditions import finish
from muster.jobs.job.pod_failure_policy import judge

JOBSET = OwnerReference(api_version="jobset.x-k8s.io/v1alpha2", kind="JobSet", name="js", uid="js-uid", controller=True)
TAINTED = "Taint manager: deleting due to NoExecute taint"
FORGOTTEN = "though the server recorded it as running: a backup was restored, or its end was never written"
TARGET = (("DisruptionTarget", "True"),)


def pod(
    phase: str = "Failed",
    reason: str = "EvictionByEvictionAPI",
    *,
    status: str = "True",
    type: str = "DisruptionTarget",
    node: str = "n",
    preempted: str = "",
    message: str = "why",
    deleting: bool = False,
    suspended: str = "",
) -> Pod:
    annotations = {PREEMPTED_ANNOTATION: preempted} if preempted else {}
    annotations |= {SUSPENDED_ANNOTATION: suspended} if suspended else {}
    condition = PodCondition(type=type, status=status, reason=reason, message=message)
    return Pod(
        metadata=ObjectMeta(name="p", uid="u", annotations=annotations, deletion_timestamp=START if deleting else None),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase=phase, conditions=(condition,)),
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (pod(), "was evicted from node n"),
        (pod("Running", deleting=True), "was evicted from node n"),
        (pod("Pending", node="", deleting=True), "was evicted from its node"),
        (pod(reason="PreemptionByScheduler"), "was preempted on node n: why"),
        (pod(preempted="Preempted by big on node n"), "was preempted by big on node n"),
        (pod(reason="DeletionByTaintManager"), "was evicted from node n, which is tainted: why"),
        (pod(reason="DeletionByTaintManager", message=TAINTED), "was evicted from node n, which is tainted"),
        (
            pod(reason="DeletionByTaintManager", message=f"{TAINTED} gpu=off:NoExecute"),
            "was evicted from node n, which is tainted: gpu=off:NoExecute",
        ),
        (
            pod(reason="DeletionByTaintManager", message="Taint manager: node n is unreachable"),
            "was evicted from node n, which is tainted: unreachable",
        ),
        (pod(reason="DeletionByPodGC", message="PodGC: node no longer exists"), "was lost with node n"),
        (pod(reason="DeletionByPodGC"), "was lost with node n: why"),
        (pod(reason="TerminationByKubelet"), "ended with node n, which went down: why"),
        (pod(reason="TerminationByKubelet", message=SHUTDOWN_MESSAGE), "ended with node n, which was shut down"),
        (
            pod(reason="TerminationByKubelet", message=FORGOTTEN_MESSAGE),
            f"had already ended on node n, {FORGOTTEN}",
        ),
        (pod(reason="Novel"), "was ended on node n: why"),
        (pod(type="TerminatedByKueue", reason="UnhealthyNodes"), "was ended on node n: why"),
        (pod("Running", type="TerminationTarget", reason="Preempted", deleting=True), "was ended on node n: why"),
        (pod("Running", type="Ready", deleting=True, suspended="u"), "ended as its job was suspended"),
        (pod(type=CLUSTER_STOPPED), "ended with the whole cluster, which was stopped"),
    ],
)
def test_what_the_platform_ended(given: Pod, message: str) -> None:
    found = interruption_of(given)
    assert found is not None
    assert found.message == message


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(pod("Running"), id="it runs, and is about to be deleted"),
        pytest.param(pod("Succeeded", deleting=True), id="it had succeeded"),
        pytest.param(pod(status="False"), id="it was spared, and failed"),
        pytest.param(pod(type="Ready", deleting=True), id="a user deleted it"),
        pytest.param(pod(type="Ready", deleting=True, suspended="true"), id="its template says it was suspended"),
    ],
)
def test_what_it_did_not_end(given: Pod) -> None:
    assert interruption_of(given) is None


@pytest.mark.parametrize(
    ("policy", "action", "counts", "excused"),
    [
        (None, "", False, True),
        (rules(exits("FailJob", "NotIn", 0)), "", False, True),
        (rules(conditions("Ignore", "DisruptionTarget")), "Ignore", False, True),
        (rules(conditions("Count", "DisruptionTarget")), "Count", True, False),
        (rules(conditions("FailJob", "DisruptionTarget")), "FailJob", True, False),
        (rules(conditions("Count", "Other")), "", False, True),
    ],
)
def test_what_a_policy_says_of_it(policy: PodFailurePolicy | None, action: str, *, counts: bool, excused: bool) -> None:
    judgement = judge(policy, pod())
    assert (judgement.action, judgement.counts, judgement.excused) == (action, counts, excused)


@pytest.mark.parametrize("spec", [{"backoffLimit": 0}, {"backoffLimitPerIndex": 0, "completionMode": "Indexed"}])
def test_a_job_uses_up_nothing_and_does_not_wait(spec: dict[str, Any]) -> None:
    world = World(job_of({"parallelism": 3, "completions": 3} | spec))
    indexes = (0, 1, 2) if "completionMode" in spec else (None, None, None)
    for index, how in zip(indexes, ({}, {"deleting": True}, {"deleting": True}), strict=True):
        phase = "Failed" if not how else "Running"
        world.add(phase, index, conditions=TARGET, exit_code=143, **how)
    world.sync()
    assert len(world.active()) == 3
    assert world.wake_at is None
    world.sync()
    assert (world.job.status.failed, finish(world.job)) == (0, None)
    told = world.job.status.conditions
    assert (count_interruptions(told), "ended on node" in last_interruption(told)) == (3, True)


@pytest.mark.parametrize("completions", [1, None])
def test_a_job_that_has_succeeded_needs_no_more_pods(completions: int | None) -> None:
    world = World(job_of({"parallelism": 2, "completions": completions, "backoffLimit": 0}, owner_references=(JOBSET,)))
    world.add("Succeeded")
    world.add("Failed", conditions=TARGET)
    for _ in range(3):
        world.sync()
    ended = finish(world.job)
    assert ended is not None
    assert ended.type == "Complete"


def test_a_job_whose_success_policy_is_met_needs_no_more_pods() -> None:
    leader = {"successPolicy": {"rules": [{"succeededIndexes": "0"}]}, "completionMode": "Indexed"}
    given = {"parallelism": 2, "completions": 2, "backoffLimit": 0} | leader
    world = World(job_of(given, owner_references=(JOBSET,)))
    world.add("Succeeded", 0)
    world.add("Failed", 1, conditions=TARGET)
    for _ in range(3):
        world.sync()
    ended = finish(world.job)
    assert ended is not None
    assert ended.reason == "SuccessPolicy"


def test_a_job_that_says_so_counts_it() -> None:
    policy = {"rules": [conditions("Count", "DisruptionTarget")]}
    world = World(job_of({"backoffLimit": 0, "podFailurePolicy": policy}))
    world.add("Failed", conditions=TARGET)
    for _ in range(3):
        world.sync()
    ended = finish(world.job)
    assert ended is not None
    assert ended.reason == "BackoffLimitExceeded"


@pytest.mark.parametrize(
    ("template", "spec", "whole"),
    [
        ({}, {"backoffLimit": 0}, True),
        ({GROUP_SCHEDULING_EPOCH: "1"}, {}, True),
        ({"muster.dev/gang": "true"}, {}, True),
        ({}, {}, False),
    ],
)
def test_a_job_of_a_jobset_ends_when_its_pods_only_make_sense_together(
    template: dict[str, str], spec: dict[str, Any], *, whole: bool
) -> None:
    pods = {"metadata": {"annotations": template}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    given = {"parallelism": 2, "completions": 2, "template": pods} | spec
    world = World(job_of(given, owner_references=(JOBSET,)))
    world.add("Failed", exit_code=1)  # as the connection to the other was lost
    world.add("Running", deleting=True, conditions=TARGET)
    world.sync()
    reasons = {one.type: one.reason for one in world.job.status.conditions}
    assert reasons.pop(INTERRUPTIONS) == "Interrupted"
    assert reasons == ({"FailureTarget": "Interrupted"} if whole else {})


def test_an_interruption_stands_though_the_pod_that_proves_it_is_gone_before_the_others() -> None:
    world = World(job_of({"parallelism": 2, "completions": 2, "backoffLimit": 0}, owner_references=(JOBSET,)))
    world.add("Failed", deleting=True, conditions=TARGET)
    peer = world.add("Running")
    world.delete_fails = True  # the answers are lost: the pod goes all the same
    world.sync()
    assert len(world.pods) == 1
    world.delete_fails = False
    world.delete(peer)
    world.settle()
    ended = finish(world.job)
    assert ended is not None
    assert ended.reason == "Interrupted"


STOPPED = {"annotations": {STOPPED_ANNOTATION: "Preempted"}}
DEACTIVATED = "The workload is deactivated"
HELD = {"annotations": {STOPPED_ANNOTATION: DEACTIVATED}}
REJECTED = {"annotations": {STOPPED_ANNOTATION: f"{DEACTIVATED} due to a check"}}


@pytest.mark.parametrize(
    ("phase", "meta", "said"),
    [
        ("Running", {}, "1 interruption (1 by suspension), the last: it was suspended"),
        ("Running", STOPPED, "1 interruption (1 by suspension), the last: it was stopped by its queue: Preempted"),
        ("Running", HELD, "1 interruption (1 by suspension), the last: it was held"),
        (
            "Running",
            REJECTED,
            f"1 interruption (1 by suspension), the last: it was stopped by its queue: {DEACTIVATED} due to a check",
        ),
        ("Running", {"owner_references": (JOBSET,)}, None),
        ("Pending", STOPPED, None),
    ],
    ids=["by its user", "by its queue", "by a hold", "by a check", "its JobSet counts", "it never started"],
)
def test_the_suspension_of_a_job_that_runs_is_one_interruption(
    phase: str, meta: dict[str, Any], said: str | None
) -> None:
    world = World(job_of({"parallelism": 2, "completions": 4}, **meta))
    world.add(phase, ready=phase == "Running")
    world.add(phase, ready=phase == "Running")
    world.sync()
    world.set_spec(suspend=True)
    for _ in range(3):
        world.sync()
    told = find(world.job.status.conditions, INTERRUPTIONS)
    assert (told.message if told is not None else None) == said
    assert world.job.status.failed == 0


def test_a_controller_that_comes_after_the_pods_have_gone_counts_their_suspension() -> None:
    world = World(job_of({"suspend": True}, status={"active": 1, "ready": 1}))
    world.sync()
    assert count_interruptions(world.job.status.conditions) == 1


def test_an_interruption_after_a_suspension_is_counted_with_it() -> None:
    world = World(job_of({"parallelism": 1, "completions": 2, "suspend": True}))
    world.add("Running", ready=True)
    world.sync()
    world.set_spec(suspend=False)
    world.sync()
    world.add("Failed", conditions=TARGET)
    world.sync()
    told = world.job.status.conditions
    assert (count_interruptions(told), count_suspensions(told)) == (2, 1)
    assert last_interruption(told).startswith("Pod pod-")


@pytest.mark.parametrize("marked", [True, False])
def test_a_withdrawn_pod_that_is_tracked_again_before_it_is_deleted_does_not_count(marked: bool) -> None:
    world = World(job_of({"parallelism": 1, "completions": 1, "backoffLimit": 0}))
    world.add("Running", ready=True)
    (pod,) = world.active()
    if marked:
        world.withdraw(pod)
    else:
        world.untrack(pod)
    world.sync()
    assert TRACKING_FINALIZER in world.active()[0].metadata.finalizers
    world.delete(pod)
    for _ in range(3):
        world.sync()
    assert world.job.status.failed == (0 if marked else 1)
    assert len(world.active()) == (1 if marked else 0)
    assert count_interruptions(world.job.status.conditions) == 0


def test_a_trial_counts_the_suspensions_that_it_ran_in() -> None:
    spec = {"parallelism": 2, "completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
    world = World(job_of(spec))
    world.sync()
    for _ in range(2):
        world.set_phase(world.active()[0], "Running", ready=True)  # the other one never starts
        world.set_spec(suspend=True)
        for _ in range(3):
            world.sync()
            world.end_deleted_pods()
        assert world.job.status.terminating == 0
        world.set_spec(suspend=False)
        for _ in range(3):
            world.sync()
    attempts = {pod.metadata.annotations[COMPLETION_INDEX]: pod.metadata.annotations for pod in world.active()}
    assert {index: (one[ATTEMPT_ANNOTATION], one[INDEX_FAILURE_COUNT]) for index, one in attempts.items()} == {
        "0": ("2", "0"),
        "1": ("0", "0"),
    }
    assert count_interruptions(world.job.status.conditions) == 2
    assert len(world.pods) == 2, "the pods of before have gone"


def test_a_trial_whose_template_says_that_it_was_suspended_counts_its_evictions() -> None:
    pod = {"containers": [{"name": "main", "image": "none"}], "restartPolicy": "Never"}
    template = {"metadata": {"annotations": {SUSPENDED_ANNOTATION: "true"}}, "spec": pod}
    spec = {"parallelism": 1, "completions": 1, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
    world = World(job_of(spec | {"template": template}))
    world.sync()
    world.set_phase(world.active()[0], "Failed", conditions=TARGET)
    for _ in range(3):
        world.sync()
    assert count_interruptions(world.job.status.conditions) == 1


@pytest.mark.parametrize(
    ("said", "number", "message"),
    [
        (None, 1, "1 interruption, the last: x"),
        (None, 2, "2 interruptions, the last: x"),
        ("1 interruption, the last: y", 1, "2 interruptions, the last: x"),
        ("9 interruptions, the last: y", 3, "12 interruptions, the last: x"),
        ("what a user wrote", 1, "1 interruption, the last: x"),
    ],
)
def test_interruptions_are_counted_in_the_message_of_a_condition(said: str | None, number: int, message: str) -> None:
    before = [] if said is None else [PodCondition(type=INTERRUPTIONS, status="True", message=said)]
    assert add_interruptions(before, number, "x") == message
    told = [PodCondition(type=INTERRUPTIONS, status="True", message=message)]
    assert (count_interruptions(told), last_interruption(told)) == (int(message.split()[0]), "x")
