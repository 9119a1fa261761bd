"""Makes the part of a manifest that a script for Slurm needs: the call that becomes the script. Pure."""

import shlex

import msgspec

from muster.actions.frameworks import host_pattern
from muster.actions.gang import Gang, Role, SlurmScript
from muster.actions.inworkers import call_muster
from muster.actions.sweep import Sweep
from muster.api.kueue.names import DEFAULT_QUEUE
from muster.api.values import quantity
from muster.slurm.allocation import Allocation, Trials

_MISSING = "a script with #SBATCH lines needs the command muster in the image"
_MEBIBYTE = 1 << 20


def script_call(gang: Gang, role: Role, script: SlurmScript) -> str:
    """Return the shell line that becomes the script with the shell's arguments as the command."""
    allocation = Allocation(
        id=script.id,
        batch=script.batch,
        cpus=max(quantity.milli(role.cpus) // 1000 if role.cpus else 0, 1),
        hosts="" if gang.sweep is not None else host_pattern(gang, role),
        memory=quantity.value(role.memory) // _MEBIBYTE if role.memory else 0,
        gpus=role.gpus,
        time_limit=gang.time_limit or 0,
        partition=gang.queue or DEFAULT_QUEUE,
        directory=script.directory,
        trials=None if gang.sweep is None else _describe_trials(gang.sweep),
    )
    told = shlex.quote(msgspec.json.encode(allocation).decode())
    return call_muster(script.muster, f"batch-job --allocation {told}", _MISSING)


def _describe_trials(sweep: Sweep) -> Trials:
    runs = sweep.array.runs
    step = runs[0].step if len(runs) == 1 else 1
    return Trials(len(sweep.array), min(run[0] for run in runs), max(run[-1] for run in runs), step)
