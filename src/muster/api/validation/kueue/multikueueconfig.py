"""The rules of MultiKueueConfigs."""

from muster.api.kueue import MultiKueueConfig
from muster.api.status import FieldError
from muster.api.validation.fields import Errors, invalid
from muster.api.validation.kueue.rules import ARRAY, validate_changed, validate_created


def validate_create(config: MultiKueueConfig) -> list[FieldError]:
    """Return the errors in a new MultiKueueConfig."""
    return validate_created(config.metadata, _validate_unique_clusters(config))


def validate_update(new: MultiKueueConfig, old: MultiKueueConfig) -> list[FieldError]:
    """Return the errors in a change of a MultiKueueConfig."""
    return validate_changed(new.metadata, old.metadata, _validate_unique_clusters(new))


def _validate_unique_clusters(config: MultiKueueConfig) -> Errors:
    if len(set(config.spec.clusters)) < len(config.spec.clusters):
        yield invalid("spec.clusters", ARRAY, "must be unique")
