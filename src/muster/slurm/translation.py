"""Translate the `#SBATCH` lines of a script into options of `muster run`. Pure.

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
# The options that set the number of CPUs of a node.
_SIZES = ("ntasks", "ntasks-per-node", "cpus-per-task", "cpus-per-gpu")
_MODES = {"append": True, "truncate": False}


class LineError(ValueError):
    """A `#SBATCH` line with an invalid or refused option.

    number: the line's number in the script.
    """

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


class Translation(Struct, frozen=True):
    """The result of a translation.

    words: the arguments of `muster run`.
    batch: the settings for which `muster run` has no option.
    ignored: the options without an effect, each with the reason, for the user.
    """

    words: tuple[str, ...]
    batch: ScriptSettings
    ignored: tuple[str, ...] = ()


def translate(
    lines: Iterable[tuple[int, Sequence[str]]], environment: Container[str], *, has_limit: bool = False
) -> Translation:
    """Translate a script's `#SBATCH` lines. If an option is repeated, its last use counts. Raises `LineError`.

    lines: the number and the words of each line.
    environment: the names of the variables that are set where the user submits.
    has_limit: whether the command line of `muster run` sets a time limit, which overrides the script's.
    """
    asked = _ScriptOptions()
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


class _ScriptOptions:
    """The options of a script: the followed options by name, and the ignored options with reasons."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[int, str]] = {}
        self.ignored: dict[str, str] = {}

    def add(self, number: int, setting: Setting) -> None:
        """Add an option from a line. Raises `OptionError` if Muster refuses the option.

        number: the number of the line.
        """
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


