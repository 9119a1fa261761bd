"""The rules of ResourceQuotas (k8s.io/kubernetes/pkg/apis/core/validation)."""

from collections.abc import Collection, Iterable, Mapping

from muster.api.core.quota import SCOPES, ResourceQuota, ResourceQuotaSpec, ScopedResourceSelectorRequirement
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.fields import Errors, invalid, required, validate_immutable
from muster.api.validation.metadata import changed_metadata, new_metadata
from muster.api.validation.resources import HUGE_PAGES, STANDARD_RESOURCES, validate_amount, validate_resource_name
from muster.api.values.quantity import Quantity

_COMPUTE = frozenset({
    "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory",
})  # fmt: skip
# The standard resources to which each scope applies.
_SCOPED: Mapping[str, Collection[str]] = {
    **dict.fromkeys(SCOPES, _COMPUTE | {"pods"}),
    "BestEffort": {"pods"},
    "VolumeAttributesClass": {"persistentvolumeclaims", "requests.storage"},
}
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_VALUED = ("PriorityClass", "VolumeAttributesClass")
_ONLY_EXISTS = (
    "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def validate_create(quota: ResourceQuota) -> list[FieldError]:
    """Return the errors in a new ResourceQuota."""
    return [*new_metadata(quota.metadata, names.dns_subdomain), *_validate_spec(quota.spec)]


def validate_update(new: ResourceQuota, old: ResourceQuota) -> list[FieldError]:
    """Return the errors in a change of a ResourceQuota, whose scopes are immutable."""
    scopes = validate_immutable("spec.scopes", sorted(new.spec.scopes), sorted(old.spec.scopes))
    return [*changed_metadata(new.metadata, old.metadata), *_validate_spec(new.spec), *scopes]


def validate_status_update(new: ResourceQuota, old: ResourceQuota) -> list[FieldError]:
    """Return the errors in a change of a ResourceQuota's status."""
    return [
        *changed_metadata(new.metadata, old.metadata),
        *_validate_amounts("status.hard", new.status.hard),
        *_validate_amounts("status.used", new.status.used),
    ]


def _validate_spec(spec: ResourceQuotaSpec) -> Errors:
    yield from _validate_amounts("spec.hard", spec.hard)
    for scope in spec.scopes:
        yield from _validate_scope("spec.scopes", spec.scopes, scope, spec.hard)
    yield from _validate_conflicts("spec.scopes", spec.scopes)
    if spec.scope_selector is not None:
        path = "spec.scopeSelector.matchExpressions"
        expressions = spec.scope_selector.match_expressions
        for expression in expressions:
            yield from _validate_expression(path, expression, spec.hard)
        yield from _validate_conflicts(path, [expression.scope_name for expression in expressions])


def _validate_amounts(path: str, amounts: Mapping[str, Quantity]) -> Errors:
    for resource, quantity in amounts.items():
        place = f"{path}[{resource}]"
        yield from validate_resource_name(place, resource)
        if "/" not in resource and resource not in STANDARD_RESOURCES and not _is_huge_pages(resource):
            yield invalid(place, resource, "must be a standard resource for quota")
        yield from validate_amount(place, resource, quantity)


def _is_huge_pages(resource: str) -> bool:
    return resource.removeprefix("requests.").startswith(HUGE_PAGES)


def _validate_scope(path: str, value: object, scope: str, hard: Iterable[str]) -> Errors:
    if scope not in SCOPES:
        yield invalid(path, value, "unsupported scope")
        return
    for resource in hard:
        if resource in STANDARD_RESOURCES and resource not in _SCOPED[scope]:
            yield invalid(path, value, "unsupported scope applied to resource")


def _validate_conflicts(path: str, scopes: Collection[str]) -> Errors:
    for pair in _OPPOSITES:
        if pair <= set(scopes):
            yield invalid(path, list(scopes), "conflicting scopes")


def _validate_expression(path: str, expression: ScopedResourceSelectorRequirement, hard: Iterable[str]) -> Errors:
    yield from _validate_scope(f"{path}.scopeName", expression.scope_name, expression.scope_name, hard)
    operator, values = expression.operator, expression.values
    if expression.scope_name not in _VALUED and operator != "Exists":
        yield invalid(f"{path}.operator", operator, _ONLY_EXISTS)
    if operator in ("In", "NotIn"):
        if not values:
            sentence = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield required(f"{path}.values", sentence)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            sentence = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield invalid(f"{path}.values", values, sentence)
    else:
        yield invalid(f"{path}.operator", operator, "not a valid selector operator")
