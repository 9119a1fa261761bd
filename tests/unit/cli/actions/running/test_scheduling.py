"""A CronJob as `muster why` shows it."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from muster.api.batch import CronJob
from muster.cli.actions.running.scheduling import render_cron_job
from muster.insight.jobs.cronjobs import describe_cron_job

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
CREATED = "2026-01-30T12:00:00Z"


def describe(spec: dict[str, Any], status: dict[str, Any] | None = None, *, here: bool = True) -> dict[str, Any]:
    metadata = {"name": "nightly", "creationTimestamp": CREATED}
    document = {"metadata": metadata, "spec": {"timeZone": "UTC"} | spec, "status": status or {}}
    return describe_cron_job(msgspec.convert(document, CronJob), NOW, on_this_machine=here)


def test_the_next_start_follows_the_last_one() -> None:
    status = {"lastScheduleTime": "2026-01-31T03:00:00Z", "lastSuccessfulTime": "2026-01-31T03:10:00Z"}
    described = describe({"schedule": "0 3 * * *"}, status | {"active": [{"name": "nightly-1"}, {"name": "nightly-2"}]})
    assert described["nextStart"] == datetime(2026, 2, 1, 3, tzinfo=UTC)
    first, *rest = render_cron_job(described)
    assert first.startswith("nightly: starts jobs at 0 3 * * * (UTC), next at 2026-0")
    assert rest[-1] == "  running       nightly-1, nightly-2"


def test_a_start_that_is_due_is_the_next() -> None:
    described = describe({"schedule": "0 3 * * *"}, {"lastScheduleTime": "2026-01-30T03:00:00Z"})
    assert described["nextStart"] == datetime(2026, 1, 31, 3, tzinfo=UTC)


def test_one_that_is_held_has_no_next_start() -> None:
    described = describe({"schedule": "@daily", "suspend": True})
    assert (described["held"], described["nextStart"]) == (True, None)
    assert render_cron_job(described) == [
        "nightly: starts jobs at @daily (UTC), held: it starts no jobs until: muster release nightly",
        "  last start    -",
        "  last success  -",
        "  running       -",
    ]


def test_in_the_zone_of_another_machine_the_next_start_is_unknown() -> None:
    spec: dict[str, Any] = {"schedule": "0 3 * * *", "timeZone": None}
    assert describe(spec, here=False)["nextStart"] is None
    assert describe(spec, here=True)["nextStart"] is not None


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"schedule": "0 0 30 2 *"}, "invalid schedule: 0 0 30 2 * : no date matches, it never starts a job"),
        ({"schedule": "often"}, 'unparseable schedule: "often"'),
        ({"schedule": "@daily", "timeZone": "Mars"}, 'invalid timeZone: "Mars"'),
    ],
)
def test_a_schedule_that_never_comes_says_so(spec: dict[str, Any], problem: str) -> None:
    lines = render_cron_job(describe(spec))
    assert lines[0].endswith(", next start unknown")
    assert lines[1].startswith(f"  problem       {problem}")
