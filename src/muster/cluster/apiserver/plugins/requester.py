"""Who asks for a certificate: the server says so, whatever the request says of itself."""

from muster.api.certificates import CERTIFICATE_SIGNING_REQUEST
from muster.cluster.apiserver.admission import Attempt
from muster.cluster.store import Store


def note_requester(attempt: Attempt, store: Store) -> None:  # noqa: ARG001  (one of many of this shape)
    """Set, in place, the user in a new CertificateSigningRequest."""
    if attempt.operation != "CREATE" or attempt.resource.key != CERTIFICATE_SIGNING_REQUEST.resource:
        return
    user, spec = attempt.user, attempt.document.setdefault("spec", {})
    who = {
        "username": user.name,
        "uid": user.uid,
        "groups": sorted(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    for field, value in who.items():
        spec.pop(field, None)
        if value:
            spec[field] = value
