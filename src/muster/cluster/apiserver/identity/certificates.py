"""The server's own certificate authority and the credentials it gives: made at first start, kept in one directory.

The authority lives ten years, what it signs one; at a start, what is past two thirds of its life is signed anew. Keys
are in files that only their owner may read. All keys are ECDSA P-256.
"""

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from muster.cluster.apiserver.identity.users import AUTHENTICATED, User
from muster.runtime.certificates import (
    Credential,
    credential,
    is_signed_by,
    issued,
    made_authority,
    names_of,
    renewal_of,
    subject_of,
)
from muster.runtime.process.ownership import NotOursError, make_directory, require_file

AUTHORITY_LIFE = timedelta(days=3650)
LEAF_LIFE = timedelta(days=365)

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


class Pair(Credential, frozen=True):
    """A certificate and its key, and the file that holds both in PEM."""

    file: Path


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
        if found is not None and self._is_fresh(found) and names_of(found.certificate) == set(names):
            return found
        return self._issue("server", subject_of("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, name: str, user: User) -> Pair:
        """The certificate, kept under `name`, with which a user is known."""
        found = self._load(name)
        if found is not None and self._is_fresh(found) and user_of(found.certificate) == user:
            return found
        groups = sorted(user.groups - {AUTHENTICATED})
        return self._issue(name, subject_of(user.name, groups), ExtendedKeyUsageOID.CLIENT_AUTH)

    def _is_fresh(self, pair: Pair) -> bool:
        """Whether it is ours, valid, and not due for renewal."""
        certificate, authority = pair.certificate, self.pair.certificate
        ours = certificate.issuer == authority.subject and is_signed_by(certificate, authority)
        return ours and certificate.not_valid_before_utc <= self._now < renewal_of(certificate)

    def _make_authority(self) -> Pair:
        return self._save("ca", made_authority("muster-ca", self._now, AUTHORITY_LIFE))

    def _issue(self, name: str, subject: x509.Name, purpose: x509.ObjectIdentifier, names: Sequence[str] = ()) -> Pair:
        return self._save(name, issued(self.pair, subject, purpose, self._now, LEAF_LIFE, names))

    def _load(self, name: str) -> Pair | None:
        file = self._file(name)
        try:
            content = read_private(file)
            found = credential(content, content)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise CredentialError(f"{file} is damaged ({error}); remove it to make a new one") from error
        return Pair(found.certificate, found.key, file)

    def _save(self, name: str, made: Credential) -> Pair:
        pair = Pair(made.certificate, made.key, self._file(name))
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
