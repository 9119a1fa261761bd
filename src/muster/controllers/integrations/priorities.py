"""Find the priority of a job: by its label, else by the class that its pods name, else by the cluster's default."""

from collections.abc import Callable, Iterable

from muster.api.groups.scheduling import PRIORITY_CLASS, PriorityClass
from muster.api.kueue import (
    POD_PRIORITY_GROUP,
    WORKLOAD_PRIORITY_CLASS,
    WORKLOAD_PRIORITY_GROUP,
    PriorityClassRef,
    WorkloadPriorityClass,
)
from muster.runtime.control.manager import Manager


class Priorities:
    """The cluster's priority classes."""

    def __init__(self, manager: Manager) -> None:
        self.own = manager.informer(WORKLOAD_PRIORITY_CLASS)
        self.of_pods = manager.informer(PRIORITY_CLASS)

    def find(self, label: str, pod_class: str) -> tuple[PriorityClassRef | None, int | None]:
        """Return the priority class of a job and its value, from the cached classes, as `find_class` does.

        label: the class in the job's label; "" without a label.
        pod_class: the class that its pods name; "" if they name none.
        """
        return find_class(label, pod_class, self.own.get, self.of_pods.get, self.of_pods.all())


def find_class(
    label: str,
    pod_class: str,
    own: Callable[[str], WorkloadPriorityClass | None],
    of_pods: Callable[[str], PriorityClass | None],
    all_of_pods: Iterable[PriorityClass],
) -> tuple[PriorityClassRef | None, int | None]:
    """Return the priority class of a job and its value; None as the value of a missing class.

    Without a label, a pod class and a default class, the result is (None, 0).

    label: the WorkloadPriorityClass in the job's label; "" without a label.
    pod_class: the PriorityClass that its pods name; "" if they name none.
    own, of_pods: return a class of each kind by its name.
    all_of_pods: all PriorityClasses, one of which may be the cluster's default.
    """
    if label:
        found = own(label)
        kind = WORKLOAD_PRIORITY_CLASS.kind
        return PriorityClassRef(group=WORKLOAD_PRIORITY_GROUP, kind=kind, name=label), found.value if found else None
    if pod_class:
        priority_class = of_pods(pod_class)
        return _of_pods(pod_class), priority_class.value if priority_class else None
    default = next((one for one in all_of_pods if one.global_default), None)
    return (None, 0) if default is None else (_of_pods(default.metadata.name), default.value)


def has_appeared(old: object | None, new: object | None) -> bool:
    """Return whether a change of a class is its creation, because jobs may have waited for it."""
    return old is None and new is not None


def _of_pods(name: str) -> PriorityClassRef:
    return PriorityClassRef(group=POD_PRIORITY_GROUP, kind=PRIORITY_CLASS.kind, name=name)
