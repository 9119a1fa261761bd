"""Decide when a finished Job is deleted: `ttlSecondsAfterFinished` after its end (kubernetes KEP-592)."""

from datetime import datetime, timedelta

from muster.api.batch import Job
from muster.jobs.job.conditions import finish


def find_expiry(job: Job) -> datetime | None:
    """Return when the Job may be deleted; None if it has not ended, has no TTL, or is already being deleted."""
    end = finish(job)
    ttl = job.spec.ttl_seconds_after_finished
    if end is None or ttl is None or job.metadata.deletion_timestamp is not None:
        return None
    finished = end.last_transition_time or job.status.completion_time
    return finished + timedelta(seconds=ttl) if finished else None
