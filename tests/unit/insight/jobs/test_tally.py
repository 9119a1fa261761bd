"""How far the workers of a job are."""

import pytest

from muster.api.batch import Job, JobSpec, JobStatus
from muster.api.core import Pod, PodCondition, PodStatus
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER
from muster.insight.jobs.tally import WorkerCounts, count_workers
from muster.insight.record import record_of


def pod(phase: str, *, ready: bool = False):
    return Pod(status=PodStatus(phase=phase, conditions=(PodCondition(type="Ready", status=str(ready)),)))


def test_pods_are_counted_as_they_are_and_those_that_are_done_as_the_job_counts_them():
    pods = [pod("Pending"), pod("Running"), pod("Running", ready=True), pod("Failed"), pod("Succeeded")]
    job = record_of(Job(spec=JobSpec(completions=4), status=JobStatus(succeeded=3)))
    assert count_workers(job, pods) == WorkerCounts(wanted=4, running=2, ready=1, done=3)


def test_those_of_another_cluster_are_counted_there():
    spec = JobSpec(completions=4, managed_by=MULTI_KUEUE_CONTROLLER)
    elsewhere = record_of(Job(spec=spec, status=JobStatus(active=3, ready=2, succeeded=1)))
    assert count_workers(elsewhere, []) == WorkerCounts(wanted=4, running=3, ready=2, done=1)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (WorkerCounts(4, 2, 2, 0), "2 of 4 workers run"),
        (WorkerCounts(4, 2, 1, 0), "2 of 4 workers run, 1 is ready"),
        (WorkerCounts(9, 4, 0, 2), "4 of 9 workers run, 0 are ready, 2 are done"),
        (WorkerCounts(4, 3, 3, 1), "3 of 4 workers run, 1 is done"),
    ],
)
def test_they_make_a_sentence(found: WorkerCounts, sentence: str):
    assert found.sentence == sentence
