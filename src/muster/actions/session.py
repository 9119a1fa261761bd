"""The way to the cluster that the user means.

That is the one named with `--kubeconfig` or KUBECONFIG, else the embedded cluster, if it runs. `~/.kube/config` is not
looked at: it is no place for jobs of a user who forgot `muster up`.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.actions.errors import UserError
from muster.actions.home import Home

if TYPE_CHECKING:
    from muster.runtime.kube.kubeconfig import ConnectionConfig

# The only namespace of a cluster of one's own.
OWN_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Target:
    """What the options of a command say about where it goes."""

    kubeconfig: str = ""
    namespace: str = ""

    @classmethod
    def of(cls, options: dict[str, Any]) -> "Target":
        """Take the shared options, those that a command has, out of its own."""
        return cls(options.pop("kubeconfig", None) or "", options.pop("namespace", None) or "")


@dataclass(frozen=True, slots=True)
class Session:
    """A connection: a client, and the namespace of commands that name none.

    leave: what to do when the user leaves at once; a cluster of the command's own then does not wait.
    tunnels: the way into pods.
    own: whether the cluster is one of the command's own. where: which one it is, if that is not the one of this home.
    files: what lies there goes with a cluster of the command's own, however that ends.
    """

    client: Any  # muster.runtime.client.Client, which is imported late
    namespace: str
    leave: Callable[[], None] = lambda: None
    own: bool = False
    tunnels: Any = None  # muster.runtime.transport.Tunnels
    where: str = ""
    files: Path | None = None


def names_another(target: Target, home: Home) -> bool:
    """Whether the user means another cluster than the embedded one of this home."""
    named = target.kubeconfig or os.environ.get("KUBECONFIG", "")
    return bool(named) and Path(named).expanduser().absolute() != home.kubeconfig


def has_cluster(target: Target) -> bool:
    """Whether there is a cluster to talk to: named, or running here."""
    home = Home.find(os.environ)
    return names_another(target, home) or home.server_pid() is not None


def connection(target: Target) -> "ConnectionConfig":
    """The server that the target means, and as whom. Raises `UserError` or `KubeconfigError`."""
    from muster.runtime.kube.kubeconfig_files import load

    home = Home.find(os.environ)
    path = target.kubeconfig
    if not has_cluster(target):
        raise UserError(
            f"no cluster: nothing runs in {home.path}; start one (muster up --detach) or name one (--kubeconfig)"
        )
    if not path and not os.environ.get("KUBECONFIG"):
        path = str(home.kubeconfig)
    return load(os.environ, path=path)


def _where(config: "ConnectionConfig") -> str:
    context = f"context {config.context} of {config.source}" if config.context else config.source
    return f"{config.cluster.server} ({context})" if context else config.cluster.server


@asynccontextmanager
async def connect(target: Target, say: Callable[[str], None]) -> AsyncIterator[Session]:
    """A session with the cluster that the target means. `say` gets what the user should know meanwhile.

    Raises `UserError`, `KubeconfigError`, `TransportError`.
    """
    from muster.actions.patience import Patience
    from muster.actions.refusals import PlainRefusals
    from muster.actions.warnings import Warnings
    from muster.runtime.client import Client
    from muster.runtime.clock import RealClock
    from muster.runtime.ids import Random
    from muster.runtime.kube.https import HttpsTransport

    config = connection(target)
    tunnels = PlainRefusals(HttpsTransport(config, RealClock(), Random()))
    transport = Warnings(Patience(tunnels, say), say)
    try:
        client, namespace = Client(transport, field_manager="muster-cli"), target.namespace or config.namespace
        where = _where(config) if names_another(target, Home.find(os.environ)) else ""
        yield Session(client, namespace, tunnels=tunnels, where=where)
    finally:
        await transport.close()


@asynccontextmanager
async def own_cluster() -> AsyncIterator[Session]:
    """A cluster in this process, with nothing on disk that outlives it."""
    from muster.cluster.embedded import ephemeral

    async with ephemeral() as running:
        client = running.plane.client(manager="muster-cli")
        tunnels, files = client.transport, running.home
        yield Session(client, OWN_NAMESPACE, running.abandon, own=True, tunnels=tunnels, files=files)
