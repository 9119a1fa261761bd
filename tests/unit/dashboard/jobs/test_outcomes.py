"""What a page says before a change of a CronJob."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from muster.api.batch import CronJob
from muster.dashboard.jobs.outcomes import describe_cron_release
from muster.insight.jobs.cronjobs import describe_cron_job

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def release(*, here: bool, **spec: Any) -> list[str]:
    metadata = {"name": "nightly", "creationTimestamp": "2026-01-01T00:00:00Z"}
    cron_job = msgspec.convert({"metadata": metadata, "spec": spec}, CronJob)
    return describe_cron_release(describe_cron_job(cron_job, NOW, on_this_machine=here), "Allow", NOW)


@pytest.mark.parametrize(
    ("schedule", "here", "sentence"),
    [
        ("* * * * *", False, "It starts jobs by its schedule again."),  # many starts were missed
        ("* * * * *", True, "It starts a job at once, for the start that it missed 0s ago."),
        ("0 3 * * *", False, "It starts jobs by its schedule again."),
        (
            "0 0 30 2 *",
            False,
            "It starts no jobs. Invalid schedule: 0 0 30 2 * : no date matches, it never starts a job.",
        ),
        (
            "0 0 30 2 *",
            True,
            "It starts no jobs. Invalid schedule: 0 0 30 2 * : no date matches, it never starts a job.",
        ),
    ],
)
def test_a_release_starts_no_jobs_only_where_no_start_is_to_come(schedule: str, here: bool, sentence: str) -> None:
    assert release(schedule=schedule, here=here) == [sentence]
