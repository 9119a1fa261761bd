"""The arguments of plugins in the notation of Go's flags: `--name=value`, `--name value`, or `--name` for true."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from muster.api.volcano import PYTORCH, SVC, Job

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})

# The arguments of each plugin, with the types of their values.
ARGUMENTS: Final[Mapping[str, Mapping[str, type]]] = {
    SVC: {"publish-not-ready-addresses": bool, "disable-network-policy": bool, "inject-hosts-env": bool},
    PYTORCH: {"master": str, "worker": str, "port": int},
}


class ArgumentError(ValueError):
    """An argument that is unknown or has an invalid value."""


class SvcArguments(Struct, frozen=True):
    """The arguments of the plugin `svc`."""

    publish_not_ready_addresses: bool
    inject_hosts_env: bool


class PytorchArguments(Struct, frozen=True):
    """The arguments of the plugin `pytorch`: the tasks of the first rank and of the others, and a port."""

    master: str
    worker: str
    port: int


def svc_arguments(job: Job) -> SvcArguments:
    """Return the arguments of `svc`."""
    given = read_arguments(SVC, job.spec.plugins.get(SVC, ()))
    return SvcArguments(
        publish_not_ready_addresses=given.get("publish-not-ready-addresses") in _TRUE,
        inject_hosts_env=given.get("inject-hosts-env", "true") in _TRUE,
    )


def pytorch_arguments(job: Job) -> PytorchArguments:
    """Return the arguments of `pytorch`."""
    given = read_arguments(PYTORCH, job.spec.plugins.get(PYTORCH, ()))
    return PytorchArguments(
        given.get("master", "master"), given.get("worker", "worker"), int(given.get("port", "23456"))
    )


def read_arguments(plugin: str, arguments: Sequence[str]) -> Mapping[str, str]:
    """Parse the arguments of a plugin, and return them by name.

    Raises:
        ArgumentError: an argument is unknown or has an invalid value.
    """
    known, given = ARGUMENTS[plugin], dict[str, str]()
    rest: Iterable[str] = iter(arguments)
    for word in rest:
        name, has_value, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or name not in known:
            raise ArgumentError(f"{plugin} has no argument {word!r}: it has {', '.join(f'--{one}' for one in known)}")
        if not has_value:
            value = "true" if known[name] is bool else next(iter(rest), "")
        if not _is_valid(known[name], value):
            raise ArgumentError(f"--{name} cannot be {value!r}")
        given[name] = value
    return given


def _is_valid(type_: type, value: str) -> bool:
    if type_ is bool:
        return value in _TRUE | _FALSE
    if type_ is int:
        return value.isascii() and value.isdigit() and 0 < int(value) < 65536
    return bool(value)
