"""Predict the effect of resizing a job, as far as it is known before the user enters the size. Pure.

Forecasts do not support resizing an existing job. The additional workers are therefore planned as a separate job in the
same queue, with the same requests.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from muster.actions.jobs.scaling import Part, objection_to
from muster.api.kueue.names import PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL
from muster.api.ours.elastic import is_elastic
from muster.dashboard.jobs.outcomes import describe_forecast
from muster.insight.forecasts.plan import ObjectPlan
from muster.insight.jobs.failures import count_of
from muster.insight.record import JobRecord

_LABELS = (QUEUE_NAME_LABEL, PRIORITY_CLASS_LABEL)


def describe_scale(job: JobRecord, part: Part) -> list[str]:
    """Return sentences about the size of a job's part, its bounds, and the effect of a change on running workers."""
    whose = f"Its role {part.name}" if part.place is not None and len(job.roles) > 1 else "It"
    said = [f"{whose} has {count_of(part.workers, 'worker')} now."]
    if part.bounds is not None:
        said.append(f"It is elastic: the cluster may move it between {part.bounds.least} and {part.bounds.most}.")
    return [*said, _describe_change(job)]


def _describe_change(job: JobRecord) -> str:
    annotations, labels = job.metadata.annotations, job.metadata.labels
    if job.suspended:
        return "It starts with the new number of workers."
    if labels.get(QUEUE_NAME_LABEL) and not is_elastic(annotations):
        return "Its queue counts it again: all its workers end, and it starts again once there is quota for all."
    return "More workers start once there are quota and nodes for them; with fewer, those of the highest ranks end."


def find_page_objection(part: Part, workers: int) -> str:
    """Return the reason why a page refuses a new size of a job's part; "" if it accepts the size.

    Unlike the command, a page also refuses a size above the bounds of an elastic job.
    """
    bounds = part.bounds
    if bounds is None or workers <= bounds.most:
        return objection_to(part, workers)
    return (
        f"{part.name} is elastic ({bounds}): it has {bounds.least} to {bounds.most} workers, and {workers} is more; "
        f"if that is meant: muster scale {part.name} {workers}"
    )


def list_growths(part: Part) -> list[int]:
    """Return the numbers of additional workers to forecast: one and, for an elastic job, the most that it may get.

    The result is empty if the bounds allow no more workers.
    """
    room = part.bounds.most - part.workers if part.bounds is not None else 1
    return sorted({min(room, 1), room} - {0}) if room > 0 else []


def make_growth(job: Mapping[str, Any], template: Mapping[str, Any], more: int) -> dict[str, Any]:
    """Return the manifest of a Job that represents the additional workers of a job in a forecast.

    job: the manifest of the job.
    template: the job's pod template.
    more: the number of additional workers.
    """
    meta = job["metadata"]
    labels = {name: value for name, value in (meta.get("labels") or {}).items() if name in _LABELS}
    is_queued = QUEUE_NAME_LABEL in labels
    spec = {"parallelism": more, "completions": more, "completionMode": "Indexed", "suspend": is_queued}
    pods = {"metadata": {}, "spec": {**template["spec"], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "more-workers-", "namespace": meta["namespace"], "labels": labels},
        "spec": {**spec, "template": pods},
    }


def describe_growth(plan: ObjectPlan, more: int, now: datetime) -> str:
    """Return the forecast for additional workers as text: whether they would start, and why not.

    more: the number of additional workers.
    """
    return describe_forecast(plan, now, "One more worker" if more == 1 else f"{more} more workers")
