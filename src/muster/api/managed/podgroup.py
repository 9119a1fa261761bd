"""Name the group of a pod that queues without a job, as Kueue's pod groups do."""

from muster.api.kueue.names import POD_GROUP_NAME_LABEL
from muster.api.meta import ObjectMeta


def group_name(meta: ObjectMeta) -> str:
    """Return the name of a pod's group; "" if the pod is in none."""
    return meta.annotations.get(POD_GROUP_NAME_LABEL) or meta.labels.get(POD_GROUP_NAME_LABEL, "")
