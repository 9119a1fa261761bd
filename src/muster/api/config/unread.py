"""Warns of settings in a file that this engine does not read: each by its path, with the reason.

Kueue's files are accepted as they are, so such a setting is no error. Whoever wrote it is told at the start.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from muster.api.config.types import Configuration
from muster.api.config.written import Written


class _Unread(NamedTuple):
    """A field, by its path in a file, that no part of the engine reads, and why it has none."""

    path: str
    reason: str


# A field that stands here covers the fields inside it.
UNREAD: Final = (
    _Unread("webhook.certDir", "certificates come from the Secret of internalCertManagement.webhookSecretName"),
    _Unread("pprofBindAddress", "the engine is no Go program"),
    _Unread("controller.groupKindConcurrency", "the engine chooses the number of its workers itself"),
    _Unread("controller.cacheSyncTimeout", "caches may take as long as they need"),
    _Unread("integrations.podOptions", "managedJobsNamespaceSelector took its place"),
    _Unread("queueVisibility", "the visibility API took its place"),
)


def warnings(written: Written, configuration: Configuration) -> Iterator[str]:
    """Yield one line for each setting that has no effect."""
    for gate, on in configuration.features.without_effect():
        state = "does not have the feature" if on else "always has the feature"
        yield f"featureGates.{gate}: {str(on).lower()} has no effect: this engine {state}"
    if configuration.metrics.custom_labels and not configuration.custom_labels:
        yield "metrics.customLabels has no effect: the feature gate CustomMetricLabels is off"
    unset = Written()
    for path, reason in UNREAD:
        if _at(written, path) != _at(unset, path):
            yield f"{path} has no effect: {reason}"


def _at(settings: msgspec.Struct | None, path: str) -> object:
    """Return the value of a field by its path; None if a struct on the path is absent."""
    name, _, rest = path.partition(".")
    if settings is None:
        return None
    value = getattr(settings, settings.__struct_fields__[settings.__struct_encode_fields__.index(name)])
    return _at(value, rest) if rest else value
