"""The rules of ServiceAccounts."""

from muster.api.core import ServiceAccount
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.metadata import changed_metadata, new_metadata


def validate_create(account: ServiceAccount) -> list[FieldError]:
    """Return the errors in a new ServiceAccount."""
    return list(new_metadata(account.metadata, names.dns_subdomain))


def validate_update(new: ServiceAccount, old: ServiceAccount) -> list[FieldError]:
    """Return the errors in a change of a ServiceAccount."""
    return list(changed_metadata(new.metadata, old.metadata))
