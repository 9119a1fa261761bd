"""The options of sbatch and srun: how a user writes each option, and what Muster does with it. Pure.

An option is treated in one of four ways:

- followed: Muster does what the option requests.
- needless: Muster already does so without the option.
- ignored: Muster tells the user that the option has no effect.
- refused: Muster submits nothing, because without the option the job would have another meaning.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from msgspec import Struct

from muster.insight.nearest import find_nearest


class Fate(Enum):
    """The way in which Muster treats an option."""

    FOLLOWED = "followed"
    NEEDLESS = "needless"
    IGNORED = "ignored"
    REFUSED = "refused"


class Value(Enum):
    """Whether an option takes a value. An optional value must be part of the same word: `--name=value` or `-nvalue`."""

    NEEDED = "needed"
    OPTIONAL = "optional"
    NONE = "none"


class Option(Struct, frozen=True):
    """An option of sbatch or srun.

    letter: the short form of the option; "" if it has none.
    why: the reason why Muster does not follow the option, for the user.
    """

    name: str
    letter: str = ""
    value: Value = Value.NEEDED
    fate: Fate = Fate.FOLLOWED
    why: str = ""


class Setting(Struct, frozen=True):
    """One use of an option, with the value that the user wrote."""

    option: Option
    value: str = ""


def _list_ignored(why: str, *names: str, value: Value = Value.NEEDED) -> list[Option]:
    return [Option(*_split(name), value=value, fate=Fate.IGNORED, why=why) for name in names]


def _list_refused(why: str, *names: str, value: Value = Value.NEEDED) -> list[Option]:
    return [Option(*_split(name), value=value, fate=Fate.REFUSED, why=why) for name in names]


def _split(name: str) -> tuple[str, str]:
    """Split an entry `name/l` of this module's tables into the option's name and letter; "" for no letter."""
    long, _, letter = name.partition("/")
    return long, letter


_FOLLOWED = (
    "array/a", "begin/b", "chdir/D", "cpus-per-gpu", "cpus-per-task/c", "dependency/d", "error/e", "export",
    "gpus-per-node", "gpus-per-task", "gpus/G", "gres", "input/i", "job-name/J", "mail-type", "mail-user",
    "mem", "mem-per-cpu", "mem-per-gpu",
    "nodes/N", "ntasks-per-node", "ntasks/n", "open-mode", "output/o", "partition/p", "qos/q", "signal", "time/t",
)  # fmt: skip
_NEEDLESS = ("oversubscribe/s", "parsable", "quiet/Q", "requeue", "verbose/v", "wait/W")

_CHOSEN_PLACE = "Muster chooses sockets, cores and nodes itself"
_NODES = "name nodes of your own in the manifest of muster run --dry-run"

SBATCH = (
    *(Option(*_split(name)) for name in _FOLLOWED),
    Option("exclusive", value=Value.OPTIONAL),
    *(Option(*_split(name), value=Value.NONE, fate=Fate.NEEDLESS) for name in _NEEDLESS),
    *_list_ignored("quota belongs to queues", "account/A"),
    *_list_ignored("Muster keeps no such note", "comment", "wckey", "admin-comment"),
    *_list_ignored("jobs have no such numbers", "priority"),
    *_list_ignored("jobs have no such numbers", "nice", value=Value.OPTIONAL),
    *_list_ignored(
        _CHOSEN_PLACE, "exclude/x", "hint", "threads-per-core", "ntasks-per-core", "ntasks-per-socket",
        "cores-per-socket", "sockets-per-node", "extra-node-info/B", "distribution/m", "mem-bind", "gpu-bind", "prefer",
        "switches", "core-spec/S", "thread-spec", "network",
    ),
    *_list_ignored(_CHOSEN_PLACE, "contiguous", "spread-job", "use-min-nodes", "overcommit/O", value=Value.NONE),
    *_list_ignored("Muster sets no clocks", "cpu-freq", "gpu-freq"),
    *_list_ignored("Muster measures all jobs alike", "acctg-freq", "profile"),
    *_list_ignored("Muster counts no space on disks", "tmp", "bb", "bbf"),
    *_list_ignored("Muster has one time for a job", "time-min"),
    *_list_ignored("a job that loses a node starts again", "no-kill/k", value=Value.OPTIONAL),
    *_list_ignored("Muster has no such setting", "propagate", "get-user-env", value=Value.OPTIONAL),
    *_list_ignored("Muster has no such setting", "delay-boot", "kill-on-invalid-dep", "power"),
    *_list_ignored("Muster has no such setting", "reboot", value=Value.NONE),
    *_list_refused("Muster knows no deadline of a job; limit its run with --time", "deadline"),
    *_list_refused(_NODES, "constraint/C", "nodelist/w", "nodefile/F", "cluster-constraint"),
    *_list_refused("Muster counts no licences, unless a queue has them as a resource", "licenses/L"),
    *_list_refused("Muster has no reservations; choose a queue with --partition", "reservation"),
    *_list_refused("choose the cluster with: muster run --kubeconfig FILE", "clusters/M"),
    *_list_refused("submit the script, and say: muster hold JOB", "hold/H", value=Value.NONE),
    *_list_refused(
        "an interrupted job starts again, with SLURM_RESTART_COUNT set; let the script look at that",
        "no-requeue", value=Value.NONE,
    ),
    *_list_refused("say how many tasks there are with --ntasks", "ntasks-per-gpu"),
    *_list_refused("say how many there are of a node: --gpus-per-node, --cpus-per-task", "gpus-per-socket", "mincpus"),
    *_list_refused("a job runs as the user who submits it", "uid", "gid"),
    *_list_refused("name the variables with --export", "export-file"),
    *_list_refused("name an image with: muster run --image IMAGE", "container", "container-id"),
    *_list_refused("the command is the script itself", "wrap"),
    *_list_refused("say it on the command line: muster run --dry-run", "test-only", value=Value.NONE),
)  # fmt: skip

_TASKS = (
    "chdir/D", "cpus-per-task/c", "error/e", "export", "gpus-per-node", "gpus-per-task", "gpus/G", "gres", "input/i",
    "mpi", "nodelist/w", "nodes/N", "ntasks-per-node", "ntasks/n", "open-mode", "output/o",
)  # fmt: skip
# Options of a step that are determined by its job already.
_OF_THE_JOB = (
    "account/A", "accel-bind", "cpu-bind", "cpus-per-gpu", "distribution/m", "gpu-bind", "hint", "jobid",
    "job-name/J", "mem", "mem-bind", "mem-per-cpu", "mem-per-gpu", "partition/p", "threads-per-core", "wait/W",
)  # fmt: skip

SRUN = (
    *(Option(*_split(name)) for name in _TASKS),
    Option("kill-on-bad-exit", "K", Value.OPTIONAL),
    *(Option(*_split(name), value=Value.NONE) for name in ("exact", "label/l", "overcommit/O")),
    Option("exclusive", value=Value.OPTIONAL),
    *(Option(*_split(name), fate=Fate.NEEDLESS) for name in _OF_THE_JOB),
    Option("propagate", value=Value.OPTIONAL, fate=Fate.NEEDLESS),
    *(
        Option(*_split(name), value=Value.NONE, fate=Fate.NEEDLESS)
        for name in ("overlap", "oversubscribe/s", "preserve-env/E", "quiet/Q", "unbuffered/u", "verbose/v")
    ),
    *_list_refused("look into a running job with: muster exec JOB -- bash", "pty", value=Value.OPTIONAL),
    *_list_refused("start different programs by several srun with & behind them", "multi-prog", value=Value.NONE),
    *_list_refused("the time limit is that of the job; limit a step with the command timeout", "time/t"),
    *_list_refused("the nodes of a job see the same files", "bcast", value=Value.OPTIONAL),
    *_list_refused("name the nodes of the step with --nodelist", "exclude/x"),
)  # fmt: skip

# Other names that Slurm accepts for the same options.
_ALIASES = {"tasks-per-node": "ntasks-per-node", "workdir": "chdir", "share": "oversubscribe"}

# Separators of the components of a heterogeneous job; Slurm has used both words.
_MIXED = ("hetjob", "packjob")


class OptionError(ValueError):
    """An unknown, malformed or refused option of sbatch or srun. The message contains the option and the reason."""


class _Table:
    """A parser for the options of one program."""

    def __init__(self, program: str, options: Iterable[Option]) -> None:
        self._program = program
        self._by_name = {option.name: option for option in options}
        self._by_letter = {option.letter: option for option in options if option.letter}

    def read(self, left: list[str]) -> Iterator[Setting]:
        """Remove the options from the front of a command line's words, and yield them. Raises `OptionError`."""
        while left and left[0].startswith("-") and left[0] not in ("-", "--"):
            word = left.pop(0)
            if word.startswith("--"):
                yield self._read_long(word, left)
            else:
                yield from self._read_short(word, left)

    def _read_long(self, word: str, left: list[str]) -> Setting:
        name, equals, value = word.removeprefix("--").partition("=")
        option = self._by_name.get(_ALIASES.get(name, name))
        if option is None:
            nearest = find_nearest(f"--{name}", [f"--{known}" for known in self._by_name])
            meant = f"; did you mean {nearest}?" if nearest else ""
            raise OptionError(f"Muster does not know --{name} of {self._program}{meant}")
        if equals and option.value is Value.NONE:
            raise OptionError(f"--{name} takes no value")
        return Setting(option, value) if equals or option.value is not Value.NEEDED else _take_value(option, left)

    def _read_short(self, word: str, left: list[str]) -> Iterator[Setting]:
        """Yield the options in a word: `-n4`, `-n` (the next word is its value), or `-QW` (two options)."""
        letter, rest = word[1], word[2:]
        option = self._by_letter.get(letter)
        if option is None:
            raise OptionError(f"Muster does not know -{letter} of {self._program}")
        if option.value is Value.NEEDED:
            yield Setting(option, rest) if rest else _take_value(option, left)
            return
        if option.value is Value.OPTIONAL:
            yield Setting(option, rest)
            return
        yield Setting(option)
        if rest:
            yield from self._read_short(f"-{rest}", left)


_SBATCH, _SRUN = _Table("sbatch", SBATCH), _Table("srun", SRUN)


def read_line(words: Sequence[str]) -> list[Setting]:
    """Parse the words of one `#SBATCH` line by sbatch's rules; return its options. Raises `OptionError`."""
    if words and words[0] in _MIXED:
        raise OptionError(f"{words[0]}: a job has nodes of one kind; write its parts with: muster run --role")
    left = list(words)
    settings = list(_SBATCH.read(left))
    if left:
        raise OptionError(f"{left[0]!r} is no option; the command is the script itself")
    return settings


def read_srun(words: Sequence[str]) -> tuple[list[Setting], list[str]]:
    """Parse the arguments of srun; return its options, and the command that follows them. Raises `OptionError`."""
    left = list(words)
    settings = list(_SRUN.read(left))
    return settings, left[1:] if left[:1] == ["--"] else left


def _take_value(option: Option, left: list[str]) -> Setting:
    if not left:
        raise OptionError(f"--{option.name} needs a value")
    return Setting(option, left.pop(0))
