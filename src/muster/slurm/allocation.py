"""Make a batch script's environment variables and file names, with Slurm's names and formats. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from msgspec import Struct

from muster.slurm.batch import ScriptSettings, spread_tasks

# The variable with the signal that tasks get before the time limit, for srun.
STEP_SIGNAL = "MUSTER_STEP_SIGNAL"

# Slurm's number for a script that is not a task of an array.
_NO_TASK = "4294967294"
_PLACE = re.compile(r"%(\d{0,2})([A-Za-z%])", re.ASCII)
_MOST_WIDTH = 10

# MPI launchers that find Slurm's variables would ask Slurm's daemons to start their processes.
_NO_SLURM = {f"{family}_MCA_{part}": "^slurm" for family in ("OMPI", "PRTE") for part in ("plm", "ras")}


class Trials(Struct, frozen=True):
    """The index range of an array, for the variables SLURM_ARRAY_TASK_COUNT, _MIN, _MAX and _STEP of its tasks."""

    count: int
    least: int
    most: int
    step: int


class Allocation(Struct, frozen=True, omit_defaults=True):
    """The nodes and limits of a batch script's job, which the job's manifest contains as JSON.

    id: the value of SLURM_JOB_ID, for programs that expect a number. Muster itself identifies the job by its name.
    hosts: the host name of a node, with {} in place of the node's number; "" for a job on the script's host only.
    cpus, memory, gpus: the amounts of each node; memory in MiB, 0 for no limit.
    time_limit: the time limit in seconds; 0 for none.
    directory: the directory in which the user submitted the script; "" if the nodes do not share it.
    """

    id: int
    batch: ScriptSettings
    cpus: int
    hosts: str = ""
    memory: int = 0
    gpus: int = 0
    time_limit: int = 0
    partition: str = "default"
    directory: str = ""
    trials: Trials | None = None


def make_variables(
    allocation: Allocation, environment: Mapping[str, str], host: str, uid: int, now: int
) -> dict[str, str]:
    """Return the SLURM_ variables for the batch script, by name.

    environment: the environment of the worker that runs the script.
    host: the host name of that worker.
    now: the start of the job, in seconds since the epoch.
    """
    batch, nodes = allocation.batch, _list_nodes(allocation, host)
    tasks = spread_tasks(batch.tasks, batch.nodes)
    job, array = _find_ids(allocation, environment)
    values: dict[str, object] = {
        "JOB_ID": job,
        "JOBID": job,
        "JOB_NAME": batch.name,
        "JOB_PARTITION": allocation.partition,
        "JOB_USER": environment.get("USER", ""),
        "JOB_UID": uid,
        "CLUSTER_NAME": "muster",
        "JOB_NODELIST": ",".join(nodes),
        "NODELIST": ",".join(nodes),
        "JOB_NUM_NODES": batch.nodes,
        "NNODES": batch.nodes,
        "NTASKS": batch.tasks,
        "NPROCS": batch.tasks,
        "NTASKS_PER_NODE": batch.tasks_per_node,
        "TASKS_PER_NODE": count_repeats(tasks),
        "CPUS_PER_TASK": max(allocation.cpus // batch.tasks_per_node, 1),
        "CPUS_ON_NODE": allocation.cpus,
        "JOB_CPUS_PER_NODE": count_repeats([allocation.cpus] * batch.nodes),
        "PROCID": 0,
        "LOCALID": 0,
        "NODEID": 0,
        "SUBMIT_DIR": allocation.directory or environment.get("PWD", ""),
        "JOB_START_TIME": now,
    }
    if allocation.time_limit:
        values["JOB_END_TIME"] = now + allocation.time_limit
    if allocation.memory:
        values["MEM_PER_NODE"] = allocation.memory
    if allocation.gpus:
        values |= {"GPUS_ON_NODE": allocation.gpus, "GPUS_PER_NODE": allocation.gpus}
        values["JOB_GPUS"] = environment.get("CUDA_VISIBLE_DEVICES", "")
    if batch.gpus_per_task:
        values["GPUS_PER_TASK"] = batch.gpus_per_task
    if environment.get("MUSTER_ATTEMPT", "0") != "0":
        values["RESTART_COUNT"] = environment["MUSTER_ATTEMPT"]
    if allocation.trials is not None:
        values |= _describe_array(allocation.trials, array, environment)
    named = {f"SLURM_{name}": str(value) for name, value in values.items()}
    notice = {STEP_SIGNAL: batch.notice} if batch.notice else {}
    return named | {"SLURMD_NODENAME": nodes[0]} | notice | _NO_SLURM


def count_repeats(numbers: Iterable[int]) -> str:
    """Return a list with one number per node in Slurm's short form: `4(x2),3` for 4, 4 and 3."""
    runs = [(number, len(list(run))) for number, run in groupby(numbers)]
    return ",".join(f"{number}(x{length})" if length > 1 else str(number) for number, length in runs)


def read_repeats(text: str) -> list[int]:
    """Parse Slurm's short form of a list with one number per node: return [4, 4, 3] for `4(x2),3`."""
    numbers: list[int] = []
    for part in text.split(","):
        number, _, times = part.partition("(x")
        numbers += [int(number)] * (int(times.rstrip(")")) if times else 1)
    return numbers


def file_name(pattern: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders in the pattern of a file name with their values.

    `%j` is the job's number, and `%4t` is the task's number with four digits. In a pattern with a backslash nothing is
    replaced; only the backslash is removed.
    """
    if "\\" in pattern:
        return pattern.replace("\\", "")

    def fill(match: re.Match[str]) -> str:
        width, letter = match.groups()
        value = values.get(letter)
        return match[0] if value is None else value.zfill(min(int(width or 0), _MOST_WIDTH))

    return _PLACE.sub(fill, pattern)


def pattern_values(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the values for the letters in a pattern (`j` in `%j`), from the variables of the script or a task."""
    job, task = environment["SLURM_JOB_ID"], environment.get("SLURM_ARRAY_TASK_ID", _NO_TASK)
    step = environment.get("SLURM_STEP_ID", "batch")
    return {
        "%": "%",
        "A": environment.get("SLURM_ARRAY_JOB_ID", job),
        "a": task,
        "j": job,
        "J": job if step == "batch" else f"{job}.{step}",
        "N": environment["SLURMD_NODENAME"].partition(".")[0],
        "n": environment["SLURM_NODEID"],
        "s": step,
        "t": environment["SLURM_PROCID"],
        "u": environment["SLURM_JOB_USER"],
        "x": environment["SLURM_JOB_NAME"],
    }


def _list_nodes(allocation: Allocation, host: str) -> Sequence[str]:
    if not allocation.hosts:
        return [host]
    return [allocation.hosts.replace("{}", str(node)) for node in range(allocation.batch.nodes)]


def _find_ids(allocation: Allocation, environment: Mapping[str, str]) -> tuple[int, int]:
    """Return the number of the job, and the number of its array. Each task of an array is a job with its own number."""
    if allocation.trials is None:
        return allocation.id, allocation.id
    return allocation.id + 1 + int(environment.get("MUSTER_INDEX") or "0"), allocation.id


def _describe_array(trials: Trials, array: int, environment: Mapping[str, str]) -> dict[str, object]:
    return {
        "ARRAY_JOB_ID": array,
        "ARRAY_TASK_ID": environment.get("MUSTER_INDEX", ""),
        "ARRAY_TASK_COUNT": trials.count,
        "ARRAY_TASK_MIN": trials.least,
        "ARRAY_TASK_MAX": trials.most,
        "ARRAY_TASK_STEP": trials.step,
    }
