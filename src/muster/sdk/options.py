"""The options of a job, and the gang that they describe. Pure, except that the caller's environment is read."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from numbers import Real
from operator import index
from typing import Any, TypedDict, cast

from msgspec.structs import replace

from muster.actions.errors import UserError
from muster.actions.parsing import limits, quantities
from muster.actions.submission.caller import find_inherited_environment, find_working_directory, make_umask_annotations
from muster.actions.submission.gang import Gang, beyond_elastic, name_for, no_host_name, not_text, room_for_name
from muster.api.batch import MAX_PARALLELISM
from muster.api.ours.elastic import Bounds
from muster.api.ours.notify import NotifyError, make_notice_settings
from muster.runtime.ids import Ids
from muster.sdk.errors import Error

_MOST = (1 << 31) - 1


class Options(TypedDict, total=False):
    """The options of a job, named as in `muster run`. Quantities are as in Kubernetes: 2, "500m", "4Gi".

    workers: the number of workers; the function or command runs on each of them.
    cpus, memory, gpus: the requests of each worker. A limit other than the request follows a colon: "8Gi:16Gi". Without
    cpus and gpus, each worker requests 1 CPU.
    queue: the LocalQueue to wait in; by default, the namespace's default queue.
    priority: a WorkloadPriorityClass or a PriorityClass.
    time: the maximum run time of each attempt: "2h", seconds, or a timedelta.
    signal: "USR1@60" sends SIGUSR1 to the workers 60 seconds before the time limit.
    retries: how often the whole job restarts after a failure.
    exclusive: whether no other job's workers may run on the job's nodes.
    name: the name of the job; by default, derived from the function or command.
    labels, annotations: the labels and annotations of the job and its pods.
    env: environment variables of the workers, in addition to Muster's.
    workdir: the directory in which the workers start; by default, the current directory.
    elastic: "MIN:MAX" lets the job shrink and grow while it runs.
    notify: the receivers of a notification when the job ends: a URL, a mail address or a command, or a list of them.
    notify_on: the events to notify about instead of the end: "start", "requeue", "end", "fail", or a list of them.
    start_timeout: the maximum number of seconds between the first and the last worker's start.
    image: the container image, in a cluster whose nodes run images.
    namespace, kubeconfig: the cluster to use, if it is not the embedded one.
    """

    workers: int
    cpus: float | str
    memory: str
    gpus: int
    queue: str
    priority: str
    time: str | float | timedelta
    signal: str
    retries: int
    exclusive: bool
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    workdir: str | os.PathLike[str]
    env: Mapping[str, str]
    elastic: str
    notify: str | Sequence[str]
    notify_on: str | Sequence[str]
    start_timeout: int
    image: str
    namespace: str
    kubeconfig: str


# The minimum and maximum value of each option.
_NUMBERS = {
    "workers": (1, MAX_PARALLELISM),
    "gpus": (0, 999_999),
    "retries": (0, 1_000_000),
    "start_timeout": (1, _MOST),
}
_TEXTS = ("memory", "queue", "priority", "signal", "name", "elastic", "image", "namespace", "kubeconfig", "workdir")
# The spelling to suggest for an option whose plain number would have another meaning, such as 4 bytes.
_AS_TEXT = {"memory": "'4Gi'", "elastic": "'2:8'"}
_VARIABLES = ("env", "labels", "annotations")
_LISTS = ("notify", "notify_on")


def normalize_options(options: Mapping[str, Any]) -> Options:
    """Return the options with NumPy's numbers as Python numbers, paths as text, and without options that are None.

    Raises:
        TypeError: an option is unknown, or its value has the wrong type.
        Error: a value is out of range or cannot be parsed.
    """
    for name in options:
        if name not in Options.__annotations__:
            raise TypeError(f"there is no option {name!r}; there is: {', '.join(Options.__annotations__)}")
    return cast("Options", {name: _check_option(name, value) for name, value in options.items() if value is not None})


def _check_option(name: str, value: Any) -> Any:
    if name in _NUMBERS:
        return _check_range(name, require_whole_number(name, value), *_NUMBERS[name])
    if name == "exclusive" and not isinstance(value, bool):
        raise TypeError(f"{name}={value!r}: it is True or False")
    if name in _READ:
        return _check_meaning(name, value)
    if name in _LISTS:
        return _check_list(name, value)
    if name in _TEXTS:
        return _format_text(name, value)
    if name not in _VARIABLES:
        return value
    if not isinstance(value, Mapping):
        raise TypeError(f"{name}={value!r}: it is a dict of names and texts")
    return {_format_text(f"a name in {name}", key): _format_text(f"{name}[{key!r}]", of) for key, of in value.items()}


def require_whole_number(name: str, value: Any) -> int:
    """Return an option's value as an integer, also for NumPy's integers. Raises `TypeError` for any other value.

    name: the name of the option, for errors.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}={value!r}: it is a whole number")
    return index(value)


