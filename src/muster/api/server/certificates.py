# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`certificates.k8s.io/v1`: requests for certificates. Nothing here signs them."""

from datetime import datetime
from typing import Annotated

from muster.api.kinds import Kind
from muster.api.markers import Base64, Int32, Required, Strings, map_by
from muster.api.meta import ObjectMeta, Struct


class CertificateSigningRequestSpec(Struct):
    """What is to be signed, and who asks.

    request: the request in PEM (PKCS #10).
    signer_name: who is to sign it.
    expiration_seconds: how long the certificate should be good.
    usages: what it should be good for.
    username: who asks; set by the server.
    uid: the very user who asks; set by the server.
    groups: groups of who asks; set by the server.
    extra: what else is known of who asks; set by the server.
    """

    request: Required[Base64] = b""
    signer_name: Required[str] = ""
    expiration_seconds: Int32 | None = None
    usages: Strings = ()
    username: str = ""
    uid: str = ""
    groups: Strings = ()
    extra: dict[str, Strings] = {}


class CertificateSigningRequestCondition(Struct):
    """One observed aspect of a request.

    type: Approved, Denied or Failed.
    status: True, for the first two.
    reason: one word for the status.
    message: a sentence for people.
    last_update_time: when the condition last changed in any way.
    last_transition_time: when the status last changed.
    """

    type: Required[str] = ""
    status: Required[str] = ""
    reason: str = ""
    message: str = ""
    last_update_time: datetime | None = None
    last_transition_time: datetime | None = None


class CertificateSigningRequestStatus(Struct):
    """What has become of a request.

    conditions: observed aspects.
    certificate: the certificate in PEM.
    """

    conditions: Annotated[tuple[CertificateSigningRequestCondition, ...], map_by("type")] = ()
    certificate: Base64 = b""


class CertificateSigningRequest(Struct):
    """Asks for a certificate.

    metadata: what every object carries.
    spec: what is to be signed, and who asks.
    status: what has become of it.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[CertificateSigningRequestSpec] = CertificateSigningRequestSpec()
    status: CertificateSigningRequestStatus = CertificateSigningRequestStatus()


CERTIFICATE_SIGNING_REQUEST = Kind(
    "certificates.k8s.io",
    "v1",
    "CertificateSigningRequest",
    "certificatesigningrequests",
    CertificateSigningRequest,
    namespaced=False,
)
