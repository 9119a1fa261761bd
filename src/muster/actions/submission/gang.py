"""Describe a gang as the user requested it, before there is an object in the cluster. Pure."""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct, field

from muster.actions.submission.sweep import Sweep
from muster.api.ours.deferral import Deferral
from muster.api.ours.elastic import Bounds
from muster.api.ours.gpus import NVIDIA_GPU
from muster.api.ours.notify import NoticeSettings
from muster.slurm.batch import ScriptSettings

# The name of the only role of a gang without roles.
WORKERS = "workers"

# The length of the suffix that a Job appends to a pod's name.
_SUFFIX = "-abcde"
_MOST_OF_A_NAME = 63


class Role(Struct, frozen=True):
    """The workers of a gang that run the same command with the same requests and limits.

    Quantities are as in Kubernetes; cpus and memory are requests.
    """

    name: str
    command: Sequence[str]
    workers: int = 1
    cpus: str = ""
    memory: str = ""
    gpus: int = 0
    cpu_limit: str = ""
    memory_limit: str = ""


class SoftSignal(Struct, frozen=True):
    """The warning before a time limit: a signal such as `USR1`, sent this many seconds before the limit."""

    name: str
    seconds: int


class SecretVariables(Struct, frozen=True):
    """A Secret whose keys become variables of the workers. key: take only this key; "" takes all keys."""

    name: str
    key: str = ""


class SlurmScript(Struct, frozen=True):
    """A script with `#SBATCH` lines as the command of a gang.

    id: the number that the script sees as its job id.
    muster: the shell words by which workers call Muster.
    directory: the directory in which the user submitted the script; "" if the nodes have another disk.
    """

    batch: ScriptSettings
    id: int
    muster: str
    directory: str = ""


class Gang(Struct, frozen=True):
    """A requested gang: what its workers run, request, and find in their environment.

    Commands and environment are passed on word for word. Quantities are as in Kubernetes.

    roles: the groups of different workers; empty if all workers run `command`.
    until: the role whose completion completes the job; "" if all roles have to complete.
    start_timeout: seconds from the first worker's start to the last worker's start; None for no limit.
    time_limit: seconds that each attempt may run; None for no limit.
    soft_signal: the warning before the limit.
    retries: how often the whole gang restarts after a failure; for an elastic gang, how many workers are replaced.
    exclusive: whether no other job's pods may run on its nodes.
    labels, annotations: of the job and of its pods.
    secrets: Secrets that add variables to the environment.
    state: the PersistentVolumeClaim for data that outlives attempts; "" lets the nodes choose the place.
    queue: the LocalQueue; "" lets the cluster choose.
    priority: the PriorityClass of the pods.
    queue_priority: a WorkloadPriorityClass, which counts in queues only.
    elastic: the sizes between which the job may be resized; None for a fixed size.
    run_time: how long simulated nodes pretend to run it; "" for ever.
    gpu_resource: the resource that counts GPUs in the cluster.
    stdin: whether the first worker reads the standard input of the client that attaches; other workers read nothing.
    terminal: whether the streams of the first worker are a terminal.
    plain: whether the job is a Job without a JobSet.
    upstream: whether Kubernetes' own Job controller runs it, which counts interruptions unless a Job says otherwise.
    sweep: the trials, if the job is a sweep of single workers; None for a gang.
    schedule: the cron schedule by which a CronJob starts the job repeatedly; "" for a job that starts once.
    deferral: the conditions for the job's start.
    notify: the receivers of notices about the job's start and end.
    mpi: the shell words by which workers call Muster, if rank 0 alone runs the command and the command is or calls
    `mpirun`; "" if every worker runs the command.
    script: the settings of a command that is a script for Slurm; else None.
    """

    name: str
    command: Sequence[str] = ()
    workers: int = 1
    namespace: str = "default"
    cpus: str = ""
    memory: str = ""
    gpus: int = 0
    cpu_limit: str = ""
    memory_limit: str = ""
    roles: Sequence[Role] = ()
    until: str = ""
    start_timeout: int | None = None
    image: str = ""
    queue: str = ""
    priority: str = ""
    queue_priority: str = ""
    working_directory: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    elastic: Bounds | None = None
    run_time: str = ""
    gpu_resource: str = NVIDIA_GPU
    stdin: bool = False
    terminal: bool = False
    time_limit: int | None = None
    soft_signal: SoftSignal | None = None
    retries: int | None = None
    exclusive: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[SecretVariables] = ()
    state: str = ""
    plain: bool = False
    upstream: bool = False
    sweep: Sweep | None = None
    schedule: str = ""
    deferral: Deferral = field(default_factory=Deferral)
    notify: NoticeSettings = field(default_factory=NoticeSettings)
    mpi: str = ""
    script: SlurmScript | None = None

    @property
    def parts(self) -> Sequence[Role]:
        """The roles, or one role named `workers` if the gang has none."""
        whole = Role(
            WORKERS,
            self.command,
            self.workers,
            self.cpus,
            self.memory,
            self.gpus,
            self.cpu_limit,
            self.memory_limit,
        )
        return self.roles or (whole,)

    @property
    def is_job(self) -> bool:
        """Whether the gang becomes a Job without a JobSet."""
        return self.plain or self.elastic is not None or self.sweep is not None or bool(self.schedule)

    @property
    def size(self) -> int:
        """The number of workers at the start."""
        return sum(role.workers for role in self.parts)

    @property
    def most_workers(self) -> int:
        """The largest number of workers at one time."""
        return self.elastic.most if self.elastic is not None else self.size


