"""`muster service`: let systemd start the embedded cluster with the machine."""

import os
import pwd
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from muster.actions.errors import UserError
from muster.actions.server import service
from muster.actions.server.home import Home
from muster.actions.server.serveroptions import write_options
from muster.actions.server.systemunit import Scope, Unit, render_unit
from muster.api.ours.unixusers import SYSTEM_SOCKET
from muster.cli.names.examples import format_examples
from muster.cli.names.suggesting import SuggestingGroup
from muster.cli.serveroptions import RequestedOptions, require_same_options, resolve_options, server_options
from muster.cli.session import data_option

Command = Callable[..., Any]


@click.group(
    cls=SuggestingGroup,
    epilog=format_examples(
        "muster service install",
        "muster service install --nodes process,cpu=8 --port 7443",
        "sudo muster service install --system    # for all users of this machine",
        "sudo muster service install --system --as ada",
        "muster service status",
    ),
)
def command() -> None:
    """Run the cluster as a systemd service, which starts with the machine and restarts after a failure."""


def _add_unit_options(command: Command) -> Command:
    """Return the command with the options that select the unit of a home."""
    account = click.option(
        "--as",
        "account",
        metavar="USER",
        default="",
        help="With --system: the user that runs the server and all jobs (default: each job runs as its submitter).",
    )
    system = click.option("--system", "scope", flag_value="system", help="The unit belongs to the machine. Needs root.")
    user = click.option(
        "--user", "scope", flag_value="user", default=True, help="The unit belongs to this user (default)."
    )
    return data_option(user(system(account(command))))


@command.command(
    short_help="Write and enable a systemd unit, and start the server.",
    epilog=format_examples("muster service install", "sudo muster service install --system --as ada"),
)
@_add_unit_options
@server_options
def install(data: str, scope: Scope, account: str, **options: Any) -> None:
    """Write and enable a systemd unit, and start the server if none runs.

    The server has the options of its last start. Options that you set here replace them.
    """
    owner = _find_owner(scope, account)
    requested = RequestedOptions.of(options | {"socket": choose_socket(scope, owner, options["socket"])})
    service.require_systemd()
    home, unit = _find_unit(scope, owner, data)
    for other in service.find_units(home, owner):
        if other.scope != scope:
            raise UserError(f"{home.path} has a service, {other.path}: `muster service remove --{other.scope}` first")
    with service.acting_as(owner):
        if not os.access(sys.executable, os.X_OK, effective_ids=True):
            raise UserError(f"{owner.pw_name} cannot run {sys.executable}: install Muster where every user can read it")
        wanted = resolve_options(home, requested).options
        pid = home.server_pid()
        if pid is not None:
            require_same_options(home, wanted)
    variables = {name: os.environ[name] for name in _list_gpu_variables() if name in os.environ}
    service.install_unit(unit, render_unit(unit, sys.executable, variables, version=service.find_version()))
    click.echo(f"installed {unit.path}")
    if pid is None:
        with service.acting_as(owner):
            home.make()
            write_options(home, wanted)
    _start(home, unit, owner, pid)


def _start(home: Home, unit: Unit, owner: pwd.struct_passwd, pid: int | None) -> None:
    """Start the server of the unit and wait until it serves, unless the process `pid` serves; print what happened.

    A user's unit that does not start with the machine gets a remark. Raises `UserError`, `click.ClickException`.
    """
    from muster.cli.actions.serving import await_service

    if pid is None:
        service.start_unit(unit)
        with service.acting_as(owner):
            await_service(home, unit, former=None)
    else:
        click.echo(
            f"process {pid} serves already; after a `muster down`, systemd starts the next: {service.name_start(unit)}"
        )
    if unit.scope == "user" and not service.is_lingering(unit.user):
        click.echo(
            "it starts at your first login and ends, with its jobs, at your last logout; "
            f"to prevent both: loginctl enable-linger {unit.user}"
        )


@command.command(
    short_help="Remove the systemd unit of a stopped server.", epilog=format_examples("muster service remove")
)
@_add_unit_options
def remove(data: str, scope: Scope, account: str) -> None:
    """Remove the systemd unit. First stop its server with `muster down`."""
    home, unit = _find_installed(data, scope, account)
    service.remove_unit(unit)
    click.echo(f"removed {unit.path}; the data stay in {home.path}")


@command.command(
    short_help="Show the systemd unit, and whether it runs.", epilog=format_examples("muster service status")
)
@_add_unit_options
def status(data: str, scope: Scope, account: str) -> None:
    """Show the systemd unit of the cluster, whether it runs, and whether it starts with the machine."""
    _, unit = _find_installed(data, scope, account)
    active, enabled = service.describe_state(unit)
    click.echo(f"{unit.path}: {active}, {enabled}\n{service.name_log(unit)}")
    if outdated := service.describe_outdated(unit):
        click.echo(outdated)


def _find_installed(data: str, scope: Scope, account: str) -> tuple[Home, Unit]:
    """Return the home that the options name, and its installed unit. Raises `UserError`."""
    owner = _find_owner(scope, account)
    service.require_systemd()
    home, unit = _find_unit(scope, owner, data)
    if not unit.path.exists():
        raise UserError(f"{home.path} has no service: there is no {unit.path}")
    return home, unit


def _find_owner(scope: Scope, account: str) -> pwd.struct_passwd:
    """Return the account that owns the unit's home and server. Raises `UserError`, `click.UsageError`."""
    if scope == "user":
        if account:
            raise click.UsageError("--as is for --system: a unit of this user runs as this user")
        return service.find_account(os.getuid())
    if os.geteuid() != 0:
        raise UserError("--system writes to /etc/systemd/system, which only root may: use sudo, or --user")
    return service.find_account(account or "root")


def choose_socket(scope: Scope, owner: pwd.struct_passwd, named: str | None) -> str:
    """Return the path of the local socket for a unit's server; "" for none.

    A system unit of root has the system's socket by default.

    named: the path that the user gave, which takes precedence; None or "" if the user gave none.
    """
    return named or (SYSTEM_SOCKET if scope == "system" and owner.pw_uid == 0 else "")


def _find_unit(scope: Scope, owner: pwd.struct_passwd, data: str) -> tuple[Home, Unit]:
    """Return the home that the options name, and its unit, installed or not.

    By default, the home is the home of the caller, or for a system unit the home of the owner. Raises `UserError`.
    """
    if scope == "system" and not data:
        data = str(Path(owner.pw_dir) / ".muster")
    home = Home.find(os.environ, data)
    return home, service.make_unit(scope, home, owner)


def _list_gpu_variables() -> list[str]:
    """Return the names of the environment variables that define which GPUs a server offers."""
    from muster.cluster.nodes.gpus.device import FAMILIES

    return [family.variable for family in FAMILIES]
