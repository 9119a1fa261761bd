"""`muster batch-job`: replace this process with a Slurm script, which gets Slurm's variables and programs."""

import os
import socket
import sys
from pathlib import Path

import click

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--allocation", required=True, metavar="JSON", help="The job, its nodes, and its tasks.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- SCRIPT...")
def command(allocation: str, command: tuple[str, ...]) -> None:
    """Become SCRIPT, with Slurm's variables and the files that its #SBATCH lines name.

    Muster itself calls this in the workers of a script with #SBATCH lines.
    """
    import msgspec

    from muster.mpi.remote_shell import ENVIRONMENT
    from muster.runtime.realclock import RealClock
    from muster.slurm.allocation import Allocation, file_name, make_variables, pattern_values
    from muster.slurm.files import redirect_streams
    from muster.slurm.ledger import LEDGER, make_ledger
    from muster.slurm.programs import add_programs, find_programs_first

    try:
        allocation_fields = msgspec.json.decode(allocation, type=Allocation)
    except msgspec.MsgspecError as error:
        raise click.UsageError(f"--allocation: {error}") from None
    if shell := os.environ.get("MUSTER_REMOTE_SHELL"):
        Path(shell).with_name(ENVIRONMENT).write_bytes(msgspec.json.encode(dict(os.environ)))
    now = int(RealClock().now().timestamp())
    environment = make_variables(allocation_fields, os.environ, socket.gethostname(), os.getuid(), now) | os.environ
    environment |= {
        LEDGER: make_ledger(),
        "MUSTER_PYTHON": sys.executable,
        "PATH": add_programs(environment.get("PATH", os.defpath)),
    }
    batch, values = allocation_fields.batch, pattern_values(environment)
    output, errors, source = (file_name(pattern, values) for pattern in (batch.output, batch.error, batch.input))
    if names := [name for name in dict.fromkeys((output, errors)) if name]:
        _say(f"the output of the script is in {' and '.join(names)}")
    try:
        redirect_streams(output=output, error=errors, source=source, append=batch.append)
    except OSError as error:
        _say(f"{error.filename}: {error.strerror}; the script has not begun")
        sys.exit(1)
    try:
        os.execvpe(command[0], find_programs_first(command), environment)  # noqa: S606
    except FileNotFoundError:
        _say(f"{command[0]}: there is no such program")
        sys.exit(_NOT_FOUND)
    except OSError as error:
        _say(f"{command[0]}: {error.strerror}")
        sys.exit(_NOT_EXECUTABLE)


def _say(message: str) -> None:
    print(f"muster: {message}", file=sys.stderr, flush=True)
