"""What a server tells of its Configuration, where Kubernetes' components tell theirs: what decides which pods come,
and where they go.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from muster.api.config.types import NAMESPACE, Configuration, GroupScheduling, MultiKueue, Muster, Scheduling
from muster.api.values import durations

CONFIGZ = "/configz"

_SCHEDULING = "muster.scheduling"
_GROUPS = "muster.groupScheduling"
_DURATION = "minimumRunTime"
_NAMESPACE = "namespace"
_ORIGIN = "multiKueue.origin"


def configz(configuration: Configuration) -> dict[str, Any]:
    """The document: settings that are as by default are left out."""
    ours = configuration.muster
    scheduling = msgspec.to_builtins(ours.scheduling)
    if _DURATION in scheduling:
        scheduling[_DURATION] = durations.format(ours.scheduling.minimum_run_time)
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
    """What it says of both. Raises `ValidationError` or `DurationError` if it is no such document."""
    scheduling = msgspec.convert(document.get(_SCHEDULING, {}), dict[str, Any])
    if _DURATION in scheduling:
        scheduling = scheduling | {_DURATION: durations.parse(scheduling[_DURATION])}
    return Muster(
        scheduling=msgspec.convert(scheduling, Scheduling),
        group_scheduling=msgspec.convert(document.get(_GROUPS, {}), GroupScheduling),
    )


def namespace_of(document: Mapping[str, Any]) -> str:
    """Where the engine has what it reads itself. Raises `ValidationError` if it is no such document."""
    return msgspec.convert(document.get(_NAMESPACE, NAMESPACE), str)


def origin_of(document: Mapping[str, Any]) -> str:
    """What marks the objects of a MultiKueue manager. Raises `ValidationError` if it is no such document."""
    return msgspec.convert(document.get(_ORIGIN, MultiKueue().origin), str)
