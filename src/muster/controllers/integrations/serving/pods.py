"""Put a pod of a StatefulSet or a LeaderWorkerSet into its group, which queues. Pure.

A group has the name that Kueue gives to its Workload, so that Muster recognizes Kueue's groups, and Kueue recognizes
Muster's.
"""

from collections.abc import Callable
from typing import Final

from muster.api.core import POD, Pod
from muster.api.kueue import MAIN_POD_SET, WORKLOAD
from muster.api.kueue.names import (
    MANAGED_LABEL,
    MULTI_KUEUE_ORIGIN_LABEL,
    MULTI_KUEUE_ORIGIN_UID,
    POD_GROUP_FAST_ADMISSION,
    POD_GROUP_NAME_LABEL,
    POD_GROUP_POD_INDEX_LABEL,
    POD_GROUP_POD_INDEX_LABEL_NAME,
    POD_GROUP_SERVING,
    POD_GROUP_TOTAL_COUNT,
    POD_SUSPENDING_PARENT,
    PREBUILT_WORKLOAD_NAME_LABEL,
    PRIORITY_CLASS_LABEL,
    QUEUE_NAME_LABEL,
    ROLE_HASH,
)
from muster.api.managed.pods import is_held
from muster.api.managed.surroundings import Settings
from muster.api.members import mapping_at, value_at
from muster.api.meta import ObjectMeta, controller_of
from muster.controllers.integrations.external.documents import ExternalJob, Json
from muster.controllers.integrations.serving.kinds import LEADER_WORKER_SET, STATEFUL_SET, Serving
from muster.controllers.integrations.surroundings import Find
from muster.queueing.jobframework.names import workload_name

LEADER: Final = "leader"
WORKER: Final = "worker"

_LWS: Final = "leaderworkerset.sigs.k8s.io"
SET_NAME: Final = f"{_LWS}/name"
GROUP_INDEX: Final = f"{_LWS}/group-index"
WORKER_INDEX: Final = f"{_LWS}/worker-index"
LEADER_NAME: Final = f"{_LWS}/leader-name"

STATEFUL_INDEX: Final = "apps.kubernetes.io/pod-index"
_LONGEST_LABEL = 63


def join_and_read(document: Json, pod: Pod, namespace: str, find: Find, settings: Settings) -> Pod:
    """Write into a new pod to which group it belongs; return the changed pod.

    document: the pod as JSON.
    """
    if POD_SUSPENDING_PARENT not in pod.metadata.annotations:
        return pod
    join_group(document, pod, namespace, find, settings)
    return POD.typed(document)


def join_group(document: Json, pod: Pod, namespace: str, find: Find, settings: Settings) -> None:
    """Write into a new pod of a set to which group it belongs; other pods stay unchanged.

    document: the pod as JSON.
    """
    parent = pod.metadata.annotations.get(POD_SUSPENDING_PARENT)
    if parent == STATEFUL_SET.name:
        _join_stateful_set(document, pod, namespace, find, settings)
    elif parent == LEADER_WORKER_SET.name:
        _join_leader_worker_set(document, pod, namespace, find, settings)


def set_to_join(pod: Pod) -> tuple[Serving, str] | None:
    """Return the kind and name of the object whose group a gated pod has not joined yet; None for all other pods.

    No webhook knew the group when such a pod was created: Kueue's engine was stopping, or the pod's index was unknown.
    """
    parent, labels = pod.metadata.annotations.get(POD_SUSPENDING_PARENT), pod.metadata.labels
    if parent is None or MANAGED_LABEL in labels or not is_held(pod):
        return None
    owner = controller_of(pod.metadata)
    if parent == STATEFUL_SET.name and owner is not None and STATEFUL_SET.kind.is_of(owner):
        return STATEFUL_SET, owner.name
    return (LEADER_WORKER_SET, labels[SET_NAME]) if parent == LEADER_WORKER_SET.name and SET_NAME in labels else None


def group_of_stateful_set(name: str, uid: str, has: Callable[[str], bool]) -> str:
    """Return the name of the set's group.

    If only a Workload with the name of older Kueue releases exists, return that name.
    """
    current, legacy = (workload_name("StatefulSet", "apps", name, text) for text in (uid, ""))
    return legacy if not has(current) and has(legacy) else current


