"""A job, whatever its kind, as one record."""

from typing import Any

import msgspec
import pytest

from muster.api.batch import Job
from muster.api.core import Pod
from muster.api.jobset import JobSet
from muster.api.pods import job_of
from muster.insight.jobs.state import JobState, find_ending, find_job_state
from muster.insight.quota.state import QuotaState
from muster.insight.record import JobEnd, JobRecord, RemoteCounts, record_of, records_of
from muster.runtime.containerlogs import KeptPod

LABEL = "jobset.sigs.k8s.io/"


def role(name: str, jobs: int, each: int | None, **spec: Any) -> dict[str, Any]:
    sizes = {"parallelism": each, "completions": each} if each is not None else {}
    return {"name": name, "replicas": jobs, "template": {"spec": sizes | spec}}


def jobset(*roles: dict[str, Any], status: Any = None, **spec: Any) -> JobSet:
    metadata = {"name": "j", "namespace": "ns", "uid": "js"}
    roles = roles or (role("driver", 1, 1), role("worker", 2, 3))
    document = {"metadata": metadata, "spec": {"replicatedJobs": roles, **spec}, "status": status or {}}
    return msgspec.convert(document, JobSet, strict=False)


def child(name: str, uid: str = "js", at: int = 0, reason: str = "", **status: Any) -> Job:
    if reason:
        since = f"2026-01-01T00:00:{at:02}Z"
        failed = {"type": "Failed", "status": "True", "reason": reason, "message": name, "lastTransitionTime": since}
        status["conditions"] = [failed]
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "j", "uid": uid, "controller": True}
    metadata = {"name": name, "uid": f"uid-{name}", "ownerReferences": [owner] if uid else []}
    return msgspec.convert({"metadata": metadata, "spec": {"activeDeadlineSeconds": 9}, "status": status}, Job)


def tried(name: str, limit: int, attempt: int = 0) -> Job:
    """A Job of an attempt of the JobSet; that of all pods here is `x`, with the UID `y`."""
    job = child(name)
    labels = {f"{LABEL}restart-attempt": str(attempt)}
    meta = msgspec.structs.replace(job.metadata, uid="y" if name == "x" else "other", labels=labels)
    return msgspec.structs.replace(job, metadata=meta, spec=msgspec.structs.replace(job.spec, backoff_limit=limit))


def pod(
    role: str, job: int, index: int | None, uid: str = "js", phase: str = "Running", node: str = "n", **status: Any
) -> Pod:
    labels = {f"{LABEL}jobset-uid": uid, f"{LABEL}replicatedjob-name": role, f"{LABEL}job-index": str(job)}
    annotations = {} if index is None else {"batch.kubernetes.io/job-completion-index": str(index)}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "y", "controller": True}
    metadata = {"name": "p-x7k2p", "labels": labels, "annotations": annotations, "ownerReferences": [owner]}
    return msgspec.convert(
        {"metadata": metadata, "spec": {"nodeName": node, "containers": []}, "status": {"phase": phase} | status}, Pod
    )


def failed(code: int, container: str = "c") -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z"}}
    return {"containerStatuses": [{"name": container, "state": state}]}


@pytest.mark.parametrize(
    ("where", "rank", "title", "who"),
    [
        (("driver", 0, 0), "0", "driver 0", "rank 0 (driver)"),
        (("worker", 0, 0), "1", "worker 1", "rank 1 (worker)"),
        (("worker", 1, 2), "6", "worker 6", "rank 6 (worker)"),
        (("worker", 1, None), "x7k2p", "x7k2p", "pod p-x7k2p"),
        (("gone", 0, 2), "2", "worker 2", "rank 2 (worker)"),
    ],
)
def test_ranks_count_over_all_roles(where, rank, title, who):
    job = record_of(jobset())
    assert (job.rank(pod(*where)), job.title_of(rank), job.name_of_pod(pod(*where))) == (rank, title, who)
    if where[2] is not None:
        kept = KeptPod("p", "u", str(where[2]), "", {}, role=where[0], job_index=str(where[1]))
        assert job.kept_rank(kept) == rank


