"""The rules of quotas: resource groups, and weights in fair sharing, of ClusterQueues and Cohorts."""

from fractions import Fraction

from msgspec import Struct

from muster.api.kueue import FairSharing, FlavorQuotas, ResourceGroup, ResourceQuota
from muster.api.validation import names
from muster.api.validation.fields import Errors, duplicate, invalid, make_errors
from muster.api.validation.kueue.rules import OBJECT, is_at_most, show_quantity, validate_not_negative
from muster.api.values.quantity import Quantity, QuantityError, parse

GROUPS = "spec.resourceGroups"

_ZERO_WEIGHT = Fraction(1, 10**9)  # weights up to this count as zero


class Owner(Struct, frozen=True):
    """The properties of the owner of quotas, a ClusterQueue or a Cohort.

    above: the word for the cohort from which the owner borrows.
    has_above: whether there is such a cohort.
    lends_its_own: whether the owner may lend at most its nominal quota.
    """

    above: str
    has_above: bool
    lends_its_own: bool


def validate_group_sizes(groups: tuple[ResourceGroup, ...]) -> Errors:
    """Check the CRD's rule of resource groups: each flavor has as many resources as its group covers."""
    for i, group in enumerate(groups):
        if any(len(flavor.resources) != len(group.covered_resources) for flavor in group.flavors):
            sentence = "flavors must have the same number of resources as the coveredResources"
            yield invalid(f"{GROUPS}[{i}]", OBJECT, sentence)


def validate_resource_groups(groups: tuple[ResourceGroup, ...], owner: Owner) -> Errors:
    """Check the webhook's rules of resource groups."""
    resources: set[str] = set()
    flavors: set[str] = set()
    for i, group in enumerate(groups):
        for j, name in enumerate(group.covered_resources):
            path = f"{GROUPS}[{i}].coveredResources[{j}]"
            yield from make_errors(path, name, names.label_key(name))
            if name in resources:
                yield duplicate(path, name)
            resources.add(name)
        for j, flavor in enumerate(group.flavors):
            path = f"{GROUPS}[{i}].flavors[{j}]"
            yield from _validate_flavor(path, flavor, group.covered_resources, owner)
            if flavor.name in flavors:
                yield duplicate(f"{path}.name", flavor.name)
            flavors.add(flavor.name)


def validate_weight(sharing: FairSharing | None) -> Errors:
    """Check that the weight is zero, or large enough to count."""
    if sharing is None:
        return
    path = "spec.fairSharing"
    yield from validate_not_negative(path, sharing.weight)
    if _counts_as_zero(sharing.weight):
        yield invalid(path, show_quantity(sharing.weight), "When not 0, weight must be > 10e-9")


def _counts_as_zero(weight: Quantity) -> bool:
    try:
        return 0 < parse(weight) <= _ZERO_WEIGHT
    except QuantityError:
        return False  # another rule reports the error


def _validate_flavor(path: str, flavor: FlavorQuotas, covered: tuple[str, ...], owner: Owner) -> Errors:
    for i, (quota, name) in enumerate(zip(flavor.resources, covered, strict=False)):
        place = f"{path}.resources[{i}]"
        if quota.name != name:
            yield invalid(f"{place}.name", quota.name, "must match the name in coveredResources")
        yield from _validate_quota(place, quota, owner)


def _validate_quota(path: str, quota: ResourceQuota, owner: Owner) -> Errors:
    yield from validate_not_negative(f"{path}.nominalQuota", quota.nominal_quota)
    if (borrowing := quota.borrowing_limit) is not None:
        yield from _validate_limit(f"{path}.borrowingLimit", borrowing, owner)
        yield from validate_not_negative(f"{path}.borrowingLimit", borrowing)
    if (lending := quota.lending_limit) is not None:
        yield from validate_not_negative(f"{path}.lendingLimit", lending)
        yield from _validate_limit(f"{path}.lendingLimit", lending, owner)
        if owner.lends_its_own and not is_at_most(lending, quota.nominal_quota):
            yield invalid(
                f"{path}.lendingLimit", show_quantity(lending), "must be less than or equal to the nominalQuota"
            )


def _validate_limit(path: str, limit: Quantity, owner: Owner) -> Errors:
    if not owner.has_above:
        yield invalid(path, show_quantity(limit), f"must be nil when {owner.above} is empty")
