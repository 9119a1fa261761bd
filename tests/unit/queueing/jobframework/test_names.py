"""Tests of the names of Workloads, a contract with manifests and other clusters: upstream's goldens."""

import pytest

from muster.queueing.jobframework.names import workload_name

LONG = (
    "marketing-campaign-autumn-2024-region-north-america-department-digital-strategy-sub-department-social-media-"
    "engagement-tracker-and-analytics-dashboard-v2-final-revision-by-engineering-team-lead-senior-architect-validation-"
    "checked-approved-by-legal-and-ops-dept"
)


@pytest.mark.parametrize(
    ("name", "extra", "expected"),
    [
        ("name", "", "job-name-ef3a1"),
        ("name", "1", "job-name-2514c"),
        (LONG, "", f"job-{LONG[:243]}-218b8"),
    ],
)
def test_pitfall_38_golden_names(name: str, extra: str, expected: str) -> None:
    assert workload_name("Job", "batch", name, "uid", extra) == expected


def test_longest() -> None:
    assert len(workload_name("Job", "batch", "x" * 300, "uid")) == 253


def test_what_makes_a_name_different() -> None:
    names = {
        workload_name("Job", "batch", "my-job", "uid-123"),
        workload_name("Job", "batch", "my-job", "uid-124"),
        workload_name("Job", "batch", "my-job", "uid-123", "1"),
        workload_name("Job", "batch", "my-job", "uid-123", "2"),
        workload_name("Job", "example.com", "my-job", "uid-123"),
    }
    assert len(names) == 5
    assert all(name.startswith("job-my-job-") and len(name) == len("job-my-job-") + 5 for name in names)
