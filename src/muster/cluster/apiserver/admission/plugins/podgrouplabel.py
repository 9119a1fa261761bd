"""Label pods with the name of their PodGroup, so that a disruption budget can select them."""

from muster.api.core import POD
from muster.api.podgroups.names import GROUP_ANNOTATIONS
from muster.cluster.apiserver.admission.chain import WriteAttempt
from muster.cluster.store import Store
from muster.jobs.podgroup.budget import labels_of


def label_with_group(attempt: WriteAttempt, store: Store) -> None:  # noqa: ARG001  (the signature of a plugin)
    """Set the label of a new pod that names its PodGroup, in place. A label in the manifest is overwritten."""
    if attempt.operation != "CREATE" or attempt.resource.key != POD.resource or attempt.subresource:
        return
    meta = attempt.document["metadata"]
    annotations = (meta.get("annotations") or {}).keys()
    is_grouped = GROUP_ANNOTATIONS & annotations or "schedulingGroup" in attempt.document["spec"]
    if is_grouped and (labels := labels_of(POD.typed(attempt.document))):
        meta["labels"] = (meta.get("labels") or {}) | labels
