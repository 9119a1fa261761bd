"""How a batch/v1 Job queues; the facts about sizes and readiness are those of upstream's job_controller_test."""

import msgspec
import pytest

from muster.api.batch import JOB, Job
from muster.api.core import Toleration
from muster.controllers.integrations.job.integration import JobIntegration
from muster.queueing.jobframework.observedjob import End, PodSetInfo

KIND = JobIntegration()
MINIMUM = "kueue.x-k8s.io/job-min-parallelism"
TOGETHER = "kueue.x-k8s.io/job-completions-equal-parallelism"
ELASTIC = "kueue.x-k8s.io/elastic-job"
OWN = {"job-name": "j", "controller-uid": "u", "batch.kubernetes.io/controller-uid": "u"}


def job(parallelism=None, completions=None, *, annotations=None, template=None, status=None, **spec):
    given = {"parallelism": parallelism, "completions": completions, **spec}
    document = {
        "metadata": {"name": "j", "annotations": annotations or {}},
        "spec": {key: value for key, value in given.items() if value is not None} | {"template": template or {}},
        "status": status or {},
    }
    return msgspec.convert(document, Job)


def patched(made, steps):
    """The Job after some steps, by the rules of JSON merge patches."""
    document = msgspec.to_builtins(made)
    for step in steps:
        document = merge(document, msgspec.to_builtins(step.patch))
    return msgspec.convert(document, Job)


def merge(document, patch):
    merged = {key: value for key, value in document.items() if patch.get(key, value) is not None}
    for key, value in patch.items():
        if isinstance(value, dict):
            merged[key] = merge(merged.get(key) or {}, value)
        elif value is not None:
            merged[key] = value
    return merged


def info(count=3, **what):
    given = {"labels": {}, "annotations": {}, "node_selector": {}} | what
    return PodSetInfo(name="main", count=count, **given)


@pytest.mark.parametrize(
    ("parallelism", "completions", "size"), [(None, None, 1), (5, None, 5), (5, 5, 5), (5, 3, 3), (3, 5, 3), (0, 3, 0)]
)
def test_the_size_is_what_runs_side_by_side(parallelism, completions, size):
    (podset,) = KIND.podsets(job(parallelism, completions))
    assert (podset.name, podset.count) == ("main", size)


def test_labels_of_the_server_are_not_the_workloads():
    labels = {**OWN, "batch.kubernetes.io/job-name": "j", "mine": "x"}
    (podset,) = KIND.podsets(job(template={"metadata": {"labels": labels}}))
    assert podset.template.metadata.labels == {"batch.kubernetes.io/job-name": "j", "mine": "x"}


@pytest.mark.parametrize(
    ("annotations", "least"),
    [({}, None), ({MINIMUM: "2"}, 2), ({MINIMUM: "x"}, None), ({MINIMUM: "2", ELASTIC: "true"}, None)],
)
def test_with_how_few_it_starts(annotations, least):
    assert KIND.podsets(job(5, annotations=annotations))[0].min_count == least


@pytest.mark.parametrize(
    ("parallelism", "completions", "status", "ready"),
    [
        (3, 3, {}, False),
        (3, 3, {"ready": 1, "succeeded": 1}, False),
        (3, 3, {"ready": 3}, True),
        (3, 3, {"ready": 2, "succeeded": 1}, True),
        (3, 3, {"succeeded": 3}, True),
        (2, 3, {"ready": 2}, True),
        (3, 2, {"ready": 2}, True),
        (3, None, {"ready": 2}, False),
        (3, None, {"ready": 3}, True),
        (3, 3, {"ready": 2, "failed": 1}, False),
        (3, 3, {"ready": 2, "uncountedTerminatedPods": {"succeeded": ["a"]}}, True),
    ],
)
def test_it_is_ready_when_all_that_run_side_by_side_are(parallelism, completions, status, ready):
    assert KIND.is_ready(job(parallelism, completions, status=status)) is ready


STARTED = {"startTime": "2026-01-01T00:00:00Z"}
SUSPENDED = {"conditions": [{"type": "Suspended", "status": "True"}]}


@pytest.mark.parametrize(
    ("suspend", "status", "active"),
    [
        (True, {}, False),
        (False, {"active": 1}, True),
        (True, {"active": 1}, True),
        (True, {"terminating": 1} | STARTED | SUSPENDED, True),
        (True, STARTED, True),  # its controller has not said yet that there are no pods
        (True, STARTED | SUSPENDED, False),
        (False, STARTED, False),
    ],
)
def test_pitfall_8_it_is_active_until_its_pods_are_known_to_be_gone(suspend, status, active):
    assert KIND.is_active(job(3, suspend=suspend, status=status)) is active


