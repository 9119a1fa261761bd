"""Pods of JobSets say their priority in a label, and where they may be, if their Job wants a place for itself."""

import msgspec

from muster.api.core import POD
from muster.api.jobset import names
from muster.cluster.apiserver.admission.chain import Attempt
from muster.cluster.store import Store
from muster.jobs.jobset.exclusive import exclusive_affinity, is_placed_by_us, priority_label


def place_exclusively(attempt: Attempt, store: Store) -> None:  # noqa: ARG001  (one of many of this shape)
    """Complete a new pod, in place; its priority is known by now. A second time changes nothing."""
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
