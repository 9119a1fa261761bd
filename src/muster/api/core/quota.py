# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The limits of a namespace as a whole (ResourceQuota) and of each object in it (LimitRange)."""

from muster.api.kinds import Kind
from muster.api.markers import Required
from muster.api.meta import ObjectMeta, Struct
from muster.api.values.quantity import ResourceList

SCOPES = (
    "BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating",
    "VolumeAttributesClass",
)  # fmt: skip


class ScopedResourceSelectorRequirement(Struct):
    """One requirement on the objects that a ResourceQuota counts: a scope, and the values that it may have."""

    scope_name: Required[str] = ""
    operator: Required[str] = ""
    values: tuple[str, ...] = ()


class ScopeSelector(Struct):
    """Requirements of which an object must meet all."""

    match_expressions: tuple[ScopedResourceSelectorRequirement, ...] = ()


class ResourceQuotaSpec(Struct):
    """The limits of a quota, and the objects to which they apply."""

    hard: ResourceList = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Struct):
    """The limits and the usage of a quota."""

    hard: ResourceList = {}
    used: ResourceList = {}


class ResourceQuota(Struct):
    """A limit on the total usage of all objects in a namespace."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class LimitRangeItem(Struct):
    """Limits on each object of one type."""

    type: Required[str] = ""
    max: ResourceList = {}
    min: ResourceList = {}
    default: ResourceList = {}
    default_request: ResourceList = {}
    max_limit_request_ratio: ResourceList = {}


class LimitRangeSpec(Struct):
    """The limits by type of object."""

    limits: Required[tuple[LimitRangeItem, ...]] = ()


class LimitRange(Struct):
    """Limits on each pod, container or volume claim of a namespace."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LimitRangeSpec = LimitRangeSpec()


RESOURCE_QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas", ResourceQuota)
LIMIT_RANGE = Kind("", "v1", "LimitRange", "limitranges", LimitRange)
