"""What can be done to a job in each state."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from muster.api.batch import Job
from muster.dashboard.jobs.choices import list_choices, list_commands, list_parts
from muster.insight.jobs.state import JobState
from muster.insight.record import record_of
from muster.insight.why import JobReadings

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def job(*conditions: dict[str, str], annotations: Any = None, labels: Any = None, **spec: Any) -> Any:
    meta = {"name": "j", "namespace": "ns", "uid": "u", "annotations": annotations or {}, "labels": labels or {}}
    document = {"metadata": meta, "spec": {"parallelism": 2, "completions": 2, "suspend": True} | spec}
    return record_of(msgspec.convert(document | {"status": {"conditions": list(conditions)}}, Job, strict=False))


def readings(word: Any, subject: Any = None) -> JobReadings:
    return JobReadings("ns", "j", NOW, JobState(word, 0, 2), job=subject)


QUEUED = {"kueue.x-k8s.io/queue-name": "q"}
FAILED = {"type": "Failed", "status": "True", "reason": "FailedIndexes"}


@pytest.mark.parametrize(
    ("word", "subject", "names"),
    [
        ("Queued", job(labels=QUEUED), ["hold", "scale", "priority", "cancel"]),
        ("Running", job(suspend=False), ["hold", "scale", "cancel"]),
        ("Held", job(labels=QUEUED), ["release", "scale", "priority", "cancel"]),
        ("Suspended", job(), ["release", "scale", "cancel"]),
        ("Queued", None, ["hold", "cancel"]),
        ("Held", None, ["release", "cancel"]),
        ("Cancelling", job(), []),
        ("Deleting", job(), []),
        ("Completed", job({"type": "Complete", "status": "True"}), []),
        ("Failed", job(FAILED), []),
        (
            "Failed",
            job(FAILED, annotations={"muster.dev/array": "0-1"}, completionMode="Indexed"),
            ["retry"],
        ),
    ],
)
def test_only_what_applies_is_offered(word, subject, names):
    assert [one.name for one in list_choices(readings(word, subject), NOW)] == names


def test_what_ends_a_job_is_marked():
    assert [one.name for one in list_choices(readings("Running", job()), NOW) if one.ends] == ["cancel"]


def test_workers_with_a_fixed_world_size_cannot_be_scaled():
    variable = {"name": "WORLD_SIZE", "value": "2"}
    template = {"spec": {"containers": [{"name": "c", "env": [variable]}]}}
    fixed = job(template=template, completionMode="Indexed")
    assert fixed.has_fixed_size
    assert list_parts(fixed) == {}


SWEEP = {"muster.dev/array": "0-1", "kueue.x-k8s.io/job-min-parallelism": "1"}


@pytest.mark.parametrize(
    ("suspend", "names"),
    [(False, ["hold", "cancel-trials", "cancel"]), (True, ["hold", "scale", "cancel-trials", "cancel"])],
)
def test_a_sweep_keeps_its_size_while_it_runs_and_loses_single_trials(suspend, names):
    sweep = job(annotations=SWEEP, completionMode="Indexed", suspend=suspend)
    assert [one.name for one in list_choices(readings("Running", sweep), NOW)] == names


def test_the_commands_do_the_same_and_are_quoted():
    commands = list_commands(readings("Held", job()))
    assert "muster release j -n ns" in commands
    assert "muster scale j N -n ns" in commands
    assert "muster hold j -n ns" not in commands
    odd = JobReadings("ns", "a b", NOW, JobState("Queued", 0, 1))
    assert "muster why 'a b' -n ns" in list_commands(odd)
