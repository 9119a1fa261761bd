"""The rules of custom labels of metrics. Their number is limited so that the metrics stay small."""

import re
from collections import Counter
from typing import Final

from muster.api.config.types import CustomLabel
from muster.api.validation import names
from muster.api.validation.fields import Errors, duplicate, invalid, too_many

_PATH: Final = "metrics.customLabels"
_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")
_MAX_LABELS: Final = 20
_MAX_BY_KIND: Final = {"ClusterQueue": 6, "Cohort": 6, "LocalQueue": 6, "Workload": 2}
_MAX_VALUES: Final = 16
_MAX_VALUES_OF_WORKLOADS: Final = 12


def validate_custom_labels(labels: tuple[CustomLabel, ...]) -> Errors:
    """Yield the errors in `metrics.customLabels`."""
    if len(labels) > _MAX_LABELS:
        yield too_many(_PATH, len(labels), _MAX_LABELS)
    seen = set()
    for i, label in enumerate(labels):
        if not _NAME.fullmatch(label.name):
            yield invalid(f"{_PATH}[{i}].name", label.name, "must match ^[a-zA-Z][a-zA-Z0-9_]*$")
        if label.name in seen:
            yield duplicate(f"{_PATH}[{i}].name", label.name)
        seen.add(label.name)
        yield from _validate_source(f"{_PATH}[{i}]", label)
        yield from _validate_values(f"{_PATH}[{i}].trackedValues", label)
    for kind, count in sorted(Counter(label.source_kind for label in labels).items()):
        limit = _MAX_BY_KIND.get(kind)
        if limit is None:
            yield invalid(_PATH, _quote_labels(labels), f"unknown source kind: {kind}")
        elif count > limit:
            sentence = f"too many custom labels for source kind {kind}: found {count}, expected <= {limit}"
            yield invalid(_PATH, _quote_labels(labels), sentence)


def _validate_source(path: str, label: CustomLabel) -> Errors:
    if label.source_label_key and label.source_annotation_key:
        yield invalid(path, label, "sourceLabelKey and sourceAnnotationKey are mutually exclusive")
    if label.source_label_key:
        field, key = "sourceLabelKey", label.source_label_key
    elif label.source_annotation_key:
        field, key = "sourceAnnotationKey", label.source_annotation_key
    else:
        field, key = "name", label.name
    if sentences := names.label_key(key):
        yield invalid(f"{path}.{field}", key, "; ".join(sentences))


def _validate_values(path: str, label: CustomLabel) -> Errors:
    values = label.tracked_values
    if label.source_kind == "Workload":
        if not values:
            yield invalid(path, values, "must not be empty when sourceKind is 'Workload'")
        if len(values) > _MAX_VALUES_OF_WORKLOADS:
            sentence = f"must not be greater than {_MAX_VALUES_OF_WORKLOADS} when sourceKind is 'Workload'"
            yield invalid(path, values, sentence)
    elif len(values) > _MAX_VALUES:
        yield too_many(path, len(values), _MAX_VALUES)
    if len(set(values)) < len(values):
        yield invalid(path, values, "must not contain duplicates")


def _quote_labels(labels: tuple[CustomLabel, ...]) -> list[str]:
    """Return the labels as a message shows them."""
    return [label.name for label in labels]
