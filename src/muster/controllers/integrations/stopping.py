"""Writes the annotation that says why a queue stopped a job; the job's controller counts interruptions by it. Pure."""

from typing import Any

from muster.api.meta import ObjectMeta
from muster.api.ours.interruptions import STOPPED_ANNOTATION
from muster.api.patch.difference import escape_token


def stopped_for(why: str) -> dict[str, Any]:
    """Return the merge patch that says why a job is stopped; nothing for a new job, which waits."""
    return _patch(why) if why else {}


def started_again(job: ObjectMeta) -> dict[str, Any]:
    """Return the merge patch that removes why a job was last stopped; nothing if it was not. job: its metadata."""
    return _patch(None) if STOPPED_ANNOTATION in job.annotations else {}


def started_again_operations(job: ObjectMeta) -> list[dict[str, Any]]:
    """Return the JSON patch that does what `started_again` does."""
    path = f"/metadata/annotations/{escape_token(STOPPED_ANNOTATION)}"
    return [{"op": "remove", "path": path}] if STOPPED_ANNOTATION in job.annotations else []


def _patch(why: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {STOPPED_ANNOTATION: why}}}
