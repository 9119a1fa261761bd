"""Measure how long jobs wait for their Workloads, and pods of admitted Workloads for the removal of their gates.

The metrics have Kueue's names. The writers report each wait, because no Workload shows when gates were removed.
"""

from datetime import datetime

from muster.api.conditions import find_true
from muster.api.config.features import FeatureGates
from muster.api.core import Pod
from muster.api.kueue import WORKLOAD, Workload
from muster.api.kueue.names import ADMITTED
from muster.api.managed.podgroup import group_name
from muster.api.meta import ObjectMeta
from muster.controllers.customlabels import CustomLabels
from muster.controllers.series import QUEUE_LABELS, ROLE, ROLE_LABEL, name_metric
from muster.queueing.elastic.growth import has_grown
from muster.runtime.control.manager import Manager
from muster.runtime.metrics import Registry
from muster.runtime.tallies import Series, Spread

# Upstream's buckets: the defaults of its library, and 10 ms doubled up to about ten seconds.
_GATE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_CREATION_BUCKETS = tuple(0.01 * 2**power for power in range(11))


class GateWaits:
    """The metric of how long pods wait, after the admission of their Workload, for the removal of a scheduling gate.

    For additional pods of a running Workload, the wait starts at the grant of more quota. In upstream, such a grant is
    another Workload with its own admission.
    """

    def __init__(self, manager: Manager, custom: CustomLabels) -> None:
        self._clock = manager.clock
        self._custom = custom
        self._seconds = gate_seconds(manager.registry, custom)
        self._grown: dict[str, datetime] = {}  # by UID of a running Workload: when it was granted more quota
        manager.informer(WORKLOAD).on_change(self._on_workload_changed)

    def observe_removal(self, gate: str, pod: Pod, workload: Workload) -> None:
        """Observe how long a pod of an admitted Workload waited for the removal of this gate."""
        admitted, admission = find_true(workload.status.conditions, ADMITTED), workload.status.admission
        if admitted is None or admitted.last_transition_time is None or admission is None:
            return
        since = self._grown.get(workload.metadata.uid, admitted.last_transition_time)
        seconds = max(0.0, (self._clock.now() - since).total_seconds())
        is_group = "true" if group_name(pod.metadata) else "false"
        labels = self._custom.values("ClusterQueue", admission.cluster_queue)
        self._seconds.labels(gate, admission.cluster_queue, is_group, *ROLE, *labels).observe(seconds)

    def _on_workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        if old is not None and new is not None and has_grown(old, new):
            self._grown[new.metadata.uid] = self._clock.now()
        elif old is not None and (new is None or find_true(new.status.conditions, ADMITTED) is None):
            self._grown.pop(old.metadata.uid, None)


class CreationWaits:
    """The metric of how long jobs of a kind wait, once created, for their Workloads.

    It counts only with the feature `MetricForWorkloadCreationLatency`.
    """

    def __init__(self, registry: Registry, kind: str, features: FeatureGates, custom: CustomLabels) -> None:
        self._kind = kind
        self._custom = custom
        self._seconds = (
            registry.histogram(
                name_metric("workload_creation_latency_seconds"),
                "From the creation of a job that was not changed since to that of its Workload",
                ("job_kind", *ROLE_LABEL, *custom.names("LocalQueue")),
                _CREATION_BUCKETS,
            )
            if features.is_enabled("MetricForWorkloadCreationLatency")
            else None
        )

    def observe_creation(self, job: ObjectMeta, workload: Workload) -> None:
        """Observe how long a job waited for its Workload.

        A job whose spec changed since its creation does not count.
        """
        began, workload_created = job.creation_timestamp, workload.metadata.creation_timestamp
        if self._seconds is not None and job.generation <= 1 and began is not None and workload_created is not None:
            labels = self._custom.values("LocalQueue", f"{workload.metadata.namespace}/{workload.spec.queue_name}")
            self._seconds.labels(self._kind, *ROLE, *labels).observe(
                max(0.0, (workload_created - began).total_seconds())
            )


def gate_seconds(registry: Registry, custom: CustomLabels) -> Series[Spread]:
    """Return the histogram in which `GateWaits` counts."""
    return registry.histogram(
        name_metric("pod_scheduling_gate_removal_seconds"),
        "From the admission of a workload until a scheduling gate of one of its pods is removed",
        ("name", *QUEUE_LABELS, "is_group", *ROLE_LABEL, *custom.names("ClusterQueue")),
        _GATE_BUCKETS,
    )
