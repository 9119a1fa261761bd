"""Stored objects as seen through resources and subresources, and what a write through each may change. Pure.

A main resource changes everything but the status, `status` nothing else (besides labels and annotations), `scale`
one number, `finalize` (a main view) the holds of a namespace; `events.k8s.io` shows core Events by other names.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from muster.api.batch import INDEXED
from muster.api.groups.autoscaling import Scale
from muster.api.groups.events import EVENTS_V1_EVENT
from muster.api.kinds import Kind
from muster.api.members import without
from muster.api.meta import LabelSelector
from muster.api.values.selectors import label_matcher
from muster.cluster.apiserver.decode import Document

SCALE = Kind("autoscaling", "v1", "Scale", "scales", Scale)

# What a write of the status takes from the metadata that came with it (as upstream; the rest stays).
_STATUS_METADATA = ("labels", "annotations", "finalizers", "resourceVersion", "uid")
_VERSION = ("resourceVersion", "uid")  # they say which state of an object was replaced
_SCALE_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def take_all(stored: Document, shown: Document) -> Document:  # noqa: ARG001  (it has no part that is others')
    """Everything."""
    return shown


def take_main(stored: Document, shown: Document) -> Document:
    """A whole object, but for its status."""
    return _with_member(shown, "status", stored)


def take_status(stored: Document, shown: Document) -> Document:
    """The status, and those parts of the metadata that go with it."""
    return _with_member(with_metadata(stored, shown, _STATUS_METADATA), "status", shown)


def take_only_status(stored: Document, shown: Document) -> Document:
    """The status and nothing else."""
    return _with_member(with_metadata(stored, shown), "status", shown)


def take_pod_status(stored: Document, shown: Document) -> Document:
    """The status of a pod, whose class of service is given once and for all."""
    taken = take_status(stored, shown)
    status, old = taken.get("status", {}), stored.get("status", {})
    if status.get("qosClass") or "qosClass" not in old:
        return taken
    return taken | {"status": status | {"qosClass": old["qosClass"]}}


def take_namespace(stored: Document, shown: Document) -> Document:
    """A namespace, but for its status and its spec, which only `finalize` changes."""
    return _with_member(_with_member(shown, "status", stored), "spec", stored)


def with_metadata(stored: Document, shown: Document, fields: tuple[str, ...] = _VERSION) -> Document:
    """The stored object with these fields of the metadata that came with what was written."""
    given = shown.get("metadata") or {}
    kept = without(stored["metadata"], *fields)
    return stored | {"metadata": kept | {field: given[field] for field in fields if field in given}}


def _with_member(document: Document, name: str, source: Document) -> Document:
    return without(document, name) | ({name: source[name]} if name in source else {})


def show_scale(job: Document) -> Document:
    """A Job as a number of replicas: its parallelism."""
    spec, status = job.get("spec", {}), job.get("status", {})
    return scale_of(job, spec.get("parallelism", 1), _observed(job, status.get("active", 0)))


def show_replicas(controller: Document) -> Document:
    """A Deployment and its like as a number of replicas."""
    spec, status = controller.get("spec", {}), controller.get("status", {})
    return scale_of(controller, spec.get("replicas", 1), _observed(controller, status.get("replicas", 0)))


def _observed(controller: Document, replicas: int) -> Document:
    return {"replicas": replicas, "selector": _selector(controller)}


def scale_of(controller: Document, wanted: int, status: Document) -> Document:
    """An object as a number of replicas."""
    meta = controller["metadata"]
    return {
        "apiVersion": SCALE.api_version,
        "kind": SCALE.kind,
        "metadata": {field: meta[field] for field in _SCALE_METADATA if field in meta},
        "spec": {"replicas": wanted},
        "status": status,
    }


def _selector(controller: Document) -> str:
    """The selector as text: of a ReplicationController only labels, of all others a whole one."""
    selector = controller.get("spec", {}).get("selector", {})
    if controller.get("kind") == "ReplicationController":
        selector = {"matchLabels": selector}
    return str(label_matcher(msgspec.convert(selector, LabelSelector)))


def take_scale(stored: Document, shown: Document) -> Document:
    """The parallelism of a Job; of an elastic one (Indexed, as many completions as pods) both numbers (KEP-3715).

    A Job has no scale subresource upstream; it is served here so that `kubectl scale job` works again.
    """
    return _rescaled(stored, shown, _parallelism(stored, shown))


def apply_scale(stored: Document, config: Document) -> Document:
    """What a Scale that is applied to a Job says of the Job."""
    return _applied(stored, config, _parallelism(stored, config))


def _parallelism(stored: Document, shown: Document) -> Document:
    replicas, spec = wanted_replicas(shown), stored["spec"]
    elastic = spec.get("completionMode") == INDEXED and spec.get("completions") == spec.get("parallelism")
    return {"parallelism": replicas} | ({"completions": replicas} if elastic else {})


def wanted_replicas(shown: Document) -> int:
    """The number of replicas in a Scale that a client has written."""
    replicas: int = (shown.get("spec") or {}).get("replicas", 0)
    return replicas


def take_replicas(stored: Document, shown: Document) -> Document:
    """The replicas of a Deployment and its like."""
    return _rescaled(stored, shown, {"replicas": wanted_replicas(shown)})


def apply_replicas(stored: Document, config: Document) -> Document:
    """What a Scale that is applied to a Deployment and its like says of it."""
    return _applied(stored, config, {"replicas": wanted_replicas(config)})


def _applied(stored: Document, config: Document, spec: Document) -> Document:
    version = {name: stored[name] for name in ("apiVersion", "kind")}
    return version | {"metadata": config["metadata"], "spec": spec}


def _rescaled(stored: Document, shown: Document, changed: Document) -> Document:
    return with_metadata(stored, shown) | {"spec": stored["spec"] | changed}


# The names of an Event's members: in core/v1, and in events.k8s.io/v1. The others have the same name in both.
_EVENT_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_EVENT_NAMES = {new: old for old, new in _EVENT_NAMES.items()}


def show_event(stored: Document) -> Document:
    """A core Event as an `events.k8s.io` one."""
    return _renamed(stored, _EVENT_NAMES) | {"apiVersion": EVENTS_V1_EVENT.api_version}


def take_event(stored: Document, shown: Document) -> Document:  # noqa: ARG001  (it has no part that is others')
    """An `events.k8s.io` Event as a core one."""
    return _renamed(shown, _CORE_EVENT_NAMES) | {"apiVersion": "v1"}


def _renamed(document: Document, names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in document.items()}
