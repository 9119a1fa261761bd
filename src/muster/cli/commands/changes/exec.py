"""`muster exec`: run a command in the container of a job's worker, in any cluster."""

import sys
from contextlib import nullcontext
from typing import Any

import click

from muster.actions.server.session import Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.types import parse_job_name
from muster.cli.session import connect, run, target_options

# The messages of Muster's nodes and of kubelets for a missing program, and for one that cannot be executed.
_NOT_STARTED = "error executing command in container: "


@click.command(
    epilog=format_examples(
        "muster exec train -- nvidia-smi", "muster exec train --rank 3 -- bash", "muster exec train -- tee conf < mine"
    ),
)
@click.argument("job", type=parse_job_name, shell_complete=names.complete_jobs)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--rank", metavar="N", default="", help="Rank of the worker (default: the first running worker).")
@click.option(
    "-c", "--container", metavar="NAME", default="", help="Container of the worker (default: the first container)."
)
@target_options
def command(job: str, command: tuple[str, ...], rank: str, container: str, **options: Any) -> None:
    """Run COMMAND in the container of a running worker of JOB, and return the exit code of COMMAND.

    COMMAND runs as the user of the worker. On a terminal, COMMAND runs on that terminal. Otherwise COMMAND reads the
    standard input, if it is a pipe or a file.
    """
    sys.exit(run(_exec(Target.of(options), job, rank, container, command)))


async def _exec(target: Target, name: str, rank: str, container: str, command: tuple[str, ...]) -> int:
    """Run a command in a worker of a job, in this cluster or in the worker cluster that runs the job."""
    from muster.actions.following.elsewhere import OutOfReachError, cluster_of, copy_of, open_tunnel
    from muster.actions.jobs.lookup import get_job
    from muster.api.status import ApiError
    from muster.runtime.client import Client
    from muster.runtime.refusals import is_refusal

    async with connect(target) as session:
        job = await get_job(session.client, name, session.namespace)
        cluster = await cluster_of(session.client, job) if job.remote_counts is not None else ""
        if not cluster:
            return await _enter(session.client, session.tunnels, job, rank, container, command)
        try:
            async with open_tunnel(session.client, cluster) as there:
                client = Client(there)
                copy = await copy_of(session.client, client, job)
                return await _enter(client, there, copy, rank, container, command)
        except OutOfReachError as error:
            raise click.ClickException(f"{name}: {error}") from None
        except ApiError as error:
            if not is_refusal(error, "NotFound"):
                raise
            raise click.ClickException(f"nothing of {name} is in cluster {cluster}: {error}") from None


async def _enter(client: Any, tunnels: Any, job: Any, rank: str, container: str, command: tuple[str, ...]) -> int:
    """Run a command in a worker's container, connected to the standard streams of this process; return its exit code.

    A command that could not be started has the exit code of a shell for that, such as 127. Raises `ApiError`.

    rank: the rank of the worker; "" for the first running worker.
    container: "" for the first container of the pod.
    """
    import asyncio

    from muster.api.status import ApiError
    from muster.cli.actions.running.entering import find_entry, make_exec_request
    from muster.cli.terminal.output import say
    from muster.cli.terminal.printing import Printer
    from muster.cli.terminal.remote import Ends, hold, is_terminal, raw_terminal, terminal_size
    from muster.cli.terminal.stdin import PROTOCOL, can_come, read
    from muster.insight.jobs.failures import exit_code_of_start

    pod = await find_entry(client, job, rank)
    descriptor, tty, resized = sys.stdin.fileno(), is_terminal(), asyncio.Event()
    stdin, printer = tty or can_come(descriptor), Printer(ranks=False)
    ends = Ends(
        (lambda: read(descriptor)) if stdin else None,
        lambda stream, data: printer.show("", stream, data),
        terminal_size if tty else None,
    )
    async with tunnels.converse(
        make_exec_request(pod, container, command, stdin=stdin, tty=tty), PROTOCOL
    ) as conversation:
        try:
            with raw_terminal(descriptor, resized.set) if tty else nullcontext():
                return await hold(conversation, ends, resized)
        except ApiError as error:
            _, refused, why = str(error).partition(_NOT_STARTED)
            if not refused:
                raise
            say(f"Error: the command could not be started: {why}")
            return exit_code_of_start(why)
