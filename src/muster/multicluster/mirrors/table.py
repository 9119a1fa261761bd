"""The table of the kinds of jobs that can run in another cluster."""

from collections.abc import Sequence
from typing import Any, Final

from muster.api.config import Configuration, frameworks
from muster.api.kinds import Kind
from muster.multicluster.mirrors.framework import Mirror
from muster.multicluster.mirrors.generic import GenericMirror
from muster.multicluster.mirrors.job import JobMirror
from muster.multicluster.mirrors.jobset import JobSetMirror
from muster.multicluster.mirrors.pods import PodMirror

# The kinds that the engine supports by itself.
MIRRORS: Final[tuple[Mirror[Any], ...]] = (JobMirror(), JobSetMirror(), PodMirror())


def list_mirrors(configuration: Configuration) -> tuple[Mirror[Any], ...]:
    """Return the mirrors of the kinds in the Configuration: the enabled frameworks, and the external kinds."""
    enabled = {frameworks.FRAMEWORKS.get(name) for name in configuration.integrations.frameworks}
    named = (frameworks.parse(framework.name) for framework in configuration.multi_kueue.external_frameworks)
    return (
        *(one for one in MIRRORS if (one.kind.group, one.kind.version, one.kind.kind) in enabled),
        *(GenericMirror(_make_kind(*name)) for name in named if name is not None),
    )


def mirror_of(api_version: str, kind: str, among: Sequence[Mirror[Any]] = MIRRORS) -> Mirror[Any] | None:
    """Return the mirror of a kind; None if MultiKueue cannot run it."""
    return next((one for one in among if (one.kind.api_version, one.kind.kind) == (api_version, kind)), None)


def _make_kind(group: str, version: str, kind: str) -> Kind[dict[str, Any]]:
    return Kind(group, version, kind, _guess_plural(kind.lower()), dict)


def _guess_plural(singular: str) -> str:
    """Return the plural of a kind's name by Kubernetes' rule of thumb (`UnsafeGuessKindToResource`)."""
    if singular.endswith("s"):
        return f"{singular}es"
    return f"{singular[:-1]}ies" if singular.endswith("y") else f"{singular}s"
