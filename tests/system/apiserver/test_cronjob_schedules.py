"""What the writer of a CronJob is told about its schedule."""

from typing import Any

import pytest
from tests.system.apiserver.harness import Api, api

from muster.actions.warnings import parse_warnings

CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
NEVER = "spec.schedule: no date matches '0 0 30 2 *', so that the CronJob never starts a job"


def cron_job(schedule: str) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "c"},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": {"template": {"spec": pod}}}},
    }


@pytest.mark.parametrize(("schedule", "warning"), [("0 3 * * *", ""), ("0 0 29 2 *", ""), ("0 0 30 2 *", NEVER)])
@api
async def test_a_schedule_that_never_comes_is_warned_of_once(api: Api, schedule: str, warning: str) -> None:
    answer = await api.post(CRON_JOBS, cron_job(schedule))
    assert answer.status == 201
    assert list(parse_warnings(answer.headers.get("warning", ""))) == ([warning] if warning else [])
    later = await api.merge(f"{CRON_JOBS}/c", {"metadata": {"labels": {"a": "b"}}})
    assert "warning" not in later.headers
