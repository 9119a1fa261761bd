"""Translates the `#SBATCH` lines of a script into options of `muster run`. Pure.

`translate` takes the words of each line. It returns arguments of `muster run`, a `ScriptSettings` for options that
`muster run` does not have, and the options that Muster ignores. An option that changes the job's meaning and cannot be
followed is an error.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from msgspec import Struct

from muster.api.ours.notify import NotifyError, check_target
from muster.slurm import values
from muster.slurm.batch import ScriptSettings
from muster.slurm.options import Fate, OptionError, Setting, read_line

Parsed = TypeVar("Parsed")

_NO_SUCH_MAIL = "Muster tells of the start, the end, a failure and the first interruption"
_PASSED_ON = "Muster passes on PATH and a few more; name others, as --export=A,B=1"
_ANY_TYPE = "GPUs have no types here"
_NO_LIMIT = "without --time the job has no limit for a signal to come before"
_ALL_MEMORY = "no job asks for all memory of a node"
# The options by which a script says how many CPUs a node has.
_SIZES = ("ntasks", "ntasks-per-node", "cpus-per-task", "cpus-per-gpu")
_MODES = {"append": True, "truncate": False}


class LineError(ValueError):
    """A `#SBATCH` line has an invalid or refused option. number: the line's number in the script."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


class Translation(Struct, frozen=True):
    """The result of a translation.

    words: arguments of `muster run`.
    batch: the settings that `muster run` has no options for.
    ignored: the options without an effect, each with the reason, for the user.
    """

    words: tuple[str, ...]
    batch: ScriptSettings
    ignored: tuple[str, ...] = ()


def translate(
    lines: Iterable[tuple[int, Sequence[str]]], environment: Container[str], *, has_limit: bool = False
) -> Translation:
    """Translate a script's `#SBATCH` lines; if an option is repeated, the last one counts. Raises `LineError`.

    lines: each line's number and words.
    environment: the names of the variables that are set where the user submits.
    has_limit: whether the command line of `muster run` sets a time limit, which replaces the script's.
    """
    asked = _Asked()
    for number, words in lines:
        with _of_line(number):
            for setting in read_line(words):
                asked.add(number, setting)
    return _make_translation(asked, environment, has_limit=has_limit)


@contextmanager
def _of_line(number: int) -> Iterator[None]:
    try:
        yield
    except OptionError as error:
        raise LineError(number, str(error)) from None


class _Asked:
    """The options of a script: the followed ones by name, and the ignored ones with reasons."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[int, str]] = {}
        self.ignored: dict[str, str] = {}

    def add(self, number: int, setting: Setting) -> None:
        """Add an option of a line. number: the line's. Raises `OptionError` if Muster refuses the option."""
        option = setting.option
        if option.fate is Fate.REFUSED:
            raise OptionError(f"--{option.name}: {option.why}")
        if option.fate is Fate.IGNORED:
            self.ignored[f"--{option.name}"] = option.why
        if option.fate is Fate.FOLLOWED:
            self._values[option.name] = (number, setting.value)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str:
        """Return the value of an option as written; "" if the script does not set it."""
        return self._values[name][1] if name in self._values else ""

    def parsed(self, name: str, parse: Callable[[str], Parsed]) -> Parsed | None:
        """Return the value of an option, parsed by `parse`; None if the script does not set it. Raises `LineError`."""
        if name not in self._values:
            return None
        number, text = self._values[name]
        try:
            return parse(text)
        except OptionError as error:
            raise LineError(number, f"--{name}: {error}") from None

    def refuse(self, name: str, why: str) -> LineError:
        """Return the error for an option that contradicts other options, with the number of its line."""
        return LineError(self._values[name][0], f"--{name}: {why}")


