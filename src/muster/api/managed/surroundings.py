"""What the rules for managed objects have to know beside the object."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct, field

from muster.api.kueue import LocalQueue
from muster.api.meta import ObjectMeta, OwnerReference
from muster.api.values.selectors import EVERYTHING, LabelMatcher


class Surroundings(Protocol):
    """Objects as they are now."""

    def local_queue(self, namespace: str, name: str) -> LocalQueue | None:
        """A LocalQueue."""
        ...

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace."""
        ...

    def owner(self, namespace: str, reference: OwnerReference) -> ObjectMeta | None:
        """The owner that is meant, if it is of a kind that queues."""
        ...

    def has_priority_class(self, name: str) -> bool:
        """Whether there is a WorkloadPriorityClass of that name."""
        ...

    def goes_elsewhere(self, cluster_queue: str) -> bool:
        """Whether what is admitted by the ClusterQueue runs in another cluster (a check by MultiKueue)."""
        ...


class Settings(Struct, frozen=True):
    """What the Configuration says.

    without_queue: jobs that name no queue are managed, too.
    selects: in which namespaces jobs are managed.
    default_priority: jobs get the WorkloadPriorityClass `default` (upstream gate WorkloadPriorityClassDefaulting).
    """

    without_queue: bool = False
    selects: LabelMatcher = field(default_factory=lambda: EVERYTHING)
    default_priority: bool = True
