"""`muster`: the entry point. Commands are imported when they are called."""

import gc
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import click

from muster.actions.errors import UserError
from muster.cli.names.examples import examples
from muster.cli.names.habits import COMMANDS as ELSEWHERE
from muster.cli.names.suggesting import SuggestingGroup
from muster.cli.terminal import streams

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# The order of the help page, and its lines.
COMMANDS = {
    "up": "Start the embedded cluster.",
    "down": "Stop it, and everything that runs in it.",
    "status": "Is it well?",
    "run": "Run a command as a gang: all workers start, or none.",
    "apply": "Apply manifests; with --wait, until their jobs finish.",
    "ps": "List jobs: state, pods, queue, position, reason, age.",
    "history": "What ran: when, for whom, and how it ended.",
    "plan": "What would become of manifests now: nothing is written.",
    "why": "Why a job is not running, with numbers, and when it will.",
    "logs": "Print or follow the output of a job.",
    "exec": "Run a command beside a worker of a job.",
    "shell": "Get a shell with what it asks for, through a queue.",
    "wait": "Wait until jobs finish; the exit code is the job's.",
    "retry": "Run again what of a sweep has failed.",
    "cancel": "Stop jobs, those that are named or alike.",
    "hold": "Keep jobs, or a queue, from starting.",
    "release": "Let them go on.",
    "scale": "Change the number of workers of a job.",
    "queue": "List, create, change, stop and delete queues.",
    "cluster": "Put one queue in front of several clusters.",
    "podgroups": "Show groups of pods that start together, and why they wait.",
    "top": "Show nodes and quotas, and who uses what.",
    "backup": "Copy all objects and keys into a file.",
    "restore": "Begin again with what a backup holds.",
    "controllers": "Run the engine for a Kubernetes cluster.",
    "adopt": "Say what Muster would find where Kueue has worked.",
    "manifests": "Print what to install on a Kubernetes cluster.",
    "nodes": "Play simulated nodes on any cluster.",
    "completion": "Print a script with which a shell completes all this.",
}

PROGRAM = "muster"
# A shell that wants completions sets it.
COMPLETE_VARIABLE = "_MUSTER_COMPLETE"

# New objects before Python looks for garbage: what a command loads stays, and looking through it takes a tenth of a
# start. A cluster has thresholds of its own once it has started.
_COLLECTION_THRESHOLD = 300_000


class _Commands(SuggestingGroup):
    """A group whose commands are modules of `muster.cli.commands`."""

    elsewhere = ELSEWHERE

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"muster.cli.commands.{cmd_name}").command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        """As click does it, but no module is imported for a line of help."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples("muster run --workers 4 -- python train.py", "muster up --detach", "muster why train"),
)
@click.version_option(package_name="muster-batch", prog_name=PROGRAM)
def cli() -> None:
    """All of a job starts, or none of it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. Expected failures are one line on stderr and a non-zero exit code."""
    gc.set_threshold(_COLLECTION_THRESHOLD)
    streams.protect()
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except streams.OutputError as lost:
        streams.give_up_output()
        code = lost.exit_code
        if code != streams.BROKEN_PIPE_CODE:  # the program that closes a pipe knows
            click.echo(f"Error: {lost}", err=True)
    sys.exit(code)


def _run(arguments: Sequence[str] | None) -> int:
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
    except OSError as error:  # of files that were named, and of a machine that is short of something
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"Error: {where}{error.strerror or error}", err=True)
        code = 1
    return code if isinstance(code, int) else 0
