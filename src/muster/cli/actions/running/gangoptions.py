"""Make a gang from the options of `muster run` and the user's environment."""

import os
from collections.abc import Sequence
from typing import Any

import click
from msgspec import structs
from msgspec.structs import replace

from muster.actions.parsing.quantities import NOTHING
from muster.actions.submission.caller import find_inherited_environment, make_umask_annotations
from muster.actions.submission.gang import (
    Gang,
    Role,
    SlurmScript,
    beyond_elastic,
    beyond_schedule,
    name_for,
    no_host_name,
    not_text,
    room_for_name,
)
from muster.actions.submission.sweep import Sweep
from muster.cli.actions.running import runoptions
from muster.cli.names.roles import BEHIND_A_COLON, COLON, RoleOptions, Segment
from muster.mpi.launchers import is_launcher
from muster.runtime.ids import Ids
from muster.runtime.process.program import compose_muster_call

# The number of hexadecimal digits in the job ID of a Slurm script. As a decimal number it has at most nine digits.
_DIGITS_OF_A_NUMBER = 7


def gang_from_options(
    arguments: Sequence[str], options: dict[str, Any], namespace: str, *, on_this_machine: bool
) -> Gang:
    """Return the gang that the command line of `muster run` describes.

    Raises `click.ClickException` if options are invalid or exclude each other.

    arguments: the user's command.
    on_this_machine: whether the workers run on this machine, so that they can use its directory and its Muster.
    """
    if not arguments[0]:
        raise click.UsageError("the command is empty: its first word names the program")
    if arguments[0] == COLON:
        raise click.UsageError(BEHIND_A_COLON)
    callers = find_inherited_environment(os.environ) if on_this_machine else {}
    if not on_this_machine and not options["image"]:
        raise click.UsageError("workers of this cluster need an image: name one with --image")
    elastic = runoptions.parse_elastic_bounds(options["elastic"])
    workers = options["workers"] or (elastic.most if elastic else 1)
    if elastic and not elastic.least <= workers <= elastic.most:
        raise click.BadParameter(f"{workers} is not within --elastic {elastic}", param_hint="--workers")
    sweep = sweep_from_options(options)
    script = _make_script(options, workers, on_this_machine=on_this_machine)
    cpus, memory = options["cpus"] or NOTHING, options["memory"] or NOTHING
    gang = Gang(
        name=options["name"],
        command=arguments,
        workers=workers,
        namespace=namespace,
        cpus=cpus.request,
        memory=memory.request,
        gpus=options["gpus"],
        cpu_limit=cpus.limit,
        memory_limit=memory.limit,
        roles=_make_roles(arguments, options),
        until=options["until"],
        start_timeout=runoptions.parse_start_timeout(options["start_timeout"]),
        image=options["image"],
        queue=options["queue"],
        priority=options["priority"],
        queue_priority=options["queue_priority"],
        working_directory=runoptions.find_working_directory(options["workdir"], on_this_machine=on_this_machine),
        environment=callers | runoptions.read_environment(options["env"], options["env_file"]),
        elastic=elastic,
        run_time=runoptions.check_run_time(options["run_time"]),
        stdin=bool(options["stdin"]),
        time_limit=options["time"],
        soft_signal=runoptions.parse_soft_signal(options["signal"], options["time"]),
        retries=options["retries"],
        exclusive=options["exclusive"],
        labels=runoptions.parse_labels(options["labels"]),
        annotations=(make_umask_annotations() if on_this_machine else {})
        | runoptions.parse_annotations(options["annotations"]),
        secrets=runoptions.parse_secrets(options["secrets"]),
        sweep=sweep,
        schedule=options["schedule"],
        deferral=runoptions.parse_deferral(options["begin"], options["after"]),
        notify=runoptions.parse_notices(options["notify"], options["notify_on"]),
        mpi=_find_mpi_call(arguments, options, workers, script, on_this_machine=on_this_machine),
        script=script,
        state=runoptions.check_state(options["state"], on_this_machine=on_this_machine),
    )
    if gang.until and gang.until not in [one.name for one in gang.roles]:
        raise click.BadParameter(f"there is no role {gang.until}", param_hint="--until")
    if beyond := beyond_elastic(gang):
        option, why = beyond
        raise click.UsageError(f"--{option.replace('_', '-')}: {why}")
    if option := beyond_schedule(gang):
        sentence = "a CronJob makes Jobs, which do not have it; let one worker submit what does, by muster run"
        raise click.UsageError(f"--cron and --{option} exclude each other: {sentence}")
    if complaint := no_host_name(gang.name, gang.parts):
        raise click.BadParameter(complaint, param_hint="--name")
    if complaint := not_text(gang):
        raise click.UsageError(complaint)
    called = [options["script"].name] if options["script"] is not None else arguments
    if script is not None:
        called = [script.batch.name]
    return gang if gang.name else replace(gang, name=name_for(called, Ids().suffix(), room_for_name(gang.parts)))


