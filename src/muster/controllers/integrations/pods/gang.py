"""Define the gang of a plain pod group (Kueue KEP-976), whose size is an annotation of its pods. Pure.

No object stands for such a group, so the gang has no carrier.
"""

from muster.api.core import Pod
from muster.api.kueue.names import POD_GROUP_FAST_ADMISSION
from muster.api.managed.podgroup import group_name
from muster.api.managed.pods import group_size
from muster.api.ours.elastic import GANG_ANNOTATION
from muster.controllers.gangs import DueTurns, GangSource, Members, due_of
from muster.gang.demands import Size


class PodGroupGangs(GangSource[None]):
    """The gangs of pod groups, except groups that may start pod by pod."""

    counts_others = True

    def key(self, pod: Pod) -> str:
        """Return the key of the pod's gang: `namespace/group/pods`; "" if the pod is not in a gang of this kind."""
        return f"{pod.metadata.namespace}/{group_name(pod.metadata)}/pods" if _find_size(pod) else ""

    def due(self, carrier: None, members: Members) -> DueTurns:  # noqa: ARG002  (there is none)
        """Return the turns: sets of unbound pods, each of which is placed together.

        At the first start the pods are placed together; later, pods are placed as replacements of lost ones.
        """
        wanted = _find_size(members.first) - members.count_succeeded()
        return due_of(members.unbound, Size(wanted, len(members.bound), held=wanted))


def _find_size(pod: Pod) -> int:
    """Return how many pods to bind together with this pod.

    Return 0 if the pod is in no group, or in a group that may start pod by pod.
    """
    meta = pod.metadata
    fast, gang = meta.annotations.get(POD_GROUP_FAST_ADMISSION), meta.annotations.get(GANG_ANNOTATION)
    return group_size(meta) if group_name(meta) and fast != "true" and gang != "false" else 0
