"""Describe pod groups that do not queue yet, from their pods: a group without all its pods has no Workload. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable

from msgspec import Struct

from muster.api.core import Pod
from muster.api.kueue.names import POD_GROUP_NAME_LABEL
from muster.api.managed.podgroup import group_name
from muster.api.managed.pods import group_size, is_held
from muster.api.pods import is_finished
from muster.insight.jobs.state import JobState

_MOST_NAMES = 10


class UnqueuedGroup(Struct, frozen=True):
    """A pod group without a Workload, and its unfinished pods, at least one."""

    namespace: str
    name: str
    pods: tuple[Pod, ...]

    @property
    def size(self) -> int:
        """The number of pods that the group needs before it queues."""
        return group_size(self.pods[0].metadata)

    @property
    def selector(self) -> str:
        """The arguments of kubectl that select the group's pods: their label, or their names if they lack it.

        If there are many names, only the first ones are listed, followed by `...`.
        """
        if all(POD_GROUP_NAME_LABEL in pod.metadata.labels for pod in self.pods):
            return f"-n {self.namespace} -l {POD_GROUP_NAME_LABEL}={self.name}"
        names = [pod.metadata.name for pod in self.pods[:_MOST_NAMES]]
        return " ".join(["-n", self.namespace, *names, *(["..."] if len(self.pods) > _MOST_NAMES else [])])


def find_unqueued_groups(pods: Iterable[Pod], queued: Collection[tuple[str, str]]) -> list[UnqueuedGroup]:
    """Return the groups of pods that wait for an admission and have no Workload.

    queued: the namespace and name of each Workload.
    """
    members = defaultdict[tuple[str, str], list[Pod]](list)
    for pod in pods:
        if (name := group_name(pod.metadata)) and not is_finished(pod):
            members[pod.metadata.namespace, name].append(pod)
    return [
        UnqueuedGroup(*key, tuple(living))
        for key, living in members.items()
        if key not in queued and any(map(is_held, living))
    ]


def explain_unqueued(group: UnqueuedGroup) -> str:
    """Return why a pod group has no Workload: it lacks pods, or an event gives the reason."""
    if len(group.pods) < group.size:
        return f"its pod group queues once it has {group.size} pods, and it has {len(group.pods)}"
    return f"its pod group does not queue, and an event says why: kubectl describe pods {group.selector}"


def find_unqueued_state(group: UnqueuedGroup) -> JobState:
    """Return the state of a pod group without a Workload: Pending until its user creates the missing pods."""
    return JobState("Pending", 0, group.size, explain_unqueued(group), blocked=True)
