"""The views of stored objects through resources and subresources.

A `show_...` function takes the stored object and returns the object for the client. A `take_...` function takes the
stored object and the written view, and returns the object to store. An `apply_...` function takes an applied Scale and
returns the configuration of the scaled object. Each resource may change only its part:

- a main resource: everything but the status;
- `status`: the status, and for kinds without a CRD upstream also labels, annotations and finalizers;
- `scale`: the number of replicas;
- `finalize`: the finalizers of a namespace.

`events.k8s.io` shows core Events with other field names.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from muster.api.batch import INDEXED
from muster.api.groups.autoscaling import Scale
from muster.api.groups.events import EVENTS_V1_EVENT
from muster.api.kinds import Kind
from muster.api.members import remove_members
from muster.api.meta import LabelSelector
from muster.api.values.selectors import label_matcher
from muster.cluster.apiserver.decode import Document

SCALE = Kind("autoscaling", "v1", "Scale", "scales", Scale)

# The metadata that a write of the status changes, as in upstream.
_STATUS_METADATA = ("labels", "annotations", "finalizers", "resourceVersion", "uid")
_VERSION = ("resourceVersion", "uid")  # identify the state of the object that the write replaces
_SCALE_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def take_all(stored: Document, written: Document) -> Document:  # noqa: ARG001  (the signature of all views)
    """Return the written object unchanged."""
    return written


def take_main(stored: Document, written: Document) -> Document:
    """Return the written object with the stored status."""
    return _replace_member(written, "status", stored)


def take_status(stored: Document, written: Document) -> Document:
    """Return the stored object with the written status and the written labels, annotations and finalizers."""
    return _replace_member(with_metadata(stored, written, _STATUS_METADATA), "status", written)


def take_only_status(stored: Document, written: Document) -> Document:
    """Return the stored object with the written status."""
    return _replace_member(with_metadata(stored, written), "status", written)


def take_pod_status(stored: Document, written: Document) -> Document:
    """Return the stored pod with the written status. If that status has no QoS class, the stored class stays."""
    taken = take_status(stored, written)
    status, old = taken.get("status", {}), stored.get("status", {})
    if status.get("qosClass") or "qosClass" not in old:
        return taken
    return taken | {"status": status | {"qosClass": old["qosClass"]}}


def take_namespace(stored: Document, written: Document) -> Document:
    """Return the written namespace with the stored status and spec. Only `finalize` changes the spec."""
    return _replace_member(_replace_member(written, "status", stored), "spec", stored)


def with_metadata(stored: Document, written: Document, fields: tuple[str, ...] = _VERSION) -> Document:
    """Return the stored object with these metadata fields from the written object.

    A field that the written object lacks is removed.
    """
    meta = written.get("metadata") or {}
    others = remove_members(stored["metadata"], *fields)
    return stored | {"metadata": others | {field: meta[field] for field in fields if field in meta}}


def _replace_member(document: Document, name: str, source: Document) -> Document:
    return remove_members(document, name) | ({name: source[name]} if name in source else {})


def show_scale(job: Document) -> Document:
    """Return the Scale of a Job, whose replicas are its parallelism."""
    spec, status = job.get("spec", {}), job.get("status", {})
    return scale_of(job, spec.get("parallelism", 1), _make_scale_status(job, status.get("active", 0)))


def show_replicas(controller: Document) -> Document:
    """Return the Scale of a controller with `spec.replicas`, such as a Deployment."""
    spec, status = controller.get("spec", {}), controller.get("status", {})
    return scale_of(controller, spec.get("replicas", 1), _make_scale_status(controller, status.get("replicas", 0)))


def _make_scale_status(controller: Document, replicas: int) -> Document:
    return {"replicas": replicas, "selector": _format_selector(controller)}


def scale_of(controller: Document, replicas: int, status: Document) -> Document:
    """Return the Scale of an object.

    replicas: the desired number of replicas.
    status: the status of the Scale, as JSON.
    """
    meta = controller["metadata"]
    return {
        "apiVersion": SCALE.api_version,
        "kind": SCALE.kind,
        "metadata": {field: meta[field] for field in _SCALE_METADATA if field in meta},
        "spec": {"replicas": replicas},
        "status": status,
    }


def _format_selector(controller: Document) -> str:
    """Return the label selector of a controller as text. A ReplicationController's selector is a map of labels."""
    selector = controller.get("spec", {}).get("selector", {})
    if controller.get("kind") == "ReplicationController":
        selector = {"matchLabels": selector}
    return str(label_matcher(msgspec.convert(selector, LabelSelector)))


def take_scale(stored: Document, written: Document) -> Document:
    """Return the stored Job with the number of replicas of a written Scale as its parallelism.

    An elastic Job (Indexed, with as many completions as pods) also gets the number as its completions (kubernetes
    KEP-3715). Upstream has no scale subresource of Jobs; Muster serves one so that `kubectl scale job` works.
    """
    return _rescale_object(stored, written, _set_parallelism(stored, written))


def apply_scale(stored: Document, config: Document) -> Document:
    """Return the apply configuration of a Job for an apply to its `scale` subresource.

    stored: the Job.
    config: the Scale that the client applies.
    """
    return _apply_config(stored, config, _set_parallelism(stored, config))


def _set_parallelism(stored: Document, written: Document) -> Document:
    """Return the members of a Job's spec that a written Scale sets: parallelism, and completions if it is elastic."""
    replicas, spec = wanted_replicas(written), stored["spec"]
    elastic = spec.get("completionMode") == INDEXED and spec.get("completions") == spec.get("parallelism")
    return {"parallelism": replicas} | ({"completions": replicas} if elastic else {})


def wanted_replicas(written: Document) -> int:
    """Return the number of replicas in a Scale that a client wrote; 0 if it has none."""
    replicas: int = (written.get("spec") or {}).get("replicas", 0)
    return replicas


def take_replicas(stored: Document, written: Document) -> Document:
    """Return the stored controller with the number of replicas of a written Scale."""
    return _rescale_object(stored, written, {"replicas": wanted_replicas(written)})


def apply_replicas(stored: Document, config: Document) -> Document:
    """Return the apply configuration of a controller, such as a Deployment, for an apply to its `scale` subresource.

    stored: the controller.
    config: the Scale that the client applies.
    """
    return _apply_config(stored, config, {"replicas": wanted_replicas(config)})


def _apply_config(stored: Document, config: Document, spec: Document) -> Document:
    version = {name: stored[name] for name in ("apiVersion", "kind")}
    return version | {"metadata": config["metadata"], "spec": spec}


def _rescale_object(stored: Document, written: Document, changed: Document) -> Document:
    return with_metadata(stored, written) | {"spec": stored["spec"] | changed}


# The fields of an Event that have different names in core/v1 (keys) and in events.k8s.io/v1 (values).
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
    """Convert a core Event to an Event of `events.k8s.io`."""
    return _rename_members(stored, _EVENT_NAMES) | {"apiVersion": EVENTS_V1_EVENT.api_version}


def take_event(stored: Document, written: Document) -> Document:  # noqa: ARG001  (the signature of all views)
    """Convert an Event of `events.k8s.io` to a core Event."""
    return _rename_members(written, _CORE_EVENT_NAMES) | {"apiVersion": "v1"}


def _rename_members(document: Document, names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in document.items()}