def _make_translation(asked: _Asked, environment: Container[str], *, has_limit: bool) -> Translation:
    nodes, tasks = _lay_out(asked)
    per_node = -(-tasks // nodes)
    gpus, gpus_per_task = _count_gpus(asked, nodes, tasks, per_node)
    cpus = _count_cpus(asked, gpus, per_node)
    words = [
        *(["--workers", str(nodes)] if nodes > 1 else []),
        *["--cpus", str(cpus)],
        *_take_memory(asked, cpus, gpus),
        *(["--gpus", str(gpus)] if gpus else []),
        *_take_time(asked),
        *_take_names(asked),
        *_take_deferral(asked),
        *_take_mail(asked),
        *_take_environment(asked, environment),
        *(["--exclusive"] if "exclusive" in asked else []),
    ]
    notice = _find_notice(asked, has_limit=has_limit)
    if notice is not None and notice.to_script:
        words += ["--signal", f"{notice.name}@{notice.seconds}"]
    batch = ScriptSettings(
        asked.text("job-name"),
        nodes,
        tasks,
        gpus_per_task,
        asked.text("output"),
        asked.text("error"),
        asked.text("input"),
        bool(asked.parsed("open-mode", _is_append)),
        "" if notice is None or notice.to_script else f"{notice.name}@{notice.seconds}",
    )
    return Translation(tuple(words), batch, tuple(f"{name} ({why})" for name, why in asked.ignored.items()))


def _lay_out(asked: _Asked) -> tuple[int, int]:
    """Return the numbers of nodes and tasks of the job. Raises `LineError`.

    Without `--nodes`, the job has as few nodes as `--ntasks` needs with `--ntasks-per-node`; by default one.
    """
    nodes, tasks = asked.parsed("nodes", values.parse_nodes), asked.parsed("ntasks", values.count)
    per_node = asked.parsed("ntasks-per-node", values.count)
    if nodes is None:
        nodes = -(-tasks // per_node) if tasks and per_node else 1
    if nodes > 1 and "array" in asked:
        raise asked.refuse("array", "a trial of an array is a single worker; ask for one node")
    if tasks is None:
        return nodes, nodes * (per_node or 1)
    if tasks < nodes:
        raise asked.refuse("ntasks", f"there are fewer tasks than nodes, which are {nodes}")
    if per_node and tasks > nodes * per_node:
        raise asked.refuse("ntasks", f"{nodes} nodes with {per_node} tasks each have no room for {tasks}")
    return nodes, tasks


def _count_gpus(asked: _Asked, nodes: int, tasks: int, per_node: int) -> tuple[int, int]:
    """Return the GPUs of each node, and the GPUs of each task (0 if tasks share those of the node).

    Raises `LineError`.
    """

    def number(name: str, parse: Callable[[str], tuple[int, str]] = values.parse_gpus) -> int:
        count, kind = asked.parsed(name, parse) or (0, "")
        if kind:
            asked.ignored[f"the type {kind} of --{name}"] = _ANY_TYPE
        return count

    per_task, whole = number("gpus-per-task"), number("gpus")
    of_node = number("gpus-per-node") or number("gres", values.generic_resources) or per_task * per_node
    if whole and not of_node:
        if whole % nodes:
            raise asked.refuse("gpus", f"{whole} GPUs cannot be shared evenly by {nodes} nodes")
        of_node = whole // nodes
    if whole and per_task and whole != per_task * tasks:
        raise asked.refuse("gpus", f"{tasks} tasks with {per_task} GPUs each need {per_task * tasks}")
    if per_task * per_node > of_node:
        raise asked.refuse("gpus-per-task", f"{per_node} tasks of a node need {per_task * per_node}; it has {of_node}")
    return of_node, per_task


def _count_cpus(asked: _Asked, gpus: int, per_node: int) -> int:
    if "exclusive" in asked and not any(name in asked for name in _SIZES):
        raise asked.refuse("exclusive", "say how many CPUs: --cpus-per-task")
    of_task = asked.parsed("cpus-per-task", values.count)
    of_gpu = asked.parsed("cpus-per-gpu", values.count)
    if of_gpu and not gpus:
        raise asked.refuse("cpus-per-gpu", "the job has no GPUs")
    return of_gpu * gpus if of_gpu and not of_task else (of_task or 1) * per_node


def _take_memory(asked: _Asked, cpus: int, gpus: int) -> list[str]:
    of_node = asked.parsed("mem", values.parse_mebibytes)
    of_cpu = asked.parsed("mem-per-cpu", values.parse_mebibytes)
    of_gpu = asked.parsed("mem-per-gpu", values.parse_mebibytes)
    if of_node == 0:
        asked.ignored["--mem=0"] = _ALL_MEMORY
    size = of_node or (of_cpu or 0) * cpus or (of_gpu or 0) * gpus
    return ["--memory", f"{size}Mi"] if size else []


def _take_time(asked: _Asked) -> list[str]:
    limit = asked.parsed("time", values.parse_seconds)
    return ["--time", f"{limit}s"] if limit else []


def _take_names(asked: _Asked) -> list[str]:
    """Return the arguments for the sbatch options whose values `muster run` takes unchanged. Raises `LineError`."""
    same = {"array": "--array", "chdir": "--workdir", "partition": "--queue", "qos": "--priority"}
    asked.parsed("array", values.parse_array)
    return [word for name, option in same.items() if asked.text(name) for word in (option, asked.text(name))]


def _take_deferral(asked: _Asked) -> list[str]:
    begin, after = asked.parsed("begin", values.parse_begin), asked.parsed("dependency", values.parse_dependencies)
    return [*(["--begin", begin] if begin else []), *(["--after", ",".join(after)] if after else [])]


def _take_mail(asked: _Asked) -> list[str]:
    """Return the arguments for `--mail-type` and `--mail-user`; none unless the script sets both."""
    events, unsent = asked.parsed("mail-type", values.mail_events) or ((), ())
    for name in unsent:
        asked.ignored[f"--mail-type={name}"] = _NO_SUCH_MAIL
    address = asked.text("mail-user")
    if not events:
        return []
    if not address:
        asked.ignored["--mail-type"] = "no --mail-user says where mail goes"
        return []
    target = f"mailto:{address}"  # without the prefix, an address with an odd letter is a command
    try:
        check_target(target)
    except NotifyError:
        asked.ignored[f"--mail-user={address}"] = "it is no mail address"
        return []
    return ["--notify", target, "--notify-on", ",".join(events)]


def _take_environment(asked: _Asked, environment: Container[str]) -> list[str]:
    names = [name for name in asked.text("export").split(",") if name]
    for name in names:
        if "=" not in name and name not in ("ALL", "NONE", "NIL") and name not in environment:
            asked.ignored[f"--export={name}"] = "it is not set here"
    if "ALL" in names:
        asked.ignored["--export=ALL"] = _PASSED_ON
    return [word for name in names if "=" in name or name in environment for word in ("--env", name)]


def _find_notice(asked: _Asked, *, has_limit: bool) -> values.Notice | None:
    """Return the signal before the time limit; None for no signal, or, as in Slurm, without a time limit.

    Without a limit, the option is listed as ignored. Raises `OptionError` for a signal before the start.
    """
    notice, limit = asked.parsed("signal", values.parse_signal), asked.parsed("time", values.parse_seconds)
    if notice is None or has_limit:
        return notice
    if not limit:
        asked.ignored["--signal"] = _NO_LIMIT
        return None
    if notice.seconds >= limit:
        raise asked.refuse("signal", f"the limit is {limit} s, so a signal {notice.seconds} s before it never comes")
    return notice


def _is_append(text: str) -> bool:
    if text not in _MODES:
        raise OptionError(f"{text!r} is neither append nor truncate")
    return _MODES[text]
