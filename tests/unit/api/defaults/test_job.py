import copy
from typing import Any

import pytest

from muster.api.defaults import default_job, generate_selector


def test_a_small_job_becomes_what_upstream_shows(job: Any) -> None:
    default_job(job)
    generate_selector(job, "the-uid")
    spec = {key: value for key, value in job["spec"].items() if key != "template"}
    assert spec == {
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "completions": 1,
        "manualSelector": False,
        "parallelism": 1,
        "podReplacementPolicy": "TerminatingOrFailed",
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "the-uid"}},
        "suspend": False,
    }
    assert job["spec"]["template"]["metadata"] == {
        "labels": {
            "batch.kubernetes.io/controller-uid": "the-uid",
            "batch.kubernetes.io/job-name": "train",
            "controller-uid": "the-uid",
            "job-name": "train",
        }
    }
    assert job["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert "enableServiceLinks" not in job["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"completions": 1, "parallelism": 1}),
        ({"parallelism": 3}, {"parallelism": 3}),
        ({"completions": 3}, {"completions": 3, "parallelism": 1}),
        ({"parallelism": 0}, {"parallelism": 0}),
        ({"completions": 0}, {"completions": 0, "parallelism": 1}),
    ],
)
def test_completions_are_not_made_up(job: Any, given: Any, expected: Any) -> None:
    job["spec"] |= given
    default_job(job)
    sizes = {key: job["spec"][key] for key in ("completions", "parallelism") if key in job["spec"]}
    assert sizes == expected


@pytest.mark.parametrize(
    ("given", "field", "expected"),
    [
        ({"backoffLimitPerIndex": 1}, "backoffLimit", 2**31 - 1),
        ({"backoffLimit": 0}, "backoffLimit", 0),
        ({"podFailurePolicy": {"rules": []}}, "podReplacementPolicy", "Failed"),
        ({"suspend": True}, "suspend", True),
    ],
)
def test_what_depends_on_something(job: Any, given: Any, field: Any, expected: Any) -> None:
    job["spec"] |= given
    default_job(job)
    assert job["spec"][field] == expected


def test_conditions_of_the_failure_policy_are_true(job: Any) -> None:
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
    job["spec"]["podFailurePolicy"] = {"rules": rules}
    default_job(job)
    assert rules[0]["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]


def test_the_labels_are_the_templates(job: Any) -> None:
    job["spec"]["template"]["metadata"] = {"labels": {"a": "b"}}
    default_job(job)
    assert job["metadata"]["labels"] == {"a": "b"}
    other = copy.deepcopy(job)
    other["metadata"]["labels"] = {"c": "d"}
    default_job(other)
    assert other["metadata"]["labels"] == {"c": "d"}


def test_a_manual_selector_is_left_alone(job: Any) -> None:
    job["spec"] |= {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}}
    default_job(job)
    before = copy.deepcopy(job)
    generate_selector(job, "the-uid")
    assert job == before


def test_wrong_labels_stay_for_validation_to_name(job: Any) -> None:
    job["spec"]["template"]["metadata"] = {"labels": {"controller-uid": "other"}}
    generate_selector(job, "the-uid")
    assert job["spec"]["template"]["metadata"]["labels"]["controller-uid"] == "other"


def test_a_second_time_changes_nothing(job: Any) -> None:
    default_job(job)
    generate_selector(job, "the-uid")
    once = copy.deepcopy(job)
    default_job(job)
    generate_selector(job, "the-uid")
    assert job == once
    assert job["metadata"]["labels"] == job["spec"]["template"]["metadata"]["labels"]
