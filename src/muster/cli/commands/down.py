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

# The server ends itself after the grace period of its pods. This timeout is for a server that hangs.
PATIENCE_SECONDS = 90.0
# The most ended jobs that the message names.
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
        click.echo(f"stopping process {pid}; {_describe_end(home)}", err=True)
        stop(home, pid)
    left = reap(home.path)
    if pid is None:
        click.echo(f"not running ({home.path})" + (f"; ended {left} containers that were left over" if left else ""))
    else:
        click.echo("stopped")


def _describe_end(home: Home) -> str:
    """Return a phrase on the pods and jobs that the server runs."""
    from muster.insight.record import job_of

    try:
        pods = run(_list_running_pods(home))
    except click.ClickException as error:
        return f"what it runs is not known: {error.message}"
    return ends(sorted({job_of(pod)[1] for pod in pods}), len(pods))


def ends(names: Sequence[str], pods: int) -> str:
    """Return a phrase on the pods and jobs that end with the server."""
    from muster.insight.jobs.failures import count_of

    if not names:
        return "nothing runs"
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return f"{count_of(pods, 'pod')} of {count_of(len(names), 'job')} end: {', '.join(names[:_NAMES])}{more}"


async def _list_running_pods(home: Home) -> list[Any]:
    from muster.api.core import POD
    from muster.api.pods import is_finished

    async with connect(Target(kubeconfig=str(home.kubeconfig))) as session:
        pods = (await session.client.list(POD)).items
    return [pod for pod in pods if pod.spec.node_name and not is_finished(pod)]


def stop(home: Home, pid: int) -> None:
    """End the server that holds the directory, and return once its process is gone."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # If the process still holds the directory after the pidfd was opened, the pidfd is of that process.
        if home.server_pid() == pid:
            _end_process(process, pid)
    finally:
        os.close(process)


def _end_process(process: int, pid: int) -> None:
    ended = select.poll()
    ended.register(process, select.POLLIN)
    with suppress(ProcessLookupError):  # the process has just ended by itself
        signal.pidfd_send_signal(process, signal.SIGTERM)
        if not ended.poll(PATIENCE_SECONDS * 1000):
            click.echo(f"process {pid} does not end: killing it", err=True)
            signal.pidfd_send_signal(process, signal.SIGKILL)
            ended.poll()
