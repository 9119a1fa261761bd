"""Plan a step: the tasks that `srun` starts on the nodes of the job, with their environments and files. Pure."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from muster.slurm import values
from muster.slurm.allocation import count_repeats, file_name, pattern_values, read_repeats
from muster.slurm.batch import spread_tasks
from muster.slurm.options import Fate, OptionError, Setting, read_srun

_FLAGS = frozenset({"exact", "exclusive", "label", "overcommit"})
# The options that set the number of GPUs of a step.
_GPU_COUNTS = {"gpus": values.parse_gpus, "gpus-per-node": values.parse_gpus, "gres": values.generic_resources}
_CHOOSE = "set CUDA_VISIBLE_DEVICES for each step"
# The variables that every step gets, even with --export=NONE.
_LEAST = ("HOME", "PATH", "USER")

# Variables that bash sets itself and that cannot be assigned.
_FIXED = frozenset({"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"})

# Gives each task its own share of its node's GPUs.
_CHOOSE_GPUS = (
    'CUDA_VISIBLE_DEVICES=$(echo "$CUDA_VISIBLE_DEVICES" | cut -d, -f{first}-{last}); export CUDA_VISIBLE_DEVICES; '
)


class Task(Struct, frozen=True):
    """A task of a step.

    node: the number of the job's node that runs the task; 0 is the script's node.
    variables: the SLURM_ variables of this task, in addition to the variables of all tasks.
    """

    rank: int
    node: int
    host: str
    variables: Mapping[str, str]


class StepDemand(Struct, frozen=True):
    """The part of its job that a step needs.

    nodes: the numbers of the nodes on which the step may run.
    counts: the number of tasks on each node of the step; the step needs as many nodes as there are counts.
    cpus: the CPUs of each task; 0 if the options do not set them.
    waits: whether the step waits until no other such step uses its CPUs.
    """

    nodes: Sequence[int]
    counts: Sequence[int]
    cpus: int
    waits: bool

    @property
    def cpus_of_nodes(self) -> list[int]:
        """The number of CPUs that the step needs on each of its nodes."""
        return [count * max(self.cpus, 1) for count in self.counts]


class SrunStep(Struct, frozen=True):
    """The tasks that one call of srun starts.

    environment: the variables of all tasks.
    before: the environment of the script's worker from before the script changed it.
    output, error, source: patterns for the names of the tasks' stdout, stderr and stdin files; "" for no file.
    label: whether each line of output starts with the rank of its task.
    ends_at_failure: whether the failure of a task ends the other tasks.
    """

    tasks: Sequence[Task]
    command: Sequence[str]
    environment: Mapping[str, str]
    before: Mapping[str, str]
    directory: str
    output: str = ""
    error: str = ""
    source: str = ""
    append: bool = False
    label: bool = False
    ends_at_failure: bool = False
    gpus_per_task: int = 0


def find_demand(words: Sequence[str], environment: Mapping[str, str]) -> StepDemand:
    """Return what the step of srun's arguments needs. Raises `OptionError`, also if the job does not have it."""
    if "SLURM_JOB_NODELIST" not in environment:
        raise OptionError("there is no job: srun starts tasks in a script with #SBATCH lines, run by muster run")
    asked = _take(read_srun(words)[0])
    nodes = _choose_nodes(asked, environment)
    counts = _count_tasks(asked, environment, nodes)
    waits = ("exclusive" in asked or "exact" in asked) and "overcommit" not in asked
    demand = StepDemand(nodes, counts, _count(asked, "cpus-per-task"), waits)
    most, room = max(demand.cpus_of_nodes), int(environment["SLURM_CPUS_ON_NODE"])
    if most > room and "overcommit" not in asked:
        raise OptionError(f"the tasks of a node need {most} CPUs, and the job has {room} there")
    _check_gpus(asked, environment, demand)
    return demand


def _check_gpus(options: Mapping[str, str], environment: Mapping[str, str], demand: StepDemand) -> None:
    """Raise `OptionError` if the step would see a different number of GPUs than its options request.

    Without `--gpus-per-task` a step sees all GPUs of its nodes, including GPUs that other steps use.
    """
    visible = environment.get("CUDA_VISIBLE_DEVICES", "")
    room = len(visible.split(",")) if visible else int(environment.get("SLURM_GPUS_ON_NODE", "0"))
    each = _count_gpus_per_task(options, environment)
    if each:
        most = max(demand.counts) * each
        if most > room:
            raise OptionError(f"the tasks of a node need {most} GPUs, and the step sees {room} there")
        if demand.waits and most < room:
            raise OptionError(f"steps that wait for their CPUs share the first of {room} GPUs; {_CHOOSE}")
        return
    for name in options.keys() & _GPU_COUNTS.keys():
        try:
            number, _ = _GPU_COUNTS[name](options[name])
        except OptionError as error:
            raise OptionError(f"--{name}: {error}") from None
        whole = room * len(demand.counts) if name == "gpus" else room
        if number != whole:
            raise OptionError(f"--{name}: a step sees all GPUs of its nodes, which are {whole}; {_CHOOSE}")


