"""The command line and the environment of a container, from its spec and what that refers to. Pure.

A container gets what its pod asks for and nothing of the server's own. Values are text; bytes of secrets that are no
UTF-8 are carried as surrogate escapes, so that they come out as they went in.

References multiply: thirty variables that each name the one before twice would be a billion characters. So nothing is
made that is longer than what the kernel gives a program; it is refused before there is memory for it. What is just too
long for this machine's settings is refused by the kernel itself, in the same words.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.api.core import (
    ConfigMap,
    ConfigMapKeySelector,
    Container,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    Pod,
    Secret,
    SecretKeySelector,
)
from muster.cluster.nodes.container import downward
from muster.cluster.nodes.container.downward import FieldError, NodeFacts

# The kernel's limits of one string (without the zero byte at its end), and of all that a program is given, a pointer to
# each included, where the stack has no limit. Characters are counted, of which no string has more than bytes.
MAX_STRING = 128 * 1024 - 1
MAX_TOTAL = 6 * 1024 * 1024
_POINTER = 8
# Characters of a name in a message.
_SHOWN = 200
# Since Kubernetes 1.30 a name may be anything printable of ASCII but `=`.
_NAME = re.compile(r"[ -<>-~]+")


class ConfigError(Exception):
    """The container cannot be configured as its spec says. `reason` is upstream's word for the waiting state."""

    def __init__(self, message: str, reason: str = "CreateContainerConfigError") -> None:
        super().__init__(message)
        self.reason = reason


class TooLongError(ConfigError):
    """No program can be given so much: the container cannot be started, now or later."""

    def __init__(self, what: str, limit: int) -> None:
        what = what if len(what) <= _SHOWN else f"{what[:_SHOWN]}..."  # a name may be as long as a value
        super().__init__(f"argument list too long: {what} would have more than {limit} bytes", "StartError")


@dataclass(frozen=True, slots=True)
class AskedToken:
    """A token of the pod's service account, as a volume asks for it: for whom, and for how long."""

    audience: str
    seconds: int


@dataclass(frozen=True, slots=True)
class Objects:
    """The ConfigMaps and Secrets of the pod's namespace that its spec names, as far as they exist, and its tokens."""

    config_maps: Mapping[str, ConfigMap]
    secrets: Mapping[str, Secret]
    tokens: Mapping[AskedToken, str] = field(default_factory=dict)


NOTHING = Objects({}, {})


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the ConfigMaps and Secrets that something refers to."""

    config_maps: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()

    @classmethod
    def of(cls, parts: Iterable["Names"]) -> "Names":
        """All of them. A pod has room for ten thousand."""
        parts = list(parts)
        return cls(
            frozenset().union(*(part.config_maps for part in parts)),
            frozenset().union(*(part.secrets for part in parts)),
        )

    def __and__(self, other: "Names") -> "Names":
        return Names(self.config_maps & other.config_maps, self.secrets & other.secrets)

    def __bool__(self) -> bool:
        return bool(self.config_maps or self.secrets)


@dataclass(frozen=True, slots=True)
class Environment:
    """Variables, and the keys that were left out because they are no names of variables (by where they come from)."""

    variables: dict[str, str]
    skipped: tuple[tuple[str, tuple[str, ...]], ...] = ()


class _Room:
    """What there is still room for among the arguments or variables of a program."""

    def __init__(self) -> None:
        self._left = MAX_TOTAL

    def take(self, text: str, what: str) -> None:
        """One more string. Raises `TooLongError`."""
        if len(text) > MAX_STRING:
            raise TooLongError(what, MAX_STRING)
        self._left -= len(text) + 1 + _POINTER
        if self._left < 0:
            raise TooLongError(f"all up to {what}", MAX_TOTAL)


def expand(text: str, variables: Mapping[str, str], what: str = "text", limit: int = MAX_STRING) -> str:
    """Replace `$(NAME)` by the variable's value. `$$` is a dollar; a name that is not known stays as it is.

    Raises `TooLongError`, which names `what` is expanded, before there are more characters than the limit.
    """
    parts = []
    position = made = 0
    while (dollar := text.find("$", position)) >= 0 and dollar + 1 < len(text):
        made += dollar - position
        parts.append(text[position:dollar])
        following = text[dollar + 1]
        close = text.find(")", dollar + 2) if following == "(" else -1
        if close >= 0:
            name = text[dollar + 2 : close]
            parts.append(variables.get(name, f"$({name})"))
            position = close + 1
        else:
            parts.append("$" if following == "$" else "$" + following)
            position = dollar + 2
        made += len(parts[-1])
        if made > limit:
            raise TooLongError(what, limit)
    return "".join(parts) + text[position:]


def command_line(container: Container, variables: Mapping[str, str]) -> list[str]:
    """The program and its arguments. Raises `ConfigError` if there is none: there is no image to take one from."""
    words, room = [], _Room()
    for number, word in enumerate((*container.command, *container.args)):
        what = f"argument {number}"
        words.append(expand(word, variables, what))
        room.take(words[-1], what)
    if not words or not words[0]:
        raise ConfigError("process nodes have no images: give the container a command", "CreateContainerError")
    return words


def references(container: Container) -> Names:
    """The objects that the container's environment comes from."""
    config_maps = [source.config_map_ref for source in container.env_from] + [
        variable.value_from and variable.value_from.config_map_key_ref for variable in container.env
    ]
    secrets = [source.secret_ref for source in container.env_from] + [
        variable.value_from and variable.value_from.secret_key_ref for variable in container.env
    ]
    return Names(frozenset(ref.name for ref in config_maps if ref), frozenset(ref.name for ref in secrets if ref))


