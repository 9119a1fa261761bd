"""The rules of LocalQueues."""

from itertools import chain

from muster.api.kueue import LocalQueue
from muster.api.status import FieldError
from muster.api.validation.fields import Errors, validate_immutable
from muster.api.validation.kueue.quotas import validate_weight
from muster.api.validation.kueue.rules import validate_changed, validate_created, validate_not_negative


def validate_create(queue: LocalQueue) -> list[FieldError]:
    """Return the errors in a new LocalQueue with its defaults."""
    return validate_created(queue.metadata, validate_weight(queue.spec.fair_sharing), namespaced=True)


def validate_update(new: LocalQueue, old: LocalQueue) -> list[FieldError]:
    """Return the errors in a change of a LocalQueue."""
    return validate_changed(
        new.metadata, old.metadata, chain(_validate_same_queue(new, old), validate_weight(new.spec.fair_sharing))
    )


def validate_status_update(new: LocalQueue, old: LocalQueue) -> list[FieldError]:
    """Return the errors in a change of the status. The engine reads past usage from the status after a restart."""
    return validate_changed(new.metadata, old.metadata, _validate_past_usage(new))


def _validate_past_usage(queue: LocalQueue) -> Errors:
    sharing = queue.status.fair_sharing
    past = sharing.admission_fair_sharing_status if sharing is not None else None
    for resource, quantity in (past.consumed_resources if past is not None else {}).items():
        path = f"status.fairSharing.admissionFairSharingStatus.consumedResources[{resource}]"
        yield from validate_not_negative(path, quantity)


def _validate_same_queue(new: LocalQueue, old: LocalQueue) -> Errors:
    # The rule applies once there is a name. The CRD's rule allows removing the name, Muster's does not.
    if old.spec.cluster_queue:
        yield from validate_immutable("spec.clusterQueue", new.spec.cluster_queue, old.spec.cluster_queue)
