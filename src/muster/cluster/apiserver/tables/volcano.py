"""The columns and cells of Volcano's Jobs, as their CRD defines them."""

from datetime import datetime

from muster.api.volcano import Job
from muster.cluster.apiserver.tables.printer import (
    NAME,
    Cells,
    Column,
    Printer,
    format_age,
    make_text_column,
    make_wide_column,
)


def _render_job(job: Job, now: datetime) -> Cells:
    status = job.status
    return [
        job.metadata.name,
        status.state.phase or None,
        status.min_available or None,
        status.running or None,
        format_age(job.metadata.creation_timestamp, now),
        job.spec.queue,
    ]


VOLCANO_JOBS = Printer(
    (
        NAME,
        make_text_column("STATUS", "Where the Job is on its way."),
        Column(name="minAvailable", type="integer", description="The number of pods that start together, or none."),
        Column(name="RUNNINGS", type="integer", description="The number of pods that run."),
        Column(name="AGE", type="date", description="Time since the Job was created."),
        make_wide_column("QUEUE", "The queue of the Job."),
    ),
    _render_job,
)