def _make_script(options: dict[str, Any], workers: int, *, on_this_machine: bool) -> SlurmScript | None:
    """Return the Slurm batch script that the command line names; None if the command is no script with #SBATCH lines.

    Raises `click.UsageError` if an option cannot be combined with a batch script.

    on_this_machine: whether the workers run on this machine, so that they can use its directory and its Muster.
    """
    batch = options["batch"]
    if batch is None:
        return None
    for option, name in {"--elastic": "elastic", "--role": "roles"}.items():
        if options[name]:
            raise click.UsageError(f"{option}: a script with #SBATCH lines has a fixed number of nodes, all alike")
    if options["schedule"]:
        raise click.UsageError("--cron: a script with #SBATCH lines is one job with a number; give --cron its command")
    batch = structs.replace(batch.on(workers), name=batch.name or options["script"].name)
    directory = runoptions.find_working_directory("", on_this_machine=on_this_machine)
    number = int(Ids().hexadecimal(_DIGITS_OF_A_NUMBER), 16) + 1
    return SlurmScript(batch, number, _choose_muster_call(on_this_machine=on_this_machine), directory)


def _choose_muster_call(*, on_this_machine: bool) -> str:
    """Return the shell command with which a worker calls Muster.

    A worker on this machine calls this installation; in an image, `muster` must be on the PATH.
    """
    return compose_muster_call() if on_this_machine else "muster"


def _find_mpi_call(
    arguments: Sequence[str],
    options: dict[str, Any],
    workers: int,
    script: SlurmScript | None,
    *,
    on_this_machine: bool,
) -> str:
    """Return the shell command with which a worker of an MPI job calls Muster; "" if the job does not use MPI.

    Raises `click.UsageError`.
    """
    kinds = {"--elastic": "elastic", "--array": "array", "--grid": "grid", "--role": "roles"}
    other = next((option for option, name in kinds.items() if options[name]), "")
    if options["mpi"] and other:
        raise click.UsageError(f"--mpi and {other} exclude each other: mpirun needs workers that are alike")
    launches = options["mpi"]
    if launches is None:  # srun and mpirun of a script start tasks on all of its nodes
        launches = is_launcher(arguments) and workers > 1 if script is None else script.batch.tasks > 1
    if launches and other == "--elastic":
        raise click.UsageError(
            "--elastic: mpirun needs a fixed number of workers (--no-mpi: each worker runs the command)"
        )
    if not launches or other:
        return ""
    return _choose_muster_call(on_this_machine=on_this_machine)


def sweep_from_options(options: dict[str, Any]) -> Sweep | None:
    """Return the sweep that the options describe; None if they describe no sweep. Raises `click.UsageError`."""
    option_name = next((f"--{name}" for name in ("array", "grid") if options[name]), "")
    if not option_name:
        return None
    for option in ("workers", "elastic", "roles", "until", "start_timeout"):
        if options[option]:
            name = "role" if option == "roles" else option.replace("_", "-")
            raise click.UsageError(f"--{name} and {option_name} exclude each other: a trial is a single worker")
    try:
        sweep = Sweep.parse(options["array"], options["grid"], retries=options["retries"] or 0)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option_name) from None
    both = [name for pair in options["env"] if sweep.grid and (name := pair.partition("=")[0]) in sweep.grid.axes]
    if both:
        raise click.UsageError(f"{both[0]} is given by --grid and by --env: leave one out")
    return sweep


def _make_roles(arguments: Sequence[str], options: dict[str, Any]) -> tuple[Role, ...]:
    """Return the roles on the command line, each completed by the options that apply to all.

    Raises `click.UsageError`.
    """
    segments = [Segment(tuple(options["roles"]), tuple(arguments)), *options["behind_colons"]]
    roles = [_make_role(role, one.command, options) for one in segments for role in one.roles]
    for option in ("workers", "elastic"):
        if roles and options[option]:
            raise click.UsageError(f"--{option} and --role exclude each other: each role has its own number of workers")
    if segments[1:] and not segments[0].roles:
        raise click.UsageError("the first command needs a --role as well")
    if roles and any(COLON in one.command for one in segments):
        raise click.UsageError(BEHIND_A_COLON)
    names = [one.name for one in roles]
    if twice := [name for at, name in enumerate(names) if name in names[:at]]:
        raise click.BadParameter(f"{twice[0]} is given twice", param_hint="--role")
    return tuple(roles)


def _make_role(role: RoleOptions, command: Sequence[str], options: dict[str, Any]) -> Role:
    """Return a role. For resources that the role's options do not set, the options of the job apply."""
    cpus = role.cpus or options["cpus"] or NOTHING
    memory = role.memory or options["memory"] or NOTHING
    return Role(
        role.name,
        command,
        role.workers,
        cpus.request,
        memory.request,
        options["gpus"] if role.gpus is None else role.gpus,
        cpus.limit,
        memory.limit,
    )