@pytest.mark.parametrize(
    ("generation", "status", "manager", "active"),
    [
        (1, {}, None, False),  # it was created suspended
        (2, {}, None, True),  # its controller may have made pods, and has not written that yet
        (2, SUSPENDED, None, False),
        (2, {}, "kueue.x-k8s.io/multikueue", False),  # its pods are in another cluster
    ],
)
def test_a_job_that_was_suspended_before_its_first_status_may_have_pods(generation, status, manager, active):
    made = job(3, suspend=True, status=status, managedBy=manager)
    meta = msgspec.structs.replace(made.metadata, generation=generation)
    assert KIND.is_active(msgspec.structs.replace(made, metadata=meta)) is active


@pytest.mark.parametrize(
    ("type_", "end"), [("Complete", End(True, "m")), ("Failed", End(False, "m")), ("FailureTarget", None)]
)
def test_how_it_ended(type_, end):
    condition = {"type": type_, "status": "True", "message": "m"}
    assert KIND.end(job(status={"conditions": [condition]})) == end


@pytest.mark.parametrize(
    ("manager", "ours"),
    [(None, True), ("kubernetes.io/job-controller", True), ("kueue.x-k8s.io/multikueue", True), ("else.io/x", False)],
)
def test_jobs_that_another_controller_manages_do_not_queue(manager, ours):
    assert KIND.is_managed(job(managedBy=manager)) is ours


def test_it_starts_with_what_was_injected_beside_its_own():
    own, more = Toleration(key="own"), Toleration(key="more")
    template = {
        "metadata": {"labels": {"mine": "x"}},
        "spec": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "own"}], "containers": []},
    }
    made = job(3, suspend=True, template=template)
    what = info(labels={"l": "1"}, annotations={"a": "2"}, node_selector={"zone": "z"}, tolerations=(own, more))
    started = patched(made, KIND.start(made, [what]))
    spec = started.spec.template.spec
    assert started.spec.suspend is False
    assert started.spec.template.metadata.labels == {"mine": "x", "l": "1"}
    assert started.spec.template.metadata.annotations == {"a": "2"}
    assert spec.node_selector == {"disk": "ssd", "zone": "z"}
    assert spec.tolerations == (own, more)
    assert started.spec.parallelism == 3


@pytest.mark.parametrize(
    ("annotations", "sizes"),
    [
        ({}, (10, 10)),
        ({MINIMUM: "2"}, (4, 10)),
        ({MINIMUM: "2", TOGETHER: "true"}, (4, 4)),
        ({MINIMUM: "2", TOGETHER: "1"}, (4, 4)),
        ({ELASTIC: "true"}, (10, 10)),
    ],
)
def test_it_starts_in_the_size_that_was_admitted_if_it_may_and_gets_its_own_back(annotations, sizes):
    made = job(10, 10, suspend=True, annotations=annotations, completionMode="Indexed")
    started = patched(made, KIND.start(made, [info(4, labels={"l": "1"})]))
    assert (started.spec.parallelism, started.spec.completions) == sizes
    stopped = patched(started, KIND.stop(started))
    restored = patched(stopped, KIND.restore(stopped, KIND.podsets(made)))
    assert (restored.spec.parallelism, restored.spec.completions) == (10, 10)


def test_pitfall_39_a_stopped_job_is_made_what_it_was_in_steps():
    template = {
        "metadata": {"labels": {"mine": "x", **OWN}, "annotations": {"b": "c"}},
        "spec": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "own"}], "containers": []},
    }
    made = job(3, suspend=True, template=template)
    what = info(
        labels={"l": "1"}, annotations={"a": "2"}, node_selector={"zone": "z"}, tolerations=(Toleration(key="more"),)
    )
    started = patched(made, KIND.start(made, [what]))
    running = msgspec.structs.replace(started, status=job(status=STARTED).status)
    (stop,) = KIND.stop(running)
    assert stop.patch == {"spec": {"suspend": True}}
    stopped = patched(running, [stop])
    reset, rest = KIND.restore(stopped, KIND.podsets(made))
    assert (reset.patch, reset.subresource) == ({"status": {"startTime": None}}, "status")
    restored = patched(stopped, [reset, rest])
    assert restored.spec == made.spec
    assert restored.status.start_time is None


def test_pitfall_39_labels_of_the_server_stay_though_the_workload_has_none():
    made = job(3, suspend=True, template={"metadata": {"labels": {**OWN, "kueue.x-k8s.io/podset": "main"}}})
    (before,) = KIND.podsets(job(3))
    restored = patched(made, KIND.restore(made, [before]))
    assert restored.spec.template.metadata.labels == OWN


def test_its_kind():
    assert (KIND.kind, KIND.name) == (JOB, "batch/job")
