"""Find and read the kubeconfig: the thin shell around `kubeconfig_parse`.

The order is kubectl's: the file that the user names; the list in KUBECONFIG; ~/.kube/config; and inside a pod, the
files that the cluster mounts into it.
"""

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from msgspec.structs import replace

from muster.runtime.kube.kubeconfig import ClusterConfig, ConnectionConfig, KubeconfigError, UserConfig
from muster.runtime.kube.kubeconfig_parse import MAX_BYTES, Kubeconfig, merge, parse

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def load(environ: Mapping[str, str], *, path: str | Path = "", context: str = "") -> ConnectionConfig:
    """Read the kubeconfig that the user's options and environment select; return its connection.

    path: a file that must exist. Without it, `environ` decides: KUBECONFIG, HOME, and in a pod KUBERNETES_SERVICE_HOST.
    context: the context of the kubeconfig to use; "" for the current one.
    A proxy in the environment is used unless the kubeconfig names another.

    Raises `KubeconfigError`.
    """
    if path:
        config = read(Path(path)).connection(context)
    elif files := _list_default_files(environ):
        config = merge([read(file) for file in files]).connection(context)
    elif environ.get("KUBERNETES_SERVICE_HOST"):
        config = in_cluster(environ)
    else:
        places = environ.get("KUBECONFIG") or "~/.kube/config"
        raise KubeconfigError(f"no kubeconfig: {places} does not exist; name one with --kubeconfig or KUBECONFIG")
    return _add_proxy(config, environ)


def read(path: Path) -> Kubeconfig:
    """Return the content of one kubeconfig file, whose relative paths start at its directory.

    Raises `KubeconfigError`.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise KubeconfigError(f"{path}: cannot be read: {error.strerror}") from None
    return parse(data, str(path), path.parent.absolute())


def in_cluster(environ: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> ConnectionConfig:
    """Return the connection of a pod to its own cluster, from its service account. Raises `KubeconfigError`."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise KubeconfigError("not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    token, authority, namespace = directory / "token", directory / "ca.crt", directory / "namespace"
    for file in (token, authority):
        if not file.is_file():
            raise KubeconfigError(f"{file}: does not exist; the pod needs automountServiceAccountToken: true")
    return ConnectionConfig(
        cluster=ClusterConfig(
            server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
            certificate_authority_file=authority,
        ),
        user=UserConfig(token_file=token),
        namespace=namespace.read_text().strip() if namespace.is_file() else "default",
        source=str(directory),
    )


def proxy_from_environment(server: str, environ: Mapping[str, str]) -> str:
    """Return the proxy for a server by HTTPS_PROXY (or HTTP_PROXY) and NO_PROXY; "" for none (Go's rules).

    Raises `KubeconfigError` for a proxy of another scheme.
    """
    url = urlsplit(server)
    name = f"{url.scheme}_proxy"
    proxy = environ.get(name.upper()) or environ.get(name) or ""
    exceptions = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if not proxy or _bypasses_proxy(url.hostname or "", url.port, exceptions):
        return ""
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if not proxy.startswith(("http://", "https://")):
        raise KubeconfigError(f"{name.upper()}: is not an http:// or https:// proxy; set NO_PROXY to go without it")
    return proxy


def _add_proxy(config: ConnectionConfig, environ: Mapping[str, str]) -> ConnectionConfig:
    proxy = config.cluster.proxy_url or proxy_from_environment(config.cluster.server, environ)
    return replace(config, cluster=replace(config.cluster, proxy_url=proxy))


def _list_default_files(environ: Mapping[str, str]) -> list[Path]:
    """Return the existing files in the list KUBECONFIG, or else the default file if it exists."""
    listed = [Path(name) for name in environ.get("KUBECONFIG", "").split(":") if name]
    if not listed and environ.get("HOME"):
        listed = [Path(environ["HOME"]) / ".kube" / "config"]
    return [path for path in listed if _exists(path)]


def _exists(path: Path) -> bool:
    """Return whether a file exists. An inaccessible file counts as existing: reading it reports the reason."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _bypasses_proxy(host: str, port: int | None, exceptions: str) -> bool:
    address = _parse_address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_is_excepted(host, port, address, item.strip().lower()) for item in exceptions.split(","))


def _is_excepted(host: str, port: int | None, address: "_Address | None", item: str) -> bool:
    if item in ("", "*"):
        return item == "*"
    if address is not None:
        try:
            return address in ipaddress.ip_network(item, strict=False)
        except ValueError:
            return item in (f"{host}:{port}", f"[{host}]:{port}")
    name, _, item_port = item.partition(":")
    if item_port and item_port != str(port):
        return False
    if name.startswith((".", "*.")):
        return host.endswith(name.removeprefix("*"))
    return host == name or host.endswith(f".{name}")


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _parse_address(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
