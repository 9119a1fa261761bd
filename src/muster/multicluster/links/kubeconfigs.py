"""Read the kubeconfigs of worker clusters, and limit their sources and contents.

A user who may write a Secret or a file must not thereby make the manager read files, run programs or trust any server.
So a kubeconfig that contains more than a connection is refused, by Kueue's list.
"""

import asyncio
import ipaddress
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec.structs import replace

from muster.api.validation import names
from muster.runtime.tasks import cancel, in_daemon

if TYPE_CHECKING:  # the module that reads kubeconfigs loads slowly, and most clusters have no worker
    from muster.runtime.kube.kubeconfig import ConnectionConfig

SECRET_KEY = "kubeconfig"  # noqa: S105  (of a Secret's data)
# The directory for kubeconfig files, unless the gate MultiKueueKubeConfigPathValidation is off.
DIRECTORY = Path("/etc/multikueue/kubeconfigs")
# The maximum that an API server stores in one object.
MAX_BYTES = 1 << 20
# The time limit of reading a file, which may be on a server that does not answer.
READ_SECONDS = 10.0


class UnreachableKubeconfigError(ValueError):
    """A kubeconfig that cannot be read. The message says which, and why."""


class UntrustedKubeconfigError(ValueError):
    """A kubeconfig that is invalid or contains more than a connection. The message contains no secret."""


def read_trusted(data: bytes, source: str, context: str = "") -> "ConnectionConfig":
    """Return the connection in a context of a kubeconfig. source: its name in messages.

    Raises `UntrustedKubeconfigError`.
    """
    from muster.runtime.kube.kubeconfig import KubeconfigError
    from muster.runtime.kube.kubeconfig_parse import parse

    try:
        config = parse(data, source).connection(context)
    except KubeconfigError as error:
        raise UntrustedKubeconfigError(str(error)) from None
    require_trusted(config)
    return config


def require_trusted(config: "ConnectionConfig", *, plugin: bool = False) -> None:
    """Raise `UntrustedKubeconfigError` unless a configuration is only a connection to a valid host.

    plugin: whether the user of the configuration is only the administrator's credential program, which is allowed.
    """
    from muster.runtime.kube.kubeconfig import KubeconfigError, UserConfig, require_inline

    try:
        require_inline(replace(config, user=UserConfig()) if plugin else config)
    except KubeconfigError as error:
        raise UntrustedKubeconfigError(str(error)) from None
    if not _is_host(urlsplit(config.cluster.server).hostname or ""):
        raise UntrustedKubeconfigError(f"{config.source}: context {config.context!r}: untrusted server endpoint")


def _is_host(host: str) -> bool:
    """Return whether a text is an IP address or a DNS-1123 name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return not names.dns_subdomain(host.lower())
    return True


def read(path: str, directory: Path | None = DIRECTORY) -> bytes:
    """Return the content of a file in a directory; None allows any directory. Raises `UnreachableKubeconfigError`.

    Links are followed before the check, so that none leads out of the directory.
    """
    if directory is not None and (not path.startswith("/") or ".." in Path(path).parts):
        raise _make_outside_error(path, directory)
    if "\0" in path:
        raise UnreachableKubeconfigError("the path has a NUL")
    try:
        real_path = Path(os.path.realpath(path, strict=True))
        if directory is not None and not real_path.is_relative_to(os.path.realpath(directory)):
            raise _make_outside_error(path, directory)
        return _read_plain_file(real_path)
    except OSError as error:
        raise UnreachableKubeconfigError(f"{path}: cannot be read: {error.strerror}") from None


class Files:
    """A reader of kubeconfig files that does not block the event loop, because a file server may not answer."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        """Make the reader. read: reads a path."""
        self._read = read
        self._reads: dict[str, asyncio.Task[bytes]] = {}  # reads under way, by path; there is at most one for each path

    async def content(self, path: str) -> bytes:
        """Return the content of a file. Raises `UnreachableKubeconfigError`, for example if the read takes too long.

        After a timeout, the next call waits for the same read.
        """
        task = self._reads.get(path)
        if task is None:
            work = in_daemon(partial(self._read, path), "multikueue-kubeconfig")
            task = self._reads[path] = asyncio.create_task(work)
        await asyncio.wait([task], timeout=READ_SECONDS)
        if not task.done():
            raise UnreachableKubeconfigError(f"{path}: not read within {READ_SECONDS:g} s")
        if self._reads.get(path) is task:
            del self._reads[path]
        return task.result()

    async def close(self) -> None:
        """Stop waiting for reads."""
        await cancel(self._reads.values())


def _make_outside_error(path: str, directory: Path) -> UnreachableKubeconfigError:
    return UnreachableKubeconfigError(f"{path}: kubeconfig path is not under the allowed prefix {directory}")


def _read_plain_file(path: Path) -> bytes:
    """Return the content of a plain file of limited size. A pipe would block, and a device has no end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreachableKubeconfigError(f"{path}: is not a plain file")
        return os.read(descriptor, MAX_BYTES + 1)
    finally:
        os.close(descriptor)
