"""`muster restart`: replace the server of the embedded cluster, while its jobs continue."""

import os
import signal
from typing import Any

import click

from muster.actions.errors import UserError
from muster.actions.server.home import Home
from muster.actions.server.serveroptions import ServerOptions, read_options, write_options
from muster.actions.server.service import find_running_unit
from muster.actions.server.systemserver import has_server
from muster.cli.actions.detaching import start_detached
from muster.cli.commands.server.down import NOTHING, describe_end, require_agreement, stop
from muster.cli.commands.server.up import serve
from muster.cli.names.examples import format_examples
from muster.cli.serveroptions import RequestedOptions, ResolvedOptions, resolve_options, server_options
from muster.cli.session import data_option


@click.command(
    epilog=format_examples(
        "muster restart                        # after an upgrade",
        "muster restart --config muster.yaml   # with other settings",
    ),
)
@data_option
@server_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation if jobs run.")
def command(data: str, yes: bool, **options: Any) -> None:
    """Replace the running server with a server of the installed version. Running jobs continue.

    Options that you omit keep their values. The command checks the options and the store before it stops the running
    server. Jobs on a terminal end, and so do jobs that do not fit on changed nodes.
    """
    home = Home.find(os.environ, data)
    requested = RequestedOptions.of(options)
    resolved = resolve_options(home, requested)
    pid = home.server_pid()
    if pid is None and not resolved.options.socket and has_server(os.environ):
        raise UserError(f"nothing runs in {home.path}; the server of this machine is root's: sudo muster restart")
    home.make()
    ending = ""
    if pid is not None:
        ending = _describe_end(home, resolved.options, forget=requested.forget)
        if ending and not yes:
            require_agreement(ending)
        _check_store(home)
    unit = find_running_unit(home, pid) if pid is not None else None
    if unit is not None:
        write_options(home, resolved.options)
    if pid is not None:
        click.echo(f"replacing process {pid}; {ending or 'its jobs continue'}", err=True)
        stop(home, pid, signal.SIGKILL)
    if unit is None:
        _start(home, resolved, former=pid)
    else:
        from muster.cli.actions.serving import await_service

        await_service(home, unit, former=pid)


def _describe_end(home: Home, options: ServerOptions, *, forget: bool) -> str:
    """Return which jobs may end with the running server; "" if all continue. Raises `UserError`.

    Pods end on a node that is removed, jobs may not fit on smaller nodes, and a terminal closes with its server.

    forget: whether the new server ignores the options of the last start.
    """
    keeps_nodes = not forget and _read_running_options(home).nodes == options.nodes
    ending = describe_end(home, only_terminals=keeps_nodes)
    if ending == NOTHING:
        return ""
    return ending if keeps_nodes else f"unless they fit on the new nodes, {ending}"


def _check_store(home: Home) -> None:
    """Raise `click.ClickException` if the new server would refuse the store of the running server, which is damaged."""
    from muster.cluster.backups import check_beside_server
    from muster.cluster.store import DataDirectoryError

    try:
        check_beside_server(home.path)
    except DataDirectoryError as error:
        raise click.ClickException(str(error)) from error


def _read_running_options(home: Home) -> ServerOptions:
    running = read_options(home)
    if running is None:
        raise UserError("the running server's release remembers no options: give all that it had, with --forget")
    return running


def _start(home: Home, resolved: ResolvedOptions, former: int | None) -> None:
    """Start the new server as a detached process.

    Raises `click.ClickException` if that fails. The error says how the user can start the former server again.

    former: the process ID of the former server; None if none ran.
    """
    try:
        ready_fd = start_detached(home, resolved.options)
    except click.ClickException as error:
        if former is None:
            raise
        raise click.ClickException(
            f"{error.message}. The jobs of process {former} continue; "
            "`muster up --detach` starts a server with the same options"
        ) from error
    if ready_fd is not None:
        serve(home, resolved, ready_fd)
