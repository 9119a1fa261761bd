"""Wait until a home's server serves, after systemd or another command has started it."""

from collections.abc import Callable

import click

from muster.actions.errors import UserError
from muster.actions.server.home import Home
from muster.actions.server.service import count_restarts, find_failure, name_log
from muster.actions.server.session import Target
from muster.actions.server.systemunit import Unit
from muster.cli.actions.detaching import make_export
from muster.cli.session import ask, connect, run

# systemd waits a second before it restarts a server, which then reads its store.
PATIENCE_SECONDS = 60.0


def await_service(home: Home, unit: Unit, *, former: int | None) -> None:
    """Wait until systemd has started the server, and print the server's address.

    Raises `click.ClickException` if the start takes too long or failed more than once.

    former: the process ID of the former server; None if there was none.
    """
    before = count_restarts(unit)

    def require_start() -> None:
        if count_restarts(unit) > before + 1 and (reason := find_failure(unit)):
            raise UserError(f"{unit.name} fails to start, and systemd tries again: {reason} ({name_log(unit)})")

    address = run(_await_server(home, former, require_start))
    if address is None:
        raise click.ClickException(
            f"{unit.name} does not serve after {PATIENCE_SECONDS:.0f} s; it says why in: {name_log(unit)}"
        )
    click.echo(f"ready: {address}, of {unit.name}\n{make_export(home)}")


def await_start(home: Home, pid: int) -> None:
    """Wait until a server that may still be starting responds to requests. Raises `click.ClickException`."""
    if run(_await_server(home, None, lambda: None)) is None:
        raise click.ClickException(
            f"process {pid} does not serve after {PATIENCE_SECONDS:.0f} s; `muster down` ends it"
        )


def say_unready(home: Home) -> None:
    """Print why a running server is not ready, if it is not.

    Raises `click.ClickException` if the server does not respond.
    """
    from muster.cli.terminal.output import say

    for check in ask(_list_failed_checks(home)):
        say(f"the server is not ready: {check}")


async def _list_failed_checks(home: Home) -> tuple[str, ...]:
    from muster.insight.reader.attention import list_failed_checks

    async with connect(Target(kubeconfig=str(home.kubeconfig))) as session:
        return await list_failed_checks(session.client)


async def _await_server(home: Home, former: int | None, require_start: Callable[[], None]) -> str | None:
    """Wait until a server runs in another process than `former`; return its address and process.

    Return None if no server did in time.

    require_start: called while the server does not respond; raises if the server will never respond.
    """
    from muster.actions.waiting import wait_for_result
    from muster.runtime.kube.kubeconfig import KubeconfigError
    from muster.runtime.realclock import RealClock
    from muster.runtime.transport import TransportError

    async def look() -> str | None:
        pid = home.server_pid()
        if pid is None or pid == former:
            require_start()
            return None
        try:
            url = await _find_url(home)
        except (KubeconfigError, TransportError):  # the server does not listen yet, or has written no kubeconfig yet
            return None
        return f"{url}, process {pid}" if url else None

    return await wait_for_result(look, RealClock(), PATIENCE_SECONDS)


async def _find_url(home: Home) -> str:
    """Return the URL of the home's server if it is ready; "" otherwise.

    Raises `KubeconfigError`, `TransportError` if the server cannot be reached.
    """
    from muster.runtime.kube.kubeconfig_files import read
    from muster.runtime.transport import Request

    url = read(home.kubeconfig).connection().cluster.server
    async with connect(Target(kubeconfig=str(home.kubeconfig))) as session:
        ready = await session.client.transport.request(Request("GET", "/readyz"))
    return url if ready.status == 200 else ""
