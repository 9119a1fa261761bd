"""Convert the requests of pods to the amounts that quotas count.

The rules are Kueue's (Kueue KEP-2937 resource transformations): requests as the scheduler counts them, without excluded
resources, and with some resources counted as others. Configured factors are exact, and the result is rounded up at the
end.
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
    """The rule by which quota counts one resource as other resources.

    outputs: the amount of each output for one unit of the resource.
    multiplied_by: a resource whose amount multiplies the outputs, if the pod requests it.
    keep: whether the resource itself counts, too.
    """

    outputs: Mapping[str, Fraction]
    multiplied_by: str = ""
    keep: bool = True


class ResourceRules(Struct, frozen=True):
    """The rules of the Configuration: the prefixes of excluded resources, and the transformations by resource."""

    excluded: tuple[str, ...] = ()
    transformations: Mapping[str, Transformation] = field(default_factory=dict)

    @classmethod
    def of(cls, resources: Resources) -> Self:
        """Return the rules of a Configuration's `resources`: exclusions and transformations. Raises `QuantityError`."""
        transformations = {
            rule.input: Transformation(
                {resource: parse(quantity) for resource, quantity in rule.outputs.items()},
                rule.multiply_by,
                rule.strategy == "Retain",
            )
            for rule in resources.transformations
        }
        return cls(resources.exclude_resource_prefixes, transformations)


def requests_of(pod: PodSpec, rules: ResourceRules) -> dict[str, int]:
    """Return the amounts that quotas count for one pod, in units of `quantity.parse_amount`. Raises `QuantityError`."""
    requests = _make_zero_requests(pod) | pod_requests(pod)
    if rules.excluded:
        requests = {
            resource: amount for resource, amount in requests.items() if not resource.startswith(rules.excluded)
        }
    return _transform(requests, rules.transformations) if rules.transformations.keys() & requests.keys() else requests


def _make_zero_requests(pod: PodSpec) -> dict[str, int]:
    """Return a request of 0 for every resource that the pod names.

    So a pod that requests 0 GPUs gets a flavor for GPUs, as in Kueue.
    """
    containers = (*pod.containers, *pod.init_containers)
    return {
        name: 0 for container in containers for name in (*container.resources.requests, *container.resources.limits)
    }


def _transform(requests: Mapping[str, int], transformations: Mapping[str, Transformation]) -> dict[str, int]:
    """Return the requests after the resource transformations of the Configuration.

    Negative factors may reduce other outputs, but never the pod's own requests.
    """
    amounts = {
        name: amount for name, amount in requests.items() if name not in transformations or transformations[name].keep
    }
    outputs: dict[str, Fraction] = {}
    for name, amount in requests.items():
        if (rule := transformations.get(name)) is not None:
            units = _to_units(name, amount)
            if rule.multiplied_by in requests:
                units *= _to_units(rule.multiplied_by, requests[rule.multiplied_by])
            for output, factor in rule.outputs.items():
                outputs[output] = outputs.get(output, Fraction(0)) + units * factor
    for output, units in outputs.items():
        amounts[output] = amounts.get(output, 0) + ceil(max(Fraction(0), units) * _scale_of(output))
    return amounts


def _to_units(resource: str, amount: int) -> Fraction:
    return Fraction(amount, _scale_of(resource))


def _scale_of(resource: str) -> int:
    return 1000 if resource == "cpu" else 1


def scale_usage(total: Mapping[str, int], count: int, pods: int) -> dict[str, int]:
    """Return the usage of `pods` pods, given the total usage of `count` pods.

    The total must be a multiple of the count.
    """
    if count == pods or not count:
        return dict(total)
    return {resource: amount // count * pods for resource, amount in total.items()}
