"""`Configuration` (config.kueue.x-k8s.io): the one file that says how an engine works.

`load` reads a file of v1beta1 or v1beta2, strictly: what has no meaning, or breaks a rule, is an error with its path,
and nothing is read half. Every rule is applied to the settings that the whole file makes.
"""

from itertools import chain, islice
from typing import Any, Final

import msgspec

from muster.api.config.decode import Problem, read
from muster.api.config.frameworks import BUILT_IN
from muster.api.config.rules import errors
from muster.api.config.types import (
    V1BETA1,
    V1BETA2,
    Configuration,
    FairSharing,
    GroupScheduling,
    Integrations,
    Muster,
    Scheduling,
    WaitForPodsReady,
)
from muster.api.config.unread import warnings
from muster.api.config.written import Written, meaning
from muster.api.validation.fields import required, unsupported

__all__ = [
    "DEFAULT",
    "EMBEDDED",
    "MAX_BYTES",
    "Configuration",
    "ConfigurationError",
    "FairSharing",
    "GroupScheduling",
    "Integrations",
    "Muster",
    "Scheduling",
    "WaitForPodsReady",
    "load",
]

DEFAULT: Final = Configuration.default()

# What an embedded cluster goes by that is given no file: all kinds queue that come with the engine, and a
# MultiKueueConfig is all that it takes to have quotas follow those of the workers.
EMBEDDED: Final = msgspec.structs.replace(
    DEFAULT,
    integrations=Integrations(frameworks=BUILT_IN),
    feature_gates={"MultiKueueManagerQuotaAutomation": True},
)

MAX_BYTES: Final = 1 << 20  # what an API server stores in one object; real ones have a few kilobytes

_MAX_PROBLEMS: Final = 100  # a user reads no more, and a hostile file could have very many

_GROUP: Final = "config.kueue.x-k8s.io"
_VERSIONS: Final = {f"{_GROUP}/{version}": version for version in (V1BETA2, V1BETA1)}
_KIND: Final = "Configuration"


class ConfigurationError(ValueError):
    """A file that cannot be used. The text has a line for each problem, which begins with its path; at most 100."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))


def load(text: str, *, embedded: bool = False) -> Configuration:
    """Return the settings that a file makes, one YAML or JSON document. Raises `ConfigurationError`.

    embedded: of which kinds queue, and of features, what the file does not say is as in `EMBEDDED`.
    """
    document, duplicates = _document(text)
    version = _version(document)
    written, problems = read(document, Written, version)
    configuration = meaning(written, version)
    if embedded:
        configuration = _as_embedded(document, configuration)
    problems = [Problem(path, "given more than once") for path in duplicates] + problems
    said = {problem.path for problem in problems}
    broken = (str(error) for error in errors(written, configuration) if error.path not in said)
    lines = list(dict.fromkeys(islice(chain(map(str, problems), broken), _MAX_PROBLEMS + 1)))
    if len(lines) > _MAX_PROBLEMS:
        lines[-1] = "and more"
    if lines:
        raise ConfigurationError(*lines)
    return msgspec.structs.replace(configuration, warnings=tuple(warnings(written, configuration)))


def _as_embedded(document: dict[str, Any], configuration: Configuration) -> Configuration:
    """Complete a file's settings: one that is silent about the kinds that queue keeps all of them in the queues."""
    named, integrations = document.get("integrations"), configuration.integrations
    if not (isinstance(named, dict) and named.get("frameworks")):
        integrations = msgspec.structs.replace(integrations, frameworks=EMBEDDED.integrations.frameworks)
    gates = EMBEDDED.feature_gates | configuration.feature_gates
    return msgspec.structs.replace(configuration, integrations=integrations, feature_gates=gates)


def _document(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    from muster.api.values import yaml_decode  # it takes long to load, and most runs have no Configuration

    data = text.encode(errors="surrogatepass")
    if len(data) > MAX_BYTES:
        raise ConfigurationError(f"more than {MAX_BYTES} bytes")
    try:
        document, duplicates = yaml_decode.decode(data)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    if not isinstance(document, dict):
        raise ConfigurationError(f"must be a mapping that begins with apiVersion: {_GROUP}/{V1BETA2}")
    return document, tuple(repeated.path for repeated in duplicates)


def _version(document: dict[str, Any]) -> str:
    """Return the version of a document that is a Configuration."""
    problems = []
    version, kind = document.get("apiVersion"), document.get("kind")
    if version is None:
        problems.append(required("apiVersion", f"such as {_GROUP}/{V1BETA2}"))
    elif not isinstance(version, str) or version not in _VERSIONS:
        problems.append(unsupported("apiVersion", version, _VERSIONS))
    if kind is None:
        problems.append(required("kind", f"it is {_KIND}"))
    elif kind != _KIND:
        problems.append(unsupported("kind", kind, (_KIND,)))
    if problems:
        raise ConfigurationError(*map(str, problems))
    return _VERSIONS[str(version)]
