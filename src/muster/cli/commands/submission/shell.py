"""`muster shell`: open an interactive pod, through the queue."""

import sys
from typing import Any

import click

from muster.actions.server.session import OWN_NAMESPACE, Session, Target, has_cluster, own_cluster
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.types import parse_gpus, parse_worker_cpus, parse_worker_memory
from muster.cli.session import connect, run, target_options


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog=format_examples(
        "muster shell",
        "muster shell --gpus 1 --queue vision",
        "muster shell --cpus 4 --memory 8Gi -- ipython",
    ),
)
@click.option(
    "--cpus",
    metavar="Q[:MAX]",
    type=parse_worker_cpus,
    help="CPUs that the shell requests, such as 2 or 500m. The limit is MAX, or else the request.",
)
@click.option(
    "--memory",
    metavar="Q[:MAX]",
    type=parse_worker_memory,
    help="Memory that the shell requests, such as 4Gi. The limit is MAX, or else the request.",
)
@click.option("--gpus", metavar="N", type=parse_gpus, default="0", help="Number of GPUs.")
@click.option(
    "-q",
    "--queue",
    metavar="Q",
    default="",
    help="LocalQueue in which the job waits (default: the queue of your team, or else the queue `default`).",
    shell_complete=names.complete_local_queues,
)
@click.option(
    "--priority", metavar="P", default="", help="Name of a WorkloadPriorityClass, or else of a PriorityClass."
)
@click.option("--name", metavar="N", default="", help="Name of the job (default: shell- and some random letters).")
@click.option("--image", metavar="IMAGE", default="", help="Container image, on nodes that run containers.")
@target_options
@click.argument("arguments", nargs=-1, metavar="[-- COMMAND...]", shell_complete=names.complete_files)
def command(arguments: tuple[str, ...], **options: Any) -> None:
    """Start a shell with its own resources on this terminal, or run COMMAND instead of the shell.

    The shell is a job, which waits in its queue until its resources are free. While it waits, Ctrl-C cancels the job.
    After that, Ctrl-C goes to the program in the shell. When you exit the shell or close the terminal, the job ends and
    is deleted. The exit code is the exit code of the shell.
    """
    from muster.cli.terminal.remote import is_terminal

    if not is_terminal():
        raise click.UsageError("a shell needs a terminal; in a script: muster run")
    sys.exit(run(_run_shell(Target.of(options), arguments, options)))


async def _run_shell(target: Target, arguments: tuple[str, ...], options: dict[str, Any]) -> int:
    if has_cluster(target):
        async with connect(target) as session:
            return await _submit(session, arguments, options)
    if target.namespace not in ("", OWN_NAMESPACE):
        raise click.UsageError(f"no cluster runs, so there is no namespace {target.namespace}")
    from muster.runtime.process.garbage import settle

    async with own_cluster() as session:
        settle()
        return await _submit(session, arguments, options)


async def _submit(session: Session, arguments: tuple[str, ...], options: dict[str, Any]) -> int:
    from muster.actions.choices import find_queue_label, priority_classes
    from muster.api.kueue.names import DEFAULT_QUEUE
    from muster.cli.actions.running.shells import make_shell_gang, run_shell
    from muster.insight.reader.clusters import sends_away
    from muster.insight.reader.engine import is_embedded

    client, namespace = session.client, session.namespace
    embedded = await is_embedded(client)
    queue = await find_queue_label(client, namespace, options["queue"], embedded=embedded)
    if await sends_away(client, namespace, queue or DEFAULT_QUEUE):
        raise click.UsageError(
            "jobs of this queue run in other clusters, which no terminal reaches; name another --queue"
        )
    options = options | {"queue": queue} | await priority_classes(client, options["priority"])
    gang = make_shell_gang(arguments, options, namespace, on_this_machine=embedded)
    return await run_shell(session, gang, named=bool(options["name"]))
