"""Compute a container's command line and environment from its spec and the objects that it refers to. Pure.

A container gets its node's defaults and the variables of its pod, and none of the server's variables. Values are text.
Secret bytes that are not UTF-8 become surrogate escapes, so that programs get them unchanged.

References multiply: thirty variables that each name the previous one twice would be a billion characters. So a string
above the kernel's limit is refused before memory is allocated for it. If only the total exceeds this machine's stack
limit, the kernel refuses it with the same message.
"""

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from muster.api.core import (
    ConfigMap,
    ConfigMapKeySelector,
    Container,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    PersistentVolume,
    Pod,
    Secret,
    SecretKeySelector,
)
from muster.cluster.nodes.container import downward
from muster.cluster.nodes.container.downward import FieldError, NodeFacts

# The kernel's limits of one string (without its final zero byte), and of all strings and the pointers to them, if the
# stack is unlimited. Characters are counted, because no string has more characters than bytes.
MAX_STRING = 128 * 1024 - 1
MAX_TOTAL = 6 * 1024 * 1024
_POINTER = 8
# How many characters of a name a message shows.
_SHOWN_CHARACTERS = 200
# Since Kubernetes 1.30 a name may hold any printable ASCII but `=`.
_NAME = re.compile(r"[ -<>-~]+")


class ConfigError(Exception):
    """A container that cannot be configured as its spec says. `reason` is upstream's reason for the waiting state."""

    def __init__(self, message: str, reason: str = "CreateContainerConfigError") -> None:
        super().__init__(message)
        self.reason = reason


class TooLongError(ConfigError):
    """A container that can never start, because its arguments or variables are too long for any program."""

    def __init__(self, name: str, limit: int) -> None:
        name = (
            name if len(name) <= _SHOWN_CHARACTERS else f"{name[:_SHOWN_CHARACTERS]}..."
        )  # a name may be as long as a value
        super().__init__(f"argument list too long: {name} would have more than {limit} bytes", "StartError")


class AskedToken(Struct, frozen=True):
    """A service account token that a projected volume requests, by its audience and its duration."""

    audience: str
    seconds: int


class Objects(Struct, frozen=True):
    """The existing objects that a pod's spec refers to, and the pod's tokens.

    volumes: the persistent volumes, by the name of the claim that is bound to each.
    """

    config_maps: Mapping[str, ConfigMap]
    secrets: Mapping[str, Secret]
    tokens: Mapping[AskedToken, str] = field(default_factory=dict)
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)


class Names(Struct, frozen=True):
    """The names of the ConfigMaps, Secrets and claims to which a container or a volume refers."""

    config_maps: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    claims: frozenset[str] = frozenset()

    @classmethod
    def of(cls, parts: Iterable["Names"]) -> "Names":
        """Return the union of the names in all parts. A pod may name up to ten thousand objects."""
        parts = list(parts)
        return cls(
            frozenset().union(*(part.config_maps for part in parts)),
            frozenset().union(*(part.secrets for part in parts)),
            frozenset().union(*(part.claims for part in parts)),
        )

    def __and__(self, other: "Names") -> "Names":
        return Names(self.config_maps & other.config_maps, self.secrets & other.secrets, self.claims & other.claims)

    def __bool__(self) -> bool:
        return bool(self.config_maps or self.secrets or self.claims)


class Environment(Struct, frozen=True):
    """A container's environment variables, and the keys of `envFrom` that are no valid variable names, by source."""

    variables: dict[str, str]
    skipped: tuple[tuple[str, tuple[str, ...]], ...] = ()


class _Budget:
    """The remaining bytes for a program's arguments or variables, out of the kernel's limit."""

    def __init__(self) -> None:
        self._left = MAX_TOTAL

    def take(self, text: str, name: str) -> None:
        """Deduct the bytes of one more string. name: the string's name, for the error. Raises `TooLongError`."""
        if len(text) > MAX_STRING:
            raise TooLongError(name, MAX_STRING)
        self._left -= len(text) + 1 + _POINTER
        if self._left < 0:
            raise TooLongError(f"all up to {name}", MAX_TOTAL)


def expand(text: str, variables: Mapping[str, str], text_name: str = "text", limit: int = MAX_STRING) -> str:
    """Replace each `$(NAME)` in a text by the variable's value. `$$` becomes a dollar; unknown names stay unchanged.

    text_name: the text's name, for errors.
    limit: the maximum length of the result, in characters.

    Raises `TooLongError` before more memory is allocated.
    """
    parts = []
    position = length = 0
    while (dollar := text.find("$", position)) >= 0 and dollar + 1 < len(text):
        length += dollar - position
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
        length += len(parts[-1])
        if length > limit:
            raise TooLongError(text_name, limit)
    return "".join(parts) + text[position:]


def command_line(container: Container, variables: Mapping[str, str]) -> list[str]:
    """Return the program and its arguments. Raises `ConfigError` if the spec has no command: no image provides one."""
    words, budget = [], _Budget()
    for number, word in enumerate((*container.command, *container.args)):
        what = f"argument {number}"
        words.append(expand(word, variables, what))
        budget.take(words[-1], what)
    if not words or not words[0]:
        raise ConfigError("process nodes have no images: give the container a command", "CreateContainerError")
    return words


