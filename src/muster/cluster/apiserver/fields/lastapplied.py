"""Coming from client-side apply: kubectl's annotation with the configuration that was applied last.

What kubectl applied client-side it may go on to own server-side without `force`, and as long as the annotation is there
it follows what is applied, so that one can go back. Both are for the manager `kubectl` alone.
"""

from typing import Any

import msgspec

from muster.api.status import ApiError
from muster.cluster.apiserver.decode import Document, decode
from muster.cluster.apiserver.fields.compare import compare
from muster.cluster.apiserver.fields.config import applied_fields
from muster.cluster.apiserver.fields.conflicts import Conflict
from muster.cluster.apiserver.fields.managers import Writer
from muster.cluster.apiserver.fields.schema import FieldSchema
from muster.cluster.apiserver.fields.sets import FieldSet, paths, without
from muster.runtime.transport import JSON

KUBECTL = "kubectl"
ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ANNOTATIONS_BYTES = 256 * 1024  # of all of an object


def not_allowed(conflicts: list[Conflict], live: Document, writer: Writer, schema: FieldSchema) -> list[Conflict]:
    """The conflicts that are not about fields as the annotation has them."""
    allowed = set(paths(_last_applied_fields(live, writer, schema)))
    if not allowed:
        return conflicts
    left = ((conflict, tuple(path for path in conflict.paths if path not in allowed)) for conflict in conflicts)
    return [Conflict(conflict.manager, found) for conflict, found in left if found]


def _last_applied_fields(live: Document, writer: Writer, schema: FieldSchema) -> FieldSet:
    """The fields of the last client-side apply that still have the value it gave them."""
    text = _annotation(live)
    if writer.manager != KUBECTL or not text:
        return {}
    try:
        last = decode(text.encode(), JSON, "configuration", strict=False).document
        if last.get("apiVersion") != writer.api_version:
            return {}
        fields = applied_fields(last, schema)
    except ApiError:
        return {}  # whatever it is, kubectl has not applied it
    changes = compare(last, live, schema)
    return without(without(fields, changes.gained) or {}, changes.removed) or {}


def sync(result: Document, config: Document, writer: Writer) -> None:
    """Let the annotation, if there is one, say what was applied now; in place of the result's own metadata."""
    if writer.manager != KUBECTL or not _annotation(result):
        return
    metadata = result["metadata"]
    text = msgspec.json.encode(_described(config), order="sorted").decode() + "\n"
    annotations = metadata["annotations"] | {ANNOTATION: text}
    if sum(len(name) + len(value.encode()) for name, value in annotations.items()) > MAX_ANNOTATIONS_BYTES:
        del annotations[ANNOTATION]
    result["metadata"] = metadata | {"annotations": annotations}


def _described(config: Document) -> Document:
    metadata = config.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if ANNOTATION not in annotations:
        return config
    kept = {name: value for name, value in annotations.items() if name != ANNOTATION}
    return config | {"metadata": metadata | {"annotations": kept}}


def _annotation(document: Document) -> str:
    annotations: Any = (document.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(ANNOTATION) or "")
