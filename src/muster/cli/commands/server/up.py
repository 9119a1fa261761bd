"""`muster up`: start the embedded cluster."""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from muster.actions.errors import FAILED
from muster.actions.server.home import Home
from muster.actions.server.serveroptions import write_options
from muster.actions.server.serverparts import check_packages
from muster.actions.server.systemserver import has_server
from muster.api.ours.unixusers import SYSTEM_SOCKET
from muster.cli.actions.detaching import find_running, make_export, start_detached
from muster.cli.names.examples import format_examples
from muster.cli.serveroptions import (
    RequestedOptions,
    ResolvedOptions,
    resolve_options,
    server_options,
)
from muster.cli.session import data_option

_BESIDE = (
    "root runs a server for all users of this machine; your commands go to a server of your own now, which knows "
    "nothing of the jobs there, until you end it: muster down"
)


@click.command(
    epilog=format_examples(
        "muster up --detach",
        "muster up --nodes simulated:1000,cpu=8,memory=32Gi    # simulated nodes",
        "muster up --data /srv/muster --port 0",
        "sudo muster up --system --detach    # for all users of this machine",
        "muster up --listen box1.lab --detach    # also for other machines",
    ),
)
@data_option
@server_options
@click.option(
    "--system", is_flag=True, help=f"Root only: serve all users of this machine. Short for --socket {SYSTEM_SOCKET}."
)
@click.option("--salvage", is_flag=True, help="If the store is damaged, start with its undamaged objects.")
@click.option("--detach", is_flag=True, help="Start the server in the background, and return when it is ready.")
def command(data: str, system: bool, salvage: bool, detach: bool, **options: Any) -> None:
    """Start a cluster on this machine: an API server, a store, controllers and nodes.

    The server runs until Ctrl-C or `muster down`. Options that you omit keep their values from the last start.
    """
    if system:
        options["socket"] = options["socket"] or SYSTEM_SOCKET
    home = Home.find(os.environ, data)
    resolved = resolve_options(home, RequestedOptions.of(options))
    if find_running(home, resolved.options):
        return
    if resolved.remembered:
        click.echo(f"as at the last start: {resolved.remembered}", err=True)
    if not resolved.options.socket and has_server(os.environ):
        click.echo(_BESIDE, err=True)
    check_packages()
    home.make()
    if salvage:
        _salvage(home)
    ready_fd = start_detached(home, resolved.options) if detach else None
    if ready_fd is not None or not detach:
        serve(home, resolved, ready_fd)


def _make_warning(outside: str) -> str:
    """Return a warning about access from other machines; "" if the server accepts no connections from them."""
    if not outside:
        return ""
    from muster.runtime.process.ownership import user_name

    return (
        f"other machines reach it at {outside}, with a credential of this cluster and not without one.\n"
        f"A user who may create jobs or pods here runs programs on this machine as {user_name(os.getuid())}.\n"
    )


def _describe_local(path: str) -> str:
    """Return how users of this machine reach the server, and what prevents them; "" if it serves only its own user."""
    if not path:
        return ""
    from muster.runtime.process.ownership import find_closed

    variable = "" if path == SYSTEM_SOCKET else f", with MUSTER_SOCKET={path}"
    text = f"every user of this machine runs jobs here with `muster run`{variable}\n"
    for place in (Path(sys.executable), Path(__file__).parents[3]):
        if (closed := find_closed(place)) is not None:
            return f"{text}they need a Muster of their own: {place} is closed to them, because of {closed}\n"
    return text


def _salvage(home: Home) -> None:
    """Repair a damaged store, and print which objects are lost by that.

    Raises `click.ClickException` if the store cannot be repaired or a server uses it.
    """
    from muster.cli.actions.salvaging import describe_damage
    from muster.cluster.backups import salvage_home
    from muster.cluster.store import DataDirectoryError
    from muster.runtime.realclock import RealClock

    try:
        salvaged = salvage_home(home.path, RealClock().now())
    except (DataDirectoryError, OSError) as error:
        raise click.ClickException(str(error)) from error
    for line in ["nothing is damaged: there is nothing to salvage"] if salvaged is None else describe_damage(salvaged):
        click.echo(line, err=True)


def serve(home: Home, resolved: ResolvedOptions, ready_fd: int | None) -> None:
    """Serve until a termination signal.

    Raises `click.ClickException` if the start fails; the reason is then written to the log, too.

    ready_fd: a descriptor to which a line is written when the server serves; None to print the line.
    """
    import uvloop

    from muster.api.config import EMBEDDED
    from muster.api.status import ApiError
    from muster.cluster import serving
    from muster.cluster.apiserver.identity.certificates import CredentialError
    from muster.cluster.nodes.machine.isolation import IsolationError
    from muster.cluster.store import DataDirectoryError
    from muster.dashboard.embedding import make_pages
    from muster.install.crds import served_definitions
    from muster.runtime.process import logs
    from muster.runtime.process.ownership import NotOursError
    from muster.runtime.process.servicemanager import report_readiness

    logs.configure(resolved.options.log_format, level="WARNING", file=home.log if ready_fd is not None else None)
    options = serving.Options(
        home.path,
        resolved.options.port,
        resolved.nodes,
        resolved.configuration or EMBEDDED,
        resolved.audit_policy,
        resolved.exposure,
        served_definitions,
        Path(resolved.options.socket) if resolved.options.socket else None,
        partial(make_pages, home.path),
    )
    is_ready = False

    def ready(url: str, outside: str, enforcement: str, shortages: str) -> None:
        nonlocal is_ready
        write_options(home, resolved.options)
        is_ready = True
        limits = f"limits: {enforcement}\n" if enforcement else ""
        limits += f"{shortages}\n" if shortages else ""
        local = _describe_local(resolved.options.socket)
        text = f"ready: {url}, process {os.getpid()}\n{local}{limits}{_make_warning(outside)}{make_export(home)}\n"
        if ready_fd is not None:
            os.write(ready_fd, text.encode())
            os.close(ready_fd)
        else:
            click.echo(text, nl=False)
            sys.stdout.flush()
        report_readiness()

    try:
        uvloop.run(serving.serve(options, ready))
    except (DataDirectoryError, CredentialError, NotOursError, ApiError, OSError, IsolationError) as error:
        problem = _describe_failure(error, home)
        if ready_fd is not None and not is_ready:  # the disk of the log may be full
            os.write(ready_fd, f"{FAILED}{problem}\n".encode())
        raise click.ClickException(problem) from error


def _describe_failure(error: Exception, home: Home) -> str:
    """Return why the start failed.

    The text names the home, because the error of a failed write names no file.
    """
    if isinstance(error, OSError) and error.filename is None and error.strerror:
        return f"cannot write to {home.path}: {error.strerror}"
    return str(error)
