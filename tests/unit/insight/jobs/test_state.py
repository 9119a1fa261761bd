"""What a job is doing, in a word and a sentence."""

from datetime import UTC, datetime

import msgspec
import pytest

from muster.api.batch import Job
from muster.api.core import Pod
from muster.api.jobset import JOB_SET, JobSet
from muster.api.meta import ObjectMeta
from muster.insight.jobs.state import (
    Ending,
    JobState,
    find_ending,
    find_job_state,
    find_wait_begin,
    parse_rank,
    parse_ranks,
)
from muster.insight.quota.state import QuotaState
from muster.insight.record import record_of


def job(conditions=(), suspend=None, succeeded=0, deleting=False, parallelism=2, completions=2):
    found = msgspec.convert(
        {
            "metadata": {"name": "j"} | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}),
            "spec": {"parallelism": parallelism, "completions": completions, "suspend": suspend, "backoffLimit": 6},
            "status": {
                "succeeded": succeeded,
                "conditions": [{"type": type, "status": "True", "message": message} for type, message in conditions],
            },
        },
        Job,
        strict=False,
    )
    return record_of(found)


def pod(
    phase="Pending",
    node="n",
    conditions=(),
    waiting=None,
    why="why",
    code=None,
    finished="2026-01-01T00:00:00Z",
    name="p",
    gates=(),
    grace=None,
):
    state = {"terminated": {"exitCode": code, "finishedAt": finished}} if code is not None else {}
    if waiting:
        state = {"waiting": {"reason": waiting, "message": why}}
    return msgspec.convert(
        {
            "metadata": {"name": name},
            "spec": {
                "nodeName": node,
                "containers": [],
                "schedulingGates": [{"name": gate} for gate in gates],
                "terminationGracePeriodSeconds": grace,
            },
            "status": {
                "phase": phase,
                "conditions": list(conditions),
                "containerStatuses": [{"name": "c", "state": state}],
            },
        },
        Pod,
        strict=False,
    )


QUEUED = QuotaState("Queued", "no room", queue="q", position=2)
READY = {"type": "Ready", "status": "True"}
UNHEARD = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}


