"""Finds the priority of a job: by the label of the job, else as its pods have it, else by the cluster's default."""

from muster.api.groups.scheduling import PRIORITY_CLASS
from muster.api.kueue import (
    POD_PRIORITY_GROUP,
    WORKLOAD_PRIORITY_CLASS,
    WORKLOAD_PRIORITY_GROUP,
    PriorityClassRef,
)
from muster.runtime.manager import Manager


class Priorities:
    """The cluster's priority classes."""

    def __init__(self, manager: Manager) -> None:
        self.own = manager.informer(WORKLOAD_PRIORITY_CLASS)
        self.of_pods = manager.informer(PRIORITY_CLASS)

    def find(self, label: str, pod_class: str) -> tuple[PriorityClassRef | None, int | None]:
        """Return the class that the job names and its value; None is the value of a class that does not exist."""
        if label:
            own = self.own.get(label)
            kind = WORKLOAD_PRIORITY_CLASS.kind
            return PriorityClassRef(group=WORKLOAD_PRIORITY_GROUP, kind=kind, name=label), own.value if own else None
        if pod_class:
            priority_class = self.of_pods.get(pod_class)
            return _of_pods(pod_class), priority_class.value if priority_class else None
        default = next((one for one in self.of_pods.all() if one.global_default), None)
        return (None, 0) if default is None else (_of_pods(default.metadata.name), default.value)


def appeared(old: object | None, new: object | None) -> bool:
    """Return whether a change of a class is its creation: jobs may have waited for it."""
    return old is None and new is not None


def _of_pods(name: str) -> PriorityClassRef:
    return PriorityClassRef(group=POD_PRIORITY_GROUP, kind=PRIORITY_CLASS.kind, name=name)
