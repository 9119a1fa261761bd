"""Decide how viewers sign in where the dashboard serves several people for a remote cluster.

Either they sign in with tokens, or a proxy in front passes on their tokens, or a proxy names them. In the last case the
dashboard uses its own account's right to impersonate. It therefore does not start without the files that authenticate
the proxy.
"""

import ssl
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from muster.api.config.types import Dashboard, IdentityHeaders
from muster.cluster.apiserver.identity.credentials import HTTP2
from muster.dashboard.viewing.fronts import LEAST_SECRET_BYTES, Front, IdentityFront, TokenFront, read_secrets
from muster.dashboard.viewing.hosts import Host
from muster.dashboard.viewing.identities import Identity
from muster.dashboard.viewing.impersonation import ImpersonatingHost
from muster.dashboard.viewing.tokens import TokenHost
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.ids import Random
from muster.runtime.kube.https import HttpsTransport
from muster.runtime.kube.kubeconfig import ConnectionConfig, Impersonation, UserConfig
from muster.runtime.kube.tls import load_pair, server_context

SECRET, AUTHORITY, CERTIFICATE, KEY = "secret", "ca.crt", "tls.crt", "tls.key"


class ProxyFilesError(Exception):
    """A missing or invalid file for authenticating the proxy, or a connection that acts as somebody else already."""


class SignInSettings(Struct, frozen=True):
    """The settings by which the dashboard authenticates its viewers.

    host: finds out who a viewer is.
    front: the way in which a proxy names the viewer; None without such a proxy.
    context: the TLS context of the dashboard's server; None to serve without TLS.
    sign_out_path: the path under which the proxy signs viewers out; "" to show no button for it.
    """

    host: Host
    front: Front | None
    context: ssl.SSLContext | None
    sign_out_path: str


def plan_entry(config: ConnectionConfig, clock: Clock, settings: Dashboard, folder: Path) -> SignInSettings:
    """Return how viewers sign in, according to the settings. Raises `ProxyFilesError`.

    config: the connection to the cluster.
    folder: the folder with the files that authenticate the proxy.
    """

    def connect(user: UserConfig) -> Client:
        return Client(HttpsTransport(replace(config, user=user), clock, Random()), field_manager="muster-dashboard")

    identity = settings.identity_headers
    if identity is None:
        front = TokenFront(settings.token_header) if settings.token_header else None
        host = TokenHost(lambda token: connect(UserConfig(token=token)), clock, config.namespace)
        return SignInSettings(host, front, None, settings.sign_out_path)

    def connect_as(viewer: Identity) -> Client:
        return connect(replace(config.user, impersonation=Impersonation(viewer.user, "", viewer.groups, viewer.extra)))

    if config.user.impersonation is not None:
        raise ProxyFilesError(f"{config.source} acts as somebody else already, and cannot act as each viewer")
    _require_secret(identity, folder)
    return SignInSettings(
        ImpersonatingHost(connect_as, clock, config.namespace),
        IdentityFront(identity, folder / SECRET),
        _make_context(identity, folder),
        settings.sign_out_path,
    )


def _require_secret(identity: IdentityHeaders, folder: Path) -> None:
    if identity.secret_header and not read_secrets(folder / SECRET):
        least = f"a line of {LEAST_SECRET_BYTES} characters or more"
        raise ProxyFilesError(f"{folder / SECRET} holds no secret of the proxy, which is {least}")


def _make_context(identity: IdentityHeaders, folder: Path) -> ssl.SSLContext | None:
    """Return the TLS context of the server; None without a certificate. Raises `ProxyFilesError`.

    TLS is optional only if the proxy authenticates itself with a secret. If the proxy authenticates itself with a
    client certificate, the context requires one.
    """
    needs_certificate = bool(identity.allowed_names)
    if not needs_certificate and not (folder / CERTIFICATE).exists():
        return None
    context = server_context()
    context.set_alpn_protocols([HTTP2, "http/1.1"])
    try:
        load_pair(context, _read(folder / CERTIFICATE), _read(folder / KEY))
    except ssl.SSLError as error:
        raise ProxyFilesError(f"{CERTIFICATE} and {KEY} in {folder} are no pair in PEM: {error.reason}") from error
    if needs_certificate:
        try:
            context.load_verify_locations(cadata=_read(folder / AUTHORITY).decode("ascii", "replace"))
        except (ssl.SSLError, ValueError) as error:
            raise ProxyFilesError(f"{folder / AUTHORITY} holds no authority in PEM: {error}") from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ProxyFilesError(f"{file}: {error.strerror}") from error
