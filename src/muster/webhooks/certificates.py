"""The certificate of what is served and the authorities that clients check it against, as they stand in one Secret.

All replicas serve with what stands there. It is renewed long before its end. A new authority is published beside the
old one, which signs once more; the new one signs after `SETTLING`, known to all or not. That is how long the leader
has to tell the server, and it logs whenever it cannot. What is due is a function of the certificates and the time.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID
from msgspec import Struct

from muster.runtime.certificates import (
    SKEW,
    Credential,
    credential,
    is_signed_by,
    issued,
    made_authority,
    names_of,
    renewal_of,
    subject_of,
)

# Names of the Secret's parts, which are those of Kueue and of cert-manager.
AUTHORITIES: Final = "ca.crt"
AUTHORITY_KEY: Final = "ca.key"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"

AUTHORITY_LIFE: Final = timedelta(days=730)
LIFE: Final = timedelta(days=90)
SETTLING: Final = timedelta(days=30)  # until all have heard of a new authority; shorter than the life it signs for

_SUBJECT: Final = subject_of("muster-webhooks")  # hosts are no common names: those have 64 characters at most


class Held(Struct, frozen=True):
    """What stands in the Secret. What cannot be read is not there.

    authorities: the newest first. signer: the newest with its key. server: what is served with.
    """

    authorities: tuple[x509.Certificate, ...] = ()
    signer: Credential | None = None
    server: Credential | None = None


class Due(NamedTuple):
    """What is to be made anew."""

    authority: bool = False
    server: bool = False


def read(data: Mapping[str, bytes]) -> Held:
    """Of the Secret's data."""
    authorities = _authorities(data.get(AUTHORITIES, b""))
    signer = _pair(data.get(AUTHORITIES, b""), data.get(AUTHORITY_KEY, b""))
    return Held(authorities, signer, _pair(data.get(CERTIFICATE, b""), data.get(KEY, b"")))


def written(held: Held) -> dict[str, bytes]:
    """The Secret's data."""
    pems = (one.public_bytes(serialization.Encoding.PEM) for one in held.authorities)
    data = {AUTHORITIES: b"".join(pems)}
    if held.signer is not None:
        data[AUTHORITY_KEY] = held.signer.key_pem
    if held.server is not None:
        data |= {CERTIFICATE: held.server.certificate_pem, KEY: held.server.key_pem}
    return data


def due(held: Held, names: Iterable[str], now: datetime) -> Due:
    """What is to be made anew now. names: the hosts that the certificate has to be for."""
    authority = (
        held.signer is None or not _begun(held.signer.certificate, now) or renewal_of(held.signer.certificate) <= now
    )
    server = held.server
    if server is None or not _serves(server.certificate, held.authorities, names, now):
        return Due(authority, server=True)
    if authority or held.signer is None or now < _settled(held.signer.certificate):
        return Due(authority)  # what is served with is good, and the newest authority is not known to all
    old = renewal_of(server.certificate) <= now
    return Due(server=old or not is_signed_by(server.certificate, held.signer.certificate))


def renewed(held: Held, names: Iterable[str], now: datetime) -> Held:
    """With what is due made anew; the same if nothing is."""
    names = tuple(names)
    what = due(held, names, now)
    authorities = tuple(one for one in held.authorities if now < one.not_valid_after_utc)
    signer, server = held.signer, held.server
    known = signer if signer is not None and _is_valid(signer.certificate, now) else None  # signs once more
    if signer is None or what.authority:
        signer = made_authority("muster-webhook-ca", now, AUTHORITY_LIFE)
        authorities = (signer.certificate, *authorities)
    if what.server or (what.authority and known is not None):
        server = issued(known or signer, _SUBJECT, ExtendedKeyUsageOID.SERVER_AUTH, now, LIFE, names)
    return Held(authorities, signer, server) if any(what) else held


def next_due(held: Held) -> datetime | None:
    """When to look again; None if there is nothing to look at."""
    if held.signer is None or held.server is None:
        return None
    signer, server = held.signer.certificate, held.server.certificate
    if not is_signed_by(server, signer):
        known = (one for one in held.authorities if is_signed_by(server, one))
        return min(_settled(signer), *(one.not_valid_after_utc for one in (server, *known)))
    return min(renewal_of(signer), renewal_of(server))


def _settled(authority: x509.Certificate) -> datetime:
    return authority.not_valid_before_utc + SKEW + SETTLING


def _begun(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now


def _is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    return _begun(certificate, now) and now < certificate.not_valid_after_utc


def _serves(
    certificate: x509.Certificate, authorities: Iterable[x509.Certificate], names: Iterable[str], now: datetime
) -> bool:
    """Whether clients take it."""
    valid = [one for one in (certificate, *authorities) if _is_valid(one, now)]
    is_known = any(is_signed_by(certificate, one) for one in authorities if one in valid)
    return certificate in valid and is_known and set(names) <= names_of(certificate)


def _authorities(pem: bytes) -> tuple[x509.Certificate, ...]:
    try:
        return tuple(x509.load_pem_x509_certificates(pem))
    except ValueError:
        return ()


def _pair(certificate: bytes, key: bytes) -> Credential | None:
    try:
        return credential(certificate, key)
    except ValueError:
        return None
