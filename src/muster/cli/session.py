"""Runs the asynchronous body of a command against the cluster that the user means.

That is the one named with `--kubeconfig` or KUBECONFIG, else the embedded cluster, if it runs. `~/.kube/config` is not
looked at: it is no place for jobs of a user who forgot `muster up`. Expected failures become one line.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from muster.cli.completion.names import files, namespaces
from muster.cli.home import Home
from muster.cli.names.types import name

if TYPE_CHECKING:
    from muster.runtime.kube.kubeconfig import ConnectionConfig

T = TypeVar("T")
Command = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Target:
    """What the options of a command say about where it goes."""

    kubeconfig: str = ""
    namespace: str = ""

    @classmethod
    def of(cls, options: dict[str, Any]) -> "Target":
        """Take the shared options out of a command's own."""
        return cls(options.pop("kubeconfig") or "", options.pop("namespace") or "")


def target_options(command: Command) -> Command:
    """The options that every command on a cluster has."""
    namespace = click.option(
        "-n",
        "--namespace",
        type=name,
        metavar="NAME",
        help="Namespace (default: the kubeconfig's).",
        shell_complete=namespaces,
    )
    kubeconfig = click.option(
        "--kubeconfig", metavar="FILE", help="Cluster to use instead of the embedded one.", shell_complete=files
    )
    return kubeconfig(namespace(command))


@dataclass(frozen=True, slots=True)
class Session:
    """A connection: a client, and the namespace of commands that name none.

    leave: what to do when the user leaves at once; a cluster of the command's own then does not wait.
    tunnels: the way into pods.
    own: whether the cluster is one of the command's own. where: which one it is, if that is not the one of this home.
    """

    client: Any  # muster.runtime.client.Client, which is imported late
    namespace: str
    leave: Callable[[], None] = lambda: None
    own: bool = False
    tunnels: Any = None  # muster.runtime.transport.Tunnels
    where: str = ""


def names_another(target: Target, home: Home) -> bool:
    """Whether the user means another cluster than the embedded one of this home."""
    named = target.kubeconfig or os.environ.get("KUBECONFIG", "")
    return bool(named) and Path(named).expanduser().absolute() != home.kubeconfig


def has_cluster(target: Target) -> bool:
    """Whether there is a cluster to talk to: named, or running here."""
    home = Home.find(os.environ)
    return names_another(target, home) or home.server_pid() is not None


def connection(target: Target) -> "ConnectionConfig":
    """The server that the target means, and as whom. Raises `click.ClickException` or `KubeconfigError`."""
    from muster.runtime.kube.kubeconfig_files import load

    home = Home.find(os.environ)
    path = target.kubeconfig
    if not has_cluster(target):
        raise click.ClickException(
            f"no cluster: nothing runs in {home.path}; start one (muster up --detach) or name one (--kubeconfig)"
        )
    if not path and not os.environ.get("KUBECONFIG"):
        path = str(home.kubeconfig)
    return load(os.environ, path=path)


def _where(config: "ConnectionConfig") -> str:
    context = f"context {config.context} of {config.source}" if config.context else config.source
    return f"{config.cluster.server} ({context})" if context else config.cluster.server


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Session]:
    """A session with the cluster that the target means. Raises what `run` turns into one line."""
    from muster.cli.terminal.output import say
    from muster.cli.terminal.patience import Patience
    from muster.runtime.client import Client
    from muster.runtime.clock import RealClock
    from muster.runtime.ids import Random
    from muster.runtime.kube.https import HttpsTransport

    config = connection(target)
    tunnels = HttpsTransport(config, RealClock(), Random())
    transport = Patience(tunnels, say)
    try:
        client, namespace = Client(transport, field_manager="muster-cli"), target.namespace or config.namespace
        where = _where(config) if names_another(target, Home.find(os.environ)) else ""
        yield Session(client, namespace, tunnels=tunnels, where=where)
    finally:
        await transport.close()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a command's body; what can be expected to go wrong is one line for the user."""
    try:
        from muster.api.status import ApiError
        from muster.runtime.kube.kubeconfig import KubeconfigError
        from muster.runtime.transport import TransportError

        for number in unignored() - {signal.SIGINT}:
            signal.signal(number, _leave)
        try:
            return asyncio.run(main)
        except (ApiError, TransportError, KubeconfigError) as error:
            raise click.ClickException(str(error)) from error
    finally:
        main.close()  # if it was interrupted before it began


def unignored() -> set[signal.Signals]:
    """The signals that ask a command to end, but for those that are to be ignored: `nohup` makes that of SIGHUP."""
    asking = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return {number for number in asking if signal.getsignal(number) is not signal.SIG_IGN}


def _leave(number: int, _: object) -> None:
    """End as the signal would have done, but for what has to be cleaned up first."""
    raise SystemExit(128 + number)
