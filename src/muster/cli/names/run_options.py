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
        help="Number of workers (default: 1; with --elastic: MAX).",
    ),
    click.option(
        "--role",
        "roles",
        metavar="NAME[:N][,gpus=N]...",
        multiple=True,
        type=parse_role,
        help="A role, and its number of workers. cpus=, memory= and gpus= set the resources of each of its "
        "workers. Can be repeated. To give a role another command, write the role after a colon.",
    ),
    click.option(
        "--until",
        metavar="ROLE",
        default="",
        help="Complete the job when this role has completed (default: when all roles have completed).",
    ),
    click.option(
        "--start-timeout",
        metavar="TIME",
        default="",
        help="Fail the job if some workers have not started this long after the first worker, such as 90s or 10m.",
    ),
    click.option(
        "-t",
        "--time",
        metavar="TIME",
        type=time_limit,
        help="Time limit of each attempt of the job, such as 90s, 2h or 2:00:00.",
    ),
    click.option(
        "--signal",
        metavar="SIGNAL[@SECONDS]",
        default="",
        help="Signal to send to each worker this many seconds before the time limit, such as USR1@60.",
    ),
    click.option(
        "--retries",
        metavar="N",
        type=click.IntRange(0, 1_000_000),
        help="How often all workers restart after a worker has failed (default: 0). In an elastic job: how "
        "many failed workers are replaced.",
    ),
    click.option(
        "--elastic",
        metavar="MIN:MAX",
        default="",
        help="Let the job shrink to MIN workers and grow to MAX workers while it runs.",
    ),
    click.option(
        "--array",
        metavar="0-99[:STEP][%N]",
        default="",
        help="Run a sweep: an independent trial for each of these indexes, which is in MUSTER_INDEX. At most N"
        " trials run at the same time.",
    ),
    click.option(
        "--grid",
        metavar="NAME=V,V...",
        multiple=True,
        help="Run a sweep: a trial for each combination of values. The values are in the variables NAME, and "
        "replace {NAME} in COMMAND. Can be repeated.",
    ),
    click.option(
        "--cron",
        "schedule",
        metavar="SCHEDULE",
        default="",
        type=parse_schedule,
        help="Create a CronJob that submits the job at these times, such as '0 3 * * *' or @daily. A job is "
        "not submitted before the previous job has ended.",
    ),
    click.option(
        "--cpus",
        metavar="Q[:MAX]",
        type=parse_worker_cpus,
        help="CPUs that each worker requests, such as 2 or 500m. The limit is MAX, or else the request.",
    ),
    click.option(
        "--memory",
        metavar="Q[:MAX]",
        type=parse_worker_memory,
        help="Memory that each worker requests, such as 4Gi. The limit is MAX, or else the request. A worker "
        "that exceeds its limit is killed.",
    ),
    click.option(
        "--begin",
        metavar="TIME",
        default="",
        help="Do not start the job before this time, such as 18:00, +2h, 2026-01-31 or 2026-01-31T18:00.",
    ),
    click.option(
        "--after",
        metavar="JOB[:ok|:fail|:any]",
        multiple=True,
        help="Start the job after JOB has completed (:ok, the default), has failed or was cancelled (:fail), "
        "or has ended in any way (:any). Separate several jobs with commas, or repeat the option.",
        shell_complete=names.complete_jobs,
    ),
    click.option(
        "--notify",
        metavar="TARGET",
        multiple=True,
        help="Send a notice to a URL or a mail address when the job ends, or run a command with the rights of "
        "the job. Can be repeated.",
    ),
    click.option(
        "--notify-on",
        metavar="EVENT,...",
        default="",
        help="Events of --notify: start, end, fail, and requeue, which is the first interruption (default: end).",
    ),
    click.option("--gpus", metavar="N", type=parse_gpus, default="0", help="GPUs of each worker."),
    click.option(
        "-q",
        "--queue",
        metavar="Q",
        default="",
        help="LocalQueue in which the job waits (default: the queue of your team, or else the queue `default`).",
        shell_complete=names.complete_local_queues,
    ),
    click.option(
        "--exclusive",
        is_flag=True,
        help="Use only nodes on which no other job runs. No other job starts there until this job has ended.",
    ),
    click.option(
        "--priority", metavar="P", default="", help="Name of a WorkloadPriorityClass, or else of a PriorityClass."
    ),
    click.option("--name", metavar="N", default="", help="Name of the job (default: derived from COMMAND)."),
    click.option(
        "--replace", is_flag=True, help="With --name: first delete an ended job of this name, and its output."
    ),
    click.option(
        "-e",
        "--env",
        metavar="K[=V]",
        multiple=True,
        help="Environment variable of the workers. Without a value, it has the value of your environment. Can "
        "be repeated.",
    ),
    click.option(
        "--env-file",
        metavar="FILE",
        multiple=True,
        help="File of environment variables, with lines NAME=VALUE. --env takes precedence. Can be repeated.",
        shell_complete=names.complete_files,
    ),
    click.option(
        "--secret",
        "secrets",
        metavar="NAME[=KEY]",
        multiple=True,
        help="Set environment variables from all keys of a Secret, or from one KEY. The manifest does not "
        "contain the values. Can be repeated.",
    ),
    click.option(
        "--state",
        metavar="CLAIM",
        default="",
        help="PersistentVolumeClaim for $MUSTER_STATE, on nodes that run containers. Process nodes have a "
        "directory for each job.",
    ),
    click.option(
        "--workdir",
        metavar="DIR",
        default="",
        help="Directory in which COMMAND starts (default: the current directory).",
        shell_complete=names.complete_directories,
    ),
    click.option(
        "--label", "labels", metavar="K=V", multiple=True, help="Label of the job and its pods. Can be repeated."
    ),
    click.option(
        "--annotation",
        "annotations",
        metavar="K=V",
        multiple=True,
        help="Annotation of the job and its pods. Can be repeated.",
    ),
    click.option("--image", metavar="IMAGE", default="", help="Container image, on nodes that run containers."),
    click.option(
        "--run-time",
        metavar="TIME",
        default="",
        help="Time after which simulated nodes end the pods of the job, such as 90s or 1h (default: never).",
    ),
    click.option(
        "--stdin/--no-stdin",
        default=None,
        help="Whether rank 0 reads the standard input of this command (default: yes, if it is a pipe or a file).",
    ),
    click.option(
        "--tty", is_flag=True, help="Run rank 0 on this terminal. The output of the other workers goes to the log."
    ),
    click.option(
        "--mpi/--no-mpi",
        default=None,
        help="Whether only rank 0 runs COMMAND, and mpirun starts processes on all workers (default: yes, if "
        "COMMAND is mpirun or mpiexec).",
    ),
    click.option("-d", "--detach", is_flag=True, help="Submit the job, print the commands that follow it, and return."),
    click.option("--dry-run", is_flag=True, help="Print the manifest that would be submitted, and submit nothing."),
    click.option(
        "-o", "--output", type=click.Choice(["json", "yaml"]), help="Output format of --dry-run (default: yaml)."
    ),
)


def run_options(command: Command) -> Command:
    """Return the command with all options of `muster run`, in the order in which --help shows them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
