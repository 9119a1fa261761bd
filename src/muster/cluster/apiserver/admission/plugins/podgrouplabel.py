"""Pods say in a label of which PodGroup they are, so that a disruption budget can select them."""

from muster.api.core import POD
from muster.api.podgroups.names import GROUP_ANNOTATIONS
from muster.cluster.apiserver.admission.chain import Attempt
from muster.cluster.store import Store
from muster.jobs.podgroup.budget import labels_of


def label_with_group(attempt: Attempt, store: Store) -> None:  # noqa: ARG001  (one of many of this shape)
    """Set the label of a new pod, in place, whatever it says itself."""
    if attempt.operation != "CREATE" or attempt.resource.key != POD.resource or attempt.subresource:
        return
    meta = attempt.document["metadata"]
    said = GROUP_ANNOTATIONS & (meta.get("annotations") or {}).keys() or "schedulingGroup" in attempt.document["spec"]
    if said and (labels := labels_of(POD.typed(attempt.document))):
        meta["labels"] = (meta.get("labels") or {}) | labels
