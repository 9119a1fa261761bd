"""CronJobs in the form that users see: when each one starts jobs, and which jobs it started. Pure."""

from datetime import datetime
from typing import Any

from muster.api.batch import CronJob
from muster.jobs.cronjob.timing import find_timing


def describe_cron_job(cron_job: CronJob, now: datetime, *, on_this_machine: bool) -> dict[str, Any]:
    """Return a CronJob as `muster why` and the dashboard show it: its schedule, its starts and its running jobs.

    on_this_machine: whether the cluster's time zone is that of this machine. Otherwise the next start is known only for
    a CronJob that names its time zone. The field `canStart` says for each CronJob whether there is a next start at all.
    """
    meta, spec, status = cron_job.metadata, cron_job.spec, cron_job.status
    timing = find_timing(cron_job, now, None)
    is_known = (spec.time_zone is not None or on_this_machine) and not spec.suspend
    return {
        "name": meta.name,
        "namespace": meta.namespace,
        "kind": "CronJob",
        "schedule": spec.schedule,
        "timeZone": spec.time_zone,
        "held": bool(spec.suspend),
        "canStart": (timing.due or timing.following) is not None,
        "nextStart": timing.due or timing.following if is_known else None,
        "lastStart": status.last_schedule_time,
        "lastSuccess": status.last_successful_time,
        "running": [one.name for one in status.active],
        "problem": " ".join(note.message for note in timing.notes),
    }
