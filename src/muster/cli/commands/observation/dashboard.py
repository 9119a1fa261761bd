"""`muster dashboard`: open the pages about queues, jobs and nodes in a browser."""

import asyncio
import os
import sys
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from muster.actions.server.home import Home
from muster.actions.server.serverparts import describe_missing
from muster.actions.server.session import Session, Target, is_of_system_server, names_another
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.session import connect, run, target_options

if TYPE_CHECKING:
    from ssl import SSLContext

    from muster.api.config.types import Dashboard as Settings

# Without a screen no browser opens; users then reach the printed address through a tunnel.
_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")


@click.command(
    epilog=format_examples(
        "muster dashboard",
        "muster dashboard --no-browser      # only print the address",
        "muster dashboard --kubeconfig prod.yaml",
        "muster dashboard --kubeconfig prod.yaml --read-only --port 8080",
        "muster dashboard --kubeconfig prod.yaml --sign-in --listen 0.0.0.0:8080",
        "muster dashboard --sign-in --config muster.yaml --proxy-files /etc/proxy",
    ),
)
@click.option("--no-browser", is_flag=True, help="Print the address, and open no browser.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="For another cluster: the port on the loopback interface (default: any free port).",
)
@click.option("--read-only", is_flag=True, help="For another cluster: allow no changes.")
@click.option("--sign-in", is_flag=True, help="For another cluster: each viewer signs in with a token of that cluster.")
@click.option(
    "--listen",
    metavar="ADDRESS:PORT",
    default="",
    help="With --sign-in: the address to serve, instead of the loopback interface.",
)
@click.option(
    "--token-header",
    metavar="NAME",
    default="",
    help="With --sign-in: the header in which a proxy sends the viewer's token.",
)
@click.option(
    "--config",
    metavar="FILE",
    default="",
    help="With --sign-in: a Configuration, whose muster.dashboard says how a proxy signs viewers in.",
    shell_complete=names.complete_files,
)
@click.option(
    "--proxy-files",
    metavar="FOLDER",
    default="",
    help="With identityHeaders in the Configuration: the folder with the files secret, or ca.crt, tls.crt "
    "and tls.key, which prove that requests come from the proxy.",
    shell_complete=names.complete_files,
)
@target_options
def command(no_browser: bool, port: int, read_only: bool, sign_in: bool, **options: Any) -> None:
    """Open the dashboard in a browser, signed in as you. The printed address works once, within a minute.

    The server of `muster up` serves the dashboard of its cluster. For any other cluster, this command serves the
    dashboard on the loopback interface, with the rights of the kubeconfig, until Ctrl-C.

    To open the dashboard on another machine, run there `ssh -L 7443:127.0.0.1:PORT HOST` with the port of the printed
    address, and open the address with port 7443.
    """
    listen = options.pop("listen")
    proxied = {name: options.pop(name) for name in ("token_header", "config", "proxy_files")}
    target = Target.of(options)
    home = Home.find(os.environ)
    if not sign_in and (listen or any(proxied.values())):
        raise click.UsageError(
            "--listen, --token-header, --config and --proxy-files need --sign-in: without it every viewer would act as"
            " you"
        )
    is_own = not names_another(target, home) and (home.server_pid() is not None or is_of_system_server(target))
    if is_own and (port or read_only or sign_in):
        raise click.UsageError(
            "--port, --read-only and --sign-in are for other clusters: that of this home serves its pages itself"
        )
    if is_own:
        run(_open_own(target, browse=not no_browser))
    elif sign_in:
        run(_serve_others(target, listen or f"127.0.0.1:{port}", Proxied(**proxied), read_only=read_only))
    else:
        run(_serve(target, port, browse=not no_browser, read_only=read_only))


async def _open_own(target: Target, *, browse: bool) -> None:
    """Get a sign-in link from the server, print it and, if `browse`, open it in a browser. Raises `ApiError`."""
    import msgspec

    from muster.runtime.transport import Request

    async with connect(target) as session:
        answer = await session.client.raw(Request("POST", "/ui/links"))
    _open(msgspec.json.decode(answer.body)["url"], browse=browse)


async def _serve(target: Target, port: int, *, browse: bool, read_only: bool) -> None:
    """Serve the dashboard on loopback, with the rights of the user's kubeconfig, until the user ends the command.

    The sign-in link is printed and, if `browse`, opened in a browser.

    read_only: whether the pages offer no changes.
    """
    _require_parts()
    from muster.dashboard.app import Dashboard
    from muster.dashboard.embedding import SIMULATIONS
    from muster.dashboard.viewing.hosts import OwnHost, Proof
    from muster.dashboard.viewing.sessions import Sessions
    from muster.runtime.ids import Ids, Random
    from muster.runtime.realclock import RealClock

    clock, simulations = RealClock(), Home.find(os.environ).path / SIMULATIONS
    async with connect(target) as session:
        host = OwnHost(session.client, session.namespace, _name_viewer(session), simulations)
        name = f"muster-{Ids().hexadecimal(8)}"
        dashboard = Dashboard(host, Sessions(clock), clock, Random(), name=name, read_only=read_only)

        def ready(bound_port: int) -> None:
            _open(f"http://127.0.0.1:{bound_port}{dashboard.make_link(Proof(owner=True))}", browse=browse)

        await _listen(dashboard, "127.0.0.1", port, "--port", ready)


