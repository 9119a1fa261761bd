"""The rules of the Kueue kinds: the rules of upstream's CRDs (CEL) and webhooks, in upstream's words and order.

The schema checks types, enums, ranges and lengths. The rules get objects in the stored version v1beta2, whatever
version the client used.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

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
    multikueuecluster,
    multikueueconfig,
    resourceflavor,
    topology,
    workload,
)
from muster.api.validation.kueue.rules import validate_changed, validate_created

Create = Callable[[Any], Sequence[FieldError]]
Update = Callable[[Any, Any], Sequence[FieldError]]


def _validate_metadata(new: Any) -> list[FieldError]:
    return validate_created(new.metadata)


def _validate_changed_metadata(new: Any, old: Any) -> list[FieldError]:
    return validate_changed(new.metadata, old.metadata)


class Validation(Struct, frozen=True):
    """The rules of a kind beyond its schema: of new objects, of changes (new, old), and of changes of the status."""

    create: Create = _validate_metadata
    update: Update = _validate_changed_metadata
    status: Update = _validate_changed_metadata


# The rules by `Kind.resource`.
VALIDATIONS: Mapping[str, Validation] = {
    ADMISSION_CHECK.resource: Validation(admissioncheck.validate_create, admissioncheck.validate_update),
    CLUSTER_QUEUE.resource: Validation(clusterqueue.validate_create, clusterqueue.validate_update),
    COHORT.resource: Validation(cohort.validate_create, cohort.validate_update),
    LOCAL_QUEUE.resource: Validation(
        localqueue.validate_create, localqueue.validate_update, localqueue.validate_status_update
    ),
    MULTI_KUEUE_CLUSTER.resource: Validation(multikueuecluster.validate_create, multikueuecluster.validate_update),
    MULTI_KUEUE_CONFIG.resource: Validation(multikueueconfig.validate_create, multikueueconfig.validate_update),
    PROVISIONING_REQUEST_CONFIG.resource: Validation(),
    RESOURCE_FLAVOR.resource: Validation(resourceflavor.validate_create, resourceflavor.validate_update),
    TOPOLOGY.resource: Validation(topology.validate_create, topology.validate_update),
    WORKLOAD.resource: Validation(workload.validate_create, workload.validate_update, workload.validate_status_update),
    WORKLOAD_PRIORITY_CLASS.resource: Validation(),
}
