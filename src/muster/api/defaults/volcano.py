"""The defaults of Volcano's Jobs, from their schema and from upstream's webhook."""

from typing import Any

from muster.api.defaults.resources import fill
from muster.api.defaults.structural import defaults_of
from muster.api.volcano import DEFAULT_RETRIES, DEFAULT_TASK, PYTORCH, SVC, VOLCANO_JOB

Json = dict[str, Any]

_SCHEDULER = "volcano"
_by_schema = defaults_of(VOLCANO_JOB)


def default_volcano_job(job: Json) -> None:
    """Set the defaults of a Volcano Job. As in upstream, a count of 0 means an absent one."""
    spec = job.setdefault("spec", {})
    fill(spec, "schedulerName", _SCHEDULER)
    fill(spec, "maxRetry", DEFAULT_RETRIES)
    least = 0
    for index, task in enumerate(spec.get("tasks", ())):
        fill(task, "name", f"{DEFAULT_TASK}{index}")
        task.setdefault("minAvailable", task.get("replicas", 0))
        fill(task, "maxRetry", DEFAULT_RETRIES)
        least += task["minAvailable"]
    if least:
        fill(spec, "minAvailable", least)
    if PYTORCH in spec.get("plugins", {}):
        spec["plugins"].setdefault(SVC, [])
    _by_schema(job)
