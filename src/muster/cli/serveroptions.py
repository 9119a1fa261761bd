"""The options of `muster up` on the command line: the options that the user gives, and those that the home stores.

`up`, `restart` and `service install` share them. An invalid value is a usage error, whether given or stored.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from muster.actions.errors import UserError
from muster.actions.server.home import Home
from muster.actions.server.serveroptions import (
    ServerOptions,
    describe_differences,
    describe_options,
    merge_options,
    read_options,
)
from muster.cli.completion import names
from muster.cli.settings import configuration_of, read_audit_policy

Command = Callable[..., Any]

_DECORATORS = (
    click.option(
        "--port",
        type=click.IntRange(0, 65535),
        help=f"Port on the loopback interface (default: {ServerOptions().port}). 0 means any free port.",
    ),
    click.option(
        "--listen",
        metavar="ADDRESS[:PORT]",
        multiple=True,
        help="Also serve other machines, at this address or host name of this machine. Can be repeated.",
    ),
    click.option(
        "--name",
        metavar="NAME",
        multiple=True,
        help="Additional name or address in the server's certificate, by which other machines reach the "
        "server. Can be repeated.",
    ),
    click.option(
        "--nodes",
        metavar="KIND[:COUNT][,RES=QTY]",
        multiple=True,
        help="Nodes of the cluster: process nodes (default) run pods as processes of this machine; simulated "
        "nodes start no processes. Can be repeated.",
    ),
    click.option(
        "--socket",
        metavar="PATH",
        help="Root only: serve all users of this machine at this Unix socket, and run the pods of each user as"
        " that user.",
        shell_complete=names.complete_files,
    ),
    click.option(
        "--config",
        metavar="FILE",
        help="File with the settings: a Configuration (config.kueue.x-k8s.io).",
        shell_complete=names.complete_files,
    ),
    click.option(
        "--audit-policy",
        metavar="FILE",
        help="File with an audit Policy (audit.k8s.io/v1). The server logs requests to audit.log.",
        shell_complete=names.complete_files,
    ),
    click.option(
        "--log-format", type=click.Choice(["text", "json"]), help="Format of the server's log (default: text)."
    ),
    click.option("--forget", is_flag=True, help="Ignore the options that are stored from the last start."),
)


class RequestedOptions(Struct, frozen=True):
    """The server options that the user gave.

    forget: whether to ignore the options stored in the home.
    """

    given: Mapping[str, Any]
    forget: bool

    @classmethod
    def of(cls, options: dict[str, Any]) -> "RequestedOptions":
        """Remove the shared server options from a command's options, and return them. Paths become absolute."""
        forget = options.pop("forget")
        given = {field: options.pop(field) for field in ServerOptions.__struct_fields__}
        files = {
            field: str(Path(given[field]).absolute()) for field in ("config", "audit_policy", "socket") if given[field]
        }
        return cls({field: value for field, value in given.items() if value not in (None, "", ())} | files, forget)


class ResolvedOptions(Struct, frozen=True):
    """The options with which a server starts, and the files that they name.

    remembered: the options that come from the home, in the form of a command line; "" if there are none.
    configuration, audit_policy: the checked content of the files; None without a file.
    """

    options: ServerOptions
    remembered: str
    nodes: tuple[Any, ...]
    exposure: Any
    configuration: Any
    audit_policy: Any


def server_options(command: Command) -> Command:
    """Return the command with the options of a server."""
    for decorator in reversed(_DECORATORS):
        command = decorator(command)
    return command


def resolve_options(home: Home, requested: RequestedOptions) -> ResolvedOptions:
    """Return the requested options, completed by those stored in the home, after checking them.

    Raises `UserError`. Also raises `click.UsageError`, which says which options come from the last start.
    """
    former = None if requested.forget else read_options(home)
    options = merge_options(former or ServerOptions(), requested.given)
    not_given = [field for field in ServerOptions.__struct_fields__ if field not in requested.given]
    remembered = describe_options(options, not_given)
    try:
        return _check(options, remembered)
    except click.UsageError as error:
        if not remembered:
            raise
        raise click.UsageError(
            f"{error.format_message()}\nFrom the last start: {remembered}. --forget starts without."
        ) from error


def require_same_options(home: Home, user_options: ServerOptions) -> None:
    """Raise `UserError` if the running server has other options than these.

    Do nothing if its options are unknown.
    """
    running = read_options(home)
    if running is None:  # a release that remembers no options has started it
        return
    if differences := describe_differences(running, user_options):
        raise UserError(
            f"the server has other options: {differences}. `muster restart` with your options changes them, "
            "and running jobs continue"
        )


def _check(options: ServerOptions, remembered: str) -> ResolvedOptions:
    """Parse and check the options of a server, with the files that they name. Raises `click.ClickException`."""
    from muster.cluster.exposure import ExposureError
    from muster.cluster.exposure import parse as parse_exposure
    from muster.cluster.nodespec import NodeSpecError, parse

    try:
        nodes = tuple(parse(text) for text in options.nodes)
    except NodeSpecError as error:
        raise click.BadParameter(str(error), param_hint="--nodes") from error
    try:
        exposure = parse_exposure(options.listen, options.name)
    except ExposureError as error:
        raise click.UsageError(str(error)) from error
    if options.socket and os.geteuid() != 0:
        raise click.UsageError("only root can run pods as other users: use sudo, or leave out --system and --socket")
    for file, option in (
        (options.config, "--config"),
        (options.audit_policy, "--audit-policy"),
        (options.socket, "--socket"),
    ):
        if not file.isprintable():
            raise click.BadParameter(f"{file!a}: choose a name without control characters", param_hint=option)
    configuration = configuration_of(options.config, embedded=True) if options.config else None
    policy = read_audit_policy(options.audit_policy) if options.audit_policy else None
    return ResolvedOptions(options, remembered, nodes, exposure, configuration, policy)
