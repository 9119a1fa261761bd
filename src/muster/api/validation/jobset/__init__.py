"""The rules of JobSets: those of upstream's CRD (CEL), then those of its webhook, in upstream's words and order.

The rules differ from upstream in three points:

- An error of the webhook about no particular field has the path `<nil>` in upstream, and here the path of the field
  that has to change.
- A JobSet that could never run is refused: see `template`, `groupstart` and `placement`.
- Immutable optional fields can be neither added nor removed, as upstream intends.
"""

from collections.abc import Iterable

from muster.api.jobset import JobSet
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.jobset import definition, update, webhook
from muster.api.validation.metadata import changed_metadata, new_metadata


def validate_create(job_set: JobSet) -> list[FieldError]:
    """Return the errors in a new JobSet, with its defaults and its name."""
    meta = new_metadata(job_set.metadata, names.dns_subdomain, custom=True)
    return [*meta, *definition.validate_job_set(job_set)] or list(webhook.validate_job_set(job_set))


def validate_update(new: JobSet, old: JobSet) -> list[FieldError]:
    """Return the errors in a change of a JobSet's metadata or spec."""
    meta = changed_metadata(new.metadata, old.metadata, custom=True)
    if new.spec == old.spec and new.metadata.annotations == old.metadata.annotations:
        return list(meta)
    of_definition = _drop_old_errors(definition.validate_job_set(new), definition.validate_job_set(old))
    by_definition = [*meta, *of_definition, *definition.validate_changes(new, old)]
    if by_definition:
        return by_definition
    changes = list(update.validate_changes(new, old))
    return changes or _drop_old_errors(webhook.validate_job_set(new), webhook.validate_job_set(old))


def validate_status_update(new: JobSet, old: JobSet) -> list[FieldError]:
    """Return the errors in the metadata of a status update.

    The rest is not checked, because the server trusts the controller.
    """
    return list(changed_metadata(new.metadata, old.metadata, custom=True))


def _drop_old_errors(new_errors: Iterable[FieldError], old: Iterable[FieldError]) -> list[FieldError]:
    """Return the errors that the old object does not have. Objects stored under other rules can still change."""
    errors = list(new_errors)
    known = {str(error) for error in old} if errors else set()
    return [error for error in errors if str(error) not in known]
