"""`kueue.x-k8s.io/v1beta1`: the types of the older version, which differ from the stored `v1beta2`.

Only schemas use these types: everything else works on v1beta2, to which `conversion` converts a document. Types
that are the same in both versions come from v1beta2 with its limits, because objects are stored as v1beta2.
"""

from typing import Any

from muster.api.kinds import Kind
from muster.api.kueue.v1beta1.checks import (
    ADMISSION_CHECK,
    MULTI_KUEUE_CLUSTER,
    MULTI_KUEUE_CONFIG,
    PROVISIONING_REQUEST_CONFIG,
)
from muster.api.kueue.v1beta1.clusterqueue import CLUSTER_QUEUE
from muster.api.kueue.v1beta1.queues import COHORT, LOCAL_QUEUE, RESOURCE_FLAVOR, TOPOLOGY, WORKLOAD_PRIORITY_CLASS
from muster.api.kueue.v1beta1.workload import WORKLOAD

# The types by `Kind.resource`.
V1BETA1_KINDS: dict[str, Kind[Any]] = {
    kind.resource: kind
    for kind in (
        ADMISSION_CHECK,
        CLUSTER_QUEUE,
        COHORT,
        LOCAL_QUEUE,
        MULTI_KUEUE_CLUSTER,
        MULTI_KUEUE_CONFIG,
        PROVISIONING_REQUEST_CONFIG,
        RESOURCE_FLAVOR,
        TOPOLOGY,
        WORKLOAD,
        WORKLOAD_PRIORITY_CLASS,
    )
}

__all__ = ["V1BETA1_KINDS"]