def environment(
    pod: Pod, container: Container, objects: Objects, around: NodeFacts, defaults: Mapping[str, str]
) -> Environment:
    """All variables: the defaults, then envFrom, then env, each winning over what came before. Raises `ConfigError`."""
    variables, room = dict(defaults), _Room()
    skipped = []
    for source in container.env_from:
        where, data = _all_keys(source, objects, pod.metadata.namespace)
        wrong = []
        for key in sorted(data):
            name = source.prefix + key
            if not _NAME.fullmatch(name):
                wrong.append(name)
                continue
            room.take(f"{name}={data[key]}", f"variable {name}")
            variables[name] = data[key]
        if wrong:
            skipped.append((where, tuple(wrong)))
    containers = {other.name: other for other in (*pod.spec.init_containers, *pod.spec.containers)}
    containers[""] = container
    for variable in container.env:
        what = f"variable {variable.name}"
        if variable.value or variable.value_from is None:
            text: str | None = expand(variable.value, variables, what)
        else:
            text = _referred(pod, variable.value_from, objects, around, containers)
        if text is not None:
            room.take(f"{variable.name}={text}", what)
            variables[variable.name] = text
    _check(container.env)
    return Environment(variables, tuple(skipped))


def encode(variables: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """The variables as the kernel takes them."""
    return [(_bytes(name), _bytes(text)) for name, text in variables.items()]


def encode_words(words: Iterable[str]) -> list[bytes]:
    """The command line as the kernel takes it."""
    return [_bytes(word) for word in words]


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _check(variables: Iterable[EnvVar]) -> None:
    for variable in variables:
        if not _NAME.fullmatch(variable.name):
            raise ConfigError(f"{variable.name!r} is no name of an environment variable")


def _all_keys(source: EnvFromSource, objects: Objects, namespace: str) -> tuple[str, dict[str, str]]:
    """Where the variables come from, and the variables."""
    if source.config_map_ref is not None:
        name = source.config_map_ref.name
        config_map = objects.config_maps.get(name)
        if config_map is None:
            _missing("configmap", name, source.config_map_ref.optional)
        return f"configMap {namespace}/{name}", config_map.data if config_map else {}
    if source.secret_ref is not None:
        name = source.secret_ref.name
        secret = objects.secrets.get(name)
        if secret is None:
            _missing("secret", name, source.secret_ref.optional)
        return f"secret {namespace}/{name}", {key: _text(data) for key, data in secret.data.items()} if secret else {}
    return "", {}


def _missing(kind: str, name: str, optional: bool | None) -> None:
    if not optional:
        raise ConfigError(f'{kind} "{name}" not found')


def _referred(
    pod: Pod, source: EnvVarSource, objects: Objects, around: NodeFacts, containers: Mapping[str, Container]
) -> str | None:
    """The value that a variable refers to; None to leave the variable out."""
    try:
        if source.field_ref is not None:
            return downward.field(pod, source.field_ref, around)
        if source.resource_field_ref is not None:
            return downward.resource(containers, source.resource_field_ref, around)
    except FieldError as error:
        raise ConfigError(str(error)) from None
    if source.config_map_key_ref is not None:
        return _config_map_key(source.config_map_key_ref, objects, pod.metadata.namespace)
    if source.secret_key_ref is not None:
        return _secret_key(source.secret_key_ref, objects, pod.metadata.namespace)
    raise ConfigError("fileKeyRef is not supported by process nodes")


def _config_map_key(ref: ConfigMapKeySelector, objects: Objects, namespace: str) -> str | None:
    config_map = objects.config_maps.get(ref.name)
    if config_map is None:
        _missing("configmap", ref.name, ref.optional)
        return None
    if ref.key not in config_map.data and not ref.optional:
        raise ConfigError(f"couldn't find key {ref.key} in ConfigMap {namespace}/{ref.name}")
    return config_map.data.get(ref.key)


def _secret_key(ref: SecretKeySelector, objects: Objects, namespace: str) -> str | None:
    secret = objects.secrets.get(ref.name)
    if secret is None:
        _missing("secret", ref.name, ref.optional)
        return None
    if ref.key not in secret.data and not ref.optional:
        raise ConfigError(f"couldn't find key {ref.key} in Secret {namespace}/{ref.name}")
    return _text(secret.data[ref.key]) if ref.key in secret.data else None
