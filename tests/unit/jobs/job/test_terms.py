from typing import Any

import msgspec
import pytest

from muster.api.batch import Job, JobSpec
from muster.jobs.job.terms import JobTerms, completion_mode, managed_by


def job(spec: dict[str, Any]) -> Job:
    return Job(spec=msgspec.convert(spec, JobSpec))


@pytest.mark.parametrize(
    ("spec", "parallelism", "completions"),
    [
        ({}, 1, 1),
        ({"parallelism": 3}, 3, None),
        ({"parallelism": 0}, 0, None),
        ({"completions": 0}, 1, 0),
        ({"completions": 5}, 1, 5),
        ({"completionMode": "Indexed", "parallelism": 4}, 4, 4),
    ],
)
def test_zero_and_absent_are_different(spec: dict[str, Any], parallelism: int, completions: int | None) -> None:
    """Pitfall 3."""
    terms = JobTerms.of(job(spec))
    assert (terms.parallelism, terms.completions) == (parallelism, completions)


def test_limits() -> None:
    assert JobTerms.of(job({})).backoff_limit == 6
    assert JobTerms.of(job({"backoffLimit": 0})).backoff_limit == 0
    per_index = JobTerms.of(job({"completionMode": "Indexed", "completions": 1, "backoffLimitPerIndex": 0}))
    assert (per_index.backoff_limit, per_index.backoff_limit_per_index) == (2**31 - 1, 0)


def test_what_only_an_indexed_job_has() -> None:
    terms = JobTerms.of(
        job({"backoffLimitPerIndex": 1, "maxFailedIndexes": 1, "successPolicy": {"rules": [{"succeededCount": 1}]}})
    )
    assert (terms.backoff_limit_per_index, terms.max_failed_indexes, terms.success_policy) == (None, None, None)
    assert terms.has_index(-1)


def test_range() -> None:
    terms = JobTerms.of(job({"completionMode": "Indexed", "completions": 2}))
    assert [terms.has_index(index) for index in (-1, 0, 1, 2)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("spec", "only_failed"),
    [
        ({}, False),
        ({"podReplacementPolicy": "TerminatingOrFailed"}, False),
        ({"podReplacementPolicy": "Failed"}, True),
        ({"podFailurePolicy": {"rules": []}}, True),
    ],
)
def test_what_is_replaced(spec: dict[str, Any], only_failed: bool) -> None:
    assert JobTerms.of(job(spec)).replace_only_failed == only_failed


def test_who_and_how() -> None:
    assert managed_by(job({})) == managed_by(job({"managedBy": "kubernetes.io/job-controller"}))
    assert managed_by(job({"managedBy": "example.com/other"})) == "example.com/other"
    assert completion_mode(job({})) == "NonIndexed"
    assert completion_mode(job({"completionMode": "Indexed"})) == "Indexed"
