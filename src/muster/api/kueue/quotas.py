"""The quotas of ClusterQueues and Cohorts by flavor and resource, and their usage."""

from datetime import datetime
from typing import Annotated

from muster.api.kueue.fields import RequiredName
from muster.api.markers import ATOMIC, DEFAULTED, Required, limits, map_by
from muster.api.meta import Struct
from muster.api.values.quantity import Quantity, ResourceList


class ResourceQuota(Struct):
    """The quota of one resource in one flavor.

    name: the resource.
    nominal_quota: the amount that is available at any time, unless it is lent.
    borrowing_limit: how much more may be borrowed from the cohort; without limit if absent.
    lending_limit: how much of the nominal quota other queues may borrow; all of it if absent.
    """

    name: Required[str] = ""
    nominal_quota: Quantity
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class FlavorQuotas(Struct):
    """The quotas of one flavor.

    name: the ResourceFlavor. Until it exists, nothing is admitted.
    resources: the quotas, in the order of the group's coveredResources.
    """

    name: RequiredName = ""
    resources: Required[
        Annotated[tuple[ResourceQuota, ...], map_by("name"), limits(min_items=1, max_items=64)]
    ] = ()  # fmt: skip


class ResourceGroup(Struct):
    """A group of resources that workloads get from the same flavor.

    covered_resources: the names of the resources, each in one group only.
    flavors: the flavors, in the order in which they are tried.
    """

    covered_resources: Required[Annotated[tuple[str, ...], ATOMIC, limits(min_items=1, max_items=64)]] = ()
    flavors: Required[Annotated[tuple[FlavorQuotas, ...], map_by("name"), limits(min_items=1, max_items=64)]] = ()


ResourceGroups = Annotated[tuple[ResourceGroup, ...], ATOMIC, limits(max_items=16)]


class FairSharing(Struct):
    """The weight of a queue or cohort in the sharing of unused quota.

    weight: the advantage over others of the same cohort; 0 means that all others come first.
    """

    weight: Annotated[Quantity, DEFAULTED] = 1


class FairSharingStatus(Struct):
    """The share of a queue or cohort in fair sharing.

    weighted_share: the greatest ratio of borrowed to lendable resources, divided by the weight, in thousandths; the
        maximum of int64 means a weight of zero while borrowing.
    """

    weighted_share: int


class AdmissionFairSharingStatus(Struct):
    """The past usage of a LocalQueue, which decays over time.

    consumed_resources: usage by resource.
    last_update: when it was last computed.
    """

    consumed_resources: ResourceList
    last_update: Required[datetime | None] = None


class LocalQueueFairSharingStatus(Struct):
    """The share of a LocalQueue in fair sharing.

    weighted_share: the greatest ratio of borrowed to lendable resources, divided by the weight, in thousandths.
    admission_fair_sharing_status: the past usage, which orders the LocalQueues of a ClusterQueue.
    """

    weighted_share: int
    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None


class ResourceUsage(Struct, omit_defaults=False):
    """The usage of one resource in one flavor of a ClusterQueue.

    name: the resource.
    total: the used amount, including the borrowed one.
    borrowed: the used amount beyond the nominal quota.
    """

    name: Required[str] = ""
    total: Quantity = 0
    borrowed: Quantity = 0


class FlavorUsage(Struct):
    """The usage of one flavor in a ClusterQueue.

    name: the flavor.
    resources: usage by resource.
    """

    name: RequiredName = ""
    resources: Annotated[tuple[ResourceUsage, ...], map_by("name"), limits(max_items=64)]


class LocalQueueResourceUsage(Struct, omit_defaults=False):
    """The usage of one resource in one flavor of a LocalQueue.

    name: the resource.
    total: the used amount.
    """

    name: Required[str] = ""
    total: Quantity = 0


class LocalQueueFlavorUsage(Struct):
    """The usage of one flavor in a LocalQueue.

    name: the flavor.
    resources: usage by resource.
    """

    name: RequiredName = ""
    resources: Annotated[tuple[LocalQueueResourceUsage, ...], map_by("name"), limits(max_items=64)]
