# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""Limits of a namespace altogether (ResourceQuota), and of each object in it (LimitRange)."""

from muster.api.kinds import Kind
from muster.api.markers import Required
from muster.api.meta import ObjectMeta, Struct
from muster.api.values.quantity import ResourceList

SCOPES = (
    "BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating",
    "VolumeAttributesClass",
)  # fmt: skip
OPERATORS = ("DoesNotExist", "Exists", "In", "NotIn")


class ScopedResourceSelectorRequirement(Struct):
    """One requirement on an object."""

    scope_name: Required[str] = ""
    operator: Required[str] = ""
    values: tuple[str, ...] = ()


class ScopeSelector(Struct):
    """Requirements that an object must meet all together."""

    match_expressions: tuple[ScopedResourceSelectorRequirement, ...] = ()


class ResourceQuotaSpec(Struct):
    """What may be used at most, by whom."""

    hard: ResourceList = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Struct):
    """What is used."""

    hard: ResourceList = {}
    used: ResourceList = {}


class ResourceQuota(Struct):
    """A limit on what all objects of a namespace use together."""

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
    """The limits, by type of object."""

    limits: Required[tuple[LimitRangeItem, ...]] = ()


class LimitRange(Struct):
    """Limits on what each pod, container or volume claim of a namespace may use."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LimitRangeSpec = LimitRangeSpec()


RESOURCE_QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas", ResourceQuota)
LIMIT_RANGE = Kind("", "v1", "LimitRange", "limitranges", LimitRange)
