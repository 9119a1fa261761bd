"""The configz document, in which a server publishes its Configuration as Kubernetes' components do.

The document has the settings that decide which pods are created and where they run. This module makes the document; the
server serves it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from muster.api.config.types import NAMESPACE, Configuration, GroupScheduling, MultiKueue, Muster, Scheduling
from muster.api.values import durations

CONFIGZ = "/configz"

_SCHEDULING = "muster.scheduling"
_GROUPS = "muster.groupScheduling"
_DURATIONS = ("minimumRunTime", "recoveryTimeout")
_NAMESPACE = "namespace"
_ORIGIN = "multiKueue.origin"


def make_configz(configuration: Configuration) -> dict[str, Any]:
    """Return the configz document: namespace, origin, scheduling and group start, without values that are defaults."""
    ours = configuration.muster
    scheduling = msgspec.to_builtins(ours.scheduling)
    scheduling |= {name: durations.format(scheduling[name]) for name in _DURATIONS if name in scheduling}
    named = {
        key: name
        for key, name, usual in (
            (_NAMESPACE, configuration.namespace, NAMESPACE),
            (_ORIGIN, configuration.multi_kueue.origin, MultiKueue().origin),
        )
        if name != usual
    }
    return {_SCHEDULING: scheduling, _GROUPS: msgspec.to_builtins(ours.group_scheduling)} | named


def settings_of(document: Mapping[str, Any]) -> Muster:
    """Return the scheduling and the group start in a configz document; all other settings have their defaults.

    Raises `ValidationError` or `DurationError` if it is no such document.
    """
    scheduling = msgspec.convert(document.get(_SCHEDULING, {}), dict[str, Any])
    scheduling |= {name: durations.parse(scheduling[name]) for name in _DURATIONS if name in scheduling}
    return Muster(
        scheduling=msgspec.convert(scheduling, Scheduling),
        group_scheduling=msgspec.convert(document.get(_GROUPS, {}), GroupScheduling),
    )


def namespace_of(document: Mapping[str, Any]) -> str:
    """Return the namespace of the engine's own objects. Raises `ValidationError` if the document is no configz."""
    return msgspec.convert(document.get(_NAMESPACE, NAMESPACE), str)


def origin_of(document: Mapping[str, Any]) -> str:
    """Return the label value that marks the objects of a MultiKueue manager in its workers.

    Raises `ValidationError` if the document is no configz.
    """
    return msgspec.convert(document.get(_ORIGIN, MultiKueue().origin), str)
