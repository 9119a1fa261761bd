"""What each worker of a job does."""

from datetime import UTC, datetime

import msgspec
import pytest

from muster.api.batch import Job
from muster.api.core import Pod
from muster.insight.jobs.workers import find_pod_state, make_worker, order_workers
from muster.insight.record import record_of

JOB = record_of(
    msgspec.convert({"metadata": {"name": "j"}, "spec": {"completions": 12, "completionMode": "Indexed"}}, Job)
)
NOON = "2026-01-01T12:00:00Z"


def list_workers(job, pods):
    return [make_worker(job, place) for place in order_workers(job, pods)]


def pod(name, index=None, phase="Running", *, ready=True, node="n", created=NOON, **about):
    annotations = {} if index is None else {"batch.kubernetes.io/job-completion-index": str(index)}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    metadata = {"name": name, "namespace": "ns", "annotations": annotations, "creationTimestamp": created}
    status = {"phase": phase, "conditions": conditions} | about.pop("status", {})
    document = {"metadata": metadata | about, "spec": {"nodeName": node, "containers": [{"name": "c"}]}}
    return msgspec.convert(document | {"status": status}, Pod, strict=False)


def ended(*codes, restarts=0):
    return {
        "containerStatuses": [
            {
                "name": f"c{at}",
                "restartCount": restarts,
                "state": {"terminated": {"exitCode": code, "finishedAt": f"2026-01-01T12:00:{10 - at:02}Z"}},
            }
            for at, code in enumerate(codes)
        ]
    }


@pytest.mark.parametrize(
    ("about", "state"),
    [
        ({"phase": "Pending", "node": ""}, "Pending"),
        ({"phase": "Pending"}, "Starting"),
        ({"ready": False}, "Starting"),
        ({}, "Running"),
        ({"phase": "Succeeded"}, "Completed"),
        ({"phase": "Failed"}, "Failed"),
        ({"deletionTimestamp": NOON}, "Deleting"),
        ({"deletionTimestamp": NOON, "phase": "Failed"}, "Failed"),
    ],
)
def test_a_pod_has_a_state_in_a_word_of_jobs(about, state):
    assert find_pod_state(pod("p", 0, **about)) == state


def test_workers_come_in_the_order_of_their_numbers():
    pods = [pod("j-10-a", 10), pod("j-2-b", 2), pod("j-0-c", 0)]
    assert [one.rank for one in list_workers(JOB, pods)] == ["0", "2", "10"]


def test_the_newest_pod_of_a_rank_is_shown_and_those_before_it_are_restarts():
    pods = [
        pod("j-0-new", 0, created="2026-01-01T12:05:00Z", status=ended(0, restarts=1), phase="Succeeded"),
        pod("j-0-old", 0, phase="Failed", status=ended(3)),
    ]
    [worker] = list_workers(JOB, pods)
    assert (worker.pod, worker.state, worker.exit_code, worker.restarts) == ("j-0-new", "Completed", 0, 2)
    assert worker.ended == datetime(2026, 1, 1, 12, 0, 10, tzinfo=UTC)


def test_pods_that_a_job_counted_as_failed_are_restarts_although_they_are_gone():
    annotations = {"batch.kubernetes.io/job-completion-index": "0", "batch.kubernetes.io/job-index-failure-count": "2"}
    assert list_workers(JOB, [pod("j-0-a", annotations=annotations)])[0].restarts == 2


def test_the_exit_code_is_that_of_the_container_that_failed():
    [worker] = list_workers(JOB, [pod("j-0-a", 0, "Failed", status=ended(0, 137))])
    assert worker.exit_code == 137
    assert "exit code 137" in worker.reason or "SIGKILL" in worker.reason


def test_a_worker_has_no_exit_code_while_one_of_its_containers_runs():
    statuses = ended(0)["containerStatuses"] + [{"name": "other", "state": {"running": {}}}]
    assert list_workers(JOB, [pod("j-0-a", 0, status={"containerStatuses": statuses})])[0].exit_code is None


def test_pods_without_ranks_are_workers_of_their_own_and_need_no_job():
    workers = list_workers(None, [pod("a-x1"), pod("b-x2", phase="Failed", status=ended(4))])
    assert [(one.rank, one.state) for one in workers] == [("x1", "Running"), ("x2", "Failed")]
    assert "4" in workers[1].reason


def test_a_worker_without_a_node_says_what_its_scheduler_said():
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    [worker] = list_workers(JOB, [pod("j-0-a", 0, "Pending", node="", status={"conditions": [waits]})])
    assert (worker.state, worker.reason) == ("Pending", "no room")
