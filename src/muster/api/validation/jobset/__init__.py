"""Rules of JobSets: those of upstream's CRD (CEL) and then those of its webhook, in their words and their order."""

from muster.api.jobset import JobSet
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.metadata import changed_metadata, new_metadata


def validate_create(job_set: JobSet) -> list[FieldError]:
    """A new JobSet, with its defaults and its name."""
    return list(new_metadata(job_set.metadata, names.dns_subdomain, custom=True))


def validate_update(new: JobSet, old: JobSet) -> list[FieldError]:
    """A change of a JobSet's metadata or spec."""
    return list(changed_metadata(new.metadata, old.metadata, custom=True))


def validate_status_update(new: JobSet, old: JobSet) -> list[FieldError]:
    """A change of what was observed: the controller that observes answers for it."""
    return list(changed_metadata(new.metadata, old.metadata, custom=True))
