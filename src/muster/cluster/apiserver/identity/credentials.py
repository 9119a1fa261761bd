"""Load the credentials of a server, and write the kubeconfig and TLS settings for its clients."""

import base64
import json
import ssl
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from muster.api.ours.writtenconfig import add_mark
from muster.cluster.apiserver.access.control import Trust
from muster.cluster.apiserver.access.jwt import SigningKey
from muster.cluster.apiserver.access.jwt import load as load_key
from muster.cluster.apiserver.identity.certificates import (
    SERVER_NAMES,
    Authority,
    CredentialError,
    Pair,
    read_private,
)
from muster.cluster.apiserver.identity.users import ADMIN, Authenticator, TokenCheck, make_fixed_token_check
from muster.runtime.ids import Ids
from muster.runtime.process.privatefiles import write_private

HTTP2 = "h2"  # the name of the protocol in TLS (ALPN)
CLUSTER = "muster"  # the name of the cluster, the context and the user in the kubeconfig


class Credentials(Struct, frozen=True):
    """The credentials of one server: three certificates, the admin's token, and the key that signs other tokens."""

    authority_pem: bytes
    server: Pair
    admin: Pair
    token: str
    signing_key: SigningKey

    @classmethod
    def load(cls, directory: Path, now: datetime, ids: Ids, also: tuple[str, ...] = ()) -> "Credentials":
        """Load the credentials from their directory, and create the ones that are missing or due for renewal.

        Raises `OSError`, and `CredentialError` for files that cannot be used.

        also: names and addresses by which other machines reach the server, in addition to `SERVER_NAMES`.
        """
        authority = Authority(directory, now)
        return cls(
            authority_pem=authority.pair.certificate_pem,
            server=authority.server((*SERVER_NAMES, *also)),
            admin=authority.client("admin", ADMIN),
            token=_load_token(directory / "admin.token", ids),
            signing_key=_load_signing_key(directory / "service-accounts.key"),
        )

    @property
    def trust(self) -> Trust:
        """The credentials with which the server authenticates its clients."""
        return Trust(self.signing_key, {self.token: ADMIN}, self.authority_pem)

    def authenticator(self, check: TokenCheck | None = None) -> Authenticator:
        """Return an authenticator of certificates and tokens. check: None accepts only the admin's token."""
        return Authenticator(check or make_fixed_token_check(self.trust.tokens))

    def server_context(self) -> ssl.SSLContext:
        """Return the server's TLS context. A client may present a certificate that the authority has signed."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.server.file)
        context.load_verify_locations(cadata=self.authority_pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        context.set_alpn_protocols([HTTP2, "http/1.1"])
        return context

    def kubeconfig(self, server: str) -> bytes:
        """Return a kubeconfig for the admin. server: the URL of the server on this machine."""
        # Within one machine, sending an answer takes less time than compressing it.
        return _render_kubeconfig(
            clusters=[{"name": CLUSTER, "cluster": self._make_cluster(server) | {"disable-compression": True}}],
            users=[
                {
                    "name": f"{CLUSTER}-admin",
                    "user": {
                        "client-certificate-data": _encode(self.admin.certificate_pem),
                        "client-key-data": _encode(self.admin.key_pem),
                        "token": self.token,
                    },
                }
            ],
            contexts=[
                {"name": CLUSTER, "context": {"cluster": CLUSTER, "user": f"{CLUSTER}-admin", "namespace": "default"}}
            ],
            current=CLUSTER,
        )

    def cluster_info(self, server: str) -> str:
        """Return a kubeconfig without a user, as kubeadm publishes it: the server's URL and its authority.

        server: the URL of the server.
        """
        return _render_kubeconfig(clusters=[{"name": "", "cluster": self._make_cluster(server)}]).decode()

    def _make_cluster(self, server: str) -> dict[str, Any]:
        return {"server": server, "certificate-authority-data": _encode(self.authority_pem)}

    def write_kubeconfig(self, path: Path, server: str) -> None:
        """Write the admin's kubeconfig to a file that only its owner may read, if it changed. Raises `OSError`.

        server: the URL of the server on this machine.
        """
        content = add_mark(self.kubeconfig(server))
        # An unchanged file is not written, so that a start succeeds on a full disk.
        if not path.exists() or path.read_bytes() != content:
            write_private(path, content)


def _load_token(file: Path, ids: Ids) -> str:
    """Load the admin's token, or create it if it is missing or damaged.

    The token survives restarts, so that running clients stay authenticated. Raises `OSError`, `CredentialError`.
    """
    try:
        token = read_private(file).decode("ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        token = ""
    if len(token) != 64:
        token = ids.hexadecimal(64)
        write_private(file, token.encode())
    return token


def _load_signing_key(file: Path) -> SigningKey:
    """Load the key that signs service account tokens, or create it.

    The key survives restarts, because running pods have tokens that it signed. Raises `OSError`, and `CredentialError`
    if its file is damaged.
    """
    try:
        return load_key(read_private(file))
    except FileNotFoundError:
        key = SigningKey()
        write_private(file, key.pem)
        return key
    except ValueError as error:
        raise CredentialError(f"{file} is damaged ({error}); remove it to make a new one") from error


def _render_kubeconfig(
    clusters: Sequence[Any], users: Sequence[Any] = (), contexts: Sequence[Any] = (), current: str = ""
) -> bytes:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": list(clusters),
        "users": list(users),
        "contexts": list(contexts),
        "current-context": current,
    }
    return "".join(f"{line}\n" for line in _render_yaml_lines(document)).encode()


def _render_yaml_lines(document: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield the lines of a kubeconfig, without the YAML library, which takes 15 ms to load."""
    for name, value in document.items():
        match value:
            case dict():
                yield f"{indent}{name}:"
                yield from _render_yaml_lines(value, indent + "  ")
            case [*items] if items:
                yield f"{indent}{name}:"
                for item in items:
                    first, *others = _render_yaml_lines(item, indent + "  ")
                    yield f"{indent}- {first.lstrip()}"
                    yield from others
            case _:
                yield f"{indent}{name}: {json.dumps(value)}"  # JSON's scalars are YAML's


def _encode(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