def test_one_role_is_not_named():
    job = record_of(jobset(role("workers", 1, 2)))
    assert (job.title_of("1"), job.name_of_pod(pod("workers", 0, 1))) == ("1", "rank 1")


@pytest.mark.parametrize(
    ("roles", "wanted", "most", "indexed"),
    [
        ([role("w", 2, 3)], 6, 6, True),
        ([role("w", 1, None)], 1, 1, True),
        ([role("w", 1, 0)], 0, 1, True),
        ([role("w", 0, 3), role("v", 1, 1)], 1, 1, True),
        ([role("w", 1, 2, completionMode="NonIndexed")], 2, 2, False),
        ([role("w", 1, None, parallelism=4)], 4, 4, True),
        ([role("w", 1, None, parallelism=1, completions=4)], 4, 4, True),
    ],
)
def test_sizes(roles, wanted, most, indexed):
    job = record_of(jobset(*roles))
    assert (job.wanted, job.max_ranks, job.indexed) == (wanted, most, indexed)


def test_a_jobset_has_its_own_jobs_and_pods_and_what_is_of_none_stands_alone():
    jobs = [child("j-b"), child("j-a"), child("old", uid="before"), child("alone", uid="")]
    [whole, *others] = records_of([jobset()], jobs)
    assert [job.metadata.name for job in whole.jobs] == ["j-a", "j-b"]
    assert [(one.metadata.name, one.gone) for one in others] == [("j", True), ("alone", False)]
    assert find_job_state(others[0], []) == JobState("Deleting", 0, 0)
    # Where JobSets may not be seen, their Jobs are all that there is.
    assert [(one.metadata.name, one.gone) for one in records_of(None, jobs[2:])] == [("old", False), ("alone", False)]
    assert whole.owns(pod("driver", 0, 0))
    assert not whole.owns(pod("driver", 0, 0, uid="before"))


def test_who_a_pod_was_that_is_gone():
    labels = {f"{LABEL}replicatedjob-name": "worker", f"{LABEL}job-index": "1"}
    made = msgspec.convert({"metadata": {"labels": labels}, "spec": {"completionMode": "Indexed"}}, Job)
    job = child("j-worker-1")
    job = msgspec.structs.replace(
        made, metadata=msgspec.structs.replace(job.metadata, labels=labels), status=job.status
    )
    found = record_of(jobset(), [job])
    assert found.name_of_gone_pod("j-worker-1", "j-worker-1-2-abcde") == "rank 6 (worker)"
    assert found.name_of_gone_pod("j-worker-1", "j-worker-1-abcde") == "pod j-worker-1-abcde"
    assert found.name_of_gone_pod("gone", "gone-2-abcde") == "pod gone-2-abcde"


def ended(reason: str, message: str = "whole", **status: Any) -> dict[str, Any]:
    condition = {"type": "Failed", "status": "True", "reason": reason, "message": message}
    return {"conditions": [condition], **status}


@pytest.mark.parametrize(
    ("status", "jobs", "end"),
    [
        ({}, [child("a", reason="BackoffLimitExceeded")], None),
        ({"conditions": [{"type": "Completed", "status": "True"}]}, [], JobEnd("Completed")),
        (ended("Cancelled"), [], JobEnd("Cancelled")),
        (
            ended("FailedJobs"),
            [child("b", at=2, reason="BackoffLimitExceeded"), child("a", at=1, reason="DeadlineExceeded")],
            JobEnd("Failed", "DeadlineExceeded", "a", 9, job="a"),
        ),
        (ended("ReachedMaxRestarts", restarts=2), [], JobEnd("Failed", "ReachedMaxRestarts", "whole", None, 2)),
        (ended("Other"), [child("a", reason="X")], JobEnd("Failed", "Other", "whole", by_pods=False)),
    ],
)
def test_how_a_jobset_ended(status, jobs, end):
    assert record_of(jobset(status=status), jobs).end == end


