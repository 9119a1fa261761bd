"""Rules of the Kueue kinds: those of upstream's CRDs (CEL) and webhooks, in their words and their order.

What the schema says (types, words, ranges, lengths) is checked where the schema is. Rules see objects as they are
stored, in v1beta2, whatever version they were written in.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.api.kinds import Kind
from muster.api.kueue import (
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
from muster.api.status import FieldError
from muster.api.validation.kueue import (
    admissioncheck,
    clusterqueue,
    cohort,
    localqueue,
    multikueue,
    resourceflavor,
    topology,
    workload,
)
from muster.api.validation.kueue.rules import changed, created

Create = Callable[[Any], Sequence[FieldError]]
Update = Callable[[Any, Any], Sequence[FieldError]]


@dataclass(frozen=True, slots=True)
class Validation:
    """The rules of a kind beyond its schema: for new objects, for changes (new, old), for changes of the status."""

    create: Create
    update: Update
    status: Update | None = None  # of kinds that have one


def _metadata_only(new: Any) -> list[FieldError]:
    return created(new.metadata)


def _metadata_changed(new: Any, old: Any) -> list[FieldError]:
    return changed(new.metadata, old.metadata)


_PLAIN = Validation(_metadata_only, _metadata_changed)

# By `Kind.resource`.
VALIDATIONS: Mapping[str, Validation] = {
    ADMISSION_CHECK.resource: Validation(
        admissioncheck.validate_create, admissioncheck.validate_update, admissioncheck.validate_status_update
    ),
    CLUSTER_QUEUE.resource: Validation(
        clusterqueue.validate_create, clusterqueue.validate_update, clusterqueue.validate_status_update
    ),
    COHORT.resource: Validation(cohort.validate_create, cohort.validate_update, cohort.validate_status_update),
    LOCAL_QUEUE.resource: Validation(
        localqueue.validate_create, localqueue.validate_update, localqueue.validate_status_update
    ),
    MULTI_KUEUE_CLUSTER.resource: Validation(
        multikueue.validate_create_cluster,
        multikueue.validate_update_cluster,
        multikueue.validate_status_update_cluster,
    ),
    MULTI_KUEUE_CONFIG.resource: Validation(multikueue.validate_create_config, multikueue.validate_update_config),
    PROVISIONING_REQUEST_CONFIG.resource: _PLAIN,
    RESOURCE_FLAVOR.resource: Validation(resourceflavor.validate_create, resourceflavor.validate_update),
    TOPOLOGY.resource: Validation(topology.validate_create, topology.validate_update),
    WORKLOAD.resource: Validation(
        workload.validate_create, workload.validate_update, workload.validate_status_update
    ),
    WORKLOAD_PRIORITY_CLASS.resource: _PLAIN,
}
