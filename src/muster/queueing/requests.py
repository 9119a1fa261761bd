"""What the pods of a workload count as in quotas.

The rules are Kueue's (KEP-2937 resource transformations): requests as the scheduler counts them, without excluded
resources, with some resources counted as others. Configured factors are exact; what comes out is rounded up once.
"""

from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from typing import Self

from msgspec import Struct, field

from muster.api.config.types import Resources
from muster.api.core import PodSpec
from muster.api.pods import pod_requests
from muster.api.values.quantity import parse


class Transformation(Struct, frozen=True):
    """Counts a resource as others.

    outputs: how much of them for each unit of it.
    multiplied_by: a resource whose amount, if the pod asks for it, the outputs are multiplied by.
    keep: whether it counts itself, too.
    """

    outputs: Mapping[str, Fraction]
    multiplied_by: str = ""
    keep: bool = True


class ResourceRules(Struct, frozen=True):
    """What the Configuration says: prefixes of resources that do not count, and transformations by resource."""

    excluded: tuple[str, ...] = ()
    transformations: Mapping[str, Transformation] = field(default_factory=dict)

    @classmethod
    def of(cls, resources: Resources) -> Self:
        """As they are configured. Raises `QuantityError`."""
        transformations = {
            written.input: Transformation(
                {resource: parse(quantity) for resource, quantity in written.outputs.items()},
                written.multiply_by,
                written.strategy == "Retain",
            )
            for written in resources.transformations
        }
        return cls(resources.exclude_resource_prefixes, transformations)


def requests_of(pod: PodSpec, rules: ResourceRules) -> dict[str, int]:
    """What one such pod counts as, in the units of `quantity.amount`. Raises `QuantityError`."""
    asked = _nothing_of(pod) | pod_requests(pod)
    if rules.excluded:
        asked = {resource: amount for resource, amount in asked.items() if not resource.startswith(rules.excluded)}
    return _transformed(asked, rules.transformations) if rules.transformations.keys() & asked.keys() else asked


def _nothing_of(pod: PodSpec) -> dict[str, int]:
    """Of every resource that is named, nothing: who asks for 0 GPUs gets a flavor for them, too, as upstream has it."""
    all_of_them = (*pod.containers, *pod.init_containers)
    return {name: 0 for each in all_of_them for name in (*each.resources.requests, *each.resources.limits)}


def _transformed(asked: Mapping[str, int], transformations: Mapping[str, Transformation]) -> dict[str, int]:
    """Outputs may cancel each other out (factors below zero are allowances), but not what is asked for itself."""
    kept = {name: amount for name, amount in asked.items() if name not in transformations or transformations[name].keep}
    made: dict[str, Fraction] = {}
    for name, amount in asked.items():
        if (rule := transformations.get(name)) is not None:
            units = _units(name, amount)
            if rule.multiplied_by in asked:
                units *= _units(rule.multiplied_by, asked[rule.multiplied_by])
            for output, factor in rule.outputs.items():
                made[output] = made.get(output, Fraction(0)) + units * factor
    for output, units in made.items():
        kept[output] = kept.get(output, 0) + ceil(max(Fraction(0), units) * _scale(output))
    return kept


def _units(resource: str, amount: int) -> Fraction:
    return Fraction(amount, _scale(resource))


def _scale(resource: str) -> int:
    return 1000 if resource == "cpu" else 1


def scaled(total: Mapping[str, int], count: int, wanted: int) -> dict[str, int]:
    """Of what `count` pods use together, what `wanted` of them use; the total must be a multiple of the count."""
    if count == wanted or not count:
        return dict(total)
    return {resource: amount // count * wanted for resource, amount in total.items()}
