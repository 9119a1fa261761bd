"""`muster down`: stop the embedded cluster."""

import os
import select
import signal
from contextlib import suppress

import click

from muster.cli.completion import names
from muster.cli.examples import examples
from muster.cli.home import Home

# Pods have their grace period to end; then the server ends them and itself. This is for one that does not answer.
PATIENCE_SECONDS = 90.0


@click.command(
    epilog=examples("muster down", "muster down --data /srv/muster"),
)
@click.option(
    "--data",
    metavar="DIR",
    default="",
    help="Where its data live (default: $MUSTER_HOME or ~/.muster).",
    shell_complete=names.directories,
)
def command(data: str) -> None:
    """End all pods gracefully, then the server. Its data stay."""
    from muster.cluster.nodes.leftovers import reap

    home = Home.find(os.environ, data)
    pid = home.server_pid()
    if pid is not None:
        stop(home, pid)
    left = reap(home.path)
    if pid is None:
        click.echo(f"not running ({home.path})" + (f"; ended {left} containers that were left over" if left else ""))
    else:
        click.echo("stopped")


def stop(home: Home, pid: int) -> None:
    """End the server that was seen to hold the directory, and return once its process is gone."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # If it still holds the directory then the pidfd, opened meanwhile, is of that process and no other.
        if home.server_pid() == pid:
            _end(process, pid)
    finally:
        os.close(process)


def _end(process: int, pid: int) -> None:
    ended = select.poll()
    ended.register(process, select.POLLIN)
    with suppress(ProcessLookupError):  # it has just ended by itself
        signal.pidfd_send_signal(process, signal.SIGTERM)
        if not ended.poll(PATIENCE_SECONDS * 1000):
            click.echo(f"process {pid} does not end: killing it", err=True)
            signal.pidfd_send_signal(process, signal.SIGKILL)
            ended.poll()