def _check_range(name: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise Error(f"{name}={value}: it is from {least} to {most}")
    return value


def _check_meaning(name: str, value: Any) -> Any:
    """Validate the value of an option that is a quantity or a time, and return it; a path becomes text.

    Raises:
        TypeError: the value has the wrong type.
        Error: the value cannot be parsed.
    """
    if name == "memory":
        value = _format_text(name, value)
    elif isinstance(value, bool) or not isinstance(value, str | Real | timedelta):
        raise TypeError(f"{name}={value!r}: it is a number or text")
    try:
        _READ[name](value)
    except ValueError as error:
        raise Error(f"{name}={value!r}: {error}") from None
    return value


def _check_list(name: str, value: Any) -> tuple[str, ...]:
    """Return the value of an option that accepts one string or several, as a tuple. Raises `TypeError`, `Error`."""
    if not isinstance(value, str | Sequence):
        raise TypeError(f"{name}={value!r}: it is text, or a list of texts")
    texts = tuple(_format_text(name, one) for one in ([value] if isinstance(value, str) else value))
    try:
        make_notice_settings(texts) if name == "notify" else make_notice_settings((), ",".join(texts))
    except NotifyError as error:
        raise Error(f"{name}={value!r}: {error}") from None
    return texts


def _format_text(name: str, value: Any) -> str:
    try:
        text = os.fspath(value)
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise TypeError(f"{name}={value!r}: it is text, as {_AS_TEXT.get(name, repr(str(value)))}")
    return text


def gang_of(
    options: Options,
    command: Sequence[str],
    title: Sequence[str],
    namespace: str,
    classes: Mapping[str, str],
    *,
    on_this_machine: bool,
) -> Gang:
    """Return the gang that these options describe. Raises `UserError`.

    title: the words from which the gang's name is derived.
    classes: the priority class options, as `priority_classes` returns them.
    on_this_machine: whether the workers run on this machine, so that they can use its directories.
    """
    if not on_this_machine and not options.get("image"):
        raise UserError("workers of this cluster need an image: name one with image=")
    workers = options.get("workers", 0)
    elastic = _parse_bounds(options.get("elastic", ""))
    workers = workers or (elastic.most if elastic else 1)
    if elastic and not elastic.least <= workers <= elastic.most:
        raise UserError(f"workers={workers} is not within elastic={str(elastic)!r}")
    try:
        limit = _parse_time(options["time"]) if "time" in options else None
        signal = limits.parse_soft_signal(options["signal"], limit) if options.get("signal") else None
    except ValueError as error:
        raise UserError(f"time= or signal=: {error}") from None
    cpus = quantities.worker_cpus(str(options["cpus"])) if "cpus" in options else quantities.NOTHING
    memory = quantities.worker_memory(options["memory"]) if "memory" in options else quantities.NOTHING
    gang = Gang(
        name=options.get("name", ""),
        command=command,
        workers=workers,
        namespace=namespace,
        cpus=cpus.request,
        memory=memory.request,
        gpus=options.get("gpus", 0),
        cpu_limit=cpus.limit,
        memory_limit=memory.limit,
        start_timeout=options.get("start_timeout"),
        image=options.get("image", ""),
        queue=options.get("queue", ""),
        working_directory=find_working_directory(os.fspath(options.get("workdir", ""))) if on_this_machine else "",
        environment=(find_inherited_environment(os.environ) if on_this_machine else {}) | dict(options.get("env", {})),
        elastic=elastic,
        time_limit=limit,
        soft_signal=signal,
        retries=options.get("retries"),
        exclusive=options.get("exclusive", False),
        labels=options.get("labels", {}),
        annotations={**(make_umask_annotations() if on_this_machine else {}), **options.get("annotations", {})},
        notify=make_notice_settings(options.get("notify", ()), ",".join(options.get("notify_on", ()))),
        priority=classes["priority"],
        queue_priority=classes["queue_priority"],
    )
    if options.get("notify_on") and not gang.notify:
        raise UserError("notify_on=: name whom to tell with notify=")
    if beyond := beyond_elastic(gang):
        option, why = beyond
        raise UserError(f"{option}={options.get(option)!r}: {why}")
    if complaint := no_host_name(gang.name, gang.parts) or not_text(gang):
        raise UserError(complaint)
    return gang if gang.name else name_gang(gang, title)


def name_gang(gang: Gang, title: Sequence[str]) -> Gang:
    """Return the gang with a name derived from these words and a random suffix."""
    return replace(gang, name=name_for(title, Ids().suffix(), room_for_name(gang.parts)))


def _parse_time(time: str | float | timedelta) -> int:
    """Return a time limit in whole seconds. A number is in seconds. Raises `ValueError`."""
    if isinstance(time, timedelta):
        time = time.total_seconds()
    return limits.parse_time_limit(time if isinstance(time, str) else f"{time:.3f}s")


# The errors that mean an impossible value.
_READ: Mapping[str, Callable[[Any], object]] = {
    "cpus": lambda value: quantities.worker_cpus(str(value)),
    "memory": quantities.worker_memory,
    "time": _parse_time,
}


def _parse_bounds(text: str) -> Bounds | None:
    try:
        return Bounds.parse(text) if text else None
    except ValueError as error:
        raise UserError(f"elastic={text!r}: {error}") from None
