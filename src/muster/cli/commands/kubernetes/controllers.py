"""`muster controllers`: run the engine for a real cluster."""

import socket
from pathlib import Path
from typing import Any, Literal

import click

from muster.cli.completion import names
from muster.cli.names.examples import format_examples


@click.command(
    epilog=format_examples(
        "muster controllers --kubeconfig ~/.kube/config",
        "muster controllers --config muster.yaml --parts queueing,jobsets",
    ),
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Kubeconfig of the cluster (default in a pod: the cluster of the pod).",
    shell_complete=names.complete_files,
)
@click.option(
    "--config",
    metavar="FILE",
    help="File with the settings: a Configuration (config.kueue.x-k8s.io).",
    shell_complete=names.complete_files,
)
@click.option("--parts", metavar="PART[,PART]...", help="Parts of the engine to run (default: all except `jobs`).")
@click.option("--plain-metrics", is_flag=True, help="Serve metrics over HTTP, without authentication.")
@click.option("--without-webhooks", is_flag=True, help="Serve no admission webhooks.")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", help="Format of the log on stderr.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning"]), default="info", help="Lowest level that is logged."
)
def command(
    kubeconfig: str | None,
    config: str | None,
    parts: str | None,
    plain_metrics: bool,
    without_webhooks: bool,
    log_format: Literal["text", "json"],
    log_level: str,
) -> None:
    """Run the engine for a Kubernetes cluster, as the leader or as a standby replica."""
    import logging
    import os

    from muster.actions.server.serverparts import check_packages

    check_packages()
    import uvloop

    from muster.api.config import DEFAULT
    from muster.api.status import ApiError
    from muster.cli.session import list_heeded_signals
    from muster.cli.settings import configuration_of
    from muster.operator.addresses import BadAddressError
    from muster.operator.host import Options, operate
    from muster.operator.replica import OtherManagerError
    from muster.runtime.control.leases import LeadershipLostError
    from muster.runtime.kube.kubeconfig import KubeconfigError
    from muster.runtime.kube.kubeconfig_files import load
    from muster.runtime.process import logs
    from muster.runtime.transport import TransportError

    chosen = _parse_parts(parts)
    settings = configuration_of(config) if config else DEFAULT
    logs.configure(log_format, level=log_level.upper())
    try:
        connection = load(os.environ, path=Path(kubeconfig) if kubeconfig else "")
        options = Options(connection, settings, socket.gethostname(), chosen, plain_metrics, not without_webhooks)
        uvloop.run(operate(options, list_heeded_signals(), logging.getLogger("muster.operator").info))
    except (
        ApiError,
        BadAddressError,
        KubeconfigError,
        LeadershipLostError,
        OtherManagerError,
        TransportError,
    ) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"the engine cannot serve: {error.strerror or error}") from error


def _parse_parts(text: str | None) -> Any:
    from muster.controllers.engine import Part
    from muster.operator.replica import PARTS

    if text is None:
        return PARTS
    known = {part.value: part for part in Part}
    named = [one.strip() for one in text.split(",") if one.strip()]
    if unknown := [one for one in named if one not in known]:
        raise click.BadParameter(f"{unknown[0]} is no part; the parts are: {', '.join(known)}", param_hint="--parts")
    if not named:
        raise click.BadParameter(f"names no part; the parts are: {', '.join(known)}", param_hint="--parts")
    return tuple(known[one] for one in dict.fromkeys(named))