@dataclass(frozen=True)
class Proxied:
    """The options about a reverse proxy in front of the dashboard; "" for options that the user did not give."""

    token_header: str
    config: str
    proxy_files: str


async def _serve_others(target: Target, listen: str, proxied: Proxied, *, read_only: bool) -> None:
    """Serve the pages to viewers who sign in, or whom a proxy in front signs in, until the user ends the command.

    Raises `click.UsageError` for an invalid option or a missing file of the proxy, and `click.ClickException` if
    packages are missing.
    """
    _require_parts()
    from muster.actions.server.session import find_connection
    from muster.dashboard.app import Dashboard
    from muster.dashboard.viewing.entry import ProxyFilesError, plan_entry
    from muster.dashboard.viewing.sessions import Sessions
    from muster.operator.addresses import BadAddressError, parse_address
    from muster.runtime.ids import Random
    from muster.runtime.realclock import RealClock

    try:
        host, port = parse_address(listen)
    except BadAddressError as error:
        raise click.BadParameter(str(error), param_hint="--listen") from error
    clock = RealClock()
    try:
        entry = plan_entry(find_connection(target), clock, _read_settings(proxied), Path(proxied.proxy_files))
    except ProxyFilesError as error:
        raise click.BadParameter(str(error), param_hint="--proxy-files") from error
    dashboard = Dashboard(
        entry.host,
        Sessions(clock),
        clock,
        Random(),
        hosts=None,  # a Service or an ingress may have any name; a viewer who has not signed in sees nothing
        read_only=read_only,
        front=entry.front,
        sign_out_path=entry.sign_out_path,
    )
    scheme = "https" if entry.context is not None else "http"

    def ready(bound_port: int) -> None:
        click.echo(f"serving at {scheme}://{host or '0.0.0.0'}:{bound_port}/ui/")

    await _listen(dashboard, host, port, "--listen", ready, entry.context)


def _read_settings(proxied: Proxied) -> "Settings":
    """Return the dashboard's settings from the Configuration and the options.

    Raises `click.BadParameter`, `click.UsageError`.
    """
    from muster.api.config.types import Dashboard
    from muster.cli.settings import configuration_of

    settings: Dashboard = configuration_of(proxied.config).muster.dashboard if proxied.config else Dashboard()
    has_names = settings.identity_headers is not None
    if has_names and proxied.token_header:
        raise click.UsageError("--token-header and identityHeaders in the Configuration exclude each other")
    if has_names and not proxied.proxy_files:
        raise click.UsageError("identityHeaders in the Configuration need --proxy-files: what proves the proxy")
    if proxied.proxy_files and not has_names:
        raise click.UsageError("--proxy-files is for a proxy that names viewers: identityHeaders in the Configuration")
    return replace(settings, token_header=proxied.token_header) if proxied.token_header else settings


async def _listen(
    dashboard: Any,
    host: str,
    port: int,
    option: str,
    ready: Callable[[int], None],
    context: "SSLContext | None" = None,
) -> None:
    """Serve a dashboard until the user ends the command, then close it.

    Raises `click.ClickException` if the address cannot be used.

    option: the option with which the user chooses the port.
    ready: called with the port.
    """
    from muster.cluster.apiserver.front.listener import AddressUnusable, Listener

    listener = Listener(dashboard, context)
    try:
        try:
            bound_port = await listener.start(host, port, option)
        except AddressUnusable as error:
            raise click.ClickException(str(error)) from error
        ready(bound_port)
        sys.stdout.flush()
        click.echo("serving until Ctrl-C", err=True)
        await asyncio.Event().wait()
    finally:
        await dashboard.close()
        await listener.stop()


def _require_parts() -> None:
    """Raise `click.ClickException` if the packages that serve pages are not installed."""
    try:
        import_module("muster.dashboard.app")
    except ModuleNotFoundError as missing:
        if text := describe_missing("the dashboard", missing):
            raise click.ClickException(text) from None
        raise


def _name_viewer(session: Session) -> str:
    return session.where or "you"


def _open(url: str, *, browse: bool) -> None:
    click.echo(url)
    sys.stdout.flush()
    if browse and (sys.platform == "darwin" or any(map(os.environ.get, _SCREENS))):
        webbrowser.open(url)
    click.echo("it opens once, within a minute, and stays open for 12 hours", err=True)
