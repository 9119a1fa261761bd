"""What there is to say of pods of PodGroups that are allowed (KEP-34)."""

from muster.api.core import POD
from muster.api.meta import controller_of
from muster.cluster.apiserver.admission.chain import Attempt, Remark
from muster.controllers.podgroup.gang import PodGroups

# What keeps its pods running for good; `restartPolicy: Always` is right for those.
_SERVICES = frozenset({"DaemonSet", "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"})

ENDLESS = (
    "spec.restartPolicy: pods of a PodGroup that restart always are never done; for batch work say Never, or OnFailure"
)


def endless_batch_pods(groups: PodGroups) -> Remark:
    """Tells who makes a pod of a group that will never succeed, unless that is what its owner is for."""

    def remark(attempt: Attempt) -> str:
        if attempt.resource.key != POD.resource or attempt.subresource or attempt.operation != "CREATE":
            return ""
        if attempt.document.get("spec", {}).get("restartPolicy") != "Always":
            return ""
        pod = POD.typed(attempt.document)
        owner = controller_of(pod.metadata)
        return ENDLESS if groups.key(pod) and (owner is None or owner.kind not in _SERVICES) else ""

    return remark