def list_references(container: Container) -> Names:
    """Return the names of the ConfigMaps and Secrets to which the container's `env` and `envFrom` refer."""
    config_maps = [source.config_map_ref for source in container.env_from] + [
        variable.value_from and variable.value_from.config_map_key_ref for variable in container.env
    ]
    secrets = [source.secret_ref for source in container.env_from] + [
        variable.value_from and variable.value_from.secret_key_ref for variable in container.env
    ]
    return Names(frozenset(ref.name for ref in config_maps if ref), frozenset(ref.name for ref in secrets if ref))


def build_environment(
    pod: Pod, container: Container, objects: Objects, around: NodeFacts, defaults: Mapping[str, str]
) -> Environment:
    """Return all variables of a container: the defaults, overridden by envFrom, overridden by env.

    objects: the objects that the pod's spec refers to.
    around: the facts that only the node knows about the pod.

    Raises `ConfigError`.
    """
    variables, budget = dict(defaults), _Budget()
    skipped = []
    for source in container.env_from:
        where, data = _read_source(source, objects, pod.metadata.namespace)
        invalid_names = []
        for key in sorted(data):
            name = source.prefix + key
            if not _NAME.fullmatch(name):
                invalid_names.append(name)
                continue
            budget.take(f"{name}={data[key]}", f"variable {name}")
            variables[name] = data[key]
        if invalid_names:
            skipped.append((where, tuple(invalid_names)))
    containers = {other.name: other for other in (*pod.spec.init_containers, *pod.spec.containers)}
    containers[""] = container
    for variable in container.env:
        what = f"variable {variable.name}"
        if variable.value or variable.value_from is None:
            text: str | None = expand(variable.value, variables, what)
        else:
            text = _resolve_reference(pod, variable.value_from, objects, around, containers)
        if text is not None:
            budget.take(f"{variable.name}={text}", what)
            variables[variable.name] = text
    _check_names(container.env)
    return Environment(variables, tuple(skipped))


def encode(variables: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return the names and values of the variables as bytes, for the kernel."""
    return [(_encode_text(name), _encode_text(text)) for name, text in variables.items()]


def encode_words(words: Iterable[str]) -> list[bytes]:
    """Return the command line as bytes for the kernel."""
    return [_encode_text(word) for word in words]


def _encode_text(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _decode_text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _check_names(variables: Iterable[EnvVar]) -> None:
    for variable in variables:
        if not _NAME.fullmatch(variable.name):
            raise ConfigError(f"{variable.name!r} is not a valid name of an environment variable")


def _read_source(source: EnvFromSource, objects: Objects, namespace: str) -> tuple[str, dict[str, str]]:
    """Return the name of an `envFrom` source for messages, and its data; {} if an optional object does not exist.

    The caller adds the prefix and checks the names of the variables.

    Raises `ConfigError` if a required object does not exist.
    """
    if source.config_map_ref is not None:
        name = source.config_map_ref.name
        config_map = objects.config_maps.get(name)
        if config_map is None:
            _require_optional("configmap", name, source.config_map_ref.optional)
        return f"configMap {namespace}/{name}", config_map.data if config_map else {}
    if source.secret_ref is not None:
        name = source.secret_ref.name
        secret = objects.secrets.get(name)
        if secret is None:
            _require_optional("secret", name, source.secret_ref.optional)
        return f"secret {namespace}/{name}", {
            key: _decode_text(data) for key, data in secret.data.items()
        } if secret else {}
    return "", {}


def _require_optional(kind: str, name: str, optional: bool | None) -> None:
    if not optional:
        raise ConfigError(f'{kind} "{name}" not found')


def _resolve_reference(
    pod: Pod, source: EnvVarSource, objects: Objects, around: NodeFacts, containers: Mapping[str, Container]
) -> str | None:
    """Return the value of a `valueFrom` reference; None if it is optional and its object does not exist.

    Raises `ConfigError`.
    """
    try:
        if source.field_ref is not None:
            return downward.get_field(pod, source.field_ref, around)
        if source.resource_field_ref is not None:
            return downward.format_resource(containers, source.resource_field_ref, around)
    except FieldError as error:
        raise ConfigError(str(error)) from None
    if source.config_map_key_ref is not None:
        return _read_config_map_key(source.config_map_key_ref, objects, pod.metadata.namespace)
    if source.secret_key_ref is not None:
        return _read_secret_key(source.secret_key_ref, objects, pod.metadata.namespace)
    raise ConfigError("fileKeyRef is not supported by process nodes")


def _read_config_map_key(ref: ConfigMapKeySelector, objects: Objects, namespace: str) -> str | None:
    config_map = objects.config_maps.get(ref.name)
    if config_map is None:
        _require_optional("configmap", ref.name, ref.optional)
        return None
    if ref.key not in config_map.data and not ref.optional:
        raise ConfigError(f"couldn't find key {ref.key} in ConfigMap {namespace}/{ref.name}")
    return config_map.data.get(ref.key)


def _read_secret_key(ref: SecretKeySelector, objects: Objects, namespace: str) -> str | None:
    secret = objects.secrets.get(ref.name)
    if secret is None:
        _require_optional("secret", ref.name, ref.optional)
        return None
    if ref.key not in secret.data and not ref.optional:
        raise ConfigError(f"couldn't find key {ref.key} in Secret {namespace}/{ref.name}")
    return _decode_text(secret.data[ref.key]) if ref.key in secret.data else None
