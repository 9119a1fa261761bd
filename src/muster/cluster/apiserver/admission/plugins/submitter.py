"""Who submits a job: the server says so, whatever the manifest says of it, and it stays so."""

from typing import Any

from muster.api.batch import JOB
from muster.api.core import POD
from muster.api.jobset import JOB_SET
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.ours.submitter import SUBMITTER_ANNOTATION
from muster.cluster.apiserver.admission.chain import Attempt
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.identity.users import MASTERS
from muster.cluster.store import Store

_KINDS = frozenset({JOB.resource, JOB_SET.resource, POD.resource})


def note_submitter(attempt: Attempt, store: Store) -> None:  # noqa: ARG001  (one of many of this shape)
    """Set, in place, the annotation of a new job, and of a pod that queues by itself; later writes leave it."""
    if attempt.resource.key not in _KINDS or attempt.operation not in ("CREATE", "UPDATE"):
        return
    given = _said(attempt.document)
    if attempt.operation == "UPDATE":
        submitter = _said(attempt.old or {})
    else:
        named = given if MASTERS in attempt.user.groups else ""
        submitter = named or ("" if _is_part(attempt) else attempt.user.name)
    if submitter != given:
        _say(attempt.document, submitter)


def _is_part(attempt: Attempt) -> bool:
    """Whether another object is what was submitted, or a pod that is no job of its own."""
    meta = _member(attempt.document, "metadata")
    owners = meta.get("ownerReferences")
    if isinstance(owners, list) and any(isinstance(owner, dict) and owner.get("controller") for owner in owners):
        return True
    return attempt.resource.key == POD.resource and QUEUE_NAME_LABEL not in _member(meta, "labels")


def _said(document: Document) -> str:
    found = _member(_member(document, "metadata"), "annotations").get(SUBMITTER_ANNOTATION)
    return found if isinstance(found, str) else ""


def _say(document: Document, submitter: str) -> None:
    meta = document.setdefault("metadata", {})
    annotations = {**_member(meta, "annotations")}
    annotations.pop(SUBMITTER_ANNOTATION, None)
    if submitter:
        annotations[SUBMITTER_ANNOTATION] = submitter
    if annotations:
        meta["annotations"] = annotations
    else:
        meta.pop("annotations", None)


def _member(document: Document, name: str) -> dict[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}
