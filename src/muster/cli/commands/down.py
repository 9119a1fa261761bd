"""`muster down`: stop the embedded cluster."""

import asyncio
import os
import signal

import click

from muster.cli.home import Home

# Pods have their grace period to end; then the server ends them and itself. This is for one that does not answer.
PATIENCE_SECONDS = 90.0
_LOOK_SECONDS = 0.02


@click.command()
@click.option("--data", metavar="DIR", default="", help="Where its data live (default: $MUSTER_HOME or ~/.muster).")
def command(data: str) -> None:
    """End all pods gracefully, then the server. Its data stay."""
    from muster.cluster.embedded import reap

    home = Home.find(os.environ, data)
    pid = home.server_pid()
    if pid is not None:
        asyncio.run(_stop(home, pid))
    left = reap(home.path)
    if pid is None:
        click.echo(f"not running ({home.path})" + (f"; ended {left} containers that were left over" if left else ""))
    else:
        click.echo("stopped")


async def _stop(home: Home, pid: int) -> None:
    from muster.runtime.clock import RealClock

    clock = RealClock()
    os.kill(pid, signal.SIGTERM)
    deadline = clock.monotonic() + PATIENCE_SECONDS
    while home.server_pid() == pid:
        if clock.monotonic() > deadline:
            click.echo(f"process {pid} does not end: killing it", err=True)
            os.kill(pid, signal.SIGKILL)
            deadline = float("inf")
        await clock.sleep(_LOOK_SECONDS)
