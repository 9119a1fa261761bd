"""The rules of Namespaces (k8s.io/kubernetes/pkg/apis/core/validation)."""

from muster.api.core import Namespace
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.fields import Errors, invalid, make_errors
from muster.api.validation.metadata import changed_metadata, new_metadata, validate_qualified_finalizers


def validate_create(namespace: Namespace) -> list[FieldError]:
    """Return the errors in a new Namespace."""
    return [*new_metadata(namespace.metadata, names.dns_label, namespaced=False), *_validate_finalizers(namespace)]


def validate_update(new: Namespace, old: Namespace) -> list[FieldError]:
    """Return the errors in a change of a Namespace."""
    return list(changed_metadata(new.metadata, old.metadata))


def validate_status_update(new: Namespace, old: Namespace) -> list[FieldError]:
    """Return the errors in a change of a Namespace's status. Its phase depends on whether it is being deleted."""
    return [*changed_metadata(new.metadata, old.metadata), *_validate_phase(new)]


def validate_finalize(new: Namespace, old: Namespace) -> list[FieldError]:
    """Return the errors in a change through `namespaces/finalize`."""
    return [*changed_metadata(new.metadata, old.metadata), *_validate_finalizers(new)]


def _validate_finalizers(namespace: Namespace) -> Errors:
    for finalizer in namespace.spec.finalizers:
        yield from make_errors("spec.finalizers", finalizer, names.label_key(finalizer))
    yield from validate_qualified_finalizers("spec.finalizers", namespace.spec.finalizers)


def _validate_phase(namespace: Namespace) -> Errors:
    phase = namespace.status.phase
    if namespace.metadata.deletion_timestamp is None:
        if phase != "Active":
            yield invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")
    elif phase != "Terminating":
        yield invalid("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")
