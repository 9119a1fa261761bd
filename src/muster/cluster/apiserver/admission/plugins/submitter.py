"""Record the submitter of a job in an annotation, which neither the manifest nor a later write can change."""

from collections.abc import Iterable
from typing import Any

from muster.api.batch import CRON_JOB, JOB
from muster.api.core import POD
from muster.api.kueue import WORKLOAD
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.members import mapping_at, value_at
from muster.api.ours.submitter import SUBMITTED_KINDS, SUBMITTER_ANNOTATION
from muster.cluster.apiserver.admission.chain import Plugin, WriteAttempt
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.identity.users import MASTERS
from muster.cluster.store import Store

# The names of controllers and of service accounts begin with this prefix, which Kubernetes reserves for them.
_SYSTEM_PREFIX = "system:"


def note_submitters(kinds: Iterable[str]) -> Plugin:
    """Return the plugin that records the submitter of Workloads and jobs.

    kinds: the resources of jobs in addition to `SUBMITTED_KINDS`.
    """
    submitted = SUBMITTED_KINDS.union(kinds, {WORKLOAD.resource})

    def note_submitter(attempt: WriteAttempt, store: Store) -> None:  # noqa: ARG001  (one of many of this shape)
        if attempt.resource.key in submitted and attempt.operation in ("CREATE", "UPDATE"):
            _note_submitter(attempt)

    return note_submitter


def _note_submitter(attempt: WriteAttempt) -> None:
    """Set the annotation that names the submitter of a new job, or of a pod that queues by itself, in place.

    An update gets the stored annotation again. A user who changes the template of a CronJob submits the jobs that the
    CronJob then starts. The engine copies the submitter of a job to its Workload.
    """
    written = _read_submitter(attempt.document)
    if attempt.operation == "UPDATE" and not _changes_template(attempt):
        submitter = _read_submitter(attempt.old or {})
    else:
        named = written if MASTERS in attempt.user.groups and not _copies_template(attempt) else ""
        submitter = named or ("" if _is_part(attempt) else attempt.user.name)
    if submitter != written:
        _write_submitter(attempt.document, submitter)


def _copies_template(attempt: WriteAttempt) -> bool:
    """Return whether a controller copied the annotations from a template, where users may name any submitter.

    The engine itself writes the annotations of a Workload and of a CronJob's Job.
    """
    return attempt.resource.key != WORKLOAD.resource and _list_controllers(attempt) not in ([], [CRON_JOB.kind])


def _changes_template(attempt: WriteAttempt) -> bool:
    """Return whether an update changes the jobs that a CronJob starts."""
    if attempt.resource.key != CRON_JOB.resource or attempt.subresource:
        return False
    old, new = (mapping_at(each, "spec", "jobTemplate") for each in (attempt.old, attempt.document))
    return new != old


def _is_part(attempt: WriteAttempt) -> bool:
    """Return whether the object belongs to another object, or is a pod that does not queue by itself.

    A Job that a user creates from a CronJob, as `kubectl create job --from` does, counts as the user's own.
    """
    if controllers := _list_controllers(attempt):
        is_from_cron_job = attempt.resource.key == JOB.resource and controllers[0] == CRON_JOB.kind
        return not is_from_cron_job or attempt.user.name.startswith(_SYSTEM_PREFIX)
    labels = mapping_at(attempt.document, "metadata", "labels")
    return attempt.resource.key == POD.resource and QUEUE_NAME_LABEL not in labels


def _list_controllers(attempt: WriteAttempt) -> list[Any]:
    """Return the kinds of the object's controllers: none or one."""
    owners = value_at(attempt.document, ("metadata", "ownerReferences"))
    references = [one for one in owners if isinstance(one, dict)] if isinstance(owners, list) else []
    return [one.get("kind") for one in references if one.get("controller")]


def _read_submitter(document: Document) -> str:
    submitter = value_at(document, ("metadata", "annotations", SUBMITTER_ANNOTATION))
    return submitter if isinstance(submitter, str) else ""


def _write_submitter(document: Document, submitter: str) -> None:
    meta = document.setdefault("metadata", {})
    annotations = {**mapping_at(meta, "annotations")}
    annotations.pop(SUBMITTER_ANNOTATION, None)
    if submitter:
        annotations[SUBMITTER_ANNOTATION] = submitter
    if annotations:
        meta["annotations"] = annotations
    else:
        meta.pop("annotations", None)
