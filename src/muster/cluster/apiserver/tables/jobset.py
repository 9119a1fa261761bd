"""The columns and cells of JobSets, as their CRD defines them."""

from datetime import datetime

from muster.api.conditions import find
from muster.api.jobset import JobSet, names
from muster.cluster.apiserver.tables.printer import NAME, Cells, Column, Printer, format_age, make_text_column


def _render_job_set(job_set: JobSet, now: datetime) -> Cells:
    completed = find(job_set.status.conditions, names.COMPLETED)
    suspend = job_set.spec.suspend
    return [
        job_set.metadata.name,
        job_set.status.terminal_state or None,
        str(job_set.status.restarts),
        completed.status if completed is not None else None,
        None if suspend is None else str(suspend).lower(),
        format_age(job_set.metadata.creation_timestamp, now),
    ]


JOB_SETS = Printer(
    (
        NAME,
        make_text_column("TerminalState", "Final state of JobSet"),
        make_text_column("Restarts", "Number of restarts"),
        make_text_column("Completed", "Whether all that has to has succeeded."),
        make_text_column("Suspended", "JobSet suspended"),
        Column(name="Age", type="date", description="Time this JobSet was created"),
    ),
    _render_job_set,
)