@pytest.mark.parametrize(
    ("subject", "pods", "state"),
    [
        pytest.param(job(), [], JobState("Pending", 0, 2, "waiting for its pods to be created"), id="no pods yet"),
        pytest.param(
            job(parallelism=0, completions=None),
            [],
            JobState("Pending", 0, 0, "it has 0 workers, and waits to be scaled", blocked=True),
            id="of size 0",
        ),
        pytest.param(
            job(),
            [pod(node=""), pod(node="", conditions=[UNSCHEDULABLE])],
            JobState("Pending", 0, 2, "0/1 nodes", blocked=True),
            id="no room",
        ),
        pytest.param(
            job(),
            [pod(node="")],
            JobState("Pending", 0, 2, "waiting for all its pods, to be placed together"),
            id="gang",
        ),
        pytest.param(
            job(),
            [pod("Running", conditions=[READY]), pod(node="", gates=["g"])],
            JobState("Running", 1, 2),
            id="it grows once there is quota",
        ),
        pytest.param(
            job(),
            [pod("Running", conditions=[READY]), pod(node="", gates=["g"]), pod(node="", conditions=[UNSCHEDULABLE])],
            JobState("Pending", 1, 2, "0/1 nodes", blocked=True),
            id="one that is gated, and one without room",
        ),
        pytest.param(
            job(),
            [pod(node="", gates=["g"])],
            JobState("Pending", 0, 2, "waiting for all its pods, to be placed together"),
            id="nobody runs yet",
        ),
        pytest.param(job(), [pod()], JobState("Starting", 0, 2), id="on a node"),
        pytest.param(
            job(),
            [pod("Running", conditions=[UNHEARD]), pod("Running", conditions=[UNHEARD])],
            JobState("Running", 0, 2, "all 2 pods are on n, which does not report", blocked=True),
            id="it had run, and its node is lost",
        ),
        pytest.param(
            job(),
            [pod("Pending", conditions=[UNHEARD], name="p-0"), pod("Running", conditions=[READY])],
            JobState("Starting", 1, 2, "pod p-0 is on n, which does not report", blocked=True),
            id="it had not all started when a node was lost",
        ),
        pytest.param(job(), [pod("Succeeded")] * 2, JobState("Finishing", 0, 2), id="all ended, not yet counted"),
        pytest.param(
            job(), [pod(waiting="ContainerCreating", why="")], JobState("Starting", 0, 2), id="its turn comes"
        ),
        pytest.param(
            job(),
            [pod(waiting="ContainerCreating")],
            JobState("Starting", 0, 2, "pod p cannot start yet: why", blocked=True),
            id="it cannot start",
        ),
        pytest.param(
            job(),
            [pod("Running", waiting="CrashLoopBackOff")],
            JobState("Starting", 0, 2, "pod p is started again after a pause: why", blocked=True),
            id="it crashes",
        ),
        pytest.param(
            job(), [pod("Running", conditions=[READY]), pod("Running")], JobState("Running", 1, 2), id="one is ready"
        ),
        pytest.param(
            job(succeeded=1),
            [pod("Running", conditions=[READY]), pod("Succeeded")],
            JobState("Running", 2, 2),
            id="half",
        ),
        pytest.param(
            job(),
            [pod("Failed", code=3)],
            JobState(
                "Retrying", 0, 2, "the next comes after a pause; 1 pod failed, 6 may: pod p ended with exit code 3"
            ),
            id="waits before it tries again",
        ),
        pytest.param(
            job(),
            [pod("Failed", code=3), pod("Running", conditions=[READY])],
            JobState("Running", 1, 2, "1 pod failed, 6 may: pod p ended with exit code 3"),
            id="tried again",
        ),
        pytest.param(job([("FailureTarget", "x")]), [pod("Failed")], JobState("Finishing", 0, 2), id="it gives up"),
        pytest.param(
            job(suspend=True), [], JobState("Suspended", 0, 2, "the job is suspended", blocked=True), id="suspended"
        ),
        pytest.param(job(deleting=True), [pod("Running")], JobState("Deleting", 0, 2), id="going"),
        pytest.param(job([("Complete", "m")], succeeded=2), [], JobState("Completed", 2, 2), id="complete"),
        pytest.param(job([("Failed", "too bad")]), [], JobState("Failed", 0, 2, "too bad"), id="failed"),
        pytest.param(job([("FailureTarget", "x")]), [pod("Running")], JobState("Running", 0, 2), id="about to fail"),
        pytest.param(job(completions=None), [pod()], JobState("Starting", 0, 2), id="work queue"),
    ],
)
def test_state(subject, pods, state):
    assert find_job_state(subject, pods) == state


def cancelled(*conditions):
    found = job([(one, "It was cancelled") for one in conditions])
    ends = [msgspec.structs.replace(one, reason="Cancelled") for one in found.source.status.conditions]
    status = msgspec.structs.replace(found.source.status, conditions=tuple(ends))
    return record_of(msgspec.structs.replace(found.source, status=status))


def cancelled_set(*ends):
    """A cancelled JobSet, with a Job for each condition that ended one, or "" for one that goes on."""
    conditions = [{"type": "Failed", "status": "True", "reason": "Cancelled"}]
    jobset = msgspec.convert({"metadata": {"name": "s"}, "status": {"conditions": conditions}}, JobSet, strict=False)
    meta = ObjectMeta(name="j", owner_references=(JOB_SET.refer_to_controller(jobset.metadata),))
    jobs = [msgspec.structs.replace(job([(end, "")] if end else []).source, metadata=meta) for end in ends]
    return record_of(jobset, jobs)


@pytest.mark.parametrize(
    ("subject", "pods", "state"),
    [
        pytest.param(cancelled_set("Complete", ""), [], JobState("Cancelling", 0, 0), id="a Job of it may make pods"),
        pytest.param(cancelled_set("Complete"), [], JobState("Cancelled", 0, 0), id="its Jobs have ended or are gone"),
        pytest.param(
            cancelled("FailureTarget"),
            [pod("Running", conditions=[READY], grace=90), pod("Failed", grace=120)],
            JobState("Cancelling", 1, 2, "its workers have up to 90s to end"),
            id="its workers still run",
        ),
        pytest.param(
            cancelled("FailureTarget", "Failed"),
            [pod("Running", grace=30)],
            JobState("Cancelling", 0, 2, "its workers have up to 30s to end"),
            id="its object has failed before its workers",
        ),
        pytest.param(
            cancelled("Failed"),
            [pod("Running", conditions=[UNHEARD], grace=30)],
            JobState("Cancelling", 0, 2, "pod p is on n, which does not report"),
            id="its node is lost",
        ),
        pytest.param(cancelled("FailureTarget"), [], JobState("Cancelling", 0, 2), id="its controller comes to it"),
        pytest.param(cancelled("FailureTarget", "Failed"), [], JobState("Cancelled", 0, 2), id="it has ended"),
    ],
)
def test_a_cancelled_job_has_ended_once_its_workers_have(subject, pods, state):
    assert find_job_state(subject, pods) == state
    assert state.finished is (state.word == "Cancelled")


