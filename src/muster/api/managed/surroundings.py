"""Declares what the rules for managed objects need to know beside the object."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct, field

from muster.api.kueue import LocalQueue
from muster.api.meta import ObjectMeta, OwnerReference
from muster.api.values.selectors import EVERYTHING, LabelMatcher


class Surroundings(Protocol):
    """Objects as they are now."""

    def local_queue(self, namespace: str, name: str) -> LocalQueue | None:
        """Return a LocalQueue."""
        ...

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace."""
        ...

    def owner(self, namespace: str, reference: OwnerReference) -> ObjectMeta | None:
        """Return the very owner that the reference means, if its kind queues."""
        ...

    def has_priority_class(self, name: str) -> bool:
        """Return whether there is a WorkloadPriorityClass of that name."""
        ...

    def goes_elsewhere(self, cluster_queue: str) -> bool:
        """Return whether workloads that the ClusterQueue admits run in another cluster (a check by MultiKueue)."""
        ...


class Settings(Struct, frozen=True):
    """What the Configuration says.

    without_queue: jobs that name no queue are managed, too.
    selects: in which namespaces jobs are managed.
    default_priority: jobs get the WorkloadPriorityClass `default` (upstream gate WorkloadPriorityClassDefaulting).
    places: pods may be given places, and wait for them behind a gate (upstream gate TopologyAwareScheduling).
    """

    without_queue: bool = False
    selects: LabelMatcher = field(default_factory=lambda: EVERYTHING)
    default_priority: bool = True
    places: bool = True
