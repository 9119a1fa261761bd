"""The server's own certificate authority and the credentials it gives: made at first start, kept in one directory.

The authority lives ten years, what it signs one; at a start, what is past two thirds of its life is signed anew. Keys
are in files that only their owner may read. All keys are ECDSA P-256.
"""

import os
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from muster.cluster.apiserver.identity.users import AUTHENTICATED, User
from muster.runtime.process.ownership import NotOursError, make_directory, require_file

AUTHORITY_LIFE = timedelta(days=3650)
LEAF_LIFE = timedelta(days=365)
RENEWAL = 2 / 3  # of a life: what is older at a start is signed anew
_SKEW = timedelta(minutes=5)  # clients' clocks may be behind

SERVER_NAMES = (
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


class CredentialError(Exception):
    """A file of the authority cannot be used; says which and what to do."""


class Pair(Struct, frozen=True):
    """A certificate and its key, and the file that holds both in PEM."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    file: Path

    @property
    def certificate_pem(self) -> bytes:
        """The certificate as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key as unencrypted PEM: only for 0600 files."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


class Authority:
    """Signs certificates. Loaded from its directory, or made there."""

    def __init__(self, directory: Path, now: datetime) -> None:
        """Load the authority, or make it at the first start. Raises `CredentialError`, `OSError`."""
        self._directory = directory
        self._now = now
        try:
            make_directory(directory)
        except NotOursError as error:
            raise CredentialError(str(error)) from None
        self.pair = self._load("ca") or self._make_authority()
        if self.pair.certificate.not_valid_after_utc <= now:
            raise CredentialError(f"{self.pair.file} has expired; remove {directory} to make a new authority")

    def server(self, names: tuple[str, ...] = SERVER_NAMES) -> Pair:
        """The server's certificate for these host names and addresses."""
        found = self._load("server")
        if found is not None and self._is_fresh(found) and _names_of(found.certificate) == set(names):
            return found
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        return self._issue("server", _subject("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def client(self, name: str, user: User) -> Pair:
        """The certificate, kept under `name`, with which a user is known."""
        found = self._load(name)
        if found is not None and self._is_fresh(found) and user_of(found.certificate) == user:
            return found
        groups = sorted(user.groups - {AUTHENTICATED})
        return self._issue(name, _subject(user.name, groups), ExtendedKeyUsageOID.CLIENT_AUTH)

    def _is_fresh(self, pair: Pair) -> bool:
        """Whether it is ours, valid, and not due for renewal."""
        start, end = pair.certificate.not_valid_before_utc, pair.certificate.not_valid_after_utc
        ours = pair.certificate.issuer == self.pair.certificate.subject and _is_signed_by(pair, self.pair)
        return ours and start <= self._now < start + (end - start) * RENEWAL

    def _make_authority(self) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        # The serial number is in the name, so that a client that trusts an old authority says which one it wants.
        serial = x509.random_serial_number()
        subject = _subject(f"muster-ca-{serial % 2**32:08x}")
        builder = self._builder(subject, subject, key, serial, AUTHORITY_LIFE)
        usage = _key_usage(signs_certificates=True)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(usage, critical=True)
        return self._save("ca", builder.sign(key, hashes.SHA256()), key)

    def _issue(
        self,
        name: str,
        subject: x509.Name,
        purpose: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None = None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self.pair.certificate
        builder = self._builder(subject, issuer.subject, key, x509.random_serial_number(), LEAF_LIFE)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.pair.key.public_key())
        builder = builder.add_extension(identifier, critical=False)
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        return self._save(name, builder.sign(self.pair.key, hashes.SHA256()), key)

    def _builder(
        self,
        subject: x509.Name,
        issuer: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        serial: int,
        life: timedelta,
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(serial)
            .not_valid_before(self._now - _SKEW)
            .not_valid_after(self._now + life)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )

    def _load(self, name: str) -> Pair | None:
        file = self._file(name)
        try:
            content = read_private(file)
            certificate = x509.load_pem_x509_certificate(content)
            key = serialization.load_pem_private_key(content, password=None)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise CredentialError(f"{file} is damaged ({error}); remove it to make a new one") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise CredentialError(f"in {file} the key is not the certificate's; remove it to make a new one")
        return Pair(certificate, key, file)

    def _save(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
        pair = Pair(certificate, key, self._file(name))
        # Both in one file: a kill leaves the old pair or the new one, never half of each.
        write_private(pair.file, pair.certificate_pem + pair.key_pem)
        return pair

    def _file(self, name: str) -> Path:
        return self._directory / f"{name}.pem"


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, all at once. Raises `OSError`."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_private(path: Path) -> bytes:
    """Read such a file. Raises `CredentialError` if it is not ours alone, `OSError`."""
    try:
        require_file(path)
    except NotOursError as error:
        raise CredentialError(f"{error}; or remove it to make a new one") from None
    return path.read_bytes()


def user_of(certificate: x509.Certificate) -> User | None:
    """Whom a client certificate names: the common name, in the groups that are its organizations."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    organizations = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    if not names or not names[0].value:
        return None
    groups = {str(attribute.value) for attribute in organizations}
    return User(str(names[0].value), frozenset(groups | {AUTHENTICATED}))


def user_of_der(certificate: bytes) -> User | None:
    """Whom a client certificate names, from what the TLS layer has checked."""
    try:
        return user_of(x509.load_der_x509_certificate(certificate))
    except ValueError:
        return None


def _subject(common_name: str, organizations: list[str] | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations or []]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
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


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names_of(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in found}


def _is_signed_by(pair: Pair, authority: Pair) -> bool:
    try:
        pair.certificate.verify_directly_issued_by(authority.certificate)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
