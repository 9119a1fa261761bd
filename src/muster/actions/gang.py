"""What a gang is, as it was asked for, before it is an object of the cluster. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from msgspec import Struct

from muster.actions.sweep import Sweep
from muster.api.ours.elastic import Bounds
from muster.api.ours.gpus import NVIDIA_GPU

# The role of a gang that has no roles.
WORKERS = "workers"

# Of a pod's name, what its Job puts behind its index.
_SUFFIX = "-abcde"
_MOST_OF_A_NAME = 63


class Role(Struct, frozen=True):
    """Workers that are alike: what each runs and asks for. Quantities are as in Kubernetes."""

    name: str
    command: Sequence[str]
    workers: int = 1
    cpus: str = ""
    memory: str = ""
    gpus: int = 0


class SoftSignal(Struct, frozen=True):
    """What workers are told before a time limit ends them: a signal, as `USR1`, so many seconds before."""

    name: str
    seconds: int


class SecretAsked(Struct, frozen=True):
    """A Secret whose keys are variables of the workers; with a key, only that one."""

    name: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Gang:
    """A command to run as a gang, word for word; the same goes for its environment. Quantities are as in Kubernetes.

    roles: what runs instead of the command, if that is not the same for all.
    until: the role whose end is the end of all; "" if all have to end.
    start_timeout: in how many seconds from the first start all have to have started; None for ever.
    time_limit: for how many seconds each attempt may run; None for ever. soft_signal: what comes before that.
    retries: how often the whole is started anew when it fails; if elastic, how many workers are replaced.
    exclusive: no other job's pods are on its nodes.
    labels, annotations: of the job and of its pods.
    secrets: where more of its environment comes from.
    state: the PersistentVolumeClaim on which it keeps what outlives its attempts; "" leaves that to its nodes.
    queue: its LocalQueue; "" leaves it to the cluster.
    priority: the PriorityClass of its pods. queue_priority: a WorkloadPriorityClass, which counts in queues only.
    elastic: between which sizes it may be moved; None if it stays as it is.
    run_time: how long simulated nodes play that it runs; "" for ever.
    gpu_resource: what counts GPUs where it runs.
    stdin: whether its first worker's standard input comes from who attaches to it; else it is empty.
    terminal: whether that one's streams are a terminal.
    plain: it is made without a JobSet.
    sweep: its one worker is a trial, of which there are so many; None if it is a gang.
    """

    name: str
    command: Sequence[str] = ()
    workers: int = 1
    namespace: str = "default"
    cpus: str = ""
    memory: str = ""
    gpus: int = 0
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
    secrets: Sequence[SecretAsked] = ()
    state: str = ""
    plain: bool = False
    sweep: Sweep | None = None

    @property
    def parts(self) -> Sequence[Role]:
        """Its roles, or the one that has no name of its own."""
        return self.roles or (Role(WORKERS, self.command, self.workers, self.cpus, self.memory, self.gpus),)

    @property
    def is_job(self) -> bool:
        """Whether it is a Job by itself."""
        return self.plain or self.elastic is not None or self.sweep is not None

    @property
    def size(self) -> int:
        """How many workers it begins with."""
        return sum(role.workers for role in self.parts)

    @property
    def most_workers(self) -> int:
        """How many there may be at once."""
        return self.elastic.most if self.elastic is not None else self.size


def beyond_elastic(gang: Gang) -> tuple[str, str] | None:
    """What is asked for that no elastic gang can have, by the name of the option, and why; None if nothing is."""
    if gang.elastic is not None and gang.soft_signal is not None:
        return "signal", "workers of an elastic job start at different times; none can tell when it ends"
    if gang.elastic is not None and gang.start_timeout is not None:
        return "start_timeout", "the workers of an elastic job do not wait for each other"
    return None


def not_text(gang: Gang) -> str:
    """Which part of a gang is no UTF-8, as a sentence: a manifest carries nothing else. "" if all of it is."""
    commands = [role.command for role in gang.parts]
    arguments = {f"argument {number} of the command": word for words in commands for number, word in enumerate(words)}
    variables = {f"the variable {name}": f"{name}={value}" for name, value in gang.environment.items()}
    marks = {f"{kind} {key}": f"{key}={value}" for kind, all_of_it in _marks(gang) for key, value in all_of_it.items()}
    parts = {"the working directory": gang.working_directory} | arguments | variables | marks
    # Bytes of the command line that are no UTF-8 come as surrogate escapes, which cannot be encoded.
    what = next((what for what, text in parts.items() if not _is_text(text)), "")
    return f"{what} is not UTF-8 ({parts[what]!a}), and a manifest can only carry text" if what else ""


def _marks(gang: Gang) -> list[tuple[str, Mapping[str, str]]]:
    return [("label", gang.labels), ("annotation", gang.annotations)]


def room_for_name(roles: Sequence[Role]) -> int:
    """How long the name of a job may be, whose pods are called `NAME-ROLE-0-INDEX-XXXXX`."""
    return _MOST_OF_A_NAME - max(len(f"-{role.name}-0-{role.workers - 1}{_SUFFIX}") for role in roles)


def no_host_name(name: str, roles: Sequence[Role]) -> str:
    """What is wrong with a name that a user gave a job; "" if nothing is."""
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
    """A job name that says what runs: `train-digits-x7k2p` for `python examples/train_digits.py`."""
    words = [word for word in command if not word.startswith("-")]
    scripts = [word for word in words if PurePath(word).suffix in (".py", ".sh")]
    stem = PurePath((scripts or words or ["run"])[0]).stem
    slug = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
    if not slug or slug[0].isdigit():
        slug = f"run-{slug}"
    return _short(slug, suffix, room)


def name_for_retry(name: str, suffix: str) -> str:
    """The name of the sweep that runs trials of the sweep of this name again."""
    return _short(name, suffix, room_for_name((Role(WORKERS, ()),)))


def _short(stem: str, suffix: str, room: int) -> str:
    return f"{stem[: room - len(suffix) - 1].rstrip('-')}-{suffix}"
