"""The defaults of Jobs (k8s.io/kubernetes/pkg/apis/batch/v1/defaults.go, pkg/registry/batch/job/strategy.go)."""

from typing import Any

from muster.api.batch import (
    CONTROLLER_UID_LABEL,
    JOB_NAME_LABEL,
    LEGACY_CONTROLLER_UID_LABEL,
    LEGACY_JOB_NAME_LABEL,
    NON_INDEXED,
)
from muster.api.defaults.pod import default_pod_template

Json = dict[str, Any]

_MAX_INT32 = 2**31 - 1


def default_job(job: Json) -> None:
    """Set the defaults of a Job.

    If only parallelism is set, completions stay absent, which means the work-queue mode.
    """
    spec = job.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _MAX_INT32 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", NON_INDEXED)
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            if not pattern.get("status"):
                pattern["status"] = "True"
    template = spec.setdefault("template", {})
    default_pod_template(template)
    _default_labels(job, template)


def generate_selector(job: Json, uid: str) -> None:
    """Set a selector and pod labels that only this Job has, unless its selector is manual.

    Existing labels stay. If they do not match the selector, the validation reports that.
    """
    spec = job["spec"]
    if spec.get("manualSelector"):
        return
    name = job["metadata"].get("name", "")
    labels = spec.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
    for label in (LEGACY_JOB_NAME_LABEL, JOB_NAME_LABEL):
        labels.setdefault(label, name)
    for label in (LEGACY_CONTROLLER_UID_LABEL, CONTROLLER_UID_LABEL):
        labels.setdefault(label, uid)
    spec.setdefault("selector", {}).setdefault("matchLabels", {}).setdefault(CONTROLLER_UID_LABEL, uid)
    _default_labels(job, spec["template"])


def _default_labels(job: Json, template: Json) -> None:
    """Copy the labels of the template to a Job without labels."""
    labels = template.get("metadata", {}).get("labels")
    metadata = job.setdefault("metadata", {})
    if labels and not metadata.get("labels"):
        metadata["labels"] = dict(labels)
