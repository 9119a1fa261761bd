"""Define a kubeconfig's content as frozen values: which server, and as which user.

`kubeconfig_parse` makes them from the text of a kubeconfig. `kubeconfig_files` finds and reads that text, or the files
that a cluster mounts into its pods. `credentials` and `https` use them. Invariant: no secret appears in a `repr` or in
an error.
"""

from pathlib import Path
from typing import Any, ClassVar, Literal

from msgspec import Struct

EXEC_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
EXEC_EXTENSION = "client.authentication.k8s.io/exec"

InteractiveMode = Literal["Never", "IfAvailable", "Always"]


class KubeconfigError(ValueError):
    """A kubeconfig that cannot be used.

    The message names file and field, and says what to do; it contains no secret.
    """


class InsecureKubeconfigError(KubeconfigError):
    """A kubeconfig of another user that would do more than connect to a server."""


class Confidential(Struct, frozen=True):
    """A value that leaves its secret fields out of its `repr`. `secrets` names those fields."""

    secrets: ClassVar[tuple[str, ...]]

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return the fields that may be shown, for the library rich."""
        return [(name, getattr(self, name)) for name in self.__struct_fields__ if name not in self.secrets]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


class ClusterConfig(Confidential, frozen=True):
    """The address of a server and how to trust it."""

    secrets = ("proxy_url", "exec_extension")

    server: str  # https://host:port/prefix, without a slash at the end
    certificate_authority: bytes | None = None  # PEM; None: what the system trusts
    certificate_authority_file: Path | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""  # the name on the certificate, if it is not the server's host
    local_socket: str = ""  # the path of a socket by which the server is reached, without TLS
    proxy_url: str = ""  # may hold a password
    disable_compression: bool = False
    exec_extension: Any = None  # the cluster's data for exec plugins


class ExecConfig(Confidential, frozen=True):
    """A program that prints a credential (client.authentication.k8s.io)."""

    secrets = ("args", "env")

    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: InteractiveMode = "IfAvailable"


class Impersonation(Struct, frozen=True):
    """Another user to act as, which the server must allow."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class UserConfig(Confidential, frozen=True):
    """The user of a kubeconfig, with the means to prove the identity.

    Of token, user name and exec plugin, the first that is set is used.
    """

    secrets = ("token", "password", "client_certificate", "client_key")

    token: str = ""
    token_file: Path | None = None  # the file's content takes precedence over `token`
    username: str = ""
    password: str = ""
    client_certificate: bytes | None = None  # PEM
    client_certificate_file: Path | None = None
    client_key: bytes | None = None  # PEM
    client_key_file: Path | None = None
    exec: ExecConfig | None = None
    impersonation: Impersonation | None = None


class ConnectionConfig(Struct, frozen=True):
    """One server and one user, as the configuration of a transport."""

    cluster: ClusterConfig
    user: UserConfig = UserConfig()
    namespace: str = "default"  # for commands that name no namespace
    context: str = ""
    source: str = ""  # for messages: the file or other origin
    overruled_files: frozenset[str] = frozenset()  # the fields that name files beside inline data, which are used


def require_inline(config: ConnectionConfig) -> None:
    """Raise `InsecureKubeconfigError` if a kubeconfig would read files, run programs or skip checks.

    Call it for a kubeconfig that another user wrote, as in a Secret. The list follows Kueue's MultiKueue, plus
    proxies: a proxy is reached without TLS and may be any program within our network. The server decides which users
    may be impersonated.
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
