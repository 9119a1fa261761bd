"""The rules of AdmissionChecks."""

from muster.api.kueue import AdmissionCheck
from muster.api.status import FieldError
from muster.api.validation.fields import validate_immutable
from muster.api.validation.kueue.rules import validate_changed, validate_created


def validate_create(check: AdmissionCheck) -> list[FieldError]:
    """Return the errors in a new AdmissionCheck."""
    return validate_created(check.metadata)


def validate_update(new: AdmissionCheck, old: AdmissionCheck) -> list[FieldError]:
    """Return the errors in a change of an AdmissionCheck."""
    controllers = new.spec.controller_name, old.spec.controller_name
    return validate_changed(new.metadata, old.metadata, validate_immutable("spec.controllerName", *controllers))
