"""Decide when a finished Job is deleted: `ttlSecondsAfterFinished` after its end."""

from datetime import datetime, timedelta

from muster.api.volcano import Job
from muster.jobs.volcano.status import FINISHED


def find_expiry(job: Job) -> datetime | None:
    """Return the time from which the Job is to be deleted; None if it has not ended or has no TTL."""
    end, ttl = job.status.state.last_transition_time, job.spec.ttl_seconds_after_finished
    if job.status.state.phase not in FINISHED or end is None or ttl is None:
        return None
    return end + timedelta(seconds=ttl)
