"""The gang of a group of pods (KEP-976): as many as the pods say. No object carries it. Pure."""

from muster.api.core import Pod
from muster.api.kueue.names import POD_GROUP_FAST_ADMISSION
from muster.api.managed.pods import group_name, group_size
from muster.api.ours.elastic import GANG_ANNOTATION
from muster.controllers.gangs import Due, GangSource, Members, whole


class PodGroupGangs(GangSource[None]):
    """Groups of pods, but not those that may start bit by bit."""

    counts_others = True

    def key(self, pod: Pod) -> str:
        """`namespace/group/pods`."""
        return f"{pod.metadata.namespace}/{group_name(pod.metadata)}/pods" if _size(pod) else ""

    def due(self, carrier: None, members: Members) -> Due:  # noqa: ARG002  (there is none)
        """All that have not succeeded."""
        return whole(members, _size(members.first) - len(members.succeeded))


def _size(pod: Pod) -> int:
    """How many pods are to be bound together with it; 0 if it is of no group, or of one that may start bit by bit."""
    meta = pod.metadata
    fast, gang = meta.annotations.get(POD_GROUP_FAST_ADMISSION), meta.annotations.get(GANG_ANNOTATION)
    return group_size(meta) if group_name(meta) and fast != "true" and gang != "false" else 0
