"""Decide when to renew the serving certificate and its authorities, which are in one Secret.

All replicas serve with the certificate in the Secret, which is renewed long before it expires. A new authority is first
only published, next to the old authority, which signs once more. The new authority signs after `SETTLING`. Until then
the leader has time to write it into `caBundle` (`bundles`). The due renewals depend only on the certificates and the
time.
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
    is_signed_by,
    issue_certificate,
    make_authority,
    names_of,
    parse_credential,
    read_certificates,
    renewal_of,
    subject_of,
)

# The keys of the Secret, as Kueue and cert-manager name them.
AUTHORITIES: Final = "ca.crt"
AUTHORITY_KEY: Final = "ca.key"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"

AUTHORITY_LIFE: Final = timedelta(days=730)
LIFE: Final = timedelta(days=90)
SETTLING: Final = timedelta(
    days=30
)  # until every server knows a new authority; shorter than the life of its certificates

_SUBJECT: Final = subject_of("muster-webhooks")  # not a host: common names have at most 64 characters


class Held(Struct, frozen=True):
    """The certificates and keys in the webhooks' Secret. Unreadable parts count as absent.

    authorities: the certificates of the authorities, newest first.
    signer: the newest authority with its key; None without one.
    server: the serving certificate with its key; None without one.
    unusable: the problems of authorities in the Secret that are not in `authorities`.
    """

    authorities: tuple[x509.Certificate, ...] = ()
    signer: Credential | None = None
    server: Credential | None = None
    unusable: tuple[str, ...] = ()


class DueParts(NamedTuple):
    """The parts of the webhooks' Secret to renew now: the authority, the serving certificate."""

    authority: bool = False
    server: bool = False


def read(data: Mapping[str, bytes]) -> Held:
    """Return the certificates and keys in the data of the webhooks' Secret. Unreadable parts count as absent."""
    authorities, unusable = read_certificates(data.get(AUTHORITIES, b""))
    signer = _make_pair(data.get(AUTHORITIES, b""), data.get(AUTHORITY_KEY, b""))
    server = _make_pair(data.get(CERTIFICATE, b""), data.get(KEY, b""))
    return Held(authorities, signer, server, unusable)


def make_secret_data(held: Held) -> dict[str, bytes]:
    """Return the data of a Secret with these certificates and keys, as PEM."""
    pems = (one.public_bytes(serialization.Encoding.PEM) for one in held.authorities)
    data = {AUTHORITIES: b"".join(pems)}
    if held.signer is not None:
        data[AUTHORITY_KEY] = held.signer.key_pem
    if held.server is not None:
        data |= {CERTIFICATE: held.server.certificate_pem, KEY: held.server.key_pem}
    return data


def list_changes(held: Held, renewed: Held) -> dict[str, bytes]:
    """Return the entries of the Secret's data that a renewal changes; all other entries keep their bytes."""
    parts = make_secret_data(renewed)
    kept = {AUTHORITIES} if renewed.authorities == held.authorities and not held.unusable else set()
    kept |= {AUTHORITY_KEY} if renewed.signer is held.signer else set()
    kept |= {CERTIFICATE, KEY} if renewed.server is held.server else set()
    return {part: pem for part, pem in parts.items() if part not in kept}


def is_readable_by_kueue(data: Mapping[str, bytes]) -> bool:
    """Return whether Kueue's certificate controller can start with this data in the Secret.

    That controller replaces missing and foreign certificates. It parses the key of an authority that it created, and
    hangs unless the key is PKCS#1.
    """
    key = data.get(AUTHORITY_KEY, b"")
    return not key or not data.get(AUTHORITIES) or b"-----BEGIN RSA PRIVATE KEY-----" in key


def find_due(held: Held, names: Iterable[str], now: datetime) -> DueParts:
    """Return the certificates to renew now. names: the hosts that the serving certificate must be valid for."""
    authority = (
        held.signer is None
        or not _has_begun(held.signer.certificate, now)
        or renewal_of(held.signer.certificate) <= now
    )
    server = held.server
    if server is None or not _is_accepted(server.certificate, held.authorities, names, now):
        return DueParts(authority, server=True)
    if authority or held.signer is None or now < _compute_settled_time(held.signer.certificate):
        return DueParts(authority)  # the serving certificate is valid, and not every server knows the newest authority
    old = renewal_of(server.certificate) <= now
    return DueParts(server=old or not is_signed_by(server.certificate, held.signer.certificate))


def renew_what_is_due(held: Held, names: Iterable[str], now: datetime) -> Held:
    """Return the certificates and keys with all due renewals made; the same object if nothing is due."""
    names = tuple(names)
    what = find_due(held, names, now)
    authorities = tuple(one for one in held.authorities if now < one.not_valid_after_utc)
    signer, server = held.signer, held.server
    known = (
        signer if signer is not None and _is_valid(signer.certificate, now) else None
    )  # the old authority signs once more
    if signer is None or what.authority:
        signer = make_authority("muster-webhook-ca", now, AUTHORITY_LIFE)
        authorities = (signer.certificate, *authorities)
    if what.server or (what.authority and known is not None):
        server = issue_certificate(known or signer, _SUBJECT, ExtendedKeyUsageOID.SERVER_AUTH, now, LIFE, names)
    return Held(authorities, signer, server) if any(what) else held


def next_due(held: Held) -> datetime | None:
    """Return when the next renewal may be due; None if the authority or the serving certificate is missing."""
    if held.signer is None or held.server is None:
        return None
    signer, server = held.signer.certificate, held.server.certificate
    if not is_signed_by(server, signer):
        known = (one for one in held.authorities if is_signed_by(server, one))
        return min(_compute_settled_time(signer), *(one.not_valid_after_utc for one in (server, *known)))
    return min(renewal_of(signer), renewal_of(server))


def _compute_settled_time(authority: x509.Certificate) -> datetime:
    return authority.not_valid_before_utc + SKEW + SETTLING


def _has_begun(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now


def _is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    return _has_begun(certificate, now) and now < certificate.not_valid_after_utc


def _is_accepted(
    certificate: x509.Certificate, authorities: Iterable[x509.Certificate], names: Iterable[str], now: datetime
) -> bool:
    """Return whether clients accept the certificate now for all of these host names.

    authorities: the authorities that clients trust.
    """
    valid = [one for one in (certificate, *authorities) if _is_valid(one, now)]
    is_known = any(is_signed_by(certificate, one) for one in authorities if one in valid)
    return certificate in valid and is_known and set(names) <= names_of(certificate)


def _make_pair(certificate: bytes, key: bytes) -> Credential | None:
    try:
        return parse_credential(certificate, key)
    except ValueError:
        return None
