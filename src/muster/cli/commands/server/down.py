"""`muster down`: stop the embedded cluster."""

import os
import select
import signal
from collections.abc import Sequence
from contextlib import suppress

import click

from muster.actions.errors import UserError
from muster.actions.server.home import Home
from muster.actions.server.service import cancel_starts
from muster.actions.server.session import Target
from muster.actions.server.systemserver import has_server
from muster.actions.server.systemunit import Unit
from muster.cli.names.examples import format_examples
from muster.cli.session import connect, data_option, run

# The server exits after the grace period of its pods. After this time, a line says how long that may take.
QUIET_SECONDS = 15.0
# The further seconds after which a server that hangs is killed.
PATIENCE_SECONDS = 75.0
NOTHING = "nothing runs"
# The maximum number of ended jobs that the message names.
_NAMES = 5


@click.command(
    epilog=format_examples("muster down", "muster down --data /srv/muster", "muster down --yes"),
)
@data_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation if jobs run.")
def command(data: str, yes: bool) -> None:
    """Stop all pods gracefully, and then the server. The cluster's data are kept."""
    from muster.cluster.nodes.disk.leftovers import reap

    home = Home.find(os.environ, data)
    pid = home.server_pid()
    if pid is not None:
        ending = describe_end(home)
        if ending != NOTHING and not yes:
            require_agreement(ending)
        click.echo(f"stopping process {pid}; {ending}", err=True)
        stop(home, pid)
    cancelled = _cancel_starts(home)
    if pid is not None and (other := home.server_pid()) is not None:  # a restart
        raise click.ClickException(f"process {other} has taken over from {pid}, and serves: try again")
    left = reap(home.path)
    if pid is None and cancelled:
        click.echo(f"stopped {cancelled[0].name}, which was about to start the server")
    elif pid is None:
        click.echo(f"not running ({home.path})" + (f"; ended {left} containers that were left over" if left else ""))
        if has_server(os.environ):
            click.echo("the server of this machine is root's: sudo muster down", err=True)
    else:
        click.echo("stopped")


def _cancel_starts(home: Home) -> Sequence[Unit]:
    """Keep systemd from restarting a server that failed or had to be killed; return the units that it stopped.

    A shell without the user's systemd, such as that of `su` or cron, gets a warning: the server has ended nevertheless.
    """
    try:
        return cancel_starts(home)
    except UserError as error:
        click.echo(f"systemd does not say whether it starts the server again: {error}", err=True)
        return ()


def require_agreement(ending: str) -> None:
    """Ask the user whether jobs may end. Return if the user agrees, or if there is no terminal to ask on.

    Raises `click.ClickException` if the user does not agree.

    ending: a phrase that says what ends.
    """
    from muster.cli.terminal.asking import can_ask

    if can_ask() and not click.confirm(f"{ending}; continue?", err=True):
        raise click.ClickException("nothing was done")


def describe_end(home: Home, *, only_terminals: bool = False) -> str:
    """Return a phrase that says which pods and jobs end with the server, and which users own them.

    If the server does not respond, the phrase says so.

    only_terminals: whether to count only jobs that end when their terminal closes.
    """
    try:
        labels = run(_label_running_pods(home, only_terminals=only_terminals))
    except click.ClickException as error:
        return f"what it runs is not known: {error.message}"
    return describe_ends(sorted(set(labels)), len(labels))


def describe_ends(names: Sequence[str], pods: int) -> str:
    """Return a phrase that says how many pods of which jobs end; `NOTHING` without jobs."""
    from muster.insight.jobs.failures import count_of

    if not names:
        return NOTHING
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    verb = "ends" if pods == 1 else "end"
    return f"{count_of(pods, 'pod')} of {count_of(len(names), 'job')} {verb}: {', '.join(names[:_NAMES])}{more}"


async def _label_running_pods(home: Home, *, only_terminals: bool) -> list[str]:
    """Return a label for each running pod: its job, and the job's user.

    only_terminals: whether to leave out the pods of jobs that do not end when their terminal closes.
    """
    from muster.api.ours.submitter import SUBMITTER_ANNOTATION
    from muster.api.pods import is_finished, job_of
    from muster.api.values.shells import HANGS_UP
    from muster.insight.history.build import owner_of
    from muster.insight.reader.jobs.records import all_records
    from muster.insight.reader.listing.views import JOB_LINES, JOB_SET_LINES, POD_LINES, PodSharer
    from muster.insight.text import format_owner

    async with connect(Target(kubeconfig=str(home.kubeconfig))) as session:
        listed = await session.client.list(POD_LINES, transform=PodSharer((HANGS_UP, SUBMITTER_ANNOTATION)))
        pods = [pod for pod in listed.items if pod.spec.node_name and not is_finished(pod)]
        if only_terminals:
            pods = [pod for pod in pods if HANGS_UP in pod.metadata.annotations]
        jobs = await all_records(session.client, "", jobs=JOB_LINES, sets=JOB_SET_LINES) if pods else []
    owners = {job.metadata.uid: owner_of(job.metadata) for job in jobs}
    labels = []
    for pod in pods:
        uid, name = job_of(pod)
        owner = owners.get(uid) or owner_of(pod.metadata)
        labels.append(f"{name} ({format_owner(owner)})" if owner else name)
    return labels


def stop(home: Home, pid: int, by: signal.Signals = signal.SIGTERM) -> None:
    """End the server that holds the directory; return after its process has exited.

    A process that no longer holds the directory is left alone. A process that ignores the signal for long is killed.

    pid: the server's process ID.
    by: the signal. SIGTERM also ends the pods; SIGKILL leaves them to the next server.
    """
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # If the process still holds the directory after the pidfd was opened, the pidfd belongs to that process.
        if home.server_pid() == pid:
            _end_process(process, pid, by)
    finally:
        os.close(process)


def _end_process(process: int, pid: int, by: signal.Signals) -> None:
    """Send a signal to a process and wait until it exits; print a line if that takes long, and kill it in the end.

    A process that has already exited is ignored.

    process: the pidfd of the process.
    pid: its process ID, for the lines.
    """
    ended = select.poll()
    ended.register(process, select.POLLIN)
    with suppress(ProcessLookupError):  # the process has just ended by itself
        signal.pidfd_send_signal(process, by)
        if not ended.poll(QUIET_SECONDS * 1000):
            click.echo(
                f"process {pid} ends what it runs; it is killed if that takes another {PATIENCE_SECONDS:.0f} s. "
                f"If it hangs: kill -9 {pid}, its jobs continue, and the next server adopts them",
                err=True,
            )
        if not ended.poll(PATIENCE_SECONDS * 1000):
            click.echo(f"process {pid} does not end: killing it", err=True)
            signal.pidfd_send_signal(process, signal.SIGKILL)
            ended.poll()
