"""Requests above limits: such pods could never be created, so their workload waits for a better template instead."""

from collections.abc import Iterator, Sequence

from muster.api.core.container import ResourceRequirements
from muster.api.kueue import PodSet
from muster.api.pods import amounts
from muster.api.status import INVALID, FieldError


def limits_problem(podsets: Sequence[PodSet]) -> str:
    """What is wrong, in upstream's words; "" if nothing is. Raises `QuantityError`."""
    errors = [str(error) for index, podset in enumerate(podsets) for error in _errors(index, podset)]
    if not errors:
        return ""
    text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    return f"resources validation failed: {text}"


def _errors(index: int, podset: PodSet) -> Iterator[FieldError]:
    spec, path = podset.template.spec, f"spec.podSets[{index}].template.spec"
    written = [
        *((f"initContainers[{number}]", each.resources) for number, each in enumerate(spec.init_containers)),
        *((f"containers[{number}]", each.resources) for number, each in enumerate(spec.containers)),
        *([("resources", spec.resources)] if spec.resources is not None else []),
    ]
    for place, resources in written:
        if names := _above(resources):
            yield FieldError(f"{path}.{place}", INVALID, names, "requests must not exceed its limits")


def _above(resources: ResourceRequirements) -> list[str]:
    if not resources.limits or not resources.requests:
        return []
    limits = amounts(resources.limits)
    return sorted(name for name, amount in amounts(resources.requests).items() if amount > limits.get(name, amount))
