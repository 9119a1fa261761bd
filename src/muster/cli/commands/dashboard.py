"""`muster dashboard`: open the pages about queues, jobs and nodes in a browser."""

import asyncio
import os
import sys
import webbrowser
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
    ),
)
@click.option("--no-browser", is_flag=True, help="Print the address, and open nothing.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on loopback for another cluster (default: any)."
)
@click.option("--read-only", is_flag=True, help="For another cluster: nothing can be changed from a page.")
@target_options
def command(no_browser: bool, port: int, read_only: bool, **options: Any) -> None:
    """Open the dashboard in a browser, signed in as you. The address works once, and for a minute.

    The pages of an embedded cluster are served by it. Those of another cluster are served by this command, on loopback
    and with the rights of the kubeconfig, until Ctrl-C.

    From another machine: ssh -L 7443:127.0.0.1:PORT HOST, with the port of the printed address, and open it there with
    7443 instead.
    """
    target = Target.of(options)
    home = Home.find(os.environ)
    is_own = not names_another(target, home) and (home.server_pid() is not None or is_of_system_server(target))
    if is_own and (port or read_only):
        raise click.UsageError("--port and --read-only are for another cluster, by --kubeconfig")
    run(_open_own(target, browse=not no_browser) if is_own else _serve(target, port, read_only, browse=not no_browser))


async def _open_own(target: Target, *, browse: bool) -> None:
    """Ask the server for a link, and open it."""
    import msgspec

    from muster.runtime.transport import Request

    async with connect(target) as session:
        answer = await session.client.raw(Request("POST", "/ui/links"))
    _open(msgspec.json.decode(answer.body)["url"], browse=browse)


async def _serve(target: Target, port: int, read_only: bool, *, browse: bool) -> None:
    """Serve the pages with the rights of this session until the user ends it."""
    try:
        from muster.cluster.apiserver.front.listener import Listener
        from muster.cluster.apiserver.front.pages import Pages, PlainFront
        from muster.dashboard.app import Dashboard
        from muster.dashboard.embedding import SIMULATIONS
        from muster.dashboard.root import ROOT
        from muster.dashboard.viewing.hosts import OwnHost, Proof
        from muster.dashboard.viewing.sessions import Sessions
    except ModuleNotFoundError as missing:
        if text := describe_missing("the dashboard", missing):
            raise click.ClickException(text) from None
        raise
    from muster.runtime.clock import RealClock
    from muster.runtime.ids import Ids, Random

    clock, simulations = RealClock(), Home.find(os.environ).path / SIMULATIONS
    async with connect(target) as session:
        host = OwnHost(session.client, session.namespace, _name_viewer(session), session.tunnels, simulations)
        name = f"muster-{Ids().hexadecimal(8)}"
        dashboard = Dashboard(host, Sessions(clock), clock, Random(), name=name, read_only=read_only)
        listener = Listener(PlainFront(Pages(ROOT, dashboard)), None)
        try:
            bound_port = await listener.start("127.0.0.1", port)
            _open(f"http://127.0.0.1:{bound_port}{dashboard.make_link(Proof(owner=True))}", browse=browse)
            click.echo("serving until Ctrl-C", err=True)
            await asyncio.Event().wait()
        finally:
            await dashboard.close()
            await listener.stop()


def _name_viewer(session: Session) -> str:
    return session.where or "you"


def _open(url: str, *, browse: bool) -> None:
    click.echo(url)
    sys.stdout.flush()
    if browse and (sys.platform == "darwin" or any(map(os.environ.get, _SCREENS))):
        webbrowser.open(url)
    click.echo("it opens once, within a minute, and stays open for 12 hours", err=True)
