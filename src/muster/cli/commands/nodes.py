"""`muster nodes`: simulated nodes for any cluster, and this machine as a node of it."""

from collections.abc import Sequence
from typing import Any

import click

from muster.actions.home import Home
from muster.cli.completion import names
from muster.cli.names.examples import examples
from muster.cli.session import data_option

JOINED = "joined"  # where in a home the machine keeps what it knows as a node of other clusters, by its name there


@click.command(
    epilog=examples(
        "muster nodes --kubeconfig kind.yaml --nodes simulated:1000,cpu=8,memory=32Gi",
        "muster nodes --kubeconfig box1.yaml --nodes process    # this machine",
    ),
)
@click.option("--kubeconfig", metavar="FILE", help="The cluster that gets the nodes.", shell_complete=names.files)
@click.option(
    "--nodes",
    metavar="KIND[:COUNT][,RES=QTY]",
    multiple=True,
    required=True,
    help="simulated, or process: this machine, once; repeatable.",
)
@click.option("--name", metavar="NAME", help="Of the process node (default: this machine's host name).")
@click.option(
    "--client-ca",
    metavar="FILE",
    help="Serve logs to the API server: the authority of its client certificate.",
    shell_complete=names.files,
)
@click.option("--port", type=click.IntRange(1, 65535), default=10250, show_default=True, help="Where logs are served.")
@data_option
def command(
    kubeconfig: str | None, nodes: tuple[str, ...], name: str | None, client_ca: str | None, port: int, data: str
) -> None:
    """Play nodes on any cluster, or join it with this machine: pods that are placed here run as processes.

    On simulated nodes they run, and end, without a machine. Nodes stay when this ends, and are not ready then;
    kubectl delete nodes -l muster.dev/node-kind=simulated.
    """
    import asyncio
    import os

    from muster.api.status import ApiError
    from muster.cli.session import unignored
    from muster.cluster.apiserver.identity.certificates import CredentialError
    from muster.cluster.store.errors import DataDirectoryError
    from muster.operator.joining import Joining, NameTakenError
    from muster.operator.nodes import play
    from muster.runtime.kube.kubeconfig import KubeconfigError
    from muster.runtime.kube.kubeconfig_files import load
    from muster.runtime.process import logs
    from muster.runtime.transport import TransportError

    specs = _specs(nodes)
    played = [spec for spec in specs if spec.kind == "simulated"]
    machine: Joining | None = None
    for spec in specs:
        if spec.kind == "process":
            named = _node_name(name)
            home = Home.find(os.environ, data)
            home.make()
            callers = _authority(client_ca) if client_ca else b""
            machine = Joining(named, home.path / JOINED / named, spec.resources, spec.played_gpus, callers, port)
    if machine is None and (name or client_ca):
        raise click.UsageError("--name and --client-ca are of a process node: --nodes process")
    logs.configure(level="WARNING")
    try:
        connection = load(os.environ, path=kubeconfig or "")
        asyncio.run(play(connection, played, unignored(), click.echo, machine))
    except (ApiError, KubeconfigError, TransportError, CredentialError, DataDirectoryError, NameTakenError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot be a node: {error}") from error


def _specs(texts: Sequence[str]) -> list[Any]:
    from muster.cluster.nodespec import NodeSpecError, parse

    try:
        specs = [parse(text) for text in texts]
    except NodeSpecError as error:
        raise click.BadParameter(str(error), param_hint="--nodes") from error
    if sum(spec.count for spec in specs if spec.kind == "process") > 1:
        raise click.BadParameter("this machine joins another cluster as one process node", param_hint="--nodes")
    return specs


def _authority(path: str) -> bytes:
    """Certificates in PEM. Raises `click.BadParameter`."""
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


def _node_name(given: str | None) -> str:
    """What was given, or the machine's own name. Raises `click.BadParameter`."""
    import socket

    from muster.api.validation.names import dns_subdomain

    name = socket.gethostname().lower() if given is None else given
    if problems := dns_subdomain(name):
        raise click.BadParameter(f"{name!r}: {problems[0]}", param_hint="--name")
    return name
