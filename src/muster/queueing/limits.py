"""Requests above limits, or beyond the LimitRanges of their namespace.

Such pods could never be created, so their workload waits for a better template instead. The rules and sentences are
upstream's (ValidateResources, ValidateLimitRange).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from muster.api.core import PodSpec
from muster.api.core.container import ResourceRequirements
from muster.api.core.quota import LimitRangeItem
from muster.api.kueue import PodSet
from muster.api.pods import amounts, pod_requests
from muster.api.status import INVALID, FieldError

Written = tuple[str, ResourceRequirements]


def limits_problem(podsets: Sequence[PodSet], ranges: Sequence[LimitRangeItem] = ()) -> str:
    """What is wrong, in upstream's words; "" if nothing is. Raises `QuantityError`.

    podsets: as their pods will be, with what their namespace adds.
    """
    specs = [(f"spec.podSets[{index}].template.spec", podset.template.spec) for index, podset in enumerate(podsets)]
    return _said("resources validation failed", _above_limits(specs)) or _said(
        "resources didn't satisfy LimitRange constraints", _beyond(specs, ranges) if ranges else ()
    )


def _said(what: str, found: Iterable[FieldError]) -> str:
    errors = [str(error) for error in found]
    if not errors:
        return ""
    together = ", ".join(errors)
    return f"{what}: {together}" if len(errors) == 1 else f"{what}: [{together}]"


def _above_limits(specs: Sequence[tuple[str, PodSpec]]) -> Iterator[FieldError]:
    for path, spec in specs:
        pod = [(f"{path}.resources", spec.resources)] if spec.resources is not None else []
        for place, resources in (*_containers(path, spec), *pod):
            if names := _greater(amounts(resources.requests), [amounts(resources.limits)]):
                yield FieldError(place, INVALID, names, "requests must not exceed its limits")


def _beyond(specs: Sequence[tuple[str, PodSpec]], ranges: Sequence[LimitRangeItem]) -> Iterator[FieldError]:
    of_containers, of_pods = ([item for item in ranges if item.type == type_] for type_ in ("Container", "Pod"))
    for path, spec in specs:
        for place, resources in _containers(path, spec):
            least, most = _extremes(resources)
            yield from _outside(place, least, most, of_containers)
        total = pod_requests(spec)
        yield from _outside(path, total, total, of_pods)


def _outside(
    place: str, least: Mapping[str, int], most: Mapping[str, int], items: Sequence[LimitRangeItem]
) -> Iterator[FieldError]:
    if names := _greater(most, [amounts(item.max) for item in items]):
        yield FieldError(place, INVALID, names, "requests must not be above the limitRange max")
    if names := sorted({name for item in items for name in _greater(amounts(item.min), [least])}):
        yield FieldError(place, INVALID, names, "requests must not be below the limitRange min")


def _containers(path: str, spec: PodSpec) -> Iterator[Written]:
    for field, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for number, container in enumerate(containers):
            yield f"{path}.{field}[{number}]", container.resources


def _extremes(resources: ResourceRequirements) -> tuple[dict[str, int], dict[str, int]]:
    """The lesser and the greater of what it asks for and its limit."""
    requests, limits = amounts(resources.requests), amounts(resources.limits)
    least, most = limits | requests, requests | limits
    return {name: min(least[name], most[name]) for name in most}, {name: max(least[name], most[name]) for name in most}


def _greater(asked: Mapping[str, int], bounds: Sequence[Mapping[str, int]]) -> list[str]:
    """Of what is more than a bound for it."""
    return sorted(name for name, amount in asked.items() if any(amount > bound.get(name, amount) for bound in bounds))
