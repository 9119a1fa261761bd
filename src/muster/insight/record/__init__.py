"""One record for a job of any kind, with a class for each kind."""

from muster.insight.record.build import record_of, records_of
from muster.insight.record.pods import container_statuses, has_joined, is_indexed, is_late
from muster.insight.record.record import JobEnd, JobRecord, RemoteCounts, Role

__all__ = [
    "JobEnd",
    "JobRecord",
    "RemoteCounts",
    "Role",
    "container_statuses",
    "has_joined",
    "is_indexed",
    "is_late",
    "record_of",
    "records_of",
]
