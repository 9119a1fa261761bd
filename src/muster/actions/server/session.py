"""Connect to the cluster that the user selected.

In this order, it is the cluster of `--kubeconfig` or KUBECONFIG, the running embedded cluster of this user, the cluster
of the login from `muster user add`, or the system server that root runs for all users. Muster does not read
`~/.kube/config`, so that a user who forgot `muster up` does not submit jobs to another cluster by accident.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from muster.actions.errors import UserError
from muster.actions.server.home import Home
from muster.actions.server.serveroptions import read_options
from muster.actions.server.serverparts import check_packages, describe_missing
from muster.actions.server.systemserver import (
    connect_locally,
    connect_to_socket,
    describe_silence,
    find_socket,
    has_server,
)
from muster.api.ours.unixusers import SYSTEM_SOCKET

if TYPE_CHECKING:
    from muster.runtime.ids import Random
    from muster.runtime.kube.https import HttpsTransport
    from muster.runtime.kube.kubeconfig import ConnectionConfig
    from muster.runtime.kube.local import LocalTransport
    from muster.runtime.transport import TransportError

# The only namespace of a cluster inside this process.
OWN_NAMESPACE = "default"
# The page size of a command's list requests: 100 pods take 1.5 MB, twice while they are decoded.
_PAGE_SIZE = 100


class Target(Struct, frozen=True):
    """The cluster and the namespace that the options of a command select."""

    kubeconfig: str = ""
    namespace: str = ""

    @classmethod
    def of(cls, options: dict[str, Any]) -> "Target":
        """Remove `kubeconfig` and `namespace` from a command's options; return them as a target."""
        return cls(options.pop("kubeconfig", None) or "", options.pop("namespace", None) or "")


class Session(Struct, frozen=True):
    """A connection to a cluster: a client, and the default namespace of commands.

    leave: called when the user quits immediately, so that a cluster that the command started does not wait for its
    pods.
    tunnels: the transport for exec and attach.
    own: whether the cluster runs inside this process.
    where: the address of the cluster; "" if it is the cluster of this home.
    is_local: whether the server is known to run on this machine, so that it has the same Unix users.
    unused_home: the home that MUSTER_HOME names, if KUBECONFIG takes precedence and names another cluster.
    files: a directory that is deleted together with a cluster that the command started, however the cluster ends.
    """

    client: Any  # a muster.runtime.client.Client, imported late
    namespace: str
    leave: Callable[[], None] = lambda: None
    own: bool = False
    tunnels: Any = None  # a muster.runtime.transport.Tunnels
    where: str = ""
    is_local: bool = True
    unused_home: Path | None = None
    files: Path | None = None

    def describe_cluster(self) -> str:
        """Return a sentence that names the cluster of `where`, and how to use the cluster of `unused_home` instead."""
        if self.unused_home is None:
            return f"cluster: {self.where}"
        advice = f"for the cluster of {self.unused_home}, unset KUBECONFIG"
        return f"cluster: {self.where}, because KUBECONFIG takes precedence over MUSTER_HOME; {advice}"


def names_another(target: Target, home: Home) -> bool:
    """Return whether commands connect to a cluster other than the one that runs in this home.

    That is so if the target's option, KUBECONFIG, or a stored login names another cluster.
    """
    named = target.kubeconfig or os.environ.get("KUBECONFIG", "")
    if not named:
        return home.uses_login()
    return Path(named).expanduser().absolute() != home.kubeconfig


def find_unused_home(target: Target, home: Home) -> Path | None:
    """Return the home that MUSTER_HOME names, if KUBECONFIG names another cluster and no option selects one.

    Returns None otherwise.
    """
    is_chosen = target.kubeconfig or not os.environ.get("KUBECONFIG") or not os.environ.get("MUSTER_HOME")
    return None if is_chosen or not names_another(target, home) else home.path


def has_cluster(target: Target) -> bool:
    """Return whether there is a cluster to connect to: a named one, a running embedded one, or the system server.

    A system server that does not respond counts as well. Otherwise jobs would bypass its queues while it restarts.
    """
    home = Home.find(os.environ)
    return names_another(target, home) or home.server_pid() is not None or has_server(os.environ)


def is_of_system_server(target: Target) -> bool:
    """Return whether the target is the system server, which root runs for all users, according to this home."""
    home = Home.find(os.environ)
    if names_another(target, home):
        return False
    if home.server_pid() is None:
        return has_server(os.environ)
    options = read_options(home)
    return options is not None and bool(options.socket)


def describe_outage(target: Target, error: "TransportError") -> str:
    """Return why the server of an open session does not respond, and how to start an embedded cluster that is down."""
    if has_cluster(target):
        return f"the server does not answer: {error}"
    return "the cluster is down; start it again with: muster up --detach"