def uid_of(meta: ObjectMeta) -> str:
    """Return the UID in the names of the groups. For an object from a MultiKueue manager, it is the original's UID."""
    sent = MULTI_KUEUE_ORIGIN_LABEL in meta.labels
    return (meta.annotations.get(MULTI_KUEUE_ORIGIN_UID) if sent else None) or meta.uid


def group_of_leader_worker_set(name: str, uid: str, index: int | str) -> str:
    """Return the name of the group with this index."""
    kind = LEADER_WORKER_SET.kind
    return workload_name(kind.kind, kind.group, f"{name}-{index}", uid)


def _join_stateful_set(document: Json, pod: Pod, namespace: str, find: Find, settings: Settings) -> None:
    owner = controller_of(pod.metadata)
    if owner is None or not STATEFUL_SET.kind.is_of(owner):
        return
    stateful_set = find(STATEFUL_SET.kind, namespace, owner.name)
    if stateful_set is None or stateful_set.metadata.uid != owner.uid or not _is_queued(stateful_set, settings):
        return
    uid = uid_of(stateful_set.metadata)
    group = group_of_stateful_set(owner.name, uid, lambda name: find(WORKLOAD, namespace, name) is not None)
    annotations = {
        POD_GROUP_FAST_ADMISSION: "true",
        POD_GROUP_SERVING: "true",
        POD_GROUP_POD_INDEX_LABEL_NAME: STATEFUL_INDEX,
    }
    _add_group_metadata(
        document, stateful_set, group, _get_number(stateful_set, "spec", "replicas"), MAIN_POD_SET, annotations
    )
    if index := pod.metadata.labels.get(STATEFUL_INDEX):
        document["metadata"]["labels"][POD_GROUP_POD_INDEX_LABEL] = index
    _mark_prebuilt(document, group)


def _join_leader_worker_set(document: Json, pod: Pod, namespace: str, find: Find, settings: Settings) -> None:
    name = pod.metadata.labels.get(SET_NAME, "")
    leader_worker_set = find(LEADER_WORKER_SET.kind, namespace, name) if name else None
    is_leader = LEADER_NAME not in pod.metadata.annotations
    # The set's own webhook labels a leader, before or after this webhook.
    ordinal = pod.metadata.name.rpartition("-")[2] if is_leader else ""
    index = pod.metadata.labels.get(GROUP_INDEX) or ordinal
    if leader_worker_set is None or not index.isdigit() or not _is_queued(leader_worker_set, settings):
        return
    group = group_of_leader_worker_set(name, uid_of(leader_worker_set.metadata), index)
    has_leaders = bool(mapping_at(leader_worker_set.spec, "leaderWorkerTemplate", "leaderTemplate"))
    role = (LEADER if is_leader else WORKER) if has_leaders else MAIN_POD_SET
    _add_group_metadata(
        document,
        leader_worker_set,
        group,
        _get_number(leader_worker_set, "spec", "leaderWorkerTemplate", "size"),
        role,
        {},
    )
    _mark_prebuilt(document, group)


def _is_queued(job: ExternalJob, settings: Settings) -> bool:
    return bool(job.metadata.labels.get(QUEUE_NAME_LABEL)) or settings.without_queue


def _get_number(job: ExternalJob, *path: str) -> int:
    number = value_at({"spec": job.spec}, path)
    return number if isinstance(number, int) else 1


def _add_group_metadata(
    document: Json, job: ExternalJob, group: str, size: int, role: str, more: dict[str, str]
) -> None:
    metadata = document["metadata"]
    labels = metadata["labels"] = {**(metadata.get("labels") or {}), MANAGED_LABEL: "true"}
    for label in (QUEUE_NAME_LABEL, PRIORITY_CLASS_LABEL):
        if name := job.metadata.labels.get(label):
            labels[label] = name
    annotations = {POD_GROUP_TOTAL_COUNT: str(max(1, size)), ROLE_HASH: role, **more}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    metadata["labels" if len(group) <= _LONGEST_LABEL else "annotations"][POD_GROUP_NAME_LABEL] = group


def _mark_prebuilt(document: Json, group: str) -> None:
    """Mark the group's Workload as prebuilt, because its pods are created one by one, and are recreated."""
    place = "labels" if len(group) <= _LONGEST_LABEL else "annotations"
    document["metadata"][place][PREBUILT_WORKLOAD_NAME_LABEL] = group
