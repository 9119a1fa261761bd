"""Obtain and renew the credentials that prove to a server who the client is.

A `CredentialSource` logs in: it reads files, runs a plugin, or holds a fixed credential. The `Vault` decides when.

Invariants: only one login runs at a time, however many requests wait for it; a waiter that gives up does not stop the
login; a credential that the server has refused is not used again; a source that keeps returning refused credentials is
not called in a loop; no secret appears in a `repr`, a log or an error.
"""

import asyncio
import base64
import logging
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from muster.runtime.clock import Clock
from muster.runtime.kube.kubeconfig import Confidential, UserConfig
from muster.runtime.transport import TransportError

# Renew this long before the expiry, so that no credential expires while its request is on the way.
EXPIRY_SKEW = timedelta(seconds=10)
# Files are read again this often (client-go's period: the kubelet rotates them well before they end).
FILE_PERIOD_SECONDS = 60.0
# After a credential that was refused or expired on arrival, the next login is only this much later.
RELOGIN_SECONDS = 10.0
# The longest header that common servers accept; a real token is far shorter.
MAX_TOKEN_BYTES = 64 * 1024
MAX_FILE_BYTES = 1 << 20

_log = logging.getLogger(__name__)


class CredentialError(TransportError):
    """A login without a credential. The message says where the credential was searched, and why that failed."""


class ClientCertificate(Confidential, frozen=True):
    """A certificate and its key, in PEM."""

    secrets = ("certificate", "key")

    certificate: bytes
    key: bytes


class Credential(Confidential, frozen=True):
    """The proof of our identity for a server: a header, a client certificate, both, or neither.

    authorization: the header; "" without one.
    certificate: None without one.
    expires: when it expires; None if unknown.
    """

    secrets = ("authorization",)

    authorization: str = ""
    certificate: ClientCertificate | None = None
    expires: datetime | None = None


class CredentialSource(Protocol):
    """A source of credentials."""

    @property
    def is_renewable(self) -> bool:
        """Whether another login may return a newer credential."""
        ...

    @property
    def max_age_seconds(self) -> float | None:
        """For how many seconds a credential is used before the next login; None for no limit."""
        ...

    async def login(self) -> Credential:
        """Return a credential. Raises `CredentialError`."""
        ...


def make_bearer_header(token: str, where: str) -> str:
    """Return the header for a token. Raises `CredentialError` for a token that cannot be in a header.

    where: the source of the token, for errors.
    """
    token = token.strip()
    if not token:
        raise CredentialError(f"{where}: the token is empty")
    if len(token) > MAX_TOKEN_BYTES:
        raise CredentialError(f"{where}: the token is longer than {MAX_TOKEN_BYTES} bytes")
    if not all("!" <= character <= "~" for character in token):
        raise CredentialError(f"{where}: the token has a space or a character that is not printable ASCII")
    return f"Bearer {token}"


def make_basic_header(username: str, password: str) -> str:
    """Return the header for a user name and a password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class ConfiguredSource:
    """The source of credentials that a kubeconfig contains or names as files.

    These are a token, a token file, basic authentication, or a client certificate.
    """

    def __init__(self, user: UserConfig, where: str = "kubeconfig") -> None:
        self._user = user
        self._where = where
        files = (user.token_file, user.client_certificate_file, user.client_key_file)
        self.is_renewable = any(file is not None for file in files)
        self.max_age_seconds = FILE_PERIOD_SECONDS if self.is_renewable else None

    async def login(self) -> Credential:
        """Return the configured credential, reading its files again. Raises `CredentialError`."""
        return Credential(self._make_authorization(), self._load_certificate())

    def _make_authorization(self) -> str:
        user = self._user
        if user.token_file is not None:
            try:
                return make_bearer_header(read_file(user.token_file).decode(errors="replace"), str(user.token_file))
            except CredentialError as error:
                if not user.token:
                    raise
                _log.warning("using the token of %s: %s", self._where, error)
        if user.token:
            return make_bearer_header(user.token, f"{self._where}: token")
        return make_basic_header(user.username, user.password) if user.username else ""

    def _load_certificate(self) -> ClientCertificate | None:
        user = self._user
        certificate = user.client_certificate or (
            user.client_certificate_file and read_file(user.client_certificate_file)
        )
        key = user.client_key or (user.client_key_file and read_file(user.client_key_file))
        return ClientCertificate(certificate, key) if certificate and key else None


def read_file(path: Path) -> bytes:
    """Return the content of a file that the configuration names. Raises `CredentialError`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CredentialError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise CredentialError(f"{path}: is larger than {MAX_FILE_BYTES} bytes")
    return data


