"""The kinds of jobs that queue: one table for the engine, for admission and for the scheduler."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from muster.api.batch import JOB
from muster.api.config import EMBEDDED, Configuration, frameworks
from muster.api.jobset import JOB_SET
from muster.controllers.gangs import GangSource
from muster.controllers.integrations.framework import Integration
from muster.controllers.integrations.job.integration import JobIntegration
from muster.controllers.integrations.jobset.integration import JobSetIntegration
from muster.controllers.integrations.pods.gang import PodGroupGangs
from muster.controllers.podgroup.gang import PodGroups
from muster.jobs.podgroup.record import NATIVE

# Those that come with the engine. The first that knows the gang of a pod has it: a kind stands before those whose jobs
# it makes.
INTEGRATIONS: Final[tuple[Integration[Any], ...]] = (JobSetIntegration(), JobIntegration())

# Kinds whose pods are gangs whether they queue or not.
_ALWAYS_GANGS: Final = (JOB_SET, JOB)


def gang_sources(
    integrations: Sequence[Integration[Any]] = INTEGRATIONS, configuration: Configuration = EMBEDDED
) -> list[GangSource[Any]]:
    """Where gangs come from: PodGroups; JobSets and Jobs, queued or not, and kinds that queue; then pods alone.

    A kind that the Configuration does not name need not be served, so it is not followed.
    """
    named = chosen(integrations, configuration)
    followed = (one.gangs for one in integrations if one.kind in _ALWAYS_GANGS or one in named)
    return [pod_groups(configuration), *(gangs for gangs in followed if gangs is not None), PodGroupGangs()]


def pod_groups(configuration: Configuration) -> PodGroups:
    """PodGroups, Kubernetes' own among them if the Configuration has them served."""
    return PodGroups(native=NATIVE.api_version in configuration.muster.apis)


def chosen(integrations: Iterable[Integration[Any]], configuration: Configuration) -> list[Integration[Any]]:
    """Those that the Configuration names: as a framework of the engine's, or by their kind as one from outside.

    Raises `ValueError` if a kind has two.
    """
    named, from_outside = configuration.integrations.frameworks, outside(configuration)
    found = {
        one.kind.resource: one
        for one in integrations
        if one.name in named or (one.kind.group, one.kind.version, one.kind.kind) in from_outside
    }
    for one in integrations:
        if found.get(one.kind.resource, one) is not one:
            raise ValueError(f"two integrations of {one.kind.resource}: {one.name}, {found[one.kind.resource].name}")
    return list(found.values())


def outside(configuration: Configuration) -> frozenset[frameworks.GroupVersionKind]:
    """The kinds from outside that the Configuration names, whether there is an integration here or elsewhere."""
    names = configuration.integrations.external_frameworks
    return frozenset(kind for name in names if (kind := frameworks.parse(name)) is not None)
