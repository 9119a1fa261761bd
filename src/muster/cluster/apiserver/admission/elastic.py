"""Check the annotation of an elastic job, which contains the minimum and maximum size of the job."""

from muster.api.batch import JOB
from muster.api.jobset import JOB_SET
from muster.api.ours.elastic import ELASTIC_ANNOTATION, Bounds
from muster.cluster.apiserver.admission.chain import WriteAttempt
from muster.cluster.apiserver.decode import Document

_KINDS = frozenset({JOB.resource, JOB_SET.resource})


def warn_of_bounds(attempt: WriteAttempt) -> str:
    """Return why a new or changed annotation does not make the job elastic; "" if it does, or if there is none."""
    if attempt.subresource or attempt.resource.key not in _KINDS or attempt.operation not in ("CREATE", "UPDATE"):
        return ""
    text = _read_bounds(attempt.document)
    if text is None or text == _read_bounds(attempt.old or {}):
        return ""
    try:
        Bounds.parse(text)
    except ValueError as error:
        return f"metadata.annotations[{ELASTIC_ANNOTATION}]: {error}; until then the job keeps its size"
    return ""


def _read_bounds(document: Document) -> str | None:
    annotations = document.get("metadata", {}).get("annotations") or {}
    text = annotations.get(ELASTIC_ANNOTATION)
    return text if isinstance(text, str) else None