@pytest.mark.parametrize(
    ("subject", "quota_state", "state"),
    [
        (job(suspend=True), QUEUED, JobState("Queued", 0, 2, "no room", blocked=True, quota_state=QUEUED)),
        (job(suspend=True), QuotaState("Queued"), JobState("Queued", 0, 2, quota_state=QuotaState("Queued"))),
        (job(suspend=True), QuotaState("Admitted"), JobState("Starting", 0, 2)),
        (job(), QuotaState("Evicting", "why"), JobState("Evicting", 0, 2, "why", True, QuotaState("Evicting", "why"))),
        (job(), QuotaState("Admitted"), JobState("Pending", 0, 2, "waiting for its pods to be created")),
        (job([("Complete", "m")]), QUEUED, JobState("Completed", 0, 2)),
    ],
)
def test_the_queue_holds_a_job_before_anything_else(subject, quota_state, state):
    assert find_job_state(subject, [], quota_state) == state


NO_CLUSTER = "it is left to MultiKueue, and no cluster has it: its queue has no check of MultiKueue's"


@pytest.mark.parametrize(
    ("status", "cluster", "state"),
    [
        ({}, "", JobState("Starting", 0, 2, NO_CLUSTER, blocked=True)),
        ({"active": 2}, "east", JobState("Starting", 0, 2, "not started in east yet: muster why train")),
        ({"active": 2, "ready": 1}, "east", JobState("Running", 1, 2)),
        ({"active": 1, "ready": 1, "succeeded": 1}, "east", JobState("Running", 2, 2)),
        ({"succeeded": 2}, "east", JobState("Running", 2, 2)),
        ({"succeeded": 2, "conditions": [{"type": "Complete", "status": "True"}]}, "", JobState("Completed", 2, 2)),
    ],
)
def test_of_a_job_that_runs_in_another_cluster_its_status_tells(status, cluster, state):
    document = {
        "metadata": {"name": "train"},
        "spec": {"parallelism": 2, "completions": 2, "managedBy": "kueue.x-k8s.io/multikueue"},
        "status": status,
    }
    admitted = QuotaState("Admitted", queue="q", cluster=cluster)
    assert find_job_state(record_of(msgspec.convert(document, Job)), [], admitted) == state


def test_a_job_that_its_queue_has_not_seen_is_not_suspended_by_a_person():
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    subject = msgspec.structs.replace(job(suspend=True).source, metadata=ObjectMeta(name="j", labels=labels))
    assert find_job_state(record_of(subject), []) == JobState("Queued", 0, 2, "waiting to be taken in by its queue")


@pytest.mark.parametrize(
    ("kind", "manager", "said"),
    [
        (Job, "acme.com/foo", "managed by acme.com/foo"),
        (JobSet, "acme.com/foo", "managed by acme.com/foo"),
        (Job, "kubernetes.io/job-controller", "waiting for its pods to be created"),
        (JobSet, "jobset.sigs.k8s.io/jobset-controller", "waiting for its pods to be created"),
    ],
)
def test_who_manages_a_job_if_that_is_not_us(kind, manager, said):
    roles = [{"name": "a", "template": {"spec": {}}}]
    spec = {"managedBy": manager, "replicatedJobs": roles, "parallelism": 1, "completions": 1}
    subject = record_of(msgspec.convert({"metadata": {"name": "j"}, "spec": spec}, kind))
    assert find_job_state(subject, []) == JobState("Pending", 0, 1, said, blocked=said.startswith("managed"))


