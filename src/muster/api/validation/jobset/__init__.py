"""Rules of JobSets: those of upstream's CRD (CEL) and then those of its webhook, in their words and their order.

Upstream, each error of the webhook that is about no field in particular has the path `<nil>`; here it has that of what
has to be changed. Beyond upstream, what could never run is refused: see `template`, `groupstart` and `placement`; and
what upstream only means to be immutable is: optional fields are neither added nor taken away.
"""

from collections.abc import Iterable

from muster.api.jobset import JobSet
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.jobset import definition, update, webhook
from muster.api.validation.metadata import changed_metadata, new_metadata


def validate_create(job_set: JobSet) -> list[FieldError]:
    """Return what is wrong with a new JobSet, with its defaults and its name."""
    meta = new_metadata(job_set.metadata, names.dns_subdomain, custom=True)
    return [*meta, *definition.rules(job_set)] or list(webhook.rules(job_set))


def validate_update(new: JobSet, old: JobSet) -> list[FieldError]:
    """Return what is wrong with a change of a JobSet's metadata or spec."""
    meta = changed_metadata(new.metadata, old.metadata, custom=True)
    if new.spec == old.spec and new.metadata.annotations == old.metadata.annotations:
        return list(meta)
    of_definition = _without(definition.rules(new), definition.rules(old))
    by_definition = [*meta, *of_definition, *definition.changes(new, old)]
    if by_definition:
        return by_definition
    changes = list(update.changes(new, old))
    return changes or _without(webhook.rules(new), webhook.rules(old))


def validate_status_update(new: JobSet, old: JobSet) -> list[FieldError]:
    """Yield what is wrong with a change of the status, for which the controller answers."""
    return list(changed_metadata(new.metadata, old.metadata, custom=True))


def _without(found: Iterable[FieldError], old: Iterable[FieldError]) -> list[FieldError]:
    """Yield what is wrong now and was not before: objects stored under other rules can still be changed."""
    errors = list(found)
    known = {str(error) for error in old} if errors else set()
    return [error for error in errors if str(error) not in known]
