"""When the pods of a job have to be ready, and what follows if they are not."""

from datetime import UTC, datetime, timedelta

import pytest

from muster.api.config import WaitForPodsReady
from muster.api.config.types import RequeuingStrategy
from muster.api.kueue import ClusterQueue, ResourceFlavor
from muster.api.meta import ObjectMeta
from muster.api.values.durations import SECOND
from muster.simulation.engine.readiness import Readiness, TimeOuts

NOW = datetime(2026, 1, 5, tzinfo=UTC)
SETTINGS = WaitForPodsReady(
    timeout=60 * SECOND,
    recovery_timeout=20 * SECOND,
    requeuing_strategy=RequeuingStrategy(backoff_base_seconds=10, backoff_max_seconds=30, backoff_limit_count=2),
)
KEY = "muster.dev/wait-for-pods-ready"


def after(seconds):
    return NOW + timedelta(seconds=seconds)


def test_a_job_has_the_time_out_to_start_and_the_recovery_time_out_to_recover():
    job = Readiness(SETTINGS)
    deadlines = []
    job.admit(NOW)
    deadlines.append(job.deadline)
    job.turn(after(5), ready=True)
    deadlines.append(job.deadline)
    job.turn(after(30), ready=False)
    deadlines.append(job.deadline)
    job.release()
    assert [*deadlines, job.deadline] == [after(60), None, after(50), None]


def test_a_job_that_never_was_ready_has_no_time_to_recover():
    job = Readiness(SETTINGS)
    job.admit(NOW)
    job.turn(after(30), ready=False)
    assert job.deadline == after(60)


def test_the_back_off_doubles_and_the_retries_are_counted():
    job = Readiness(SETTINGS)
    assert [job.back_off(after(100)) for _ in range(3)] == [after(110), after(120), None]


def test_a_job_without_a_time_out_has_all_the_time():
    job = Readiness(None)
    job.admit(NOW)
    job.turn(NOW, ready=False)
    assert job.deadline is None


@pytest.mark.parametrize(
    ("job", "queue", "flavor", "seconds"),
    [
        ({}, {}, {}, 60),
        ({}, {}, {KEY: "timeout=3s"}, 3),
        ({}, {KEY: "timeout=2s"}, {KEY: "timeout=3s"}, 2),
        ({KEY: "timeout=1s"}, {KEY: "timeout=2s"}, {}, 1),
        ({KEY: "false"}, {}, {}, None),
    ],
)
def test_the_most_specific_annotation_counts(job, queue, flavor, seconds):
    queues = [ClusterQueue(metadata=ObjectMeta(name="q", annotations=queue))]
    flavors = [ResourceFlavor(metadata=ObjectMeta(name="f", annotations=flavor))]
    found = TimeOuts(SETTINGS, queues, flavors, []).find(job, "q", ["f"])
    assert (found and found.timeout // SECOND) == seconds


def test_admission_blocks_as_the_annotations_say():
    queues = [
        ClusterQueue(metadata=ObjectMeta(name="q", annotations={KEY: "blockAdmission=true"})),
        ClusterQueue(metadata=ObjectMeta(name="other", annotations={KEY: "timeout=5s"})),
    ]
    assert TimeOuts(SETTINGS, [], [], []).blocking is None
    blocking = TimeOuts(SETTINGS, queues, [], []).blocking
    assert blocking is not None
    assert (blocking.everything, blocking.queues) == (False, {"q": True, "other": False})
    assert TimeOuts(SETTINGS, [], [], [{KEY: "blockAdmission=true"}]).blocking is not None
