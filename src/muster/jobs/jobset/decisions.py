"""Make the record of a decision to restart a JobSet. Pure."""

from datetime import datetime

from muster.api.jobset import JobSet
from muster.api.ours.decisions import Decision
from muster.jobs.jobset.plan import JobSetPlan


def describe_restart(jobset: JobSet, plan: JobSetPlan, now: datetime) -> Decision | None:
    """Return the record of the restart of all Jobs that the plan contains; None if the plan contains no restart."""
    if plan.status.restarts <= jobset.status.restarts:
        return None
    meta, note = jobset.metadata, next((one for one in plan.notes), None)
    rule, because = (note.reason, note.message) if note is not None else ("", "")
    job = f"{meta.namespace}/{meta.name}"
    return Decision(now, "Restarted", job, meta.uid, rule=rule, because=because, attempt=plan.status.restarts)
