"""`muster dashboard`: open the pages about queues, jobs and nodes in a browser."""

import asyncio
import os
import sys
import webbrowser
from collections.abc import Callable
from importlib import import_module
from typing import Any

import click

from muster.actions.home import Home
from muster.actions.serverparts import describe_missing
from muster.actions.session import Session, Target, is_of_system_server, names_another
from muster.cli.names.examples import examples
from muster.cli.session import connect, run, target_options

# Without a screen no browser opens; the printed address then goes through a tunnel.
_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")


@click.command(
    epilog=examples(
        "muster dashboard",
        "muster dashboard --no-browser      # print the address alone",
        "muster dashboard --kubeconfig prod.yaml",
        "muster dashboard --kubeconfig prod.yaml --read-only --port 8080",
        "muster dashboard --kubeconfig prod.yaml --sign-in --listen 0.0.0.0:8080",
    ),
)
@click.option("--no-browser", is_flag=True, help="Print the address, and open nothing.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="For another cluster: port on loopback (default: any free).",
)
@click.option("--read-only", is_flag=True, help="For another cluster: nothing can be changed from a page.")
@click.option("--sign-in", is_flag=True, help="For another cluster: each viewer signs in with a token of it.")
@click.option("--listen", metavar="ADDRESS:PORT", default="", help="With --sign-in: where, instead of on loopback.")
@click.option("--token-header", metavar="NAME", default="", help="With --sign-in: where a proxy in front puts tokens.")
@target_options
def command(no_browser: bool, port: int, read_only: bool, sign_in: bool, **options: Any) -> None:
    """Open the dashboard in a browser, signed in as you. The address works once, and for a minute.

    The pages of an embedded cluster are served by it. Those of another cluster are served by this command, on loopback
    and with the rights of the kubeconfig, until Ctrl-C.

    From another machine: ssh -L 7443:127.0.0.1:PORT HOST, with the port of the printed address, and open it there with
    7443 instead.
    """
    listen, token_header = options.pop("listen"), options.pop("token_header")
    target = Target.of(options)
    home = Home.find(os.environ)
    if not sign_in and (listen or token_header):
        raise click.UsageError("--listen and --token-header need --sign-in: without it every viewer would act as you")
    is_own = not names_another(target, home) and (home.server_pid() is not None or is_of_system_server(target))
    if is_own and (port or read_only or sign_in):
        raise click.UsageError(
            "--port, --read-only and --sign-in are for other clusters: that of this home serves its pages itself"
        )
    if is_own:
        run(_open_own(target, browse=not no_browser))
    elif sign_in:
        run(_serve_others(target, listen or f"127.0.0.1:{port}", token_header, read_only=read_only))
    else:
        run(_serve(target, port, browse=not no_browser, read_only=read_only))


async def _open_own(target: Target, *, browse: bool) -> None:
    """Ask the server for a link, and open it."""
    import msgspec

    from muster.runtime.transport import Request

    async with connect(target) as session:
        answer = await session.client.raw(Request("POST", "/ui/links"))
    _open(msgspec.json.decode(answer.body)["url"], browse=browse)


async def _serve(target: Target, port: int, *, browse: bool, read_only: bool) -> None:
    """Serve the pages with the rights of this session until the user ends it."""
    _require_parts()
    from muster.dashboard.app import Dashboard
    from muster.dashboard.embedding import SIMULATIONS
    from muster.dashboard.viewing.hosts import OwnHost, Proof
    from muster.dashboard.viewing.sessions import Sessions
    from muster.runtime.ids import Ids, Random
    from muster.runtime.realclock import RealClock

    clock, simulations = RealClock(), Home.find(os.environ).path / SIMULATIONS
    async with connect(target) as session:
        host = OwnHost(session.client, session.namespace, _name_viewer(session), session.tunnels, simulations)
        name = f"muster-{Ids().hexadecimal(8)}"
        dashboard = Dashboard(host, Sessions(clock), clock, Random(), name=name, read_only=read_only)

        def ready(bound_port: int) -> None:
            _open(f"http://127.0.0.1:{bound_port}{dashboard.make_link(Proof(owner=True))}", browse=browse)

        await _listen(dashboard, "127.0.0.1", port, ready)


async def _serve_others(target: Target, listen: str, token_header: str, *, read_only: bool) -> None:
    """Serve the pages to viewers who sign in with tokens until the user ends it."""
    _require_parts()
    from dataclasses import replace

    from muster.actions.session import connection
    from muster.dashboard.app import Dashboard
    from muster.dashboard.viewing.sessions import Sessions
    from muster.dashboard.viewing.tokens import TokenHost
    from muster.operator.addresses import BadAddressError, address
    from muster.runtime.client import Client
    from muster.runtime.ids import Random
    from muster.runtime.kube.https import HttpsTransport
    from muster.runtime.kube.kubeconfig import UserConfig
    from muster.runtime.realclock import RealClock

    try:
        host, port = address(listen)
    except BadAddressError as error:
        raise click.BadParameter(str(error), param_hint="--listen") from error
    config, clock = connection(target), RealClock()

    def connect_as(token: str) -> Client:
        transport = HttpsTransport(replace(config, user=UserConfig(token=token)), clock, Random())
        return Client(transport, field_manager="muster-dashboard")

    dashboard = Dashboard(
        TokenHost(connect_as, clock, config.namespace),
        Sessions(clock),
        clock,
        Random(),
        hosts=None,  # whatever name a Service or an ingress has; nothing is shown without a token
        read_only=read_only,
        token_header=token_header,
    )
    await _listen(
        dashboard, host, port, lambda bound_port: click.echo(f"serving at http://{host or '0.0.0.0'}:{bound_port}/ui/")
    )


async def _listen(dashboard: Any, host: str, port: int, ready: Callable[[int], None]) -> None:
    """Serve a dashboard until the user ends the command. ready: called with the port."""
    from muster.cluster.apiserver.front.listener import AddressUnusable, Listener

    listener = Listener(dashboard, None)
    try:
        try:
            bound_port = await listener.start(host, port)
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
    """Refuse an installation without what serves pages. Raises `click.ClickException`."""
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
