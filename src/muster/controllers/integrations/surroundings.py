"""Find the objects that the rules for managed objects read, one by one."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from muster.api.config import Configuration
from muster.api.core import NAMESPACE
from muster.api.kinds import Kind
from muster.api.kueue import ADMISSION_CHECK, CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD_PRIORITY_CLASS, LocalQueue
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER
from muster.api.managed.surroundings import Settings
from muster.api.meta import Object, ObjectMeta, OwnerReference
from muster.api.values.selectors import EVERYTHING, label_matcher

T = TypeVar("T")


class Find(Protocol):
    """A function that returns the current object of a kind, namespace and name; None if there is none."""

    def __call__(self, kind: Kind[T], namespace: str, name: str) -> T | None:
        """Return the object as it is now; None if there is none."""
        ...


KindsAbove = Mapping[tuple[str, str], Kind[Any]]


def kinds_above(kinds: Iterable[Kind[Any]]) -> KindsAbove:
    """Return the kinds of jobs that may own other jobs, by API version and kind."""
    return {(kind.api_version, kind.kind): kind for kind in kinds}


def settings_of(configuration: Configuration) -> Settings:
    """Return the Configuration's settings of managed objects."""
    selector = configuration.managed_jobs_namespace_selector
    return Settings(
        without_queue=configuration.manage_jobs_without_queue_name,
        selects=label_matcher(selector) if selector is not None else EVERYTHING,
        default_priority=configuration.features.is_enabled("WorkloadPriorityClassDefaulting"),
        places=configuration.features.is_enabled("TopologyAwareScheduling"),
    )


class FoundSurroundings(Struct, frozen=True):
    """An implementation of `api.managed.surroundings.Surroundings` that reads each object with a `Find`.

    above: the kinds of owners that count.
    """

    above: KindsAbove
    find: Find

    def local_queue(self, namespace: str, name: str) -> LocalQueue | None:
        """Return a LocalQueue; None if it does not exist."""
        return self.find(LOCAL_QUEUE, namespace, name)

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace; empty if it does not exist."""
        namespace_object = self.find(NAMESPACE.seen_as(Object), "", namespace)
        return namespace_object.metadata.labels if namespace_object is not None else {}

    def owner(self, namespace: str, reference: OwnerReference) -> ObjectMeta | None:
        """Return the metadata of the owner in a reference; None if it is missing, or if its kind does not queue."""
        kind = self.above.get((reference.api_version, reference.kind))
        owner_object = self.find(kind.seen_as(Object), namespace, reference.name) if kind is not None else None
        return owner_object.metadata if owner_object is not None else None

    def has_priority_class(self, name: str) -> bool:
        """Return whether there is a WorkloadPriorityClass of that name."""
        return self.find(WORKLOAD_PRIORITY_CLASS, "", name) is not None

    def goes_elsewhere(self, cluster_queue: str) -> bool:
        """Return whether workloads that the ClusterQueue admits run in another cluster (MultiKueue)."""
        queue = self.find(CLUSTER_QUEUE, "", cluster_queue)
        strategy = queue.spec.admission_checks_strategy if queue is not None else None
        checks = (self.find(ADMISSION_CHECK, "", rule.name) for rule in (strategy.admission_checks if strategy else ()))
        return any(check.spec.controller_name == MULTI_KUEUE_CONTROLLER for check in checks if check is not None)
