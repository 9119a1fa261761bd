"""Copy labels and annotations of queues, Cohorts and workloads into the labels of their metrics (Kueue KEP-7066).

`metrics.customLabels` names them, and the gate CustomMetricLabels enables them. A metric gets the labels of the object
that it counts for, under names that begin with `custom_`. Some metrics also get the labels of the workload.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from muster.api.config import Configuration
from muster.api.config.types import CustomLabel
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE
from muster.api.meta import ObjectMeta
from muster.controllers.series import LOCAL_LABELS, QUEUE_LABELS
from muster.runtime.control.manager import Manager
from muster.runtime.metrics import Gauges

Kind: TypeAlias = Literal["ClusterQueue", "LocalQueue", "Cohort", "Workload"]

# The label value for values that are not in `trackedValues`.
UNTRACKED: Final = "kueue.x-k8s.io/_UNTRACKED_VALUE_"


class CustomLabels:
    """The custom labels of metrics, by the kind of the object from which they are copied.

    labels: the configured labels.
    find: returns the metadata of a ClusterQueue, LocalQueue (`namespace/name`) or Cohort; None if there is no such
    object.
    """

    def __init__(self, labels: Iterable[CustomLabel], find: Callable[[Kind, str], ObjectMeta | None]) -> None:
        self._find = find
        self._labels: dict[str, tuple[CustomLabel, ...]] = {}
        for label in labels:
            self._labels[label.source_kind] = (*self._labels.get(label.source_kind, ()), label)

    def names(self, *kinds: Kind) -> tuple[str, ...]:
        """Return the metric label names for the custom labels of these kinds, in the order of the kinds."""
        return tuple(f"custom_{label.name}" for kind in kinds for label in self._labels.get(kind, ()))

    def values(self, kind: Kind, name: str) -> tuple[str, ...]:
        """Return the values of the custom labels of one object; empty strings if there is no such object."""
        return self.values_of(kind, self._find(kind, name) if kind in self._labels else None)

    def values_of(self, kind: Kind, meta: ObjectMeta | None) -> tuple[str, ...]:
        """Return the values of the custom labels of an object with this metadata."""
        return tuple(_get_value(label, meta) for label in self._labels.get(kind, ()))

    def extend(self, gauges: Gauges) -> Gauges:
        """Return a gauge in which each row also has the custom labels of the object that the row counts for."""
        labels = tuple(gauges.labels)
        kind = _find_kind(labels)
        if kind is None or kind not in self._labels:
            return gauges
        name = _make_namer(kind, labels)
        rows = (((*row, *self.values(kind, name(row))), value) for row, value in gauges.values)
        return Gauges(gauges.name, gauges.text, (*labels, *self.names(kind)), rows)


def labels_of_queues(manager: Manager, configuration: Configuration) -> CustomLabels:
    """Return the custom labels for metrics that count for ClusterQueues or LocalQueues.

    The labels are for parts of the engine that do not have the queueing cache. They follow the queues through their own
    informers.
    """
    named = {label.source_kind for label in configuration.custom_labels}
    kinds: dict[Kind, Any] = {"ClusterQueue": CLUSTER_QUEUE, "LocalQueue": LOCAL_QUEUE}
    informers = {name: manager.informer(kind) for name, kind in kinds.items() if name in named}

    def find(kind: Kind, name: str) -> ObjectMeta | None:
        queue = informers[kind].get(name)
        return queue.metadata if queue is not None else None

    return CustomLabels(configuration.custom_labels, find)


def _get_value(label: CustomLabel, meta: ObjectMeta | None) -> str:
    entries: Mapping[str, str] = {}
    if meta is not None:
        entries = meta.annotations if label.source_annotation_key else meta.labels
    value = entries.get(label.source_annotation_key or label.source_label_key or label.name, "")
    return value if not label.tracked_values or value in label.tracked_values else UNTRACKED


def _find_kind(labels: tuple[str, ...]) -> Kind | None:
    if set(LOCAL_LABELS) <= set(labels):
        return "LocalQueue"
    if QUEUE_LABELS[0] in labels:
        return "ClusterQueue"
    return "Cohort" if "cohort" in labels else None


def _make_namer(kind: Kind, labels: tuple[str, ...]) -> Callable[[Sequence[str]], str]:
    if kind == "LocalQueue":
        name, namespace = map(labels.index, LOCAL_LABELS)
        return lambda row: f"{row[namespace]}/{row[name]}"
    place = labels.index(QUEUE_LABELS[0] if kind == "ClusterQueue" else "cohort")
    return lambda row: row[place]
