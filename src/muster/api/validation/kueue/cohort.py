"""The rules of Cohorts."""

from muster.api.kueue import Cohort
from muster.api.status import FieldError
from muster.api.validation.fields import Errors
from muster.api.validation.kueue.quotas import Owner, validate_group_sizes, validate_resource_groups, validate_weight
from muster.api.validation.kueue.rules import validate_changed, validate_created


def validate_create(cohort: Cohort) -> list[FieldError]:
    """Return the errors in a new Cohort with its defaults."""
    return validate_created(
        cohort.metadata, validate_group_sizes(cohort.spec.resource_groups), _validate_webhook_rules(cohort)
    )


def validate_update(new: Cohort, old: Cohort) -> list[FieldError]:
    """Return the errors in a change of a Cohort."""
    return validate_changed(
        new.metadata, old.metadata, validate_group_sizes(new.spec.resource_groups), _validate_webhook_rules(new)
    )


def _validate_webhook_rules(cohort: Cohort) -> Errors:
    yield from validate_weight(cohort.spec.fair_sharing)
    owner = Owner("parent", has_above=bool(cohort.spec.parent_name), lends_its_own=False)
    yield from validate_resource_groups(cohort.spec.resource_groups, owner)
