"""The kinds of jobs that queue: one table for the engine, for admission and for the scheduler."""

from collections.abc import Iterable
from typing import Any, Final

from muster.api.config import Configuration, frameworks
from muster.controllers.integrations.framework import Integration
from muster.controllers.integrations.job.integration import JobIntegration
from muster.controllers.integrations.pods.gang import PodGroupGangs
from muster.controllers.scheduler.gangs import GangSource

# Those that come with the engine. The first that knows the gang of a pod has it: a kind stands before those whose jobs
# it makes.
INTEGRATIONS: Final[tuple[Integration[Any], ...]] = (JobIntegration(),)


def gang_sources(integrations: Iterable[Integration[Any]] = INTEGRATIONS) -> list[GangSource[Any]]:
    """Where gangs come from, whether their kinds queue or not: the kinds first, then what pods say of themselves."""
    return [*(one.gangs for one in integrations if one.gangs is not None), PodGroupGangs()]


def chosen(integrations: Iterable[Integration[Any]], configuration: Configuration) -> list[Integration[Any]]:
    """Those that the Configuration names: as a framework of the engine's, or by their kind as one from outside."""
    named, from_outside = configuration.integrations.frameworks, outside(configuration)
    return [
        one
        for one in integrations
        if one.name in named or (one.kind.group, one.kind.version, one.kind.kind) in from_outside
    ]


def outside(configuration: Configuration) -> frozenset[frameworks.GroupVersionKind]:
    """The kinds from outside that the Configuration names, whether there is an integration here or elsewhere."""
    names = configuration.integrations.external_frameworks
    return frozenset(kind for name in names if (kind := frameworks.parse(name)) is not None)
