"""`metrics.k8s.io`, as it is served: it is measured when it is asked for, and neither stored nor watched."""

from muster.api.server.metrics import NODE_METRICS, POD_METRICS
from muster.cluster.apiserver.registry.resources import Resource, View

METRICS: tuple[Resource, ...] = tuple(
    Resource(kind, kind, View(kind), verbs=("get", "list")) for kind in (NODE_METRICS, POD_METRICS)
)
