"""`muster nodes`: run simulated nodes for any cluster, or this machine as a node of it."""

from collections.abc import Sequence
from typing import Any

import click

from muster.actions.server.home import Home
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.session import data_option

JOINED = "joined"  # the directory in a home for this machine's state as a node of other clusters, by node name
_MOST_LEASE_SECONDS = 3600


@click.command(
    epilog=format_examples(
        "muster nodes --kubeconfig kind.yaml --nodes simulated:1000,cpu=8,memory=32Gi",
        "muster nodes --kubeconfig box1.yaml --nodes process    # add this machine",
    ),
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Kubeconfig of the cluster to which the nodes are added.",
    shell_complete=names.complete_files,
)
@click.option(
    "--nodes",
    metavar="KIND[:COUNT][,RES=QTY]",
    multiple=True,
    required=True,
    help="Nodes to add: simulated nodes, or process, which is this machine. Can be repeated.",
)
@click.option("--name", metavar="NAME", help="Name of the process node (default: the host name of this machine).")
@click.option(
    "--client-ca",
    metavar="FILE",
    help="Serve logs to the API server. FILE is the certificate authority of the API server's client certificate.",
    shell_complete=names.complete_files,
)
@click.option(
    "--port", type=click.IntRange(1, 65535), default=10250, show_default=True, help="Port at which logs are served."
)
@click.option(
    "--lease-duration",
    metavar="DURATION",
    default="40s",
    show_default=True,
    help="Duration of the Lease of the process node. The server may treat the node as lost after the Lease"
    " has expired.",
)
@data_option
def command(
    kubeconfig: str | None,
    nodes: tuple[str, ...],
    name: str | None,
    client_ca: str | None,
    port: int,
    lease_duration: str,
    data: str,
) -> None:
    """Add nodes to any cluster: simulated nodes, or this machine as a node that runs pods as processes.

    Pods on simulated nodes start no processes. When the command ends, its nodes stay in the cluster, and are not ready.
    To delete simulated nodes, run `kubectl delete nodes -l muster.dev/node-kind=simulated`.
    """
    import asyncio
    import os

    from muster.api.status import ApiError
    from muster.cli.session import list_heeded_signals
    from muster.cluster.apiserver.identity.certificates import CredentialError
    from muster.cluster.store.errors import DataDirectoryError
    from muster.operator.joining import Joining, NameTakenError
    from muster.operator.nodes import play
    from muster.runtime.kube.kubeconfig import KubeconfigError
    from muster.runtime.kube.kubeconfig_files import load
    from muster.runtime.process import logs
    from muster.runtime.transport import TransportError

    specs = _parse_specs(nodes)
    played = [spec for spec in specs if spec.kind == "simulated"]
    machine: Joining | None = None
    for spec in specs:
        if spec.kind == "process":
            named = _choose_node_name(name)
            home = Home.find(os.environ, data)
            home.make()
            callers = _read_authority(client_ca) if client_ca else b""
            place, lease = home.path / JOINED / named, _parse_lease_duration(lease_duration)
            machine = Joining(named, place, spec.resources, spec.played_gpus, callers, port, lease)
    if machine is None and (name or client_ca):
        raise click.UsageError("--name and --client-ca are of a process node: --nodes process")
    logs.configure(level="WARNING")
    try:
        connection = load(os.environ, path=kubeconfig or "")
        asyncio.run(play(connection, played, list_heeded_signals(), click.echo, machine))
    except (ApiError, KubeconfigError, TransportError, CredentialError, DataDirectoryError, NameTakenError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot be a node: {error}") from error


def _parse_specs(texts: Sequence[str]) -> list[Any]:
    from muster.cluster.nodespec import NodeSpecError, parse

    try:
        specs = [parse(text) for text in texts]
    except NodeSpecError as error:
        raise click.BadParameter(str(error), param_hint="--nodes") from error
    if sum(spec.count for spec in specs if spec.kind == "process") > 1:
        raise click.BadParameter("this machine joins another cluster as one process node", param_hint="--nodes")
    return specs


def _parse_lease_duration(text: str) -> int:
    """Parse a duration into whole seconds, because a Lease has no fractions. Raises `click.BadParameter`."""
    from muster.api.values import durations

    try:
        seconds, rest = divmod(durations.parse(text), durations.SECOND)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--lease-duration") from error
    if rest or not 1 <= seconds <= _MOST_LEASE_SECONDS:
        problem = f"{text!r} is no whole number of seconds from 1s to {_MOST_LEASE_SECONDS // 60}m"
        raise click.BadParameter(problem, param_hint="--lease-duration")
    return seconds


def _read_authority(path: str) -> bytes:
    """Return the certificates in a PEM file. Raises `click.BadParameter`."""
    from pathlib import Path

    from cryptography import x509

    try:
        content = Path(path).read_bytes()
        x509.load_pem_x509_certificates(content)
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror}", param_hint="--client-ca") from error
    except ValueError as error:
        raise click.BadParameter(f"{path} holds no certificates in PEM", param_hint="--client-ca") from error
    return content


def _choose_node_name(requested_name: str | None) -> str:
    """Return the requested node name, or the machine's host name. Raises `click.BadParameter` if it is invalid."""
    import socket

    from muster.api.validation.names import dns_subdomain

    name = socket.gethostname().lower() if requested_name is None else requested_name
    if problems := dns_subdomain(name):
        raise click.BadParameter(f"{name!r}: {problems[0]}", param_hint="--name")
    return name