def _make_translation(options: _ScriptOptions, environment: Container[str], *, has_limit: bool) -> Translation:
    """Return the options of `muster run` and the settings of the script that the `#SBATCH` lines request.

    has_limit: whether the job has a time limit, before which a signal can be sent.
    """
    nodes, tasks = _lay_out(options)
    per_node = -(-tasks // nodes)
    gpus, gpus_per_task = _count_gpus(options, nodes, tasks, per_node)
    cpus = _count_cpus(options, gpus, per_node)
    words = [
        *(["--workers", str(nodes)] if nodes > 1 else []),
        *["--cpus", str(cpus)],
        *_take_memory(options, cpus, gpus),
        *(["--gpus", str(gpus)] if gpus else []),
        *_take_time(options),
        *_take_names(options),
        *_take_deferral(options),
        *_take_mail(options),
        *_take_environment(options, environment),
        *(["--exclusive"] if "exclusive" in options else []),
    ]
    notice = _find_notice(options, has_limit=has_limit)
    if notice is not None and notice.to_script:
        words += ["--signal", f"{notice.name}@{notice.seconds}"]
    batch = ScriptSettings(
        options.text("job-name"),
        nodes,
        tasks,
        gpus_per_task,
        options.text("output"),
        options.text("error"),
        options.text("input"),
        bool(options.parsed("open-mode", _is_append)),
        "" if notice is None or notice.to_script else f"{notice.name}@{notice.seconds}",
    )
    return Translation(tuple(words), batch, tuple(f"{name} ({why})" for name, why in options.ignored.items()))


def _lay_out(options: _ScriptOptions) -> tuple[int, int]:
    """Return the number of nodes and the number of tasks of the job. Raises `LineError`.

    Without `--nodes`, the job has the minimum number of nodes for `--ntasks` with `--ntasks-per-node`, by default one.
    """
    nodes, tasks = options.parsed("nodes", values.parse_nodes), options.parsed("ntasks", values.count)
    per_node = options.parsed("ntasks-per-node", values.count)
    if nodes is None:
        nodes = -(-tasks // per_node) if tasks and per_node else 1
    if nodes > 1 and "array" in options:
        raise options.refuse("array", "a trial of an array is a single worker; ask for one node")
    if tasks is None:
        return nodes, nodes * (per_node or 1)
    if tasks < nodes:
        raise options.refuse("ntasks", f"there are fewer tasks than nodes, which are {nodes}")
    if per_node and tasks > nodes * per_node:
        raise options.refuse("ntasks", f"{nodes} nodes with {per_node} tasks each have no room for {tasks}")
    return nodes, tasks


def _count_gpus(options: _ScriptOptions, nodes: int, tasks: int, per_node: int) -> tuple[int, int]:
    """Return the GPUs of each node, and the GPUs of each task (0 if tasks share the GPUs of their node).

    Raises `LineError`.
    """

    def number(name: str, parse: Callable[[str], tuple[int, str]] = values.parse_gpus) -> int:
        count, kind = options.parsed(name, parse) or (0, "")
        if kind:
            options.ignored[f"the type {kind} of --{name}"] = _ANY_TYPE
        return count

    per_task, whole = number("gpus-per-task"), number("gpus")
    of_node = number("gpus-per-node") or number("gres", values.generic_resources) or per_task * per_node
    if whole and not of_node:
        if whole % nodes:
            raise options.refuse("gpus", f"{whole} GPUs cannot be shared evenly by {nodes} nodes")
        of_node = whole // nodes
    if whole and per_task and whole != per_task * tasks:
        raise options.refuse("gpus", f"{tasks} tasks with {per_task} GPUs each need {per_task * tasks}")
    if per_task * per_node > of_node:
        raise options.refuse(
            "gpus-per-task", f"{per_node} tasks of a node need {per_task * per_node}; it has {of_node}"
        )
    return of_node, per_task


def _count_cpus(options: _ScriptOptions, gpus: int, per_node: int) -> int:
    if "exclusive" in options and not any(name in options for name in _SIZES):
        raise options.refuse("exclusive", "say how many CPUs: --cpus-per-task")
    of_task = options.parsed("cpus-per-task", values.count)
    of_gpu = options.parsed("cpus-per-gpu", values.count)
    if of_gpu and not gpus:
        raise options.refuse("cpus-per-gpu", "the job has no GPUs")
    return of_gpu * gpus if of_gpu and not of_task else (of_task or 1) * per_node


def _take_memory(options: _ScriptOptions, cpus: int, gpus: int) -> list[str]:
    of_node = options.parsed("mem", values.parse_mebibytes)
    of_cpu = options.parsed("mem-per-cpu", values.parse_mebibytes)
    of_gpu = options.parsed("mem-per-gpu", values.parse_mebibytes)
    if of_node == 0:
        options.ignored["--mem=0"] = _ALL_MEMORY
    size = of_node or (of_cpu or 0) * cpus or (of_gpu or 0) * gpus
    return ["--memory", f"{size}Mi"] if size else []


def _take_time(options: _ScriptOptions) -> list[str]:
    limit = options.parsed("time", values.parse_seconds)
    return ["--time", f"{limit}s"] if limit else []


def _take_names(options: _ScriptOptions) -> list[str]:
    """Return the arguments for sbatch options whose values `muster run` accepts unchanged. Raises `LineError`."""
    same = {"array": "--array", "chdir": "--workdir", "partition": "--queue", "qos": "--priority"}
    options.parsed("array", values.parse_array)
    return [word for name, option in same.items() if options.text(name) for word in (option, options.text(name))]


def _take_deferral(options: _ScriptOptions) -> list[str]:
    begin, after = options.parsed("begin", values.parse_begin), options.parsed("dependency", values.parse_dependencies)
    return [*(["--begin", begin] if begin else []), *(["--after", ",".join(after)] if after else [])]


def _take_mail(options: _ScriptOptions) -> list[str]:
    """Return the arguments for `--mail-type` and `--mail-user`; empty unless the script sets both."""
    events, unsent = options.parsed("mail-type", values.mail_events) or ((), ())
    for name in unsent:
        options.ignored[f"--mail-type={name}"] = _NO_SUCH_MAIL
    address = options.text("mail-user")
    if not events:
        return []
    if not address:
        options.ignored["--mail-type"] = "no --mail-user says where mail goes"
        return []
    target = f"mailto:{address}"  # without the prefix, an address with unusual characters would count as a command
    try:
        check_target(target)
    except NotifyError:
        options.ignored[f"--mail-user={address}"] = "it is no mail address"
        return []
    return ["--notify", target, "--notify-on", ",".join(events)]


def _take_environment(options: _ScriptOptions, environment: Container[str]) -> list[str]:
    names = [name for name in options.text("export").split(",") if name]
    for name in names:
        if "=" not in name and name not in ("ALL", "NONE", "NIL") and name not in environment:
            options.ignored[f"--export={name}"] = "it is not set here"
    if "ALL" in names:
        options.ignored["--export=ALL"] = _PASSED_ON
    return [word for name in names if "=" in name or name in environment for word in ("--env", name)]


def _find_notice(options: _ScriptOptions, *, has_limit: bool) -> values.Notice | None:
    """Return the signal before the time limit; None for no signal or, as in Slurm, without a time limit.

    Without a limit, the option is recorded as ignored. Raises `LineError`, also for a signal before the start.
    """
    notice, limit = options.parsed("signal", values.parse_signal), options.parsed("time", values.parse_seconds)
    if notice is None or has_limit:
        return notice
    if not limit:
        options.ignored["--signal"] = _NO_LIMIT
        return None
    if notice.seconds >= limit:
        raise options.refuse("signal", f"the limit is {limit} s, so a signal {notice.seconds} s before it never comes")
    return notice


def _is_append(text: str) -> bool:
    if text not in _MODES:
        raise OptionError(f"{text!r} is neither append nor truncate")
    return _MODES[text]