class CurrentCredential(Struct, frozen=True):
    """The current credential. since: when the login for it took place (`Clock.monotonic`)."""

    credential: Credential
    since: float

    def is_due(self, max_age_seconds: float | None, now: datetime, monotonic: float) -> bool:
        """Return whether a new login is due before the next request."""
        age = monotonic - self.since
        if max_age_seconds is not None and age >= max_age_seconds:
            return True
        expires = self.credential.expires
        return expires is not None and now >= expires - EXPIRY_SKEW and age >= RELOGIN_SECONDS

    def is_usable(self, now: datetime) -> bool:
        """Return whether the credential has not expired, so that it may be used even if its renewal fails."""
        return self.credential.expires is None or now < self.credential.expires


class Vault:
    """The owner of the single credential of a transport.

    It logs in when there is no credential, or when it must be renewed.
    """

    def __init__(self, source: CredentialSource, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._held: CurrentCredential | None = None
        self._refusals = 0  # logins in a row that gave a credential which the server refused
        self._login: asyncio.Task[Credential | CredentialError] | None = None

    async def current(self) -> Credential:
        """Return the credential for the next request. Raises `CredentialError`."""
        held = self._held
        if held is None or held.is_due(self._source.max_age_seconds, self._clock.now(), self._clock.monotonic()):
            return await self._await_shared_login()
        return held.credential

    async def refuse(self, credential: Credential) -> Credential | None:
        """Handle a 401 for a credential: return another credential to try; None if there is none.

        Raises `CredentialError`.
        """
        held = self._held
        if held is not None and held.credential is credential:
            hammering = self._refusals > 0 and self._clock.monotonic() - held.since < RELOGIN_SECONDS
            if hammering or not self._source.is_renewable:
                return None
            self._refusals += 1
            self._held = None
        fresh = await self.current()
        return None if fresh == credential else fresh

    def accept(self, credential: Credential) -> None:
        """Record that the server accepted this credential, so that a later refusal causes a login at once."""
        if self._held is not None and self._held.credential is credential:
            self._refusals = 0

    async def close(self) -> None:
        """Stop a running login."""
        if self._login is not None:
            self._login.cancel()
            await asyncio.wait([self._login])

    async def _await_shared_login(self) -> Credential:
        login = self._login
        if login is None:
            login = self._login = asyncio.create_task(self._renew(), name="login")
        try:
            outcome = await asyncio.shield(login)
        except asyncio.CancelledError:
            if login.cancelled():
                raise CredentialError("the login was stopped: the client is closed") from None
            raise
        if isinstance(outcome, CredentialError):
            raise CredentialError(*outcome.args)
        return outcome

    async def _renew(self) -> Credential | CredentialError:
        """Log in once; return the new credential, the current one if it is still usable after a failure, or the error.

        The error is a result because each waiting request raises its own copy, and there may be no waiting request.
        """
        try:
            credential = await self._source.login()
        except CredentialError as error:
            if self._held is None or not self._held.is_usable(self._clock.now()):
                return error
            _log.warning("the credential could not be renewed, the old one is used on: %s", error)
            credential = self._held.credential
        finally:
            self._login = None
        self._held = CurrentCredential(credential, self._clock.monotonic())
        return credential