def beyond_elastic(gang: Gang) -> tuple[str, str] | None:
    """Return the first option that an elastic gang cannot have, and the reason; None if it has no such option."""
    if gang.elastic is not None and gang.soft_signal is not None:
        return "signal", "workers of an elastic job start at different times; none can tell when it ends"
    if gang.elastic is not None and gang.start_timeout is not None:
        return "start_timeout", "the workers of an elastic job do not wait for each other"
    return None


def beyond_schedule(gang: Gang) -> str:
    """Return the first option of the gang that a gang with a schedule cannot have; "" without such an option."""
    options = {
        "role": gang.roles,
        "until": gang.until,
        "elastic": gang.elastic,
        "mpi": gang.mpi,
        "start-timeout": gang.start_timeout is not None,
        "exclusive": gang.exclusive,
        "retries": gang.retries and gang.size > 1,
        "begin": gang.deferral.begin_at,
        "after": gang.deferral.after,
    }
    return next((option for option, value in options.items() if gang.schedule and value), "")


def not_text(gang: Gang) -> str:
    """Return a sentence that names a part of the gang that is not valid UTF-8; "" if all parts are valid."""
    commands = [role.command for role in gang.parts]
    arguments = {f"argument {number} of the command": word for words in commands for number, word in enumerate(words)}
    variables = {f"the variable {name}": f"{name}={value}" for name, value in gang.environment.items()}
    marks = {
        f"{kind} {key}": f"{key}={value}" for kind, all_of_it in _list_marks(gang) for key, value in all_of_it.items()
    }
    parts = {"the working directory": gang.working_directory} | arguments | variables | marks
    # Python decodes bytes of the command line that are not UTF-8 as surrogate escapes, which cannot be encoded.
    what = next((what for what, text in parts.items() if not _is_text(text)), "")
    return f"{what} is not UTF-8 ({parts[what]!a}), and a manifest can only carry text" if what else ""


def _list_marks(gang: Gang) -> list[tuple[str, Mapping[str, str]]]:
    return [("label", gang.labels), ("annotation", gang.annotations)]


def room_for_name(roles: Sequence[Role]) -> int:
    """Return the maximum length of a job name for which all pod names `NAME-ROLE-0-INDEX-XXXXX` are valid."""
    return _MOST_OF_A_NAME - max(len(f"-{role.name}-0-{role.workers - 1}{_SUFFIX}") for role in roles)


def no_host_name(name: str, roles: Sequence[Role]) -> str:
    """Return the error in the job name that a user chose; "" if it is valid."""
    room = room_for_name(roles)
    if not name or (re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", name) and len(name) <= room):
        return ""
    return (
        f"{name!r}: at most {max(room, 0)} of a-z, 0-9 and '-', a letter first, and no '-' at the end: "
        "it becomes part of host names"
    )


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def name_for(command: Sequence[str], suffix: str, room: int) -> str:
    """Return a job name made from the command: `train-digits-x7k2p` for `python examples/train_digits.py`."""
    words = [word for word in command if not word.startswith("-")]
    scripts = [word for word in words if PurePath(word).suffix in (".py", ".sh")]
    stem = PurePath((scripts or words or ["run"])[0]).stem
    slug = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
    if not slug or slug[0].isdigit():
        slug = f"run-{slug}"
    return _shorten_name(slug, suffix, room)


def name_for_retry(name: str, suffix: str) -> str:
    """Return the name of the sweep that retries trials of the sweep of this name."""
    return _shorten_name(name, suffix, room_for_name((Role(WORKERS, ()),)))


def _shorten_name(stem: str, suffix: str, room: int) -> str:
    return f"{stem[: room - len(suffix) - 1].rstrip('-')}-{suffix}"
