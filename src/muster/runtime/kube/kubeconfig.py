"""Defines a kubeconfig's content as frozen values: which server, and as which user.

`kubeconfig_parse` makes them from the text of a kubeconfig. `kubeconfig_files` finds and reads that text, or the files
that a cluster gives its pods. `credentials` and `https` use them. Invariant: no secret shows in a `repr` or in an
error.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

EXEC_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
EXEC_EXTENSION = "client.authentication.k8s.io/exec"

InteractiveMode = Literal["Never", "IfAvailable", "Always"]


class KubeconfigError(ValueError):
    """A kubeconfig cannot be used. The message names file and field, and says what to do; it contains no secret."""


class InsecureKubeconfigError(KubeconfigError):
    """A kubeconfig that another user wrote would do more than connect to a server."""


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """The address of a server and how to trust it."""

    server: str  # https://host:port/prefix, without a slash at the end
    certificate_authority: bytes | None = None  # PEM; None: what the system trusts
    certificate_authority_file: Path | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""  # the name on the certificate, if it is not the server's host
    local_socket: str = ""  # the path of a socket by which the server is reached, without TLS
    proxy_url: str = field(default="", repr=False)  # may hold a password
    disable_compression: bool = False
    exec_extension: Any = field(default=None, repr=False)  # the cluster's data for exec plugins


@dataclass(frozen=True, slots=True)
class ExecConfig:
    """A program that prints a credential (client.authentication.k8s.io)."""

    api_version: str
    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: InteractiveMode = "IfAvailable"


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Another user to act as, which the server must allow."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class UserConfig:
    """The user of a kubeconfig, with the means to prove the identity.

    Of token, user name and exec plugin, the first that is present is used.
    """

    token: str = field(default="", repr=False)
    token_file: Path | None = None  # its content wins over `token`
    username: str = ""
    password: str = field(default="", repr=False)
    client_certificate: bytes | None = field(default=None, repr=False)  # PEM
    client_certificate_file: Path | None = None
    client_key: bytes | None = field(default=None, repr=False)  # PEM
    client_key_file: Path | None = None
    exec: ExecConfig | None = None
    impersonation: Impersonation | None = None


@dataclass(frozen=True, slots=True)
class ConnectionConfig:
    """One server as one user, as a transport needs it."""

    cluster: ClusterConfig
    user: UserConfig = UserConfig()
    namespace: str = "default"  # for commands that name no namespace
    context: str = ""
    source: str = ""  # for messages: the file or other origin
    overruled_files: frozenset[str] = frozenset()  # the fields that name files beside inline data, which are used


def require_inline(config: ConnectionConfig) -> None:
    """Raise `InsecureKubeconfigError` if a kubeconfig would read files, run programs or skip checks.

    Call it for a kubeconfig that another user wrote, as in a Secret. The list is that of Kueue's MultiKueue, plus
    proxies: a proxy is reached without TLS and may be any program within our network. The server decides whom the user
    may impersonate.
    """
    cluster, user, overruled = config.cluster, config.user, config.overruled_files
    authority = cluster.certificate_authority_file or "certificate-authority" in overruled
    certificate = user.client_certificate_file or "client-certificate" in overruled
    problems = {
        "insecure-skip-tls-verify is not allowed": cluster.insecure_skip_tls_verify,
        "the server must be reached by https": not cluster.server.startswith("https://"),
        "proxy-url is not allowed": cluster.proxy_url,
        "certificate-authority must be given as certificate-authority-data": authority,
        "tokenFile is not allowed": user.token_file,
        "client-certificate must be given as client-certificate-data": certificate,
        "client-key must be given as client-key-data": user.client_key_file or "client-key" in overruled,
        "username and password are not allowed": user.username,
        "exec plugins are not allowed": user.exec,
    }
    for problem, is_set in problems.items():
        if is_set:
            raise InsecureKubeconfigError(f"{config.source}: context {config.context!r}: {problem}")
