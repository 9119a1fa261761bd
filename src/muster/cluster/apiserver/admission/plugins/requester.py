"""Who asks for a certificate: the server says so, whatever the request says of itself."""

from muster.cluster.apiserver.admission.chain import Attempt
from muster.cluster.apiserver.identity.users import user_info
from muster.cluster.store import Store

_REQUESTS = "certificatesigningrequests.certificates.k8s.io"


def note_requester(attempt: Attempt, store: Store) -> None:  # noqa: ARG001  (one of many of this shape)
    """Set, in place, the user in a new CertificateSigningRequest."""
    if attempt.operation != "CREATE" or attempt.resource.key != _REQUESTS:
        return
    spec = attempt.document.setdefault("spec", {})
    for field in ("username", "uid", "groups", "extra"):
        spec.pop(field, None)
    spec |= user_info(attempt.user)
