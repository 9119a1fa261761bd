"""Find pods whose requests exceed their limits or the LimitRanges of their namespace.

The API server would refuse such pods, so their workload waits for a corrected template. The rules and messages are
upstream's (ValidateResources, ValidateLimitRange).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from muster.api.core import PodSpec
from muster.api.core.container import ResourceRequirements
from muster.api.core.quota import LimitRangeItem
from muster.api.kueue import PodSet
from muster.api.pods import parse_amounts, pod_requests
from muster.api.status import INVALID, FieldError

Written = tuple[str, ResourceRequirements]


def limits_problem(podsets: Sequence[PodSet], ranges: Sequence[LimitRangeItem] = ()) -> str:
    """Return why the API server would refuse pods, with the messages of Kubernetes; "" if it would accept them.

    podsets: podsets completed with the defaults of their namespace.

    Raises `QuantityError`.
    """
    specs = [(f"spec.podSets[{index}].template.spec", podset.template.spec) for index, podset in enumerate(podsets)]
    return _join_problems("resources validation failed", _check_limits(specs)) or _join_problems(
        "resources didn't satisfy LimitRange constraints", _check_ranges(specs, ranges) if ranges else ()
    )


def _join_problems(prefix: str, problems: Iterable[FieldError]) -> str:
    errors = [str(error) for error in problems]
    if not errors:
        return ""
    joined = ", ".join(errors)
    return f"{prefix}: {joined}" if len(errors) == 1 else f"{prefix}: [{joined}]"


def _check_limits(specs: Sequence[tuple[str, PodSpec]]) -> Iterator[FieldError]:
    for path, spec in specs:
        pod = [(f"{path}.resources", spec.resources)] if spec.resources is not None else []
        for place, resources in (*_list_containers(path, spec), *pod):
            if names := _find_exceeding(parse_amounts(resources.requests), [parse_amounts(resources.limits)]):
                yield FieldError(place, INVALID, names, "requests must not exceed its limits")


def _check_ranges(specs: Sequence[tuple[str, PodSpec]], ranges: Sequence[LimitRangeItem]) -> Iterator[FieldError]:
    of_containers, of_pods = ([item for item in ranges if item.type == type_] for type_ in ("Container", "Pod"))
    for path, spec in specs:
        for place, resources in _list_containers(path, spec):
            least, most = _find_extremes(resources)
            yield from _check_bounds(place, least, most, of_containers)
        total = pod_requests(spec)
        yield from _check_bounds(path, total, total, of_pods)


def _check_bounds(
    place: str, least: Mapping[str, int], most: Mapping[str, int], items: Sequence[LimitRangeItem]
) -> Iterator[FieldError]:
    if names := _find_exceeding(most, [parse_amounts(item.max) for item in items]):
        yield FieldError(place, INVALID, names, "requests must not be above the limitRange max")
    if names := sorted({name for item in items for name in _find_exceeding(parse_amounts(item.min), [least])}):
        yield FieldError(place, INVALID, names, "requests must not be below the limitRange min")


def _list_containers(path: str, spec: PodSpec) -> Iterator[Written]:
    for field, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for number, container in enumerate(containers):
            yield f"{path}.{field}[{number}]", container.resources


def _find_extremes(resources: ResourceRequirements) -> tuple[dict[str, int], dict[str, int]]:
    """Return, by resource, the smaller of request and limit, and the larger of the two."""
    requests, limits = parse_amounts(resources.requests), parse_amounts(resources.limits)
    least, most = limits | requests, requests | limits
    return {name: min(least[name], most[name]) for name in most}, {name: max(least[name], most[name]) for name in most}


def _find_exceeding(requests: Mapping[str, int], bounds: Sequence[Mapping[str, int]]) -> list[str]:
    """Return the names of the resources that exceed one of the bounds."""
    return sorted(
        name for name, amount in requests.items() if any(amount > bound.get(name, amount) for bound in bounds)
    )
