# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""What a namespace may use altogether (ResourceQuota), and what each object in it may (LimitRange)."""

from typing import Annotated

from muster.api.kinds import Kind
from muster.api.markers import ATOMIC, Required, Strings, one_of
from muster.api.meta import ObjectMeta, Struct
from muster.api.values.quantity import ResourceList

SCOPES = (
    "BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating",
    "VolumeAttributesClass",
)  # fmt: skip
OPERATORS = ("DoesNotExist", "Exists", "In", "NotIn")


class ScopedResourceSelectorRequirement(Struct):
    """One requirement on an object.

    scope_name: what it is about, such as PriorityClass.
    operator: In, NotIn, Exists or DoesNotExist.
    values: what In and NotIn compare with.
    """

    scope_name: Annotated[Required[str], one_of(*SCOPES)] = ""
    operator: Annotated[Required[str], one_of(*OPERATORS)] = ""
    values: Strings = ()


class ScopeSelector(Struct):
    """Requirements that an object must meet all together.

    match_expressions: the requirements.
    """

    match_expressions: Annotated[tuple[ScopedResourceSelectorRequirement, ...], ATOMIC] = ()


class ResourceQuotaSpec(Struct):
    """What may be used at most, by whom.

    hard: the most of each resource that may be used.
    scopes: only objects that all of these words describe count.
    scope_selector: only objects that meet these requirements count.
    """

    hard: ResourceList = {}
    scopes: Annotated[tuple[Annotated[str, one_of(*SCOPES)], ...], ATOMIC] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Struct):
    """What is used.

    hard: the limits that are in force.
    used: how much is used of each.
    """

    hard: ResourceList = {}
    used: ResourceList = {}


class ResourceQuota(Struct):
    """A limit on what all objects of a namespace use together.

    metadata: what every object carries.
    spec: the limits.
    status: the use.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class LimitRangeItem(Struct):
    """Limits on each object of one type.

    type: Container, Pod or PersistentVolumeClaim.
    max: the most of each resource.
    min: the least of each resource.
    default: limits of containers that name none.
    default_request: requests of containers that name none.
    max_limit_request_ratio: how many times the request a limit may be.
    """

    type: Annotated[Required[str], one_of("Container", "PersistentVolumeClaim", "Pod")] = ""
    max: ResourceList = {}
    min: ResourceList = {}
    default: ResourceList = {}
    default_request: ResourceList = {}
    max_limit_request_ratio: ResourceList = {}


class LimitRangeSpec(Struct):
    """The limits, by type of object.

    limits: the limits.
    """

    limits: Required[Annotated[tuple[LimitRangeItem, ...], ATOMIC]] = ()


class LimitRange(Struct):
    """Limits on what each pod, container or volume claim of a namespace may use.

    metadata: what every object carries.
    spec: the limits.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: LimitRangeSpec = LimitRangeSpec()


RESOURCE_QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas", ResourceQuota)
LIMIT_RANGE = Kind("", "v1", "LimitRange", "limitranges", LimitRange)
