"""Write the annotation with the reason for which a queue stopped a job; it counts as an interruption. Pure."""

from typing import Any

from muster.api.meta import ObjectMeta
from muster.api.ours.interruptions import STOPPED_ANNOTATION
from muster.api.patch.difference import escape_token


def make_stop_patch(why: str) -> dict[str, Any]:
    """Return the merge patch that records why a queue stops a job; empty for a new job, which never ran."""
    return _patch(why) if why else {}


def make_restart_patch(job: ObjectMeta) -> dict[str, Any]:
    """Return the merge patch that removes the reason of the last stop; empty if there is none.

    job: the metadata of the job.
    """
    return _patch(None) if STOPPED_ANNOTATION in job.annotations else {}


def make_restart_operations(job: ObjectMeta) -> list[dict[str, Any]]:
    """Return the JSON patch that removes the reason of the last stop; empty if there is none.

    job: the metadata of the job.
    """
    path = f"/metadata/annotations/{escape_token(STOPPED_ANNOTATION)}"
    return [{"op": "remove", "path": path}] if STOPPED_ANNOTATION in job.annotations else []


def _patch(why: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {STOPPED_ANNOTATION: why}}}
