"""List the kinds of jobs that queue: one table for the engine, for admission and for the scheduler."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from muster.api.batch import JOB
from muster.api.config import EMBEDDED, Configuration, frameworks
from muster.api.jobset import JOB_SET
from muster.api.kinds import Kind
from muster.controllers.gangs import GangSource
from muster.controllers.integrations.external.appwrapper import AppWrapperIntegration
from muster.controllers.integrations.external.integration import ExternalIntegration
from muster.controllers.integrations.external.kinds import SHAPES
from muster.controllers.integrations.external.trainjob import TrainJobIntegration
from muster.controllers.integrations.framework import Integration
from muster.controllers.integrations.job.integration import JobIntegration
from muster.controllers.integrations.jobset.integration import JobSetIntegration
from muster.controllers.integrations.pods.gang import PodGroupGangs
from muster.controllers.integrations.serving.kinds import SERVING, select_serving
from muster.controllers.podgroup.gang import PodGroups
from muster.jobs.podgroup.record import NATIVE

# The integrations that are built into the engine. The first one with a gang for a pod applies, so a kind comes before
# the kinds of its parts.
INTEGRATIONS: Final[tuple[Integration[Any], ...]] = (
    AppWrapperIntegration(),
    TrainJobIntegration(),
    *map(ExternalIntegration, SHAPES),
    JobSetIntegration(),
    JobIntegration(),
)

_EXTERNAL: Final = frozenset(one.name for one in INTEGRATIONS if one.optional)

# Kinds whose pods form gangs, whether they queue or not.
_ALWAYS_GANGS: Final = (JOB_SET, JOB)


def gang_sources(
    integrations: Sequence[Integration[Any]] = INTEGRATIONS, configuration: Configuration = EMBEDDED
) -> list[GangSource[Any]]:
    """Return the sources of gangs: PodGroups; JobSets and Jobs, queued or not; kinds that queue; plain pod groups.

    A kind that the Configuration does not name need not be served, so it is not watched.
    """
    named = list_enabled(integrations, configuration)
    followed = (one.gangs for one in integrations if one.kind in _ALWAYS_GANGS or one in named)
    return [pod_groups(configuration), *(gangs for gangs in followed if gangs is not None), PodGroupGangs()]


def pod_groups(configuration: Configuration) -> PodGroups:
    """Return the source of PodGroups, including Kubernetes' own if the Configuration lets the server serve them."""
    return PodGroups(native=NATIVE.api_version in configuration.muster.apis)


def list_enabled(integrations: Iterable[Integration[Any]], configuration: Configuration) -> list[Integration[Any]]:
    """Return the integrations that the Configuration enables, as a framework or as an external kind.

    A kind of another project that has a name in Kueue is enabled only by that name. If a user lists it as an external
    kind, another controller handles it. Raises `ValueError` if a kind has two integrations.
    """
    named, from_outside = configuration.integrations.frameworks, list_external(configuration)
    integrations_by_name = {
        one.kind.resource: one
        for one in integrations
        if one.name in named
        or (one.name not in _EXTERNAL and (one.kind.group, one.kind.version, one.kind.kind) in from_outside)
    }
    for one in integrations:
        if integrations_by_name.get(one.kind.resource, one) is not one:
            raise ValueError(
                f"two integrations of {one.kind.resource}: {one.name}, {integrations_by_name[one.kind.resource].name}"
            )
    return list(integrations_by_name.values())


def frameworks_without_effect(configuration: Configuration) -> dict[str, str]:
    """Return, by name, the configured frameworks on which no part of the engine acts, with the reason."""
    named = configuration.integrations.frameworks
    pods = {} if "pod" in named else {one.name: "its pods queue, and the framework pod is not named" for one in SERVING}
    why = dict.fromkeys(frameworks.UNHANDLED, "Muster has no integration for it") | pods
    return {name: why[name] for name in named if name in why}


def kinds_without_effect(configuration: Configuration) -> list[Kind[Any]]:
    """Return the kinds of Kueue's frameworks, except pods, whose objects never wait although they may name a queue."""
    elsewhere, followed = (
        list_external(configuration),
        {one.kind.resource for one in list_enabled(INTEGRATIONS, configuration)},
    )
    followed |= {one.kind.resource for one in select_serving(configuration)}
    others = [Kind(*frameworks.FRAMEWORKS[name], _make_plural(name), dict) for name in sorted(frameworks.UNHANDLED)]
    known = [*(one.kind for one in INTEGRATIONS), *(one.kind for one in SERVING), *others]
    return [
        kind
        for kind in known
        if kind.resource not in followed and (kind.group, kind.version, kind.kind) not in elsewhere
    ]


def _make_plural(name: str) -> str:
    return f"{frameworks.FRAMEWORKS[name].kind.lower()}s"


def list_external(configuration: Configuration) -> frozenset[frameworks.GroupVersionKind]:
    """Return the external kinds that the Configuration names, including kinds that no integration here handles."""
    names = configuration.integrations.external_frameworks
    return frozenset(kind for name in names if (kind := frameworks.parse(name)) is not None)
