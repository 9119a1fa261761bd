"""Find the server that root runs for all users of this machine, and connect to it as the user of this process."""

import os
import pwd
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from muster.actions.errors import UserError
from muster.api.ours.unixusers import SYSTEM_SOCKET, namespace_of

if TYPE_CHECKING:
    from muster.runtime.kube.kubeconfig import ConnectionConfig

# The environment variable with the path of another socket.
VARIABLE = "MUSTER_SOCKET"


def find_socket(environ: Mapping[str, str]) -> Path | None:
    """Return the socket of a listening system server; None if there is none.

    Raises `UserError` if the environment names a socket that another user may have created.
    """
    path = _find_trusted(environ)
    return path if path is not None and _is_served(path) else None


def has_server(environ: Mapping[str, str]) -> bool:
    """Return whether `MUSTER_SOCKET` is set or this machine has the socket of a system server.

    No server needs to respond. Raises `UserError` as `find_socket` does.
    """
    return bool(environ.get(VARIABLE)) or _find_trusted(environ) is not None


def describe_silence(environ: Mapping[str, str]) -> str:
    """Return the reason why the system server that `has_server` found does not respond. Raises `UserError`."""
    path = _find_trusted(environ)
    if path is None:
        named = environ.get(VARIABLE, "")
        return f"{VARIABLE} names {named}, and no server is there: let root start one, or correct or unset the variable"
    if not os.access(path, os.W_OK, effective_ids=True):
        return _describe_closed(path)
    return (
        f"the server of this machine does not answer at {path}: try again in a moment, or let root start it with: "
        "muster up --detach"
    )


def _describe_closed(path: Path) -> str:
    return (
        f"the server of this machine is closed to you, as the mode of {path} or of its directory was changed; "
        f"let root open it with: chmod 755 {path.parent} && chmod 666 {path}"
    )


def _find_trusted(environ: Mapping[str, str]) -> Path | None:
    """Return the socket of a system server, whether or not the server listens now; None if there is none.

    Jobs sent to the socket contain the user's secrets, so root or the user must have created it. Any other socket is
    ignored; if the environment names it, raises `UserError`.
    """
    from muster.runtime.process.ownership import NotOursError, is_trusted, require_way

    named = environ.get(VARIABLE, "")
    path = Path(named or SYSTEM_SOCKET)
    try:
        status = require_way(path)
        if not stat.S_ISSOCK(status.st_mode) or not is_trusted(status.st_uid):
            raise NotOursError(f"{path} is no socket of root")
    except FileNotFoundError:
        return None
    except (NotOursError, OSError) as error:
        if named:
            closed = isinstance(error, PermissionError)
            raise UserError(_describe_closed(path) if closed else f"{VARIABLE} cannot be used: {error}") from None
        if not isinstance(error, PermissionError):  # only root can have created an inaccessible directory there
            return None
    return path


def connect_locally(path: Path) -> "ConnectionConfig":
    """Return the connection to a system server. Its default namespace is the namespace of the user."""
    return connect_to_socket(path, _find_namespace(os.geteuid()))


def connect_to_socket(path: Path, namespace: str) -> "ConnectionConfig":
    """Return the connection to the server behind a Unix socket.

    namespace: the default namespace of the connection.
    """
    from muster.runtime.kube.kubeconfig import ClusterConfig, ConnectionConfig

    cluster = ClusterConfig("http://localhost", local_socket=str(path), disable_compression=True)
    return ConnectionConfig(cluster, namespace=namespace, source=str(path))


def _find_namespace(uid: int) -> str:
    """Return the namespace of the user with this Unix user id. Raises `UserError`."""
    try:
        return namespace_of(pwd.getpwuid(uid).pw_name, uid)
    except KeyError:
        raise UserError(f"this machine has no user with the id {uid}") from None


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True
