"""Read which object an address names, and reject a form for an earlier object of that name."""

from collections.abc import Mapping

from muster.api.validation.names import dns_label, dns_subdomain
from muster.dashboard.visits import PageError, Visit, require_name

_CONFLICT = 409


def read_names(visit: Visit, kind: str = "job") -> tuple[str, str]:
    """Return the namespace and the name in the address. Raises `PageError` if one of them is no valid name."""
    namespace, name = visit.names["namespace"], visit.names["name"]
    require_name("namespace", namespace, dns_label)
    require_name(kind, name, dns_subdomain)
    return namespace, name


def require_same(form: Mapping[str, str], uid: str, name: str) -> None:
    """Raise `PageError` (409) if a form was made for another object of this name, with a different UID.

    form: contains the UID of the object that the page showed; without a UID, the form applies to any object.
    uid: the UID of the current object.
    """
    if form.get("uid", uid) != uid:
        text = f"The {name} that this page asked about is gone, and another one has its name now. Nothing was changed."
        raise PageError("This is another one now", text, _CONFLICT)
