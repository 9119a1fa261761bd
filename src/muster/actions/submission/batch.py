"""Make the command with which a worker runs a Slurm batch script. Pure."""

import shlex

import msgspec

from muster.actions.submission.frameworks import host_pattern
from muster.actions.submission.gang import Gang, Role, SlurmScript
from muster.actions.submission.inworkers import call_muster
from muster.actions.submission.sweep import Sweep
from muster.api.kueue.names import DEFAULT_QUEUE
from muster.api.values import quantity
from muster.slurm.allocation import Allocation, Trials

_MISSING = "a script with #SBATCH lines needs the command muster in the image"
_MEBIBYTE = 1 << 20


def script_call(gang: Gang, role: Role, script: SlurmScript) -> str:
    """Return the shell line that runs a Slurm script with the allocation variables that the script expects.

    The script's command follows the line as arguments of the shell.
    """
    allocation = Allocation(
        id=script.id,
        batch=script.batch,
        cpus=max(quantity.parse_thousandths(role.cpus) // 1000 if role.cpus else 0, 1),
        hosts="" if gang.sweep is not None else host_pattern(gang, role),
        memory=quantity.parse_whole_units(role.memory) // _MEBIBYTE if role.memory else 0,
        gpus=role.gpus,
        time_limit=gang.time_limit or 0,
        partition=gang.queue or DEFAULT_QUEUE,
        directory=script.directory,
        trials=None if gang.sweep is None else _describe_trials(gang.sweep),
    )
    allocation_json = shlex.quote(msgspec.json.encode(allocation).decode())
    return call_muster(script.muster, f"batch-job --allocation {allocation_json}", _MISSING)


def _describe_trials(sweep: Sweep) -> Trials:
    runs = sweep.array.runs
    step = runs[0].step if len(runs) == 1 else 1
    return Trials(len(sweep.array), min(run[0] for run in runs), max(run[-1] for run in runs), step)
