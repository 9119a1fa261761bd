"""A `Mirror` says how MultiKueue runs a kind of job in a worker cluster. Pure.

Users look at the job here; its copy runs. The copy is made from the job once, and from then on only its status comes
back: nothing else of an object in a worker is believed.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from muster.api.core import Pod, PodTemplateSpec
from muster.api.kinds import Kind
from muster.api.kueue import PodSet
from muster.api.kueue.names import (
    MULTI_KUEUE_ORIGIN_LABEL,
    MULTI_KUEUE_ORIGIN_UID,
    PREBUILT_WORKLOAD_NAME_LABEL,
    STOPPING,
)
from muster.api.ours.elastic import BINDING_ANNOTATION, CAP_ANNOTATION, HELD_ANNOTATION, WORLD_ANNOTATION
from muster.api.ours.interruptions import STOPPED_ANNOTATION
from muster.api.validation import names

T = TypeVar("T")

# Annotations about the job here that mean nothing, or something else, on its copy.
_BOOKKEEPING = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        BINDING_ANNOTATION,
        CAP_ANNOTATION,
        HELD_ANNOTATION,
        STOPPED_ANNOTATION,
        WORLD_ANNOTATION,
        STOPPING,
    )
)

# Where a pod template says what an admission injects.
_INJECTED = {"metadata": ("labels", "annotations"), "spec": ("nodeSelector", "tolerations", "schedulingGates")}


class Mirror(ABC, Generic[T]):
    """One kind of job. `local` is the job here and `remote` its copy, each as its own API server has it."""

    kind: Kind[T]

    @abstractmethod
    def is_handed_over(self, job: T) -> bool:
        """Return whether MultiKueue runs the job, so that no controller here creates its pods."""
        ...

    def copy(
        self, job: T | dict[str, Any], workload: str, origin: str, podsets: Sequence[PodSet] = ()
    ) -> dict[str, Any]:
        """Return the copy to create in the worker, under the same name.

        job: as plain JSON it also keeps fields that this view of the kind does not know. workload: the name of its
        Workload.
        origin: marks what this manager creates. podsets: those of its Workload, with as many pods as have quota; what
        an earlier admission here injected into the job does not go there.

        The copy waits for its worker's admission, and stays after its end until that end is known here.
        """
        document: dict[str, Any] = _json(job)
        for part in ("status", "apiVersion", "kind"):
            document.pop(part, None)
        document["metadata"] = _metadata(document.get("metadata") or {}, workload, origin)
        document["spec"] = spec = document.get("spec") or {}
        spec.pop("managedBy", None)
        spec.pop("ttlSecondsAfterFinished", None)
        self._prepare(document, podsets)
        return {"apiVersion": self.kind.api_version, "kind": self.kind.kind, **document}

    def pods(self, job: T, podsets: Sequence[PodSet]) -> Sequence[Pod]:  # noqa: ARG002  (its Workload says it)
        """Return what the job's pods will be like, as far as they name a PodGroup themselves."""
        templates = (podset.template for podset in podsets)
        return [Pod(metadata=template.metadata, spec=template.spec) for template in templates]

    @abstractmethod
    def status(self, local: T, remote: T) -> dict[str, Any] | None:
        """Return the merge patch that shows the copy's status in the local job; {} if nothing changes.

        Return None while the local job is suspended and the copy runs: the API server may refuse to resume a suspended
        job whose status shows that it runs.
        """
        ...

    @abstractmethod
    def stopped(self, local: T, now: datetime) -> dict[str, Any]:
        """Return the merge patch of the local status that says nothing of the job runs any more.

        The manager writes it once it has given up the worker of the job as lost.
        """
        ...

    @abstractmethod
    def has_ended(self, local: T) -> bool:
        """Return whether the job has ended, so that no copy of it is created."""
        ...

    @abstractmethod
    def has_started(self, remote: T) -> bool:
        """Return whether the copy may have pods: it is not suspended, or still has some."""
        ...

    @abstractmethod
    def is_active(self, remote: T) -> bool:
        """Return whether some of the copy's pods have not ended."""
        ...

    def is_spent(self, remote: T) -> bool:  # noqa: ARG002  (most kinds go by themselves)
        """Return whether nothing of the copy runs, so that it only stays until its workload goes."""
        return False

    def resized(
        self,
        local: T,  # noqa: ARG002  (most kinds have no size)
        remote: T,  # noqa: ARG002
        podsets: Sequence[PodSet],  # noqa: ARG002
    ) -> list[dict[str, Any]]:
        """Return the JSON patch that makes the copy of an elastic job as large as the job here; empty if it is.

        podsets: with as many pods as have quota here, above which the copy does not grow.
        """
        return []

    @abstractmethod
    def _prepare(self, document: dict[str, Any], podsets: Sequence[PodSet]) -> None:
        """Turn a job without its server's marks into one that a worker takes."""
        ...


def restore(template: dict[str, Any], original: PodTemplateSpec, keep: Collection[str] = ()) -> None:
    """Remove from a pod template what an admission here has injected; the labels in `keep` stay."""
    before = _json(original)
    kept = {key: text for key, text in _labels(template).items() if key in keep}
    for part, fields in _INJECTED.items():
        now, was = template.setdefault(part, {}), before.get(part, {})
        for field in fields:
            now.pop(field, None)
            if field in was:
                now[field] = was[field]
    if kept:
        template["metadata"]["labels"] = _labels(template) | kept


def _json(value: Any) -> Any:
    """Return a value as JSON holds it."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _labels(template: Mapping[str, Any]) -> dict[str, str]:
    return (template.get("metadata") or {}).get("labels") or {}


def _metadata(meta: Mapping[str, Any], workload: str, origin: str) -> dict[str, Any]:
    """Return the metadata of a copy: name, namespace, labels and annotations. The rest belongs to the local server."""
    labels = {**(meta.get("labels") or {}), MULTI_KUEUE_ORIGIN_LABEL: origin}
    annotations = {key: text for key, text in (meta.get("annotations") or {}).items() if key not in _BOOKKEEPING}
    annotations[PREBUILT_WORKLOAD_NAME_LABEL] = workload
    if uid := meta.get("uid"):
        annotations[MULTI_KUEUE_ORIGIN_UID] = uid
    labels.pop(PREBUILT_WORKLOAD_NAME_LABEL, None)
    if not names.label_value(workload):
        labels[PREBUILT_WORKLOAD_NAME_LABEL] = workload  # as workers before Kueue 0.18 look for it
    return {
        "name": meta.get("name", ""),
        "namespace": meta.get("namespace", ""),
        "labels": labels,
        "annotations": annotations,
    }
