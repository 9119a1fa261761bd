"""CronJobs and their Jobs, for tests of decisions."""

from datetime import UTC, datetime
from typing import Any

from muster.api.batch import CRON_JOB, JOB, CronJob, Job
from muster.api.kinds import without_nulls

CREATED = "2026-01-01T00:00:00Z"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def cron_job(schedule: str = "0 * * * *", status: Any = None, meta: Any = None, **spec: Any) -> CronJob:
    """A CronJob `c` with the server's defaults. spec: as in JSON."""
    defaults = {"concurrencyPolicy": "Allow", "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}
    metadata = {"name": "c", "namespace": "default", "uid": "c-uid", "creationTimestamp": CREATED}
    template = {
        "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "night"}, "annotations": {"a": "b"}},
        "spec": {"parallelism": 2},
    }
    document = {
        "metadata": metadata | (meta or {}),
        "spec": {"schedule": schedule, "jobTemplate": template} | defaults | spec,
        "status": status or {},
    }
    return CRON_JOB.typed(without_nulls(document))


def job(name: str, end: str = "", started: str = CREATED, completed: str = CREATED, **meta: Any) -> Job:
    """A Job of the CronJob, with the condition `end` if it has ended. Its UID is its name."""
    status: dict[str, Any] = {"startTime": started} if started else {}
    if end:
        status["conditions"] = [{"type": end, "status": "True"}]
    if end == "Complete":
        status["completionTime"] = completed
    return JOB.typed({"metadata": {"name": name, "namespace": "default", "uid": name, **meta}, "status": status})


def active(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "uid": name, "namespace": "default"} for name in names]