CONFLICT = {
    "type": "GroupSchedulingReady",
    "status": "False",
    "reason": "ConfigMapConflict",
    "message": "0/7 pods started; ConfigMap is of another",
}
UNPLACED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
RESTARTING = {"type": "RestartingJobSet", "status": "True"}
DRIVER = "rank 0 (driver) ended with exit code 3"
GATHERING = {"groupScheduling": {"epoch": 2, "releasedEpoch": 1, "started": 3, "expected": 7}}


@pytest.mark.parametrize(
    ("job", "pods", "state"),
    [
        (record_of(jobset()), [], JobState("Pending", 0, 7, "waiting for its pods to be created")),
        (
            record_of(jobset(role("w", 0, 3))),
            [],
            JobState("Pending", 0, 0, "it has 0 workers, and waits to be scaled", blocked=True),
        ),
        (
            record_of(msgspec.convert({"metadata": {"name": "j", "uid": "js"}}, JobSet)),
            [],
            JobState("Pending", 0, 0, "it has no roles, and never runs", blocked=True),
        ),
        # Those of a role that has ended are done, and the next have not been made.
        (
            record_of(jobset(), [child("j-driver-0", succeeded=1)]),
            [pod("driver", 0, 0, phase="Succeeded")],
            JobState("Pending", 1, 7, "waiting for its pods to be created"),
        ),
        (
            record_of(jobset(status=GATHERING)),
            [pod("driver", 0, 0, phase="Pending")],
            JobState("Starting", 0, 7, "3 of 7 workers have started; their commands begin when all have started"),
        ),
        (
            record_of(jobset(status=GATHERING)),
            [
                pod("driver", 0, 0, phase="Pending"),
                pod("worker", 0, 0, phase="Pending", node="", conditions=[UNPLACED]),
            ],
            JobState("Pending", 0, 7, "0/1 nodes; 3 of 7 pods started", blocked=True, progress="3 of 7 pods started"),
        ),
        (
            record_of(jobset(status=GATHERING | {"conditions": [CONFLICT]})),
            [],
            JobState("Pending", 0, 7, "0/7 pods started; ConfigMap is of another", blocked=True),
        ),
        (
            record_of(jobset(status={"restarts": 2})),
            [pod("driver", 0, 0)],
            JobState("Running", 0, 7, "it was restarted 2 times"),
        ),
        (
            record_of(jobset(status={"replicatedJobsStatus": [{"name": "worker", "jobRestarts": [0, 3]}]})),
            [pod("driver", 0, 0)],
            JobState("Running", 0, 7, "Jobs of it were restarted 3 times"),
        ),
        (
            record_of(
                jobset(status={"restarts": 1, "replicatedJobsStatus": [{"name": "worker", "jobRestarts": [0, 1]}]})
            ),
            [pod("driver", 0, 0)],
            JobState("Running", 0, 7, "it was restarted once, and Jobs of it once"),
        ),
        # A Job that has failed more often than it may is not tried again; nor is there a pause where all start anew.
        (
            record_of(jobset(), [tried("x", 0), tried("z", 0)]),
            [pod("driver", 0, 0, phase="Failed", **failed(3)), pod("worker", 0, 0, phase="Succeeded")],
            JobState("Finishing", 0, 7),
        ),
        (
            record_of(jobset(), [tried("x", 1), tried("z", 0)]),
            [pod("driver", 0, 0, phase="Failed", **failed(3)), pod("worker", 0, 0, phase="Succeeded")],
            JobState("Retrying", 0, 7, f"the next comes after a pause; 1 pod failed: {DRIVER}"),
        ),
        (
            record_of(jobset(status={"restarts": 1, "conditions": [RESTARTING]}), [tried("x", 0)]),
            [pod("driver", 0, 0, phase="Failed", **failed(3)), pod("worker", 0, 0, phase="Succeeded")],
            JobState("Retrying", 0, 7, f"it was restarted once; 1 pod failed, 0 may: {DRIVER}"),
        ),
        # The new pods failed before the restart was over.
        (
            record_of(jobset(status={"restarts": 1, "conditions": [RESTARTING]}), [tried("x", 0, attempt=1)]),
            [pod("driver", 0, 0, phase="Failed", **failed(3)), pod("worker", 0, 0, phase="Succeeded")],
            JobState("Finishing", 0, 7),
        ),
        (
            record_of(jobset(status=ended("ReachedMaxRestarts", restarts=1))),
            [pod("worker", 0, 1, phase="Failed", **failed(3))],
            JobState("Failed", 0, 7, "rank 2 (worker) ended with exit code 3; it had been restarted once"),
        ),
        # The group gave up: its controller says it better than the pods that waited.
        (
            record_of(jobset(status=ended("GroupTimeout", "6 of 7 had started"))),
            [pod("worker", 0, 1, phase="Failed", **failed(75, "group-scheduling-init"))],
            JobState("Failed", 0, 7, "6 of 7 had started"),
        ),
    ],
)
def test_the_state_of_a_jobset(job: JobRecord, pods: list[Pod], state: JobState):
    assert find_job_state(job, pods) == state


