"""Whether a workload still is what its job asks for.

Upstream compares little, and that is kept: a stricter comparison would find differences that an admission itself
makes (node selectors, tolerations), and create workloads again and again. Podsets are compared by position: count,
least count, init containers, containers and, unless the workload is admitted, tolerations. Of an environment variable
that is given twice the last one counts, in the place of the first. Quantities are compared by value.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from muster.api.core import Container
from muster.api.core.container import EnvVar, ResourceRequirements
from muster.api.kueue import PodSet
from muster.api.values.quantity import ResourceList, parse


def equivalent(one: Sequence[PodSet], other: Sequence[PodSet], *, admitted: bool = False) -> bool:
    """Whether the podsets of a job and of a workload mean the same. Raises `QuantityError`."""
    return len(one) == len(other) and all(
        _shape(mine, admitted) == _shape(theirs, admitted) for mine, theirs in zip(one, other, strict=True)
    )


def sanitized(podset: PodSet) -> PodSet:
    """As a workload keeps it: every environment variable once."""
    spec = podset.template.spec
    alone = msgspec.structs.replace(
        spec,
        init_containers=tuple(map(_with_env_once, spec.init_containers)),
        containers=tuple(map(_with_env_once, spec.containers)),
    )
    return msgspec.structs.replace(podset, template=msgspec.structs.replace(podset.template, spec=alone))


def _shape(podset: PodSet, admitted: bool) -> Any:
    spec = podset.template.spec
    containers = [[_container(container) for container in kind] for kind in (spec.init_containers, spec.containers)]
    return podset.count, podset.min_count, containers, None if admitted else spec.tolerations


def _container(container: Container) -> Any:
    """With its resources, whose spelling does not matter, beside the rest."""
    rest = msgspec.structs.replace(_with_env_once(container), resources=ResourceRequirements())
    resources = container.resources
    return rest, _amounts(resources.requests), _amounts(resources.limits), resources.claims


def _amounts(resources: ResourceList) -> Any:
    return {resource: parse(quantity) for resource, quantity in resources.items()}


def _with_env_once(container: Container) -> Container:
    last: dict[str, EnvVar] = {}
    for variable in container.env:
        last[variable.name] = variable
    if len(last) == len(container.env):
        return container
    return msgspec.structs.replace(container, env=tuple(last.values()))
