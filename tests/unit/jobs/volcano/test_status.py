"""In which phase a Volcano Job is, by the numbers of its pods."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.unit.jobs.volcano.test_decide import NOW, job, task

from muster.api.volcano import JobStatus
from muster.jobs.volcano.status import find_next_phase, in_phase


def status(phase: str, numbers: dict[str, int]) -> JobStatus:
    return msgspec.convert({"state": {"phase": phase}, **numbers}, JobStatus)


@pytest.mark.parametrize(
    ("least", "numbers", "expected"),
    [
        (3, {"running": 2}, "Pending"),
        (3, {"running": 3}, "Running"),
        (3, {"running": 4}, "Running"),
        (3, {"running": 2, "succeeded": 1}, "Running"),
        (3, {"running": 2, "failed": 1}, "Running"),
        (3, {"running": 1, "succeeded": 1, "failed": 1}, "Running"),
        (3, {"running": 1, "succeeded": 1, "pending": 2}, "Pending"),
    ],
)
def test_a_job_begins_once_its_minimum_runs_or_has_ended(least: int, numbers: dict[str, int], expected: str) -> None:
    it = job(task(replicas=4), minAvailable=least)
    assert find_next_phase(it, status("Pending", numbers)) == (expected, "")


@pytest.mark.parametrize(
    ("spec", "numbers", "expected"),
    [
        ({}, {"running": 2, "pending": 1}, ("Running", "")),
        ({}, {"running": 1, "pending": 2}, ("Pending", "")),
        ({}, {"succeeded": 2, "running": 1}, ("Running", "")),
        ({}, {"succeeded": 2, "failed": 1}, ("Completed", "")),
        ({}, {"succeeded": 1, "failed": 2}, ("Failed", "1 of the 2 pods that must succeed succeeded")),
        ({"minSuccess": 1}, {"succeeded": 1, "running": 2}, ("Completed", "")),
        ({"minSuccess": 2}, {"succeeded": 1, "running": 2}, ("Running", "")),
        ({"minSuccess": 3}, {"succeeded": 2, "failed": 1}, ("Failed", "2 of the 3 pods that must succeed succeeded")),
    ],
)
def test_how_a_job_goes_on_and_ends(spec: dict[str, Any], numbers: dict[str, int], expected: tuple[str, str]) -> None:
    """It has three pods, and needs two."""
    it = job(task(replicas=3), **{"minAvailable": 2, **spec})
    assert find_next_phase(it, status("Running", numbers)) == expected


@pytest.mark.parametrize(
    ("succeeded", "expected"),
    [
        ({"ps": 1, "w": 2}, ("Completed", "")),
        ({"ps": 1, "w": 3}, ("Completed", "")),
        ({"ps": 1, "w": 1}, ("Failed", "1 of the 2 pods that must succeed of task w succeeded")),
        ({"w": 3}, ("Failed", "0 of the 1 pods that must succeed of task ps succeeded")),
    ],
)
def test_a_job_that_needs_all_its_tasks_needs_each_of_them(
    succeeded: dict[str, int], expected: tuple[str, str]
) -> None:
    it = job(task("ps", 1), task("w", 3, minAvailable=2), minAvailable=3)
    counted = status("Running", {"succeeded": sum(succeeded.values()), "failed": 4 - sum(succeeded.values())})
    phases = {name: {"phase": {"Succeeded": number}} for name, number in succeeded.items()}
    counted = msgspec.structs.replace(
        counted, task_status_count=msgspec.convert({"taskStatusCount": phases}, JobStatus).task_status_count
    )
    assert find_next_phase(it, counted) == expected


def test_a_job_without_pods_runs_until_it_has_some() -> None:
    it = job(task(replicas=0), minAvailable=0)
    assert find_next_phase(it, status("Running", {})) == ("Running", "")


@pytest.mark.parametrize(("old", "new"), [("Running", "Completed"), ("Restarting", "Pending")])
def test_a_phase_has_the_time_and_the_reason_of_its_change(old: str, new: str) -> None:
    it, before = job(task()), status(old, {})
    changed = in_phase(it, before, new, NOW, "Why", "it is so")
    state = changed.state
    assert (state.phase, state.reason, state.message, state.last_transition_time) == (new, "Why", "it is so", NOW)
    assert [(one.status, one.last_transition_time) for one in changed.conditions] == [(new, NOW)]
    assert changed.running_duration == ("1h0m0s" if new == "Completed" else before.running_duration)
    assert in_phase(it, changed, new, NOW, "Again") is changed


@pytest.mark.parametrize(("seconds", "took"), [(0, "0s"), (-5, "0s"), (61, "1m1s")])
def test_a_job_says_how_long_it_ran_never_less_than_nothing(seconds: int, took: str) -> None:
    it = job(task())
    created = it.metadata.creation_timestamp
    assert created is not None
    ended = in_phase(it, status("Running", {}), "Failed", created + timedelta(seconds=seconds))
    assert ended.running_duration == took