@pytest.mark.parametrize(
    ("subject", "pods", "expected"),
    [
        pytest.param(job([("Complete", "")]), [pod("Failed", code=3)], Ending(0), id="complete in spite of a failure"),
        pytest.param(
            job([("Failed", "too bad")]),
            [pod("Failed", code=3), pod("Succeeded", code=0)],
            Ending(3, "failed: pod p ended with exit code 3"),
            id="its own code",
        ),
        pytest.param(
            job([("Failed", "too bad")]),
            [pod("Failed", code=143, finished="2026-01-01T00:00:05Z"), pod("Failed", code=7)],
            Ending(7, "failed: pod p ended with exit code 7; 1 more pod failed"),
            id="the first to fail, not those ended because of it",
        ),
        pytest.param(job([("Failed", "too late")]), [], Ending(1, "failed: too late"), id="nobody left to tell"),
    ],
)
def test_ending(subject, pods, expected):
    assert find_ending(subject, pods) == expected


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ('exec: "nosuch": executable file not found in $PATH', 127),
        ('exec: "./nosuch": no such file or directory', 127),
        ('exec: "./script": permission denied', 126),
        ('exec: "./script": the interpreter that it names does not exist', 126),
        ("working directory /gone: No such file or directory", 126),
    ],
)
def test_a_command_that_could_not_be_started_has_the_code_of_a_shell(message, code):
    failed = msgspec.to_builtins(pod("Failed", code=128))
    [status] = failed["status"]["containerStatuses"]
    status["state"]["terminated"] |= {"reason": "StartError", "message": message}
    failed = msgspec.convert(failed, Pod)
    assert find_ending(job([("Failed", "")]), [failed]).code == code


@pytest.mark.parametrize(
    ("rank", "found"),
    [("0", "0"), ("3", "3"), ("03", "3"), ("4", None), ("-1", None), ("x", None), ("²", None)],
)
def test_ranks_that_a_job_can_have(rank, found):
    found_job = msgspec.convert(
        {"metadata": {"name": "j"}, "spec": {"completions": 4, "parallelism": 4, "completionMode": "Indexed"}}, Job
    )
    subject = record_of(found_job)
    if found is not None:
        assert parse_rank(subject, rank) == found
    else:
        with pytest.raises(ValueError, match=f"j has no worker {rank}: its ranks are 0 to 3"):
            parse_rank(subject, rank)
    assert parse_rank(job(), rank) == rank


def test_ranks_that_are_listed():
    fields = {"metadata": {"name": "j"}, "spec": {"completions": 4, "completionMode": "Indexed"}}
    subject = record_of(msgspec.convert(fields, Job))
    assert parse_ranks(subject, "0,2-3") == {"0", "2", "3"}
    assert parse_ranks(subject, "1-1,01") == {"1"}
    for text in ("0-4", "-1", "1-", "0,,1", "0-99999999999999999999", "0-1-2"):
        with pytest.raises(ValueError, match="j has no worker"):
            parse_ranks(subject, text)
    with pytest.raises(ValueError, match="3-1: the first rank of it is higher"):
        parse_ranks(subject, "3-1")
    spec = {"completions": 2**31 - 1, "completionMode": "Indexed"}
    endless = record_of(msgspec.convert({"metadata": {"name": "j"}, "spec": spec}, Job))
    for text in ("0-2147483646", "0-99998,200000-200001", "0-60000,70000-130000"):
        with pytest.raises(ValueError, match="more than 100000 ranks; name fewer"):
            parse_ranks(endless, text)
    assert len(parse_ranks(endless, "0-99999")) == 100_000
    assert parse_ranks(job(), "x7k2p,ab") == {"x7k2p", "ab"}


@pytest.mark.parametrize(
    ("word", "started", "begin"),
    [
        ("Queued", None, "submitted"),
        ("Queued", "started", "submitted"),  # and its Workload would say since when
        ("Pending", None, "submitted"),
        ("Pending", "started", None),  # it ran, and lost a pod
        ("Suspended", "started", None),
        ("Running", "started", None),
    ],
)
def test_the_begin_of_a_wait_is_not_the_submission_of_a_job_that_ran(word, started, begin):
    times = {"submitted": datetime(2026, 1, 1, tzinfo=UTC), "started": datetime(2026, 1, 2, tzinfo=UTC)}
    state = JobState(word, 0, 1)
    assert find_wait_begin(state, None, times["submitted"], times.get(started)) == times.get(begin)
