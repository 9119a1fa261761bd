"""What a client needs to get in: the kubeconfig with the admin's certificate and token, and the TLS settings."""

import base64
import ssl
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from muster.cluster.apiserver.access.control import Trust
from muster.cluster.apiserver.access.jwt import SigningKey
from muster.cluster.apiserver.access.jwt import load as load_key
from muster.cluster.apiserver.identity.certificates import (
    SERVER_NAMES,
    Authority,
    CredentialError,
    Pair,
    read_private,
    write_private,
)
from muster.cluster.apiserver.identity.users import ADMIN, Authenticator, TokenCheck, fixed_tokens
from muster.runtime.ids import Ids

HTTP2 = "h2"  # as TLS names it
CLUSTER = "muster"  # the name of the cluster, the context and the user in the kubeconfig


class Credentials(Struct, frozen=True):
    """The authority's certificate, the server's pair, what the admin is known by, and what signs other tokens."""

    authority_pem: bytes
    server: Pair
    admin: Pair
    token: str
    signing_key: SigningKey

    @classmethod
    def load(cls, directory: Path, now: datetime, ids: Ids, also: tuple[str, ...] = ()) -> "Credentials":
        """Load them from a directory of their own, making what is missing or too old.

        also: names and addresses by which other machines reach the server.
        Raises `CredentialError` for files that make no sense, `OSError`.
        """
        authority = Authority(directory, now)
        return cls(
            authority_pem=authority.pair.certificate_pem,
            server=authority.server((*SERVER_NAMES, *also)),
            admin=authority.client("admin", ADMIN),
            token=_token(directory / "admin.token", ids),
            signing_key=_signing_key(directory / "service-accounts.key"),
        )

    @property
    def trust(self) -> Trust:
        """What the server needs of them."""
        return Trust(self.signing_key, {self.token: ADMIN}, self.authority_pem)

    def authenticator(self, check: TokenCheck | None = None) -> Authenticator:
        """Knows certificates of the authority, and those tokens that `check` does: without one, the admin's."""
        return Authenticator(check or fixed_tokens(self.trust.tokens))

    def server_context(self) -> ssl.SSLContext:
        """TLS for the server: clients may show a certificate, which must be of the authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.server.file)
        context.load_verify_locations(cadata=self.authority_pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        context.set_alpn_protocols([HTTP2, "http/1.1"])
        return context

    def kubeconfig(self, server: str) -> bytes:
        """A kubeconfig for the admin; `server` is the URL, which is of this machine."""
        # An answer is sent there in less time than it takes to compress it.
        return _written(
            clusters=[{"name": CLUSTER, "cluster": self._cluster(server) | {"disable-compression": True}}],
            users=[
                {
                    "name": f"{CLUSTER}-admin",
                    "user": {
                        "client-certificate-data": _text(self.admin.certificate_pem),
                        "client-key-data": _text(self.admin.key_pem),
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
        """A kubeconfig that says where the server is and how to trust it, and lets no user in: as kubeadm has it."""
        return _written(clusters=[{"name": "", "cluster": self._cluster(server)}]).decode()

    def _cluster(self, server: str) -> dict[str, Any]:
        return {"server": server, "certificate-authority-data": _text(self.authority_pem)}

    def write_kubeconfig(self, path: Path, server: str) -> None:
        """Write the kubeconfig for its owner's eyes only. Raises `OSError`."""
        content = self.kubeconfig(server)
        # A full disk has no room to write what is there already.
        if not path.exists() or path.read_bytes() != content:
            write_private(path, content)


def _token(file: Path, ids: Ids) -> str:
    """The admin's token, the same over restarts, so that clients that run on stay known."""
    try:
        token = read_private(file).decode("ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        token = ""
    if len(token) != 64:
        token = ids.hexadecimal(64)
        write_private(file, token.encode())
    return token


def _signing_key(file: Path) -> SigningKey:
    """The key that signs the tokens of service accounts, the same over restarts: pods that run on stay known."""
    try:
        return load_key(read_private(file))
    except FileNotFoundError:
        key = SigningKey.make()
        write_private(file, key.pem)
        return key
    except ValueError as error:
        raise CredentialError(f"{file} is damaged ({error}); remove it to make a new one") from error


def _written(
    clusters: Sequence[Any], users: Sequence[Any] = (), contexts: Sequence[Any] = (), current: str = ""
) -> bytes:
    import yaml  # it takes long to load, and a cluster for one command writes no kubeconfig

    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": list(clusters),
        "users": list(users),
        "contexts": list(contexts),
        "current-context": current,
    }
    return yaml.safe_dump(document, sort_keys=False).encode()


def _text(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
