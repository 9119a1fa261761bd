# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`metrics.k8s.io`: the current usage of nodes and pods, as the metrics server reports it, which is never stored."""

from datetime import datetime
from typing import Final

from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta, Struct
from muster.api.values.quantity import ResourceList

METRICS_GROUP: Final = "metrics.k8s.io"


class NodeMetrics(Struct):
    """The usage of a node.

    metadata: its name and labels.
    timestamp: the end of the time in which it was measured.
    window: how long that was.
    usage: cores and bytes, on average of that time.
    """

    metadata: ObjectMeta = ObjectMeta()
    timestamp: datetime | None = None
    window: str = ""
    usage: ResourceList = {}


class ContainerMetrics(Struct):
    """The usage of a container.

    name: its name.
    usage: cores and bytes.
    """

    name: str = ""
    usage: ResourceList = {}


class PodMetrics(Struct):
    """The usage of a pod.

    metadata: its name, namespace and labels.
    timestamp: the end of the time in which it was measured.
    window: how long that was.
    containers: what each of its containers uses.
    """

    metadata: ObjectMeta = ObjectMeta()
    timestamp: datetime | None = None
    window: str = ""
    containers: tuple[ContainerMetrics, ...] = ()


NODE_METRICS = Kind(METRICS_GROUP, "v1beta1", "NodeMetrics", "nodes", NodeMetrics, namespaced=False)
POD_METRICS = Kind(METRICS_GROUP, "v1beta1", "PodMetrics", "pods", PodMetrics)
