"""Complete pods of JobSets: a label with their priority, and an affinity if their Job has exclusive placement."""

import msgspec

from muster.api.core import POD
from muster.api.jobset import names
from muster.cluster.apiserver.admission.chain import WriteAttempt
from muster.cluster.store import Store
from muster.jobs.jobset.exclusive import exclusive_affinity, is_placed_by_us, priority_label


def place_exclusively(attempt: WriteAttempt, store: Store) -> None:  # noqa: ARG001  (the signature of a plugin)
    """Set the priority label of a new pod of a JobSet, and its affinity if its Job has exclusive placement, in place.

    A repeated call changes nothing. The pod's priority must be set before.
    """
    if attempt.operation != "CREATE" or attempt.resource.key != POD.resource or attempt.subresource:
        return
    meta = attempt.document["metadata"]
    if names.JOBSET_NAME not in (meta.get("annotations") or {}):
        return
    pod = POD.typed(attempt.document)
    if not is_placed_by_us(pod):
        return
    if label := priority_label(pod):
        meta["labels"] = (meta.get("labels") or {}) | label
    affinity = exclusive_affinity(POD.typed(attempt.document))
    if affinity is not None:
        attempt.document["spec"]["affinity"] = msgspec.json.decode(msgspec.json.encode(affinity))