def test_a_jobset_that_runs_in_another_cluster_is_counted_by_its_status():
    counts = {"failed": 0, "suspended": 0}
    driver = {"name": "driver", "ready": 0, "succeeded": 1, "active": 0, **counts}
    worker = {"name": "worker", "ready": 1, "succeeded": 0, "active": 2, **counts}
    status = {"replicatedJobsStatus": [driver, worker]}
    found = record_of(jobset(status=status, managedBy="kueue.x-k8s.io/multikueue"))
    assert found.remote_counts == RemoteCounts(active=6, ready=3, succeeded=1)
    admitted = QuotaState("Admitted", queue="q", cluster="east")
    assert find_job_state(found, [], admitted) == JobState("Running", 4, 7)
    assert record_of(jobset(status=status)).remote_counts is None


def test_the_exit_code_is_that_of_the_first_to_fail():
    job = record_of(jobset(status=ended("FailedJobs")), [child("j-worker-0", reason="BackoffLimitExceeded")])
    assert find_ending(job, [pod("worker", 0, 1, phase="Failed", **failed(3))]).code == 3


AFTER = {"dependsOn": [{"name": "driver", "status": "Ready"}, {"name": "prep", "status": "Complete"}]}


def test_roles_wait_for_others():
    prepared = {"replicatedJobsStatus": [{"name": "driver"}, {"name": "prep", "succeeded": 1}]}
    roles = role("driver", 1, 1), role("prep", 1, 1), role("worker", 2, 3) | AFTER
    assert record_of(jobset(*roles)).waiting == {"worker": "driver is ready and prep is complete"}
    assert record_of(jobset(*roles, status=prepared)).waiting.keys() == {"worker"}
    done = {"replicatedJobsStatus": [{"name": "driver", "ready": 1}, {"name": "prep", "succeeded": 1}]}
    assert record_of(jobset(*roles, status=done)).waiting == {}
    assert record_of(child("alone", uid="")).waiting == {}


@pytest.mark.parametrize(
    ("labels", "owned", "job"),
    [
        ({f"{LABEL}jobset-uid": "js", f"{LABEL}jobset-name": "j"}, True, ("js", "j")),
        ({f"{LABEL}jobset-uid": "js", f"{LABEL}jobset-name": "j"}, False, ("p", "pod")),
        ({}, True, ("y", "x")),
        ({}, False, ("p", "pod")),
    ],
)
def test_the_job_of_a_pod(labels, owned, job):
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "y", "controller": True}
    metadata = {"name": "pod", "uid": "p", "labels": labels, "ownerReferences": [owner] if owned else []}
    assert job_of(msgspec.convert({"metadata": metadata}, Pod)) == job
