"""What can be asked for a job, and the gang that it becomes. Pure, but for what the caller's process is like."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from numbers import Real
from operator import index
from typing import Any, TypedDict, cast

from muster.actions import limits, quantities
from muster.actions.caller import inherited, working_directory
from muster.actions.errors import UserError
from muster.actions.gang import Gang, beyond_elastic, name_for, no_host_name, not_text, room_for_name
from muster.api.batch import MAX_PARALLELISM
from muster.api.ours.elastic import Bounds
from muster.runtime.ids import Ids
from muster.sdk.errors import Error

_MOST = (1 << 31) - 1


class Options(TypedDict, total=False):
    """What a job is to have, in the words of `muster run`. Quantities are as in Kubernetes: 2, "500m", "4Gi".

    workers: how many; the function or command runs on each of them.
    cpus, memory, gpus: of each worker.
    queue: the LocalQueue to wait in (default: the namespace's). priority: a WorkloadPriorityClass or PriorityClass.
    time: how long each attempt may run: "2h", seconds, or a timedelta. signal: "USR1@60" comes before that.
    retries: how often the whole is started anew when it fails.
    exclusive: no other job's workers are on its nodes.
    name: of the job (default: from the function or command).
    labels, annotations: of the job and its pods.
    env: variables of the workers, beside those that they get anyway.
    workdir: where they start (default: here).
    elastic: "MIN:MAX" lets it shrink and grow while it runs.
    start_timeout: in how many seconds from the first start all workers have to have started.
    image: container image, on a cluster whose nodes have images.
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
    start_timeout: int
    image: str
    namespace: str
    kubeconfig: str


# From and to.
_NUMBERS = {
    "workers": (1, MAX_PARALLELISM),
    "gpus": (0, 999_999),
    "retries": (0, 1_000_000),
    "start_timeout": (1, _MOST),
}
_TEXTS = ("memory", "queue", "priority", "signal", "name", "elastic", "image", "namespace", "kubeconfig", "workdir")
# How it is written, where the text of a number would be accepted, and not what was meant: 4 bytes.
_AS_TEXT = {"memory": "'4Gi'", "elastic": "'2:8'"}
_VARIABLES = ("env", "labels", "annotations")


def checked(options: Mapping[str, Any]) -> Options:
    """The options, as what they are passed on as: numbers of NumPy are numbers, paths are text, and None is not asked.

    Raises `TypeError` for an option that there is not, or of another type, `Error` for a value that cannot be meant.
    """
    for name in options:
        if name not in Options.__annotations__:
            raise TypeError(f"there is no option {name!r}; there is: {', '.join(Options.__annotations__)}")
    return cast("Options", {name: _checked(name, value) for name, value in options.items() if value is not None})


def _checked(name: str, value: Any) -> Any:
    if name in _NUMBERS:
        return _within(name, whole(name, value), *_NUMBERS[name])
    if name == "exclusive" and not isinstance(value, bool):
        raise TypeError(f"{name}={value!r}: it is True or False")
    if name in _READ:
        return _meant(name, value)
    if name in _TEXTS:
        return _text(name, value)
    if name not in _VARIABLES:
        return value
    if not isinstance(value, Mapping):
        raise TypeError(f"{name}={value!r}: it is a dict of names and texts")
    return {_text(f"a name in {name}", key): _text(f"{name}[{key!r}]", of) for key, of in value.items()}


def whole(name: str, value: Any) -> int:
    """A whole number. Raises `TypeError`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}={value!r}: it is a whole number")
    return index(value)


def _within(name: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise Error(f"{name}={value}: it is from {least} to {most}")
    return value


def _meant(name: str, value: Any) -> Any:
    """A quantity or a time. Raises `TypeError`, `Error`."""
    if name == "memory":
        value = _text(name, value)
    elif isinstance(value, bool) or not isinstance(value, str | Real | timedelta):
        raise TypeError(f"{name}={value!r}: it is a number or text")
    try:
        _READ[name](value)
    except ValueError as error:
        raise Error(f"{name}={value!r}: {error}") from None
    return value


def _text(name: str, value: Any) -> str:
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
    """The gang. title: what its name is made of. classes: of its priority. Raises `UserError`."""
    if not on_this_machine and not options.get("image"):
        raise UserError("this cluster runs images: say which with image=")
    workers = options.get("workers", 0)
    elastic = _bounds(options.get("elastic", ""))
    workers = workers or (elastic.most if elastic else 1)
    if elastic and not elastic.least <= workers <= elastic.most:
        raise UserError(f"workers={workers} is not within elastic={str(elastic)!r}")
    try:
        limit = _seconds(options["time"]) if "time" in options else None
        signal = limits.soft_signal(options["signal"], limit) if options.get("signal") else None
    except ValueError as error:
        raise UserError(f"time= or signal=: {error}") from None
    gang = Gang(
        name=options.get("name", ""),
        command=command,
        workers=workers,
        namespace=namespace,
        cpus=str(options.get("cpus", "")),
        memory=options.get("memory", ""),
        gpus=options.get("gpus", 0),
        start_timeout=options.get("start_timeout"),
        image=options.get("image", ""),
        queue=options.get("queue", ""),
        working_directory=working_directory(os.fspath(options.get("workdir", ""))) if on_this_machine else "",
        environment=(inherited(os.environ) if on_this_machine else {}) | dict(options.get("env", {})),
        elastic=elastic,
        time_limit=limit,
        soft_signal=signal,
        retries=options.get("retries"),
        exclusive=options.get("exclusive", False),
        labels=options.get("labels", {}),
        annotations=options.get("annotations", {}),
        priority=classes["priority"],
        queue_priority=classes["queue_priority"],
    )
    if beyond := beyond_elastic(gang):
        option, why = beyond
        raise UserError(f"{option}={options.get(option)!r}: {why}")
    if complaint := no_host_name(gang.name, gang.parts) or not_text(gang):
        raise UserError(complaint)
    return gang if gang.name else named(gang, title)


def named(gang: Gang, title: Sequence[str]) -> Gang:
    """With a name that says what runs."""
    return replace(gang, name=name_for(title, Ids().suffix(), room_for_name(gang.parts)))


def _seconds(time: str | float | timedelta) -> int:
    """Raises `ValueError`."""
    if isinstance(time, timedelta):
        time = time.total_seconds()
    return limits.time_limit(time if isinstance(time, str) else f"{time:.3f}s")


# What says that a value cannot be meant.
_READ: Mapping[str, Callable[[Any], object]] = {
    "cpus": lambda value: quantities.quantity(str(value)),
    "memory": quantities.memory,
    "time": _seconds,
}


def _bounds(text: str) -> Bounds | None:
    try:
        return Bounds.parse(text) if text else None
    except ValueError as error:
        raise UserError(f"elastic={text!r}: {error}") from None
