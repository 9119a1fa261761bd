"""Derive the pairing rules from the Configuration, and from annotations of queues and flavors."""

from collections.abc import Callable
from datetime import timedelta

from muster.api.config import Configuration
from muster.api.kueue import CLUSTER_QUEUE, RESOURCE_FLAVOR, Workload
from muster.queueing.jobframework.pairing import PairingRules
from muster.queueing.workload.readiness import settings_for
from muster.runtime.control.manager import Manager


def follow_rules(manager: Manager, configuration: Configuration) -> PairingRules:
    """Return the pairing rules of the Configuration. The rules follow later changes of queues and flavors."""
    kept = configuration.object_retention_policies.workloads.after_deactivated_by_kueue
    watched = follow_readiness(manager, configuration)
    return PairingRules(watched, None if kept is None else timedelta(microseconds=kept // 1000))


def follow_readiness(manager: Manager, configuration: Configuration) -> Callable[[Workload], bool]:
    """Return a function that returns whether the readiness timeout applies to an admitted Workload's pods."""
    queues, flavors = manager.informer(CLUSTER_QUEUE), manager.informer(RESOURCE_FLAVOR)
    base = configuration.wait_for_pods_ready

    def watched(workload: Workload) -> bool:
        admission = workload.status.admission
        queue = queues.get(admission.cluster_queue) if admission is not None else None
        assigned = admission.pod_set_assignments if admission is not None else ()
        names = dict.fromkeys(name for podset in assigned for name in podset.flavors.values())
        granted = [flavor.metadata.annotations for name in names if (flavor := flavors.get(name)) is not None]
        of_queue = queue.metadata.annotations if queue is not None else {}
        return settings_for(base, workload.metadata.annotations, of_queue, granted) is not None

    return watched
