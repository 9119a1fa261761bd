"""Quotas of resources by flavor, of ClusterQueues and Cohorts, and their usage."""

from datetime import datetime
from typing import Annotated

from muster.api.kueue.fields import RequiredName
from muster.api.markers import ATOMIC, DEFAULTED, Required, limits, map_by
from muster.api.meta import Struct
from muster.api.values.quantity import Quantity, ResourceList


class ResourceQuota(Struct):
    """How much of one resource there is in one flavor.

    name: the resource.
    nominal_quota: what is there at any time, unless it is lent.
    borrowing_limit: how much more may be borrowed from the cohort; without limit if absent.
    lending_limit: how much of the nominal quota others may borrow; all of it if absent.
    """

    name: Required[str] = ""
    nominal_quota: Quantity
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class FlavorQuotas(Struct):
    """The quotas of one flavor.

    name: the ResourceFlavor; it need not exist yet, but until it does nothing is admitted.
    resources: the quotas, in the order of the group's coveredResources.
    """

    name: RequiredName = ""
    resources: Required[
        Annotated[tuple[ResourceQuota, ...], map_by("name"), limits(min_items=1, max_items=64)]
    ] = ()  # fmt: skip


class ResourceGroup(Struct):
    """Resources that come together in each of some flavors.

    covered_resources: names of the resources; each is in one group only.
    flavors: the flavors, in the order in which they are tried.
    """

    covered_resources: Required[Annotated[tuple[str, ...], ATOMIC, limits(min_items=1, max_items=64)]] = ()
    flavors: Required[Annotated[tuple[FlavorQuotas, ...], map_by("name"), limits(min_items=1, max_items=64)]] = ()


ResourceGroups = Annotated[tuple[ResourceGroup, ...], ATOMIC, limits(max_items=16)]


class FairSharing(Struct):
    """Weight of a queue or cohort when unused quota is shared.

    weight: advantage over others of the same cohort; 0 lends to everybody else first.
    """

    weight: Annotated[Quantity, DEFAULTED] = 1


class FairSharingStatus(Struct):
    """What fair sharing makes of a queue or cohort.

    weighted_share: greatest ratio of borrowed to lendable resources, by weight, in thousandths; the maximum of int64
        means a weight of zero while borrowing.
    """

    weighted_share: int


class AdmissionFairSharingStatus(Struct):
    """What a LocalQueue has used, decayed over time.

    consumed_resources: usage by resource.
    last_update: when it was last computed.
    """

    consumed_resources: ResourceList
    last_update: Required[datetime | None] = None


class LocalQueueFairSharingStatus(Struct):
    """What fair sharing makes of a LocalQueue.

    weighted_share: greatest ratio of borrowed to lendable resources, by weight, in thousandths.
    admission_fair_sharing_status: usage over time, by which LocalQueues of one ClusterQueue are ordered.
    """

    weighted_share: int
    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None


class ResourceUsage(Struct, omit_defaults=False):
    """Usage of one resource in one flavor of a ClusterQueue.

    name: the resource.
    total: what is used, with what is borrowed.
    borrowed: what is used beyond the nominal quota.
    """

    name: Required[str] = ""
    total: Quantity = 0
    borrowed: Quantity = 0


class FlavorUsage(Struct):
    """Usage of one flavor in a ClusterQueue.

    name: the flavor.
    resources: usage by resource.
    """

    name: RequiredName = ""
    resources: Annotated[tuple[ResourceUsage, ...], map_by("name"), limits(max_items=64)]


class LocalQueueResourceUsage(Struct, omit_defaults=False):
    """Usage of one resource in one flavor of a LocalQueue.

    name: the resource.
    total: what is used.
    """

    name: Required[str] = ""
    total: Quantity = 0


class LocalQueueFlavorUsage(Struct):
    """Usage of one flavor in a LocalQueue.

    name: the flavor.
    resources: usage by resource.
    """

    name: RequiredName = ""
    resources: Annotated[tuple[LocalQueueResourceUsage, ...], map_by("name"), limits(max_items=64)]
