"""The `Configuration` (config.kueue.x-k8s.io), the file with all settings of an engine.

`load` takes a file of v1beta1 or v1beta2 and returns the complete settings. `load` is strict: each unknown field and
each broken rule is an error with its path, and a file with errors has no effect. The rules apply to the complete
settings.
"""

from itertools import chain, islice
from typing import Any, Final

import msgspec

from muster.api.config.frameworks import BUILT_IN
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

# The settings of an embedded cluster without a file: all kinds of jobs that the engine supports use queues. Quotas
# follow the workers' quotas as soon as there is a MultiKueueConfig. Weights, and orders by past usage, work as soon as
# a queue has them.
EMBEDDED: Final = msgspec.structs.replace(
    DEFAULT,
    integrations=Integrations(frameworks=BUILT_IN),
    feature_gates={"MultiKueueManagerQuotaAutomation": True},
    muster=Muster(fair_sharing_on_demand=True),
)

MAX_BYTES: Final = 1 << 20  # the size limit of an object in an API server; real files have a few kilobytes

_MAX_PROBLEMS: Final = 100  # no user reads more, and a hostile file could have very many

_GROUP: Final = "config.kueue.x-k8s.io"
_VERSIONS: Final = {f"{_GROUP}/{version}": version for version in (V1BETA2, V1BETA1)}
_KIND: Final = "Configuration"


class ConfigurationError(ValueError):
    """An invalid Configuration file. Each line of the message is a problem, with its path first; at most 100 lines."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))


def load(text: str, *, embedded: bool = False) -> Configuration:
    """Return the settings of a file, which is one YAML or JSON document.

    embedded: whether the settings that the file does not set default to the settings of `EMBEDDED`.

    Raises:
        ConfigurationError: the file is invalid.
    """
    from muster.api.config.decode import Problem, read  # most runs have no file, and start sooner without these
    from muster.api.config.file import ConfigurationFile, complete_settings
    from muster.api.config.rules import validate_configuration
    from muster.api.config.unread import list_warnings

    document, duplicates = _read_document(text)
    version = _require_version(document)
    written, problems = read(document, ConfigurationFile, version)
    configuration = complete_settings(written, version)
    if embedded:
        configuration = _as_embedded(document, configuration)
    problems = [Problem(path, "given more than once") for path in duplicates] + problems
    said = {problem.path for problem in problems}
    broken = (str(error) for error in validate_configuration(written, configuration) if error.path not in said)
    lines = list(dict.fromkeys(islice(chain(map(str, problems), broken), _MAX_PROBLEMS + 1)))
    if len(lines) > _MAX_PROBLEMS:
        lines[-1] = "and more"
    if lines:
        raise ConfigurationError(*lines)
    return msgspec.structs.replace(configuration, warnings=tuple(list_warnings(written, configuration)))


def _as_embedded(document: dict[str, Any], configuration: Configuration) -> Configuration:
    """Return the settings, with the settings of `EMBEDDED` where the file sets none.

    If the file lists no frameworks, all kinds of jobs are enabled.
    """
    named, integrations = document.get("integrations"), configuration.integrations
    if not (isinstance(named, dict) and named.get("frameworks")):
        integrations = msgspec.structs.replace(integrations, frameworks=EMBEDDED.integrations.frameworks)
    ours, section = configuration.muster, document.get("muster")
    if not (isinstance(section, dict) and "fairSharingOnDemand" in section):
        ours = msgspec.structs.replace(ours, fair_sharing_on_demand=EMBEDDED.muster.fair_sharing_on_demand)
    return msgspec.structs.replace(
        configuration,
        integrations=integrations,
        feature_gates=EMBEDDED.feature_gates | configuration.feature_gates,
        muster=ours,
    )


def _read_document(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    from muster.api.values import yaml_decode  # loads slowly, and most runs need no file

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


def _require_version(document: dict[str, Any]) -> str:
    """Return the API version of a Configuration document. Raises `ConfigurationError` for any other document."""
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
