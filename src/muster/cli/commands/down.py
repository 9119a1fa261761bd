"""`muster down`: stop the embedded cluster."""

import os
import select
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from muster.actions.home import Home
from muster.actions.session import Target
from muster.cli.names.examples import examples
from muster.cli.session import connect, data_option, run

# Pods have their grace period to end; then the server ends them and itself. This is for one that does not answer.
PATIENCE_SECONDS = 90.0
# So many jobs are named that end with it.
_NAMES = 5


@click.command(
    epilog=examples("muster down", "muster down --data /srv/muster"),
)
@data_option
def command(data: str) -> None:
    """End all pods gracefully, then the server. Its data stay."""
    from muster.cluster.nodes.disk.leftovers import reap

    home = Home.find(os.environ, data)
    pid = home.server_pid()
    if pid is not None:
        click.echo(f"stopping process {pid}; {_what_ends(home)}", err=True)
        stop(home, pid)
    left = reap(home.path)
    if pid is None:
        click.echo(f"not running ({home.path})" + (f"; ended {left} containers that were left over" if left else ""))
    else:
        click.echo("stopped")


def _what_ends(home: Home) -> str:
    """What the server runs, in a few words."""
    from muster.insight.record import job_of

    try:
        pods = run(_running_pods(home))
    except click.ClickException as error:
        return f"what it runs is not known: {error.message}"
    return ends(sorted({job_of(pod)[1] for pod in pods}), len(pods))


def ends(names: Sequence[str], pods: int) -> str:
    """What ends with a server that runs so many pods, of these jobs."""
    from muster.insight.failures import count_of

    if not names:
        return "nothing runs"
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return f"{count_of(pods, 'pod')} of {count_of(len(names), 'job')} end: {', '.join(names[:_NAMES])}{more}"


async def _running_pods(home: Home) -> list[Any]:
    from muster.api.core import POD
    from muster.api.pods import is_finished

    async with connect(Target(kubeconfig=str(home.kubeconfig))) as session:
        pods = (await session.client.list(POD)).items
    return [pod for pod in pods if pod.spec.node_name and not is_finished(pod)]


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
