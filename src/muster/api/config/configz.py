"""What a server tells of its Configuration, where Kubernetes' components tell theirs: what decides where pods go."""

from collections.abc import Mapping
from typing import Any

import msgspec

from muster.api import durations
from muster.api.config.types import Configuration, Scheduling

CONFIGZ = "/configz"

_SECTION = "muster.scheduling"
_DURATION = "minimumRunTime"


def configz(configuration: Configuration) -> dict[str, Any]:
    """The document: settings that are as by default are left out."""
    scheduling = configuration.muster.scheduling
    document = msgspec.to_builtins(scheduling)
    if _DURATION in document:
        document[_DURATION] = durations.format(scheduling.minimum_run_time)
    return {_SECTION: document}


def scheduling_of(document: Mapping[str, Any]) -> Scheduling:
    """What it says of scheduling. Raises `ValidationError` or `DurationError` if it is no such document."""
    section = msgspec.convert(document.get(_SECTION, {}), dict[str, Any])
    if _DURATION in section:
        section = section | {_DURATION: durations.parse(section[_DURATION])}
    return msgspec.convert(section, Scheduling)
