"""The entry point of `muster`. It imports the module of a command when the command is called."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import click

from muster.actions.errors import UserError
from muster.actions.server.serverparts import describe_missing
from muster.cli.names.examples import format_examples
from muster.cli.names.habits import COMMANDS as ELSEWHERE
from muster.cli.names.suggesting import SuggestingGroup
from muster.cli.terminal import streams

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# The commands in the order of the help page: the package in `muster.cli.commands` with the command's module, and the
# line in the help page.
COMMANDS = {
    "up": ("server", "Start a cluster on this machine."),
    "down": ("server", "Stop the cluster on this machine, and all of its pods."),
    "restart": ("server", "Replace the server. Running jobs continue."),
    "service": ("server", "Start the cluster with the machine, as a systemd service."),
    "status": ("server", "Show whether the cluster is healthy."),
    "run": ("submission", "Run a command as a gang: all workers start, or none."),
    "apply": ("submission", "Create or change the objects in manifests."),
    "ps": ("observation", "List jobs with their state, queue, position and reason."),
    "history": ("observation", "List ended jobs with their users, times and results."),
    "plan": ("forecasts", "Forecast when and where jobs would start, and create nothing."),
    "why": ("observation", "Explain why a job waits, and when it will start."),
    "simulate": ("forecasts", "Simulate queues, nodes and jobs in virtual time."),
    "snapshot": ("forecasts", "Print nodes, queues and jobs for a simulation to start from."),
    "logs": ("observation", "Print or follow the output of a job."),
    "exec": ("changes", "Run a command in the container of a worker."),
    "shell": ("submission", "Start a shell as a job with its own resources."),
    "wait": ("observation", "Wait until jobs have ended, and return their exit code."),
    "retry": ("changes", "Run the failed trials of a sweep again."),
    "cancel": ("changes", "Cancel jobs."),
    "hold": ("changes", "Stop jobs, and keep them from starting."),
    "release": ("changes", "Let held jobs start again."),
    "alter": ("changes", "Change the time limit, the queue or the priority of a job."),
    "scale": ("changes", "Change the number of workers of a job."),
    "queue": ("sharing", "List, create, change, stop and delete queues."),
    "user": ("sharing", "Add, list and remove users of the cluster."),
    "cluster": ("sharing", "Run the jobs of one queue in several clusters."),
    "podgroups": ("observation", "List and describe PodGroups, and why they wait."),
    "dashboard": ("observation", "Open the dashboard in the browser."),
    "top": ("observation", "Show nodes and quotas, and the jobs that use them."),
    "backup": ("server", "Write a backup of the cluster to a file."),
    "restore": ("server", "Restore the cluster from a backup."),
    "controllers": ("kubernetes", "Run the engine for a Kubernetes cluster."),
    "adopt": ("kubernetes", "Report what Muster would take over from Kueue."),
    "takeover": ("kubernetes", "Replace Kueue's manager with Muster."),
    "handback": ("kubernetes", "Replace Muster with Kueue's manager again."),
    "manifests": ("kubernetes", "Print the objects that install Muster on a Kubernetes cluster."),
    "nodes": ("kubernetes", "Add simulated nodes, or this machine, to any cluster."),
    "completion": ("programs", "Print a script for shell completion."),
}

# The packages of the commands that Muster itself calls, which no help page lists.
_INTERNAL = dict.fromkeys(("batch-job", "mpi-agent", "notify"), "programs")

PROGRAM = "muster"
# The variable with which a shell requests completions.
COMPLETE_VARIABLE = "_MUSTER_COMPLETE"


class _Commands(SuggestingGroup):
    """The group of all commands. Each command is a module in a package of `muster.cli.commands`, imported when used."""

    elsewhere = ELSEWHERE

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        room = COMMANDS[cmd_name][0] if cmd_name in COMMANDS else _INTERNAL.get(cmd_name)
        if room is None:
            return None
        command: click.Command = import_module(f"muster.cli.commands.{room}.{cmd_name.replace('-', '_')}").command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        """Return the names of the commands that begin with `incomplete`, each with a line of help.

        The completions of click follow. The lines of help need no import of the command's module.
        """
        from click.shell_completion import CompletionItem

        items = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=format_examples("muster run --workers 4 -- python train.py", "muster up --detach", "muster why train"),
)
@click.version_option(package_name="muster-batch", prog_name=PROGRAM)
def cli() -> None:
    """Muster runs gangs: jobs whose processes all start together, or do not start at all."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, and exit with its code.

    An expected failure prints one line on stderr, and its code is not 0.
    """
    streams.replace_streams()
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except streams.OutputError as lost:
        streams.give_up_output()
        code = lost.exit_code
        if code != streams.BROKEN_PIPE_CODE:  # the program that closed the pipe knows the reason
            click.echo(f"Error: {lost}", err=True)
    sys.exit(code)


def _run(arguments: Sequence[str] | None) -> int:
    """Run the command line and return its exit code. An expected failure prints one line on stderr.

    Raises `OutputError`, and any unexpected exception.
    """
    try:
        code = cli.main(args=arguments, prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE, standalone_mode=False)
    except SystemExit as leaving:
        code = leaving.code
    except click.exceptions.Exit as leaving:
        code = leaving.exit_code
    except click.ClickException as wrong:
        wrong.show()
        code = wrong.exit_code
    except UserError as wrong:
        click.echo(f"Error: {wrong}", err=True)
        code = 1
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = 130
    except ModuleNotFoundError as missing:
        words = [word for word in (sys.argv[1:] if arguments is None else arguments) if not word.startswith("-")]
        text = describe_missing(f"{PROGRAM} {words[0]}", missing) if words else ""
        if not text:
            raise
        click.echo(f"Error: {text}", err=True)
        code = 1
    except OSError as error:  # a file that the user named cannot be used, or the machine lacks a resource
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"Error: {where}{error.strerror or error}", err=True)
        code = 1
    return code if isinstance(code, int) else 0
