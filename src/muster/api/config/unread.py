"""The warnings about settings that Muster does not read, each with its path and the reason.

Kueue's files are accepted unchanged, so such a setting is no error. The engine prints the warnings when it starts.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from muster.api.config.file import ConfigurationFile
from muster.api.config.types import Configuration


class _Unread(NamedTuple):
    """A field that the engine does not read: its path in the file, and the reason."""

    path: str
    reason: str


# An entry also covers the fields inside its field.
UNREAD: Final = (
    _Unread("webhook.certDir", "certificates come from the Secret of internalCertManagement.webhookSecretName"),
    _Unread("pprofBindAddress", "the engine is no Go program"),
    _Unread("controller.groupKindConcurrency", "the engine chooses the number of its workers itself"),
    _Unread("controller.cacheSyncTimeout", "caches may take as long as they need"),
    _Unread("integrations.podOptions", "managedJobsNamespaceSelector took its place"),
    _Unread("queueVisibility", "the visibility API took its place"),
)


def list_warnings(written: ConfigurationFile, configuration: Configuration) -> Iterator[str]:
    """Yield one line for each setting without effect."""
    for gate, on in configuration.features.without_effect():
        state = "does not have the feature" if on else "always has the feature"
        yield f"featureGates.{gate}: {str(on).lower()} has no effect: this engine {state}"
    if configuration.metrics.custom_labels and not configuration.custom_labels:
        yield "metrics.customLabels has no effect: the feature gate CustomMetricLabels is off"
    unset = ConfigurationFile()
    for path, reason in UNREAD:
        if _get_by_path(written, path) != _get_by_path(unset, path):
            yield f"{path} has no effect: {reason}"


def _get_by_path(settings: msgspec.Struct | None, path: str) -> object:
    """Return the value of a field by its path; None if a struct on the path is absent."""
    name, _, rest = path.partition(".")
    if settings is None:
        return None
    value = getattr(settings, settings.__struct_fields__[settings.__struct_encode_fields__.index(name)])
    return _get_by_path(value, rest) if rest else value