def _count_gpus_per_task(options: Mapping[str, str], environment: Mapping[str, str]) -> int:
    return _count(options, "gpus-per-task") or int(environment.get("SLURM_GPUS_PER_TASK", "0"))


def find_launcher(words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the `mpirun` command that replaces `srun --mpi=KIND`; [] if srun itself starts the tasks.

    MPI programs communicate with their launcher in a protocol that srun does not support. Raises `OptionError`.
    """
    settings, command = read_srun(words)
    kind = _take(settings).get("mpi", "none")
    if kind == "none":
        return []
    demand = find_demand(words, environment)
    if len(demand.nodes) < len(environment["SLURM_JOB_NODELIST"].split(",")):
        raise OptionError(f"--mpi={kind}: mpirun takes all nodes of the job; leave out --nodes and --nodelist")
    return ["mpirun", "-np", str(sum(demand.counts)), *command]


def plan_step(
    words: Sequence[str],
    environment: Mapping[str, str],
    before: Mapping[str, str],
    directory: str,
    number: int,
    nodes: Sequence[int],
) -> SrunStep:
    """Return the step that srun's arguments describe.

    words: the arguments of srun.
    environment: the environment of srun.
    before: the environment of the worker before its script started.
    directory: the working directory of srun.
    number: the value of SLURM_STEP_ID.
    nodes: the nodes of the step, one for each of `StepDemand.counts`.

    Raises `OptionError`.
    """
    demand = find_demand(words, environment)
    settings, command = read_srun(words)
    asked = _take(settings)
    if not command:
        raise OptionError("no command stands behind the options")
    return SrunStep(
        tasks=tuple(_lay_out(demand, nodes, environment, number)),
        command=command,
        environment=_choose_environment(asked.get("export", "ALL"), environment),
        before=before,
        directory=f"{directory}/{asked['chdir']}"
        if asked.get("chdir", "/")[0] != "/"
        else asked.get("chdir", directory),
        output=asked.get("output", ""),
        error=asked.get("error", ""),
        source=asked.get("input", ""),
        append=asked.get("open-mode", "") == "append",
        label="label" in asked,
        ends_at_failure=asked.get("kill-on-bad-exit", "0") != "0",
        gpus_per_task=_count_gpus_per_task(asked, environment),
    )


def task_text(step: SrunStep, task: Task, *, here: bool) -> str:
    """Return the shell script for a task: it sets the directory, the variables and stdin, and runs the command.

    here: whether the shell inherits srun's environment and gets the command as its arguments. The script then contains
    neither, because it is a single argument, whose length Linux limits.
    """
    environment = {} if here else step.environment
    changed = {name: value for name, value in environment.items() if step.before.get(name) != value}
    exported = "".join(
        f"export {name}={shlex.quote(value)}; "
        for name, value in (changed | dict(task.variables)).items()
        if _is_for_shell(name)
    )
    first = int(task.variables["SLURM_LOCALID"]) * step.gpus_per_task + 1
    gpus = _CHOOSE_GPUS.format(first=first, last=first + step.gpus_per_task - 1) if step.gpus_per_task else ""
    others = [f"{name}={value}" for name, value in changed.items() if not _is_for_shell(name)]
    command = '"$@"' if here else shlex.join([*(["env", *others] if others else []), *step.command])
    source = _name_file(step.source, _list_letters(step, task))
    stdin = f" < {shlex.quote(source)}" if source else ""
    return f"cd {shlex.quote(step.directory)} && {{ {exported}{gpus}exec {command}{stdin}; }}"


def task_files(step: SrunStep, task: Task) -> tuple[str, str]:
    """Return the names of the files for a task's stdout and stderr; "" for srun's own streams."""
    letters = _list_letters(step, task)
    return _name_file(step.output, letters), _name_file(step.error or step.output, letters)


def _list_letters(step: SrunStep, task: Task) -> dict[str, str]:
    return pattern_values({**step.environment, **task.variables})


def _name_file(pattern: str, letters: Mapping[str, str]) -> str:
    """Return the file name for a task's stream; "" for srun's own stream.

    As in Slurm, the pattern `none` means /dev/null, and `all` means srun's own stream.
    """
    if pattern == "none":
        return os.devnull
    return "" if pattern == "all" else file_name(pattern, letters)


def _is_for_shell(name: str) -> bool:
    """Return whether a shell can export a variable with this name: an identifier that is not read-only in bash."""
    return name.isascii() and name.isidentifier() and name not in _FIXED


def _take(settings: Sequence[Setting]) -> dict[str, str]:
    for setting in settings:
        if setting.option.fate is Fate.REFUSED:
            raise OptionError(f"--{setting.option.name}: {setting.option.why}")
    followed = {one.option.name: one.value for one in settings if one.option.fate is Fate.FOLLOWED}
    if followed.get("kill-on-bad-exit") == "":
        followed["kill-on-bad-exit"] = "1"
    return {name: value for name, value in followed.items() if value or name in _FLAGS}


def _count(options: Mapping[str, str], name: str) -> int:
    """Return an option's value as a number; 0 if the option is not set. Raises `OptionError`."""
    try:
        return values.count(options[name]) if name in options else 0
    except OptionError as error:
        raise OptionError(f"--{name}: {error}") from None


def _lay_out(demand: StepDemand, nodes: Sequence[int], environment: Mapping[str, str], number: int) -> Iterator[Task]:
    """Yield the tasks in the order of their ranks, node by node.

    nodes: the nodes of the step.
    number: the value of SLURM_STEP_ID.
    """
    counts = demand.counts
    hosts = environment["SLURM_JOB_NODELIST"].split(",")
    shared = {
        "SLURM_STEP_ID": number,
        "SLURM_STEPID": number,
        "SLURM_STEP_NODELIST": ",".join(hosts[node] for node in nodes),
        "SLURM_STEP_NUM_NODES": len(counts),
        "SLURM_STEP_NUM_TASKS": sum(counts),
        "SLURM_STEP_TASKS_PER_NODE": count_repeats(counts),
        "SLURM_NNODES": len(counts),
        "SLURM_NTASKS": sum(counts),
        "SLURM_NPROCS": sum(counts),
        "SLURM_TASKS_PER_NODE": count_repeats(counts),
    } | ({"SLURM_CPUS_PER_TASK": demand.cpus} if demand.cpus else {})
    rank = 0
    for at, (node, count) in enumerate(zip(nodes, counts, strict=True)):
        for local in range(count):
            own = {
                "SLURM_PROCID": rank,
                "SLURM_LOCALID": local,
                "SLURM_NODEID": at,
                "SLURM_GTIDS": ",".join(str(rank - local + one) for one in range(count)),
                "SLURMD_NODENAME": hosts[node],
            }
            yield Task(rank, node, hosts[node], {name: str(value) for name, value in (shared | own).items()})
            rank += 1


def _choose_nodes(options: Mapping[str, str], environment: Mapping[str, str]) -> list[int]:
    """Return the numbers of the job's nodes that a step may use, in order. Raises `OptionError`."""
    hosts = environment["SLURM_JOB_NODELIST"].split(",")
    chosen = list(range(len(hosts)))
    if "nodelist" in options:
        names = options["nodelist"].split(",")
        if unknown := [name for name in names if name not in hosts]:
            raise OptionError(f"--nodelist: {unknown[0]} is no node of this job, which has {', '.join(hosts)}")
        chosen = [node for node in chosen if hosts[node] in names]
    if "nodes" not in options:
        return chosen
    wanted = values.parse_nodes(options["nodes"])
    if wanted > len(chosen):
        raise OptionError(f"--nodes: {wanted} nodes are more than the {len(chosen)} that there are")
    return chosen[:wanted]


def _count_tasks(options: Mapping[str, str], environment: Mapping[str, str], chosen: Sequence[int]) -> list[int]:
    """Return the number of tasks on each node of the step, without nodes that have no task."""
    whole, each = _count(options, "ntasks"), _count(options, "ntasks-per-node")
    if whole:
        return spread_tasks(whole, min(whole, len(chosen)))
    if each:
        return [each] * len(chosen)
    counts = read_repeats(environment["SLURM_TASKS_PER_NODE"])
    return [counts[node] for node in chosen]


def _choose_environment(export: str, environment: Mapping[str, str]) -> dict[str, str]:
    names = export.split(",")
    kept = dict(environment)
    if "ALL" not in names:
        kept = {
            name: value
            for name, value in environment.items()
            if name.startswith(("SLURM", "MUSTER")) or name in _LEAST or name in names
        }
    return kept | {name: value for name, equals, value in (one.partition("=") for one in names) if equals}
