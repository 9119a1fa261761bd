"""Compare the podsets of a job with the podsets of its Workload.

The comparison is as coarse as upstream's. A stricter comparison would find the differences that an admission itself
makes (node selectors, tolerations), and create workloads again and again.

Podsets are compared by position: count, least count, init containers, containers and, unless the workload is admitted,
tolerations. If an environment variable occurs twice, its last value counts, at the position of the first. Quantities
are compared by value.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from muster.api.core import Container
from muster.api.core.container import EnvVar, ResourceRequirements
from muster.api.kueue import PodSet
from muster.api.values.quantity import ResourceList, parse


def are_equivalent(one: Sequence[PodSet], other: Sequence[PodSet], *, admitted: bool = False) -> bool:
    """Return whether the podsets of a job and of a Workload are equal for admission. Raises `QuantityError`.

    admitted: whether the Workload is admitted. Tolerations do not count then, because admission injects some.
    """
    return len(one) == len(other) and all(
        _make_comparable_podset(mine, admitted) == _make_comparable_podset(theirs, admitted)
        for mine, theirs in zip(one, other, strict=True)
    )


def remove_repeated_variables(podset: PodSet) -> PodSet:
    """Return the podset as its Workload stores it: each environment variable once."""
    spec = podset.template.spec
    alone = msgspec.structs.replace(
        spec,
        init_containers=tuple(map(_drop_repeated_env, spec.init_containers)),
        containers=tuple(map(_drop_repeated_env, spec.containers)),
    )
    return msgspec.structs.replace(podset, template=msgspec.structs.replace(podset.template, spec=alone))


def _make_comparable_podset(podset: PodSet, admitted: bool) -> Any:
    spec = podset.template.spec
    containers = [
        [_make_comparable_container(container) for container in kind]
        for kind in (spec.init_containers, spec.containers)
    ]
    return podset.count, podset.min_count, containers, None if admitted else spec.tolerations


def _make_comparable_container(container: Container) -> Any:
    """Return a value that compares equal for equivalent containers: quantities are compared as numbers."""
    rest = msgspec.structs.replace(_drop_repeated_env(container), resources=ResourceRequirements())
    resources = container.resources
    return rest, _parse_amounts(resources.requests), _parse_amounts(resources.limits), resources.claims


def _parse_amounts(resources: ResourceList) -> Any:
    return {resource: parse(quantity) for resource, quantity in resources.items()}


def _drop_repeated_env(container: Container) -> Container:
    last: dict[str, EnvVar] = {}
    for variable in container.env:
        last[variable.name] = variable
    if len(last) == len(container.env):
        return container
    return msgspec.structs.replace(container, env=tuple(last.values()))
