"""Migrate from client-side apply: kubectl's annotation with the last applied configuration.

Two rules apply to the manager `kubectl` only:

- Fields that kubectl applied client-side cause no conflict with a server-side apply.
- A server-side apply updates the annotation if the object has one, so that the user can return to client-side apply.
"""

from typing import Any

import msgspec

from muster.api.status import ApiError
from muster.cluster.apiserver.decode import Document, decode
from muster.cluster.apiserver.fields.compare import compare
from muster.cluster.apiserver.fields.config import find_applied_fields
from muster.cluster.apiserver.fields.conflicts import Conflict
from muster.cluster.apiserver.fields.managers import Writer
from muster.cluster.apiserver.fields.schema import FieldSchema
from muster.cluster.apiserver.fields.sets import FieldSet, list_paths, subtract_set
from muster.runtime.transport import JSON

KUBECTL = "kubectl"
ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ANNOTATIONS_BYTES = 256 * 1024  # the limit for the sum of all annotations of an object


def find_reported_conflicts(
    conflicts: list[Conflict], live: Document, writer: Writer, schema: FieldSchema
) -> list[Conflict]:
    """Return the conflicts that an apply must report, without the fields that kubectl may overwrite.

    kubectl may overwrite a field whose live value equals the value in its last-applied annotation. For any other
    manager, the result contains all conflicts.
    """
    allowed = set(list_paths(_find_last_applied_fields(live, writer, schema)))
    if not allowed:
        return conflicts
    left = ((conflict, tuple(path for path in conflict.paths if path not in allowed)) for conflict in conflicts)
    return [Conflict(conflict.manager, remaining) for conflict, remaining in left if remaining]


def _find_last_applied_fields(live: Document, writer: Writer, schema: FieldSchema) -> FieldSet:
    """Return the fields of kubectl's last client-side apply whose values have not changed since.

    Return {} for any other manager, and for an annotation of another API version or that cannot be decoded.
    """
    text = _get_annotation(live)
    if writer.manager != KUBECTL or not text:
        return {}
    try:
        last = decode(text.encode(), JSON, "configuration", strict=False).document
        if last.get("apiVersion") != writer.api_version:
            return {}
        fields = find_applied_fields(last, schema)
    except ApiError:
        return {}  # kubectl did not write this annotation, so no field counts as applied
    changes = compare(last, live, schema)
    return subtract_set(subtract_set(fields, changes.gained) or {}, changes.removed) or {}


def update_annotation(result: Document, config: Document, writer: Writer) -> None:
    """Put the configuration that kubectl applied into the annotation, if the object has that annotation already.

    Replace the `metadata` of the result, or do nothing for other managers. If all annotations together would exceed
    `MAX_ANNOTATIONS_BYTES`, remove the annotation instead.
    """
    if writer.manager != KUBECTL or not _get_annotation(result):
        return
    metadata = result["metadata"]
    text = msgspec.json.encode(_make_annotated_config(config), order="sorted").decode() + "\n"
    annotations = metadata["annotations"] | {ANNOTATION: text}
    if sum(len(name) + len(value.encode()) for name, value in annotations.items()) > MAX_ANNOTATIONS_BYTES:
        del annotations[ANNOTATION]
    result["metadata"] = metadata | {"annotations": annotations}


def _make_annotated_config(config: Document) -> Document:
    metadata = config.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if ANNOTATION not in annotations:
        return config
    others = {name: value for name, value in annotations.items() if name != ANNOTATION}
    return config | {"metadata": metadata | {"annotations": others}}


def _get_annotation(document: Document) -> str:
    annotations: Any = (document.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(ANNOTATION) or "")
