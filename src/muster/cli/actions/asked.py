"""What the options of `muster run` ask for, with what a worker gets of its caller."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from muster.actions.caller import inherited
from muster.actions.gang import Gang, Role, beyond_elastic, name_for, no_host_name, not_text, room_for_name
from muster.actions.sweep import Sweep
from muster.api.ours.elastic import Bounds
from muster.cli.actions import given
from muster.cli.names.roles import BEHIND_A_COLON, COLON, Segment
from muster.runtime.ids import Ids


def gang_asked(arguments: Sequence[str], options: dict[str, Any], namespace: str, *, on_this_machine: bool) -> Gang:
    """The gang. Raises `click.ClickException` if what is asked for cannot be meant."""
    if not arguments[0]:
        raise click.UsageError("the command is empty: its first word names the program")
    if arguments[0] == COLON:
        raise click.UsageError(BEHIND_A_COLON)
    callers = inherited(os.environ) if on_this_machine else {}
    if not on_this_machine and not options["image"]:
        raise click.UsageError("this cluster runs images: say which with --image")
    elastic = _bounds(options["elastic"])
    workers = options["workers"] or (elastic.most if elastic else 1)
    if elastic and not elastic.least <= workers <= elastic.most:
        raise click.BadParameter(f"{workers} is not within --elastic {elastic}", param_hint="--workers")
    sweep = sweep_asked(options)
    gang = Gang(
        name=options["name"],
        command=arguments,
        workers=workers,
        namespace=namespace,
        cpus=options["cpus"] or ("1" if sweep is not None and not options["gpus"] else ""),
        memory=options["memory"] or "",
        gpus=options["gpus"],
        roles=_roles(arguments, options),
        until=options["until"],
        start_timeout=given.start_timeout(options["start_timeout"]),
        image=options["image"],
        queue=options["queue"],
        priority=options["priority"],
        queue_priority=options["queue_priority"],
        working_directory=given.working_directory(options["workdir"], on_this_machine=on_this_machine),
        environment=callers | given.environment(options["env"], options["env_file"]),
        elastic=elastic,
        run_time=given.run_time(options["run_time"]),
        stdin=bool(options["stdin"]),
        time_limit=options["time"],
        soft_signal=given.soft_signal(options["signal"], options["time"]),
        retries=options["retries"],
        exclusive=options["exclusive"],
        labels=given.labels(options["labels"]),
        annotations=given.annotations(options["annotations"]),
        secrets=given.secrets(options["secrets"]),
        sweep=sweep,
        state=given.state(options["state"], on_this_machine=on_this_machine),
    )
    if gang.until and gang.until not in [one.name for one in gang.roles]:
        raise click.BadParameter(f"there is no role {gang.until}", param_hint="--until")
    if beyond := beyond_elastic(gang):
        option, why = beyond
        raise click.UsageError(f"--{option.replace('_', '-')}: {why}")
    if complaint := no_host_name(gang.name, gang.parts):
        raise click.BadParameter(complaint, param_hint="--name")
    if complaint := not_text(gang):
        raise click.UsageError(complaint)
    called = [options["script"].name] if options["script"] is not None else arguments
    return gang if gang.name else replace(gang, name=name_for(called, Ids().suffix(), room_for_name(gang.parts)))


def sweep_asked(options: dict[str, Any]) -> Sweep | None:
    """The trials that were asked for; None if it is to be a gang. Raises `click.UsageError`."""
    asked = next((f"--{name}" for name in ("array", "grid") if options[name]), "")
    if not asked:
        return None
    for option in ("workers", "elastic", "roles", "until", "start_timeout"):
        if options[option]:
            name = "role" if option == "roles" else option.replace("_", "-")
            raise click.UsageError(f"--{name} and {asked} cannot be meant together: a trial is one worker by itself")
    try:
        sweep = Sweep.parse(options["array"], options["grid"], retries=options["retries"] or 0)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=asked) from None
    both = [name for pair in options["env"] if sweep.grid and (name := pair.partition("=")[0]) in sweep.grid.axes]
    if both:
        raise click.UsageError(f"{both[0]} is given by --grid and by --env: which one is meant?")
    return sweep


def _roles(arguments: Sequence[str], options: dict[str, Any]) -> tuple[Role, ...]:
    """The roles that were asked for, with what was asked for all of them. Raises `click.UsageError`."""
    segments = [Segment(tuple(options["roles"]), tuple(arguments)), *options["behind_colons"]]
    found = [
        Role(
            asked.name,
            one.command,
            asked.workers,
            options["cpus"] or "" if asked.cpus is None else asked.cpus,
            options["memory"] or "" if asked.memory is None else asked.memory,
            options["gpus"] if asked.gpus is None else asked.gpus,
        )
        for one in segments
        for asked in one.roles
    ]
    for option in ("workers", "elastic"):
        if found and options[option]:
            raise click.UsageError(f"--{option} and --role cannot be meant together: each role says how many it has")
    if segments[1:] and not segments[0].roles:
        raise click.UsageError("the first command needs a --role as well")
    if found and any(COLON in one.command for one in segments):
        raise click.UsageError(BEHIND_A_COLON)
    names = [one.name for one in found]
    if twice := [name for at, name in enumerate(names) if name in names[:at]]:
        raise click.BadParameter(f"{twice[0]} is given twice", param_hint="--role")
    return tuple(found)


def _bounds(text: str) -> Bounds | None:
    try:
        return Bounds.parse(text) if text else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--elastic") from None