def find_connection(target: Target) -> "ConnectionConfig":
    """Return the server's address and the credentials for the target.

    Raises `UserError`, `KubeconfigError`.
    """
    from muster.runtime.kube.kubeconfig_files import load

    home = Home.find(os.environ)
    path = target.kubeconfig
    if not names_another(target, home) and home.server_pid() is None:
        if (local := find_socket(os.environ)) is not None:
            return connect_locally(local)
        if has_server(os.environ):
            raise UserError(describe_silence(os.environ))
        raise UserError(
            f"no cluster: nothing runs in {home.path}; start one (muster up --detach) or name one (--kubeconfig)"
        )
    if not path and not os.environ.get("KUBECONFIG"):
        path = str(home.login if home.uses_login() else home.kubeconfig)
        if path == str(home.kubeconfig):
            home.require_kubeconfig()
    return load(os.environ, path=path)


def reach(target: Target) -> "ConnectionConfig":
    """Return the connection to the target: over the home's socket if that leads there, else by `find_connection`."""
    home = Home.find(os.environ)
    if not names_another(target, home) and home.server_pid() is not None and home.is_reached_by_socket():
        return connect_to_socket(home.socket, OWN_NAMESPACE)
    return find_connection(target)


def _describe_server(config: "ConnectionConfig") -> str:
    if config.cluster.local_socket:
        return config.source
    context = f"context {config.context} of {config.source}" if config.context else config.source
    return f"{config.cluster.server} ({context})" if context else config.cluster.server


def _find_restarted(target: Target) -> "ConnectionConfig | None":
    """Return the current address and credentials of the embedded cluster; None while no server runs.

    Returns None for any other cluster, too: if its kubeconfig now names another server, that is another cluster.
    """
    from muster.runtime.kube.kubeconfig import KubeconfigError

    if names_another(target, Home.find(os.environ)):
        return None
    try:
        return reach(target)
    except (UserError, KubeconfigError, OSError):
        return None


def _make_transport(server: "ConnectionConfig") -> "LocalTransport | HttpsTransport":
    from muster.runtime.realclock import RealClock

    if server.cluster.local_socket:
        from muster.runtime.kube.local import LocalTransport

        return LocalTransport(server, RealClock(), make_random)
    from muster.runtime.kube.https import HttpsTransport

    return HttpsTransport(server, RealClock(), make_random())


def make_random() -> "Random":
    """Return a random generator for the jitter of retries."""
    from muster.runtime.ids import Random  # importing it is slow, and few commands retry

    return Random()


@asynccontextmanager
async def connect(
    target: Target, say: Callable[[str], None], before_https: Callable[[], object] = lambda: None
) -> AsyncIterator[Session]:
    """Open a session with the cluster that the target selects.

    say: called with each remark for the user while the session is open.
    before_https: called before an HTTPS connection is set up.

    Raises `UserError`, `KubeconfigError`, `TransportError`.
    """
    from muster.actions.refusals import PlainRefusals
    from muster.actions.server.patience import Patience
    from muster.actions.server.relocating import Relocating
    from muster.actions.warnings import Warnings
    from muster.runtime.client import Client
    from muster.runtime.eventloop import ensure_loop, has_loop

    config = reach(target)
    if not config.cluster.local_socket:
        before_https()
        await ensure_loop()
    # Connecting to a restarted server may need an event loop. A command without one ends with its server.
    moving = Relocating(_make_transport, config, lambda: _find_restarted(target) if has_loop() else None)
    tunnels = PlainRefusals(moving)
    transport = Warnings(Patience(tunnels, say), say)
    try:
        client = Client(transport, field_manager="muster-cli", page_size=_PAGE_SIZE)
        namespace = target.namespace or config.namespace
        home = Home.find(os.environ)
        sockets = ("", SYSTEM_SOCKET, str(home.socket))
        is_own = not names_another(target, home) and config.cluster.local_socket in sockets
        where = "" if is_own else _describe_server(config)
        is_local = is_own or bool(config.cluster.local_socket)
        unused = find_unused_home(target, home)
        yield Session(client, namespace, tunnels=tunnels, where=where, is_local=is_local, unused_home=unused)
    finally:
        await transport.close()


@asynccontextmanager
async def own_cluster() -> AsyncIterator[Session]:
    """Open a session with a cluster inside this process that leaves nothing on disk.

    The cluster ends with the session. Raises `UserError` if a package that a server needs is missing.
    """
    try:
        check_packages()
        from muster.cluster.embedded import run_ephemeral_cluster
    except ModuleNotFoundError as missing:
        if text := describe_missing("a cluster in this process", missing):
            raise UserError(text) from None
        raise

    async with run_ephemeral_cluster() as running:
        client = running.plane.client(manager="muster-cli")
        tunnels, files = client.transport, running.home
        yield Session(client, OWN_NAMESPACE, running.abandon, own=True, tunnels=tunnels, files=files)
