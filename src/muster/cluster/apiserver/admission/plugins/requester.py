"""Record which user requests a certificate, whatever the CertificateSigningRequest itself states."""

from muster.cluster.apiserver.admission.chain import WriteAttempt
from muster.cluster.apiserver.identity.users import user_info
from muster.cluster.store import Store

_REQUESTS = "certificatesigningrequests.certificates.k8s.io"


def note_requester(attempt: WriteAttempt, store: Store) -> None:  # noqa: ARG001  (the signature of a plugin)
    """Write the requesting user into a new CertificateSigningRequest, in place: name, UID, groups and extra.

    These fields of the manifest are overwritten.
    """
    if attempt.operation != "CREATE" or attempt.resource.key != _REQUESTS:
        return
    spec = attempt.document.setdefault("spec", {})
    for field in ("username", "uid", "groups", "extra"):
        spec.pop(field, None)
    spec |= user_info(attempt.user)
