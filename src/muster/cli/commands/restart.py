"""`muster restart`: replace the server of the embedded cluster, and let its jobs go on."""

import os
import signal
from typing import Any

import click

from muster.actions.home import Home
from muster.actions.serveroptions import ServerOptions, write_options
from muster.actions.service import find_running_unit
from muster.cli.actions.detaching import start_detached
from muster.cli.commands.down import stop
from muster.cli.names.examples import examples
from muster.cli.serveroptions import RequestedOptions, resolve_options, server_options
from muster.cli.session import data_option


@click.command(
    epilog=examples(
        "muster restart                        # after an upgrade",
        "muster restart --config muster.yaml   # with other settings",
    ),
)
@data_option
@server_options
def command(data: str, **options: Any) -> None:
    """Replace the server by one of the installed version. Jobs go on, and the new server adopts them.

    An option that is not given is as it was. Options are checked before the running server ends.
    """
    home = Home.find(os.environ, data)
    resolved = resolve_options(home, RequestedOptions.of(options))
    home.make()
    pid = home.server_pid()
    unit = find_running_unit(home, pid) if pid is not None else None
    if unit is not None:
        write_options(home, resolved.options)
    if pid is not None:
        click.echo(f"replacing process {pid}; what it runs goes on", err=True)
        stop(home, pid, signal.SIGKILL)
    if unit is None:
        _start(home, resolved.options, former=pid)
    else:
        from muster.cli.actions.serving import await_service

        await_service(home, unit, former=pid)


def _start(home: Home, options: ServerOptions, former: int | None) -> None:
    """Start the new server; if it fails, say how the user gets the former one back."""
    try:
        start_detached(home, options)
    except click.ClickException as error:
        if former is None:
            raise
        raise click.ClickException(
            f"{error.message}. What process {former} ran goes on; `muster up --detach` starts a server as that one was"
        ) from error
