"""The metrics of MultiKueue, with upstream's names."""

from muster.runtime.metrics import Registry

_LABELS = ("cluster_queue", "cluster", "replica_role")
_ROLE = "standalone"


class DispatchMetrics:
    """MultiKueue's counters of created clones and of workloads that a worker cluster admitted."""

    def __init__(self, registry: Registry) -> None:
        self._dispatched = registry.counter(
            "multikueue_workloads_dispatched_total",
            "Workloads made in a worker cluster, where they wait for quota",
            _LABELS,
        )
        self._admitted = registry.counter(
            "multikueue_workloads_admitted_total",
            "Workloads that a worker cluster admitted, and that run there",
            _LABELS,
        )

    def count_dispatch(self, cluster_queue: str, cluster: str) -> None:
        """Count a created clone."""
        self._dispatched.labels(cluster_queue, cluster, _ROLE).inc()

    def count_admission(self, cluster_queue: str, cluster: str) -> None:
        """Count a workload when its status first names the cluster in which its job runs."""
        self._admitted.labels(cluster_queue, cluster, _ROLE).inc()
