"""Describe a gang as the user requested it, before any object exists in the cluster. Pure."""

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

# The name of the single role of a gang without roles.
WORKERS = "workers"

# The length of the suffix that a Job appends to the name of a pod.
_SUFFIX = "-abcde"
_MOST_OF_A_NAME = 63


class Role(Struct, frozen=True):
    """The workers of a gang that run the same command with the same requests and limits.

    cpus, memory: the requests, as Kubernetes quantities; "" for no request.
    gpus: the number of GPUs.
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
    """The signal to send before a time limit: its name, such as `USR1`, and the number of seconds before the limit."""

    name: str
    seconds: int


class SecretVariables(Struct, frozen=True):
    """A Secret whose keys become environment variables of the workers.

    key: the only key to use; "" for all keys.
    """

    name: str
    key: str = ""


class SlurmScript(Struct, frozen=True):
    """A script with `#SBATCH` lines as the command of a gang.

    id: the number that the script sees as its job id.
    muster: the shell command with which workers call Muster.
    directory: the directory in which the user submitted the script; "" if the nodes do not share the user's disk.
    """

    batch: ScriptSettings
    id: int
    muster: str
    directory: str = ""


class Gang(Struct, frozen=True):
    """A gang as requested: what its workers run, what they request, and their environment.

    The command and the environment are passed on verbatim. Quantities are Kubernetes quantities.

    roles: the groups of different workers; empty if all workers run `command`.
    until: the role whose completion completes the job; "" if all roles have to complete.
    start_timeout: the maximum number of seconds between the first and the last worker's start; None for no limit.
    time_limit: the maximum run time of each attempt in seconds; None for no limit.
    soft_signal: the signal to send before the time limit; None for no signal.
    retries: how often the whole gang restarts after a failure; for an elastic gang, how many workers are replaced.
    exclusive: whether no other job's pods may run on the gang's nodes.
    labels, annotations: the labels and annotations of the job and of its pods.
    secrets: the Secrets that add variables to the environment.
    state: the PersistentVolumeClaim for data that outlives attempts; "" to let the nodes choose a directory.
    queue: the name of the LocalQueue; "" to let the cluster choose.
    priority: the name of the pods' PriorityClass.
    queue_priority: the name of the WorkloadPriorityClass, which only affects queueing.
    elastic: the minimum and maximum size of an elastic job; None for a fixed size.
    run_time: how long simulated nodes pretend to run the job; "" for no end.
    gpu_resource: the name of the cluster's GPU resource.
    stdin: whether rank 0 reads the standard input of a client that attaches; other workers have no input.
    terminal: whether the streams of rank 0 are a terminal.
    plain: whether to create a Job instead of a JobSet.
    upstream: whether Kubernetes' own Job controller runs the job. It counts interruptions as failures by default.
    sweep: the trials, if the job is a sweep of single workers; None for a gang.
    schedule: the cron schedule by which a CronJob repeatedly starts the job; "" for a job that starts once.
    deferral: the conditions for the job's start.
    notify: the receivers of notifications about the job, and the events to notify them about.
    mpi: the shell command with which workers call Muster, if only rank 0 runs the command and the command uses
    `mpirun`; "" if every worker runs the command.
    script: the settings of a command that is a script for Slurm; None for any other command.
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
        """The roles, or one role named `workers` if the gang has no roles."""
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
        """Whether the gang is submitted as a Job without a JobSet."""
        return self.plain or self.elastic is not None or self.sweep is not None or bool(self.schedule)

    @property
    def size(self) -> int:
        """The number of workers at the start."""
        return sum(role.workers for role in self.parts)

    @property
    def most_workers(self) -> int:
        """The maximum number of concurrent workers."""
        return self.elastic.most if self.elastic is not None else self.size


def beyond_elastic(gang: Gang) -> tuple[str, str] | None:
    """Return the first option that an elastic gang cannot have, and the reason; None if it has no such option."""
    if gang.elastic is not None and gang.soft_signal is not None:
        return "signal", "workers of an elastic job start at different times; none can tell when it ends"
    if gang.elastic is not None and gang.start_timeout is not None:
        return "start_timeout", "the workers of an elastic job do not wait for each other"
    return None


def beyond_schedule(gang: Gang) -> str:
    """Return the first option of the gang that a gang with a schedule cannot have; "" if it has no such option."""
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
    # Python decodes invalid UTF-8 on the command line to surrogate escapes, which cannot be encoded.
    what = next((what for what, text in parts.items() if not _is_text(text)), "")
    return f"{what} is not UTF-8 ({parts[what]!a}), and a manifest can only carry text" if what else ""


def _list_marks(gang: Gang) -> list[tuple[str, Mapping[str, str]]]:
    return [("label", gang.labels), ("annotation", gang.annotations)]


def room_for_name(roles: Sequence[Role]) -> int:
    """Return the maximum length of a job name with which all pod names `NAME-ROLE-0-INDEX-XXXXX` are valid."""
    return _MOST_OF_A_NAME - max(len(f"-{role.name}-0-{role.workers - 1}{_SUFFIX}") for role in roles)


def no_host_name(name: str, roles: Sequence[Role]) -> str:
    """Return what is wrong with the job name that a user chose; "" if it is valid."""
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
    """Return a job name derived from the command: `train-digits-x7k2p` for `python examples/train_digits.py`.

    suffix: the random end of the name.
    room: the maximum number of characters.
    """
    words = [word for word in command if not word.startswith("-")]
    scripts = [word for word in words if PurePath(word).suffix in (".py", ".sh")]
    stem = PurePath((scripts or words or ["run"])[0]).stem
    slug = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
    if not slug or slug[0].isdigit():
        slug = f"run-{slug}"
    return _shorten_name(slug, suffix, room)


def name_for_retry(name: str, suffix: str) -> str:
    """Return the name of the sweep that retries trials of the sweep with this name."""
    return _shorten_name(name, suffix, room_for_name((Role(WORKERS, ()),)))


def _shorten_name(stem: str, suffix: str, room: int) -> str:
    return f"{stem[: room - len(suffix) - 1].rstrip('-')}-{suffix}"
