"""Define `Mirror`: how MultiKueue runs a kind of job in a worker cluster. Pure.

Users see the *local* job in the manager's cluster; its *copy* in the worker runs. The copy is made from the job once.
From then on only its status is copied back: no other field of an object in a worker is trusted.
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

# Annotations of the local job that have no meaning, or another one, on its copy.
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

# The fields of a pod template that an admission may inject into.
_INJECTED = {"metadata": ("labels", "annotations"), "spec": ("nodeSelector", "tolerations", "schedulingGates")}


class Mirror(ABC, Generic[T]):
    """The rules by which MultiKueue runs one kind of job in a worker cluster.

    In all methods, `local` is the manager's job, and `remote` is its copy in the worker.
    """

    kind: Kind[T]

    @abstractmethod
    def is_handed_over(self, job: T) -> bool:
        """Return whether MultiKueue runs the job, so that no controller of the manager's cluster creates its pods."""
        ...

    def copy(
        self, job: T | dict[str, Any], workload: str, origin: str, podsets: Sequence[PodSet] = ()
    ) -> dict[str, Any]:
        """Return the copy to create in the worker, under the same name.

        job: the job; as plain JSON, it also keeps fields that this type of the kind does not know.
        workload: the name of its Workload.
        origin: the value of the label that marks this manager's objects.
        podsets: the podsets of its Workload, with as many pods as have quota. Fields that an earlier admission in the
        manager injected into the job are left out.

        The copy waits for its worker's admission. After it has finished, it is kept until the manager's job shows that.
        """
        document: dict[str, Any] = _to_json(job)
        for part in ("status", "apiVersion", "kind"):
            document.pop(part, None)
        document["metadata"] = _make_metadata(document.get("metadata") or {}, workload, origin)
        document["spec"] = spec = document.get("spec") or {}
        spec.pop("managedBy", None)
        spec.pop("ttlSecondsAfterFinished", None)
        self._prepare(document, podsets)
        return {"apiVersion": self.kind.api_version, "kind": self.kind.kind, **document}

    def pods(self, job: T, podsets: Sequence[PodSet]) -> Sequence[Pod]:  # noqa: ARG002  (its Workload says it)
        """Return pods made from the job's templates, to find the PodGroups that the job's pods will name."""
        templates = (podset.template for podset in podsets)
        return [Pod(metadata=template.metadata, spec=template.spec) for template in templates]

    @abstractmethod
    def status(self, local: T, remote: T) -> dict[str, Any] | None:
        """Return the merge patch that gives the local job the copy's status; {} if nothing changes.

        Return None while the local job is suspended and the copy runs: the API server may refuse to resume a suspended
        job whose status shows that it runs.
        """
        ...

    @abstractmethod
    def make_stop_patch(self, local: T, now: datetime) -> dict[str, Any]:
        """Return the merge patch by which the local status shows that no pod of the job runs any more.

        The manager writes it after it has given up the job's worker as lost.
        """
        ...

    @abstractmethod
    def has_ended(self, local: T) -> bool:
        """Return whether the job has finished, so that no copy of it is created."""
        ...

    @abstractmethod
    def has_started(self, remote: T) -> bool:
        """Return whether the copy may have pods: it is not suspended, or still has pods."""
        ...

    @abstractmethod
    def is_active(self, remote: T) -> bool:
        """Return whether some of the copy's pods have not finished."""
        ...

    def is_spent(self, remote: T) -> bool:  # noqa: ARG002  (most kinds go by themselves)
        """Return whether all pods of the copy have finished, so that it is only kept until its workload is deleted."""
        return False

    def make_resize_patch(
        self,
        local: T,  # noqa: ARG002  (most kinds have no size)
        remote: T,  # noqa: ARG002
        podsets: Sequence[PodSet],  # noqa: ARG002
    ) -> list[dict[str, Any]]:
        """Return the JSON patch that makes the copy of an elastic job as large as the local job; [] if it already is.

        podsets: the podsets, with as many pods as have quota in the manager; the copy does not grow beyond that.
        """
        return []

    @abstractmethod
    def _prepare(self, document: dict[str, Any], podsets: Sequence[PodSet]) -> None:
        """Remove from a job the fields that its server set, so that a worker accepts the job."""
        ...


def restore(template: dict[str, Any], original: PodTemplateSpec, keep: Collection[str] = ()) -> None:
    """Remove from a pod template the fields that an admission injected; the labels in `keep` stay."""
    before = _to_json(original)
    kept = {key: text for key, text in _get_labels(template).items() if key in keep}
    for part, fields in _INJECTED.items():
        now, was = template.setdefault(part, {}), before.get(part, {})
        for field in fields:
            now.pop(field, None)
            if field in was:
                now[field] = was[field]
    if kept:
        template["metadata"]["labels"] = _get_labels(template) | kept


def _to_json(value: Any) -> Any:
    """Return a value as decoded JSON."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _get_labels(template: Mapping[str, Any]) -> dict[str, str]:
    return (template.get("metadata") or {}).get("labels") or {}


def _make_metadata(meta: Mapping[str, Any], workload: str, origin: str) -> dict[str, Any]:
    """Return the metadata of a copy: name, namespace, labels and annotations; the server sets other fields."""
    labels = {**(meta.get("labels") or {}), MULTI_KUEUE_ORIGIN_LABEL: origin}
    annotations = {key: text for key, text in (meta.get("annotations") or {}).items() if key not in _BOOKKEEPING}
    annotations[PREBUILT_WORKLOAD_NAME_LABEL] = workload
    if uid := meta.get("uid"):
        annotations[MULTI_KUEUE_ORIGIN_UID] = uid
    labels.pop(PREBUILT_WORKLOAD_NAME_LABEL, None)
    if not names.label_value(workload):
        labels[PREBUILT_WORKLOAD_NAME_LABEL] = workload  # workers before Kueue 0.18 look for the label
    return {
        "name": meta.get("name", ""),
        "namespace": meta.get("namespace", ""),
        "labels": labels,
        "annotations": annotations,
    }
