"""The options of `muster run`."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from muster.cli.completion import names
from muster.cli.names.roles import parse_role
from muster.cli.names.types import parse_gpus, parse_schedule, parse_worker_cpus, parse_worker_memory, time_limit

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "-w",
        "--workers",
        type=click.IntRange(1, 100_000),  # api.batch.MAX_PARALLELISM, which is imported late
        help="How many workers (default: 1; with --elastic, MAX).",
    ),
    click.option(
        "--role",
        "roles",
        metavar="NAME[:N][,gpus=N]...",
        multiple=True,
        type=parse_role,
        help="A role and how many workers it has, with cpus=, memory= and gpus= of its own; may be repeated. "
        "A role with another command follows a colon.",
    ),
    click.option(
        "--until",
        metavar="ROLE",
        default="",
        help="The job completes once this role has completed (default: once all have).",
    ),
    click.option(
        "--start-timeout",
        metavar="TIME",
        default="",
        help="Fail if not all workers have started by then, as 90s or 10m.",
    ),
    click.option(
        "-t",
        "--time",
        metavar="TIME",
        type=time_limit,
        help="End an attempt after this time, as 90s, 2h or 2:00:00; each attempt has the whole time.",
    ),
    click.option(
        "--signal",
        metavar="SIGNAL[@SECONDS]",
        default="",
        help="The signal that each worker gets this long before its time limit, as USR1@60, so that it can end well.",
    ),
    click.option(
        "--retries",
        metavar="N",
        type=click.IntRange(0, 1_000_000),
        help="How often all workers restart when one fails (default: 0); for an elastic job, how many are replaced.",
    ),
    click.option("--elastic", metavar="MIN:MAX", default="", help="Let the job shrink and grow while it runs."),
    click.option(
        "--array",
        metavar="0-99[:STEP][%N]",
        default="",
        help="A sweep: an independent trial for each of these indexes, in MUSTER_INDEX; at most N run at a time.",
    ),
    click.option(
        "--grid",
        metavar="NAME=V,V...",
        multiple=True,
        help="A sweep: a trial for each combination, in variables and in place of {NAME}; may be repeated.",
    ),
    click.option(
        "--cron",
        "schedule",
        metavar="SCHEDULE",
        default="",
        type=parse_schedule,
        help="Start the job again and again, as '0 3 * * *' or @daily, and return. A start waits for the job before.",
    ),
    click.option(
        "--cpus",
        metavar="Q[:MAX]",
        type=parse_worker_cpus,
        help="CPUs of each worker, as 2 or 500m: as many as it requests, or MAX, are also its limit.",
    ),
    click.option(
        "--memory",
        metavar="Q[:MAX]",
        type=parse_worker_memory,
        help="Memory of each worker, as 4Gi; a worker that needs more than that, or than MAX, is ended.",
    ),
    click.option(
        "--begin",
        metavar="TIME",
        default="",
        help="Start the job at this time, as 18:00, +2h, 2026-01-31 or 2026-01-31T18:00; it waits until then.",
    ),
    click.option(
        "--after",
        metavar="JOB[:ok|:fail|:any]",
        multiple=True,
        help="Start the job once JOB has completed (:ok, the default), failed or been cancelled (:fail), or either "
        "(:any); several with commas, or repeated.",
        shell_complete=names.complete_jobs,
    ),
    click.option(
        "--notify",
        metavar="TARGET",
        multiple=True,
        help="Tell a URL, a mail address or a command of the end of the job; the command runs as the job does; may be "
        "repeated.",
    ),
    click.option(
        "--notify-on",
        metavar="EVENT,...",
        default="",
        help="The events to tell of: start, end, fail, and requeue, the first interruption (default: end).",
    ),
    click.option("--gpus", metavar="N", type=parse_gpus, default="0", help="GPUs of each worker."),
    click.option(
        "-q",
        "--queue",
        metavar="Q",
        default="",
        help="The LocalQueue to wait in (default: the namespace's).",
        shell_complete=names.local_queues,
    ),
    click.option("--exclusive", is_flag=True, help="Only on nodes where no other job runs, and none starts meanwhile."),
    click.option("--priority", metavar="P", default="", help="A WorkloadPriorityClass, or else a PriorityClass."),
    click.option("--name", metavar="N", default="", help="Name of the job (default: from the command)."),
    click.option("--replace", is_flag=True, help="Delete an ended job of this name first, with its output."),
    click.option("-e", "--env", metavar="K[=V]", multiple=True, help="Environment; without a value, the caller's."),
    click.option(
        "--env-file",
        metavar="FILE",
        multiple=True,
        help="Environment from a file with lines NAME=VALUE, which --env overrides.",
        shell_complete=names.complete_files,
    ),
    click.option(
        "--secret",
        "secrets",
        metavar="NAME[=KEY]",
        multiple=True,
        help="Keys of a Secret as environment: all, or the named one. No manifest holds their values.",
    ),
    click.option(
        "--state",
        metavar="CLAIM",
        default="",
        help="PersistentVolumeClaim for $MUSTER_STATE, where nodes have images; others have a directory for each job.",
    ),
    click.option(
        "--workdir",
        metavar="DIR",
        default="",
        help="Where COMMAND starts (default: here).",
        shell_complete=names.complete_directories,
    ),
    click.option("--label", "labels", metavar="K=V", multiple=True, help="A label of the job and its pods."),
    click.option(
        "--annotation", "annotations", metavar="K=V", multiple=True, help="An annotation of the job and its pods."
    ),
    click.option("--image", metavar="IMAGE", default="", help="Container image, where nodes have images."),
    click.option(
        "--run-time", metavar="TIME", default="", help="How long simulated nodes pretend to run the job, as 90s or 1h."
    ),
    click.option(
        "--stdin/--no-stdin",
        default=None,
        help="Whether rank 0 reads our standard input (default: yes, if that is a pipe or a file).",
    ),
    click.option("--tty", is_flag=True, help="Run rank 0 on this terminal; the output of the others goes to the log."),
    click.option(
        "--mpi/--no-mpi",
        default=None,
        help="Whether rank 0 alone runs COMMAND, and mpirun in it starts processes on all workers (default: yes, if "
        "COMMAND is mpirun or mpiexec).",
    ),
    click.option("-d", "--detach", is_flag=True, help="Submit, say how to follow, and return."),
    click.option("--dry-run", is_flag=True, help="Print what would be submitted, and submit nothing."),
    click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="Form of --dry-run (default: yaml)."),
)


def run_options(command: Command) -> Command:
    """Return the command with all options of `muster run`, in the order in which --help shows them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
