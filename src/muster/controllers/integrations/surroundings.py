"""What the rules for managed objects have to know, found object by object."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from muster.api.config import Configuration
from muster.api.core import NAMESPACE
from muster.api.kinds import Kind
from muster.api.kueue import ADMISSION_CHECK, CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD_PRIORITY_CLASS, LocalQueue
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER
from muster.api.managed.surroundings import Settings
from muster.api.meta import Object, ObjectMeta, OwnerReference
from muster.api.values.selectors import EVERYTHING, label_matcher
from muster.controllers.integrations.framework import Integration

T = TypeVar("T")


class Find(Protocol):
    """The object of that kind, namespace and name as it is now; None if there is none."""

    def __call__(self, kind: Kind[T], namespace: str, name: str) -> T | None:
        """Find it."""
        ...


KindsAbove = Mapping[tuple[str, str], Kind[Any]]


def kinds_above(integrations: Iterable[Integration[Any]]) -> KindsAbove:
    """The kinds that may stand above others, by version and kind."""
    return {(one.kind.api_version, one.kind.kind): one.kind for one in integrations}


def settings_of(configuration: Configuration) -> Settings:
    """What the Configuration says of managed objects."""
    selector = configuration.managed_jobs_namespace_selector
    return Settings(
        without_queue=configuration.manage_jobs_without_queue_name,
        selects=label_matcher(selector) if selector is not None else EVERYTHING,
        default_priority=configuration.features.enabled("WorkloadPriorityClassDefaulting"),
    )


@dataclass(frozen=True, slots=True)
class FoundSurroundings:
    """`api.managed.Surroundings`. above: the kinds of owners that count."""

    above: KindsAbove
    find: Find

    def local_queue(self, namespace: str, name: str) -> LocalQueue | None:
        """A LocalQueue."""
        return self.find(LOCAL_QUEUE, namespace, name)

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace."""
        found = self.find(NAMESPACE.seen_as(Object), "", namespace)
        return found.metadata.labels if found is not None else {}

    def owner(self, namespace: str, reference: OwnerReference) -> ObjectMeta | None:
        """The owner that is meant, if it is of a kind that queues."""
        kind = self.above.get((reference.api_version, reference.kind))
        found = self.find(kind.seen_as(Object), namespace, reference.name) if kind is not None else None
        return found.metadata if found is not None else None

    def has_priority_class(self, name: str) -> bool:
        """Whether there is a WorkloadPriorityClass of that name."""
        return self.find(WORKLOAD_PRIORITY_CLASS, "", name) is not None

    def goes_elsewhere(self, cluster_queue: str) -> bool:
        """Whether what is admitted by the ClusterQueue runs in another cluster."""
        found = self.find(CLUSTER_QUEUE, "", cluster_queue)
        strategy = found.spec.admission_checks_strategy if found is not None else None
        checks = (self.find(ADMISSION_CHECK, "", rule.name) for rule in (strategy.admission_checks if strategy else ()))
        return any(check.spec.controller_name == MULTI_KUEUE_CONTROLLER for check in checks if check is not None)
