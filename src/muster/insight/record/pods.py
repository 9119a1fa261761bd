"""Read from a pod its index, and the group that it starts with. Pure."""

from muster.api.batch import COMPLETION_INDEX
from muster.api.core import ContainerStatus, Pod
from muster.api.jobset import names


def is_indexed(pod: Pod) -> bool:
    """Return whether the pod has a completion index, which is its number in its Job."""
    return pod.metadata.annotations.get(COMPLETION_INDEX, "").isdecimal()


def container_statuses(pod: Pod) -> list[ContainerStatus]:
    """Return the statuses of the pod's containers, init containers first.

    The container that waits for the group is left out, because JobSet adds it (jobset KEP-498).
    """
    both = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return [status for status in both if status.name != names.GROUP_SCHEDULING_INIT]


def has_joined(pod: Pod) -> bool:
    """Return whether the pod has started to wait for its group, or has waited (jobset KEP-498).

    The result is False for a pod without such a group.
    """
    barriers = [one for one in pod.status.init_container_statuses if one.name == names.GROUP_SCHEDULING_INIT]
    return any(one.state.running is not None or one.state.terminated is not None for one in barriers)


def is_late(pod: Pod) -> bool:
    """Return whether other pods of the start group still wait for this pod to start; False without such a group."""
    if all(one.name != names.GROUP_SCHEDULING_INIT for one in pod.spec.init_containers):
        return False
    return not has_joined(pod)
