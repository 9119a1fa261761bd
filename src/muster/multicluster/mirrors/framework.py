"""What MultiKueue has to know of a kind of job so that one of it runs in a worker cluster: a `Mirror`, all of it pure.

The job here stays what users look at; its copy is what runs. The copy is made from the job once, and from then on
only what becomes of it comes back: nothing else of an object in a worker is believed.
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
from muster.api.ours.elastic import CAP_ANNOTATION, WORLD_ANNOTATION
from muster.api.validation import names

T = TypeVar("T")

# What is written down about the job here, and means nothing, or another thing, about its copy.
_BOOKKEEPING = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        "muster.dev/binding-since",
        CAP_ANNOTATION,
        WORLD_ANNOTATION,
        STOPPING,
    )
)

# Where a pod template says what an admission injects.
_INJECTED = {"metadata": ("labels", "annotations"), "spec": ("nodeSelector", "tolerations", "schedulingGates")}


class Mirror(ABC, Generic[T]):
    """One kind of job. `local` is the job here, `remote` its copy, each as its API server has it."""

    kind: Kind[T]

    @abstractmethod
    def is_handed_over(self, job: T) -> bool:
        """Whether MultiKueue runs it: no controller here makes pods of it."""
        ...

    def copy(
        self, job: T | dict[str, Any], workload: str, origin: str, podsets: Sequence[PodSet] = ()
    ) -> dict[str, Any]:
        """What is created in the worker, of the same name.

        job: as plain JSON, it also keeps fields that our view of the kind does not know.
        workload: the name of the Workload that it belongs to. origin: marks what this manager has made.
        podsets: those of its Workload, with as many pods as have quota. The job may have been started here: what that
            injected stays here.

        It waits for its worker's admission, and is kept after its end until that is known here.
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
        """What its pods will be like, as far as they say themselves which PodGroup they are of."""
        templates = (podset.template for podset in podsets)
        return [Pod(metadata=template.metadata, spec=template.spec) for template in templates]

    @abstractmethod
    def status(self, local: T, remote: T) -> dict[str, Any] | None:
        """A merge patch of the local status (of what is in it) that makes it the remote one; {} if it is already.

        None: not yet. A suspended job that showed what runs elsewhere could not be started here any more.
        """
        ...

    @abstractmethod
    def stopped(self, local: T, now: datetime) -> dict[str, Any]:
        """A merge patch of the local status once the worker is given up for lost: nothing of the job runs any more."""
        ...

    @abstractmethod
    def has_ended(self, local: T) -> bool:
        """Whether nothing more becomes of it: no copy of it is to be made."""
        ...

    @abstractmethod
    def has_started(self, remote: T) -> bool:
        """Whether it may have pods: it is not suspended, or has some still."""
        ...

    @abstractmethod
    def is_active(self, remote: T) -> bool:
        """Whether pods of it have not ended."""
        ...

    def is_spent(self, remote: T) -> bool:  # noqa: ARG002  (most kinds go by themselves)
        """Whether nothing of it runs, and it only stays until its workload goes."""
        return False

    def resized(
        self,
        local: T,  # noqa: ARG002  (most kinds have no size)
        remote: T,  # noqa: ARG002
        podsets: Sequence[PodSet],  # noqa: ARG002
    ) -> list[dict[str, Any]]:
        """A JSON patch of the copy of an elastic job that makes it as large as the job here; empty if it is.

        podsets: as many pods as there is quota for here, above which it does not grow there.
        """
        return []

    @abstractmethod
    def _prepare(self, document: dict[str, Any], podsets: Sequence[PodSet]) -> None:
        """Make of a job without its server's marks one that a worker takes."""
        ...


def restore(template: dict[str, Any], original: PodTemplateSpec, keep: Collection[str] = ()) -> None:
    """Take away from a pod template what an admission here has injected; labels that are to be kept stay."""
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
    """As it is written."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _labels(template: Mapping[str, Any]) -> dict[str, str]:
    return (template.get("metadata") or {}).get("labels") or {}


def _metadata(meta: Mapping[str, Any], workload: str, origin: str) -> dict[str, Any]:
    """Name, labels and annotations alone: all else is its server's."""
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
