"""The served resources of `metrics.k8s.io`: the server measures on request, and nothing is stored or watched."""

from muster.api.server.metrics import NODE_METRICS, POD_METRICS
from muster.cluster.apiserver.registry.resources import Resource, View

METRICS: tuple[Resource, ...] = tuple(
    Resource(kind, kind, View(kind), verbs=("get", "list")) for kind in (NODE_METRICS, POD_METRICS)
)
