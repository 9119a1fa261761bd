"""The facts about other objects that the rules of managed objects need."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct, field

from muster.api.kueue import LocalQueue
from muster.api.meta import ObjectMeta, OwnerReference
from muster.api.values.selectors import EVERYTHING, LabelMatcher


class Surroundings(Protocol):
    """A reader of the current state of other objects, which the server or the webhooks implement."""

    def local_queue(self, namespace: str, name: str) -> LocalQueue | None:
        """Return a LocalQueue; None if it does not exist."""
        ...

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace."""
        ...

    def owner(self, namespace: str, reference: OwnerReference) -> ObjectMeta | None:
        """Return the metadata of the owner with the UID of the reference; None if it is missing or cannot queue."""
        ...

    def has_priority_class(self, name: str) -> bool:
        """Return whether a WorkloadPriorityClass of a name exists."""
        ...

    def goes_elsewhere(self, cluster_queue: str) -> bool:
        """Return whether workloads that the ClusterQueue admits run in another cluster (a check by MultiKueue)."""
        ...


class Settings(Struct, frozen=True):
    """The settings of the Configuration about managed objects.

    without_queue: whether jobs that name no queue are managed too.
    selects: the selector of the namespaces whose jobs are managed.
    default_priority: whether jobs get the WorkloadPriorityClass `default` (upstream gate
        WorkloadPriorityClassDefaulting).
    places: whether pods wait behind a gate for their placement (upstream gate TopologyAwareScheduling).
    """

    without_queue: bool = False
    selects: LabelMatcher = field(default_factory=lambda: EVERYTHING)
    default_priority: bool = True
    places: bool = True
