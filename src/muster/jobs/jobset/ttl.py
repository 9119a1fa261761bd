"""Decide when a finished JobSet is deleted: `ttlSecondsAfterFinished` after its end."""

from datetime import datetime, timedelta

from muster.api.jobset import JobSet
from muster.jobs.jobset.terms import finish


def find_expiry(jobset: JobSet) -> datetime | None:
    """Return when the JobSet may be deleted; None if it has not ended, has no TTL, or is already being deleted."""
    end, ttl = finish(jobset), jobset.spec.ttl_seconds_after_finished
    if end is None or end.last_transition_time is None or ttl is None:
        return None
    return end.last_transition_time + timedelta(seconds=ttl) if jobset.metadata.deletion_timestamp is None else None
