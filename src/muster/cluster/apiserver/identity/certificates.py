"""Create the server's certificate authority and sign certificates with it. Both are files of one directory.

The first start creates the authority, which is valid for ten years. A certificate that it signs is valid for one year.
A start renews each certificate that is past two thirds of its validity. Only the owner may read the files with the
keys, which are all ECDSA P-256.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from muster.cluster.apiserver.identity.users import AUTHENTICATED, User
from muster.runtime.certificates import (
    Credential,
    is_signed_by,
    issue_certificate,
    make_authority,
    names_of,
    parse_credential,
    renewal_of,
    subject_of,
)
from muster.runtime.process.ownership import NotOursError, make_directory, require_file
from muster.runtime.process.privatefiles import write_private

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
    """A file of credentials that cannot be used. The message names the file and says what to do."""


class Pair(Credential, frozen=True):
    """A certificate and its key, with the PEM file that contains both."""

    file: Path


class Authority:
    """The certificate authority of one directory, which signs certificates and renews them."""

    def __init__(self, directory: Path, now: datetime) -> None:
        """Load the authority, or create it if there is none.

        Raises `OSError`, and `CredentialError` if the authority has expired or its files cannot be used.
        """
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
        """Return the server's certificate for these host names and addresses.

        Sign a new one if there is none, or if it has other names, is of another authority or is due for renewal.

        Raises `OSError`, and `CredentialError` for a damaged file.
        """
        pair = self._load("server")
        if pair is not None and self._is_fresh(pair) and names_of(pair.certificate) == set(names):
            return pair
        return self._issue_pair("server", subject_of("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, name: str, user: User) -> Pair:
        """Return the client certificate of a user.

        Sign a new one if there is none, or if it is of another user or authority or is due for renewal.

        Raises `OSError`, and `CredentialError` for a damaged file.

        name: the name of the certificate's file, without `.pem`.
        """
        pair = self._load(name)
        if pair is not None and self._is_fresh(pair) and user_of(pair.certificate) == user:
            return pair
        groups = sorted(user.groups - {AUTHENTICATED})
        return self._issue_pair(name, subject_of(user.name, groups), ExtendedKeyUsageOID.CLIENT_AUTH)

    def _is_fresh(self, pair: Pair) -> bool:
        """Return whether the certificate is signed by this authority, valid, and not due for renewal."""
        certificate, authority = pair.certificate, self.pair.certificate
        ours = certificate.issuer == authority.subject and is_signed_by(certificate, authority)
        return ours and certificate.not_valid_before_utc <= self._now < renewal_of(certificate)

    def _make_authority(self) -> Pair:
        return self._save("ca", make_authority("muster-ca", self._now, AUTHORITY_LIFE))

    def _issue_pair(
        self, name: str, subject: x509.Name, purpose: x509.ObjectIdentifier, names: Sequence[str] = ()
    ) -> Pair:
        return self._save(name, issue_certificate(self.pair, subject, purpose, self._now, LEAF_LIFE, names))

    def _load(self, name: str) -> Pair | None:
        """Load a certificate with its key; None if there is none. Raises `OSError`, `CredentialError`."""
        file = self._get_path(name)
        try:
            content = read_private(file)
            loaded = parse_credential(content, content)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise CredentialError(f"{file} is damaged ({error}); remove it to make a new one") from error
        return Pair(loaded.certificate, loaded.key, file)

    def _save(self, name: str, new: Credential) -> Pair:
        pair = Pair(new.certificate, new.key, self._get_path(name))
        # One file holds both, so that a killed process leaves the old pair or the new one, never half of each.
        write_private(pair.file, pair.certificate_pem + pair.key_pem)
        return pair

    def _get_path(self, name: str) -> Path:
        return self._directory / f"{name}.pem"


def read_private(path: Path) -> bytes:
    """Return the content of a private file.

    Raises `OSError`, and `CredentialError` if others could read or replace it.
    """
    try:
        require_file(path)
    except NotOursError as error:
        raise CredentialError(f"{error}; or remove it to make a new one") from None
    return path.read_bytes()


def user_of(certificate: x509.Certificate) -> User | None:
    """Return the user that a client certificate names; None if it has no common name.

    The common name is the user's name. The organizations are the user's groups, with `system:authenticated` added.
    """
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    organizations = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    if not names or not names[0].value:
        return None
    groups = {str(attribute.value) for attribute in organizations}
    return User(str(names[0].value), frozenset(groups | {AUTHENTICATED}))


def load_certificate(der: bytes) -> x509.Certificate | None:
    """Return the certificate in DER that the TLS layer has verified; None if it cannot be parsed."""
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError:
        return None
