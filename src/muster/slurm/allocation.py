"""Makes the variables and the file names that a batch script finds, with Slurm's names and forms. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from msgspec import Struct

from muster.slurm.batch import ScriptSettings, spread_tasks

# The signal that tasks get before the time limit, for srun.
STEP_SIGNAL = "MUSTER_STEP_SIGNAL"

# Slurm's number for a script that is no task of an array.
_NO_TASK = "4294967294"
_PLACE = re.compile(r"%(\d{0,2})([A-Za-z%])", re.ASCII)
_MOST_WIDTH = 10

# Launchers of MPI that find Slurm's variables would ask Slurm's daemons to start their processes.
_NO_SLURM = {f"{family}_MCA_{part}": "^slurm" for family in ("OMPI", "PRTE") for part in ("plm", "ras")}


class Trials(Struct, frozen=True):
    """The indexes of an array, as its tasks are told of them."""

    count: int
    least: int
    most: int
    step: int


class Allocation(Struct, frozen=True, omit_defaults=True):
    """The nodes and limits that a batch script runs with. The manifest of the job holds them, as JSON.

    id: a number for programs that expect one; the job itself is called by its name.
    hosts: the host name of a node, with {} in the place of its number; "" for the host that the script runs on.
    cpus, memory, gpus: of each node; memory in MiB, 0 where it has no limit. time_limit: in seconds; 0 for none.
    directory: where the script was submitted; "" if the nodes have another disk.
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
    """Return Slurm's variables for the script.

    environment: that of the worker. host: its host name. now: seconds since 1970.
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
    """Return numbers of nodes as Slurm writes them: `4(x2),3`."""
    runs = [(number, len(list(run))) for number, run in groupby(numbers)]
    return ",".join(f"{number}(x{length})" if length > 1 else str(number) for number, length in runs)


def read_repeats(text: str) -> list[int]:
    """Return the numbers that `4(x2),3` stands for."""
    numbers: list[int] = []
    for part in text.split(","):
        number, _, times = part.partition("(x")
        numbers += [int(number)] * (int(times.rstrip(")")) if times else 1)
    return numbers


def file_name(pattern: str, values: Mapping[str, str]) -> str:
    """Return a file name from its pattern.

    `%j` stands for the job, `%4t` for a number of four digits. A backslash in the pattern leaves it as it is.
    """
    if "\\" in pattern:
        return pattern.replace("\\", "")

    def fill(match: re.Match[str]) -> str:
        width, letter = match.groups()
        value = values.get(letter)
        return match[0] if value is None else value.zfill(min(int(width or 0), _MOST_WIDTH))

    return _PLACE.sub(fill, pattern)


def pattern_values(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what stands for each letter in a pattern, by the variables of the script or of a task."""
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
    """Return the number of the job, and that of its array; each task of an array has a number of its own."""
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
