"""The page that changes the number of workers of a job, with forecasts for more workers."""

from collections.abc import Mapping
from typing import Any

from muster.actions.errors import UserError
from muster.actions.jobs.scaling import Part, explain_later_sizes, scale
from muster.actions.server.session import Session
from muster.api.batch import JOB, MAX_PARALLELISM, Job
from muster.api.status import ApiError
from muster.dashboard.jobs.choices import list_parts
from muster.dashboard.jobs.growth import (
    describe_growth,
    describe_scale,
    find_page_objection,
    list_growths,
    make_growth,
)
from muster.dashboard.pages.jobplan import plan_document
from muster.dashboard.visits import Visit
from muster.insight.record import JobRecord
from muster.insight.why import JobReadings

_MOST_DIGITS = 6


async def ask_scale(visit: Visit, readings: JobReadings) -> tuple[list[str], list[dict[str, Any]]]:
    """Return sentences about the effect of a new size of a job, and the fields of the form for the size."""
    job = readings.job
    assert job is not None, "only jobs can be scaled"
    parts = list_parts(job)
    name, first = next(iter(parts.items()))
    bounds = f"from {first.bounds.least} to {first.bounds.most}" if first.bounds is not None else ""
    fields: list[dict[str, Any]] = [{"name": "workers", "label": "Workers", "value": first.workers, "type": "number"}]
    fields = [one | {"choices": (), "note": bounds} for one in fields]
    if len(parts) > 1:
        sizes = ", ".join(f"{name} has {part.workers}" for name, part in parts.items())
        role = {"name": "role", "label": "Role", "value": name, "choices": list(parts), "note": sizes}
        return ["Each role has its own number of workers.", describe_scale(job, first)[-1]], [role, *fields]
    return [*describe_scale(job, first), *await _foresee(visit, job, first)], fields


async def _foresee(visit: Visit, job: JobRecord, part: Part) -> list[str]:
    """Return forecasts for more workers of a job's part, as far as the viewer may see what they take.

    There are none for a suspended job, for one with another controller, and if the additional workers are refused.
    """
    if job.suspended or job.manager:
        return []
    client, meta = visit.viewer.client, job.metadata
    document = await client.get(job.kind.seen_as(dict), meta.name, meta.namespace)
    said: list[str] = []
    for more in list_growths(part):
        growth = make_growth(document, _find_template(job, document, part), more)
        try:
            stored = await client.create(JOB.seen_as(dict), growth, meta.namespace, dry_run=True)
        except ApiError as error:
            if error.code not in (403, 422):
                raise
            return []
        plan = await plan_document(visit, JOB, stored)
        said += [describe_growth(plan, more, visit.now)] if plan is not None else []
    return said


def _find_template(job: JobRecord, document: Mapping[str, Any], part: Part) -> Mapping[str, Any]:
    spec = document["spec"]
    if not isinstance(job.source, Job):
        spec = spec["replicatedJobs"][part.place]["template"]["spec"]
    template: Mapping[str, Any] = spec["template"]
    return template


async def change_size(_visit: Visit, session: Session, name: str, uid: str, form: Mapping[str, str]) -> str:
    """Set the number of workers of a job to the number in the form; return a sentence.

    Raises `ApiError`, `UserError`.
    """
    said, role = form.get("workers", "").strip(), form.get("role", "")
    if not (said.isascii() and said.isdecimal() and len(said) <= _MOST_DIGITS and int(said) <= MAX_PARALLELISM):
        raise UserError(f"{said!r} is no number of workers: give one from 0 to {MAX_PARALLELISM}")
    workers = int(said)
    before = await scale(session, name, workers, role=role, uid=uid, find_objection=find_page_objection)
    note = explain_later_sizes(before, workers)
    return f"{name} scaled from {before.workers} to {workers}{f'; {note}' if note else ''}"
