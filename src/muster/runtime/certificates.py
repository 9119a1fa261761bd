"""Make, read and check certificates and their keys: an authority and the certificates that it signs.

The caller passes the current time. All keys that are made here are ECDSA P-256.
"""

import re
import warnings
from collections.abc import Iterable
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import NameOID
from msgspec import Struct

RENEWAL = 2 / 3  # the part of a certificate's lifetime after which it is renewed
SKEW = timedelta(minutes=5)  # clients' clocks may be behind

_BAD_SERIAL = "Parsed a serial number which wasn't positive (i.e., it was negative or zero)"
_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey  # other programs make RSA keys


class Credential(Struct, frozen=True):
    """A certificate and its key."""

    certificate: x509.Certificate
    key: Key

    @property
    def certificate_pem(self) -> bytes:
        """The certificate as PEM, without its key."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key as unencrypted PEM, only for files that no other user may read.

        An RSA key is written as PKCS#1, the only form that Kueue's certificate controller reads.
        """
        is_rsa = isinstance(self.key, rsa.RSAPrivateKey)
        form = serialization.PrivateFormat.TraditionalOpenSSL if is_rsa else serialization.PrivateFormat.PKCS8
        return self.key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def read_certificates(pem: bytes) -> tuple[tuple[x509.Certificate, ...], tuple[str, ...]]:
    """Return the usable certificates in a PEM text, and a sentence about the problem of each other certificate."""
    usable, problems = [], []
    for block in _BLOCK.findall(pem):
        try:
            usable.append(_load_certificate(block))
        except ValueError as error:
            problems.append(str(error))
    return tuple(usable), tuple(problems)


def _load_certificate(pem: bytes) -> x509.Certificate:
    """Return the first certificate in a PEM text.

    Raises `ValueError`, even for a certificate about which the library only warns.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", CryptographyDeprecationWarning)
        try:
            certificate = x509.load_pem_x509_certificate(pem)
        except CryptographyDeprecationWarning as warning:
            raise ValueError(str(warning).partition(". ")[0]) from None
    if certificate.serial_number <= 0:  # older releases of the library take 0 without a warning
        raise ValueError(_BAD_SERIAL)
    return certificate


def parse_credential(certificate_pem: bytes, key_pem: bytes) -> Credential:
    """Return a certificate and its key from two PEM texts.

    Raises `ValueError` with the problem, also if the key is not the certificate's.
    """
    certificate, key = _load_certificate(certificate_pem), load_key(key_pem)
    if not isinstance(key, Key) or key.public_key() != certificate.public_key():
        raise ValueError("the key is not the certificate's, or neither ECDSA nor RSA")
    return Credential(certificate, key)


def load_key(pem: bytes) -> PrivateKeyTypes:
    """Return the private key in a PEM text. Raises `ValueError` with the problem."""
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except TypeError:
        raise ValueError("the key is encrypted") from None
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from None


def make_authority(name: str, now: datetime, life: timedelta) -> Credential:
    """Return a new, self-signed authority. life: how long its certificate is valid."""
    key = ec.generate_private_key(ec.SECP256R1())
    # The serial number is in the name, so that clients can tell an old authority from a new one.
    serial = x509.random_serial_number()
    subject = subject_of(f"{name}-{serial % 2**32:08x}")
    builder = _make_builder(subject, subject, key, serial, now, life)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_make_key_usage(signs_certificates=True), critical=True)
    return Credential(builder.sign(key, hashes.SHA256()), key)


def issue_certificate(
    authority: Credential,
    subject: x509.Name,
    purpose: x509.ObjectIdentifier,
    now: datetime,
    life: timedelta,
    names: Iterable[str] = (),
) -> Credential:
    """Return a new credential that the authority has signed.

    life: how long its certificate is valid.
    names: the host names and addresses of a server.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _make_builder(subject, authority.certificate.subject, key, x509.random_serial_number(), now, life)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_make_key_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = builder.add_extension(identifier, critical=False)
    if alternatives := [_make_general_name(name) for name in names]:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return Credential(builder.sign(authority.key, hashes.SHA256()), key)


def renewal_of(certificate: x509.Certificate) -> datetime:
    """Return when the certificate should be renewed, well before it expires."""
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return start + (end - start) * RENEWAL


def names_of(certificate: x509.Certificate) -> set[str]:
    """Return the host names and addresses that the certificate is valid for."""
    try:
        alternative_names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in alternative_names}


def is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Return whether this authority has signed the certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def subject_of(common_name: str, organizations: Iterable[str] = ()) -> x509.Name:
    """Return the subject name for a user (common name) in some groups (organizations)."""
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _make_builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: Key,
    serial: int,
    now: datetime,
    life: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - SKEW)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _make_key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _make_general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
