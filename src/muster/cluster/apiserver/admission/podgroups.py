"""Warn about PodGroups whose pods never finish (scheduler KEP-34 (kube-batch))."""

from muster.api.core import POD
from muster.api.meta import controller_of
from muster.cluster.apiserver.admission.chain import Remark, WriteAttempt
from muster.controllers.podgroup.gang import PodGroups

# Owners whose pods run forever, for which `restartPolicy: Always` is right.
_SERVICES = frozenset({"DaemonSet", "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"})

ENDLESS = (
    "spec.restartPolicy: pods of a PodGroup that restart always are never done; for batch work say Never, or OnFailure"
)


def warn_of_endless_pods(groups: PodGroups) -> Remark:
    """Return the check that warns about a new pod in a PodGroup if its containers always restart.

    Such a group never finishes. The check ignores pods of owners that keep a service running.
    """

    def remark(attempt: WriteAttempt) -> str:
        if attempt.resource.key != POD.resource or attempt.subresource or attempt.operation != "CREATE":
            return ""
        if attempt.document.get("spec", {}).get("restartPolicy") != "Always":
            return ""
        pod = POD.typed(attempt.document)
        owner = controller_of(pod.metadata)
        return ENDLESS if groups.key(pod) and (owner is None or owner.kind not in _SERVICES) else ""

    return remark
