"""The state of a Workload's quota, as a word and a sentence. Pure."""

import re
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from muster.api.conditions import find, find_true, is_true
from muster.api.kueue import CHECK_READY, Workload, WorkloadStatus
from muster.api.kueue.names import (
    ADMITTED,
    DEACTIVATED,
    DEACTIVATED_MESSAGE,
    EVICTED,
    FAILED,
    FINISHED,
    FLAVOR_MIGRATION_CAUSE,
    JOB_UID_LABEL,
    QUOTA_RESERVED,
    REQUEUED,
)
from muster.api.managed.dispatch import find_barred
from muster.api.managed.variants import is_parent, is_variant
from muster.api.meta import ObjectMeta
from muster.api.ours.deferral import GATE
from muster.insight.text import group_alike
from muster.jobs.interruption import HELD
from muster.queueing.conditions import PREVIOUSLY, describe_gates
from muster.queueing.jobframework.slices import waits_to_replace
from muster.runtime.objects import ignores_status

# The reason of a Workload that waited for a time or for other jobs. Its job has more details, or no longer waits.
_DEFERRED = describe_gates(GATE)

# The phrase before the numbers, which is redundant if there is only one podset.
_PREAMBLE = r"(?<!; )couldn't assign flavors to pod set [^ :]+: (?!.*; )"


# The phrase about the flavors that the siblings of a variant try (Kueue KEP-8691).
_OF_SIBLINGS = r"(?:, )?skipping flavor [^ ,;]+ due to WorkloadAllowedResourceFlavorAnnotation annotation"
_ANY_PREAMBLE = r"couldn't assign flavors to pod set [^ :]+: "

# The phrase about each podset; equal phrases are shown once.
_OF_PODSET = r"(?s)couldn't assign flavors to pod set ([^ :]+): (.*?)(?=; couldn't assign flavors|$)"

# The reason of a held Workload, in a user's words, until a release.
UNTIL_RELEASED = "until it is released"
_DEACTIVATED = {"Evicting": "it is held", "Held": UNTIL_RELEASED}

# Admission's message about a workload whose ClusterQueue admits nothing.
_CLOSED = r"ClusterQueue (\S+) is inactive"

# Admission's messages about a request that can never fit. Only admission knows how its configuration counts resources.
_FINAL = r"> maximum capacity \(|unavailable in ClusterQueue"


Stage: TypeAlias = Literal["Queued", "Checking", "Evicting", "Held", "Admitted", "Completed", "Failed"]


class QuotaState(Struct, frozen=True, gc=False):
    """A Workload's state in its queue.

    reason: what the Workload waits for, by the queue's message; "" if the queue has reported nothing yet.
    queue: its LocalQueue.
    cluster_queue: the ClusterQueue whose quota it holds; "" if it holds none.
    position: its position, from 1, among all workloads that wait for the same ClusterQueue; None if the server does not
    serve positions.
    since: when this state began.
    waits_since: when the Workload last began to wait: at its submission, or at its last eviction or requeue.
    cluster: the worker cluster that runs the Workload; "" if none does.
    evictions: how many times it lost quota, except by a user's hold.
    last_eviction: why it last lost quota, if it has quota again.
    asked, granted: the number of pods requested, and the number admitted; 0 without an admission.
    """

    word: Stage
    reason: str = ""
    queue: str = ""
    cluster_queue: str = ""
    priority: int = 0
    position: int | None = None
    since: datetime | None = None
    waits_since: datetime | None = None
    cluster: str = ""
    evictions: int = 0
    last_eviction: str = ""
    asked: int = 0
    granted: int = 0

    @property
    def is_partial(self) -> bool:
        """Whether the queue admitted fewer pods than the Workload requested."""
        return self.word == "Admitted" and 0 < self.granted < self.asked

    @property
    def waits(self) -> bool:
        """Whether the Workload waits for quota."""
        return self.word == "Queued"

    @property
    def final(self) -> bool:
        """Whether the queue has reported that it can never admit the Workload, so that waiting is useless."""
        return self.waits and re.search(_FINAL, self.reason) is not None

    @property
    def closed(self) -> bool:
        """Whether the Workload's ClusterQueue admits nothing."""
        return self.waits and bool(closed_queue(self.reason))

    @property
    def lacks_quota(self) -> bool:
        """Whether the queue has reported that the Workload waits until others release quota."""
        return self.waits and bool(self.reason) and not self.final and not self.closed

    @property
    def finished(self) -> bool:
        """Whether the Workload has finished, with success or not."""
        return self.word in ("Completed", "Failed")

    @property
    def stopped(self) -> bool:
        """Whether the Workload waits for quota, for checks or for its release, or is being evicted."""
        return self.word in ("Queued", "Checking", "Evicting", "Held")

    @property
    def sentence(self) -> str:
        """The state of a Workload as a sentence, with its queue and position while it waits."""
        if not self.waits:
            return f"{self.word.lower()}: {self.reason}"
        place = f", position {self.position}" if self.position is not None else ""
        return f"waiting in queue {self.queue}{place}" + (f": {self.reason}" if self.reason else "")


def find_quota_state(workload: Workload, position: int | None = None) -> QuotaState:
    """Return the state of a Workload.

    position: the Workload's position in its queue; ignored unless the Workload waits.
    """
    spec, status = workload.spec, workload.status
    waits_since = _find_wait_begin(workload)
    word, reason, since = _find_stage(workload, waits_since)
    granted = status.admission.pod_set_assignments if status.admission is not None else ()
    if reason == DEACTIVATED_MESSAGE:
        reason = _DEACTIVATED.get(word, "")
    if reason == _DEFERRED:
        reason = ""
    return QuotaState(
        word=word,
        reason=_shorten_reason(workload, reason),
        queue=spec.queue_name,
        cluster_queue=status.admission.cluster_queue if status.admission is not None else "",
        priority=spec.priority or 0,
        position=position if word == "Queued" else None,
        since=since,
        waits_since=waits_since,
        cluster=status.cluster_name or "",
        evictions=_count_evictions(status),
        last_eviction=_describe_last_eviction(status),
        asked=sum(podset.count for podset in spec.pod_sets) if granted else 0,
        granted=sum(podset.count or 0 for podset in granted),
    )


def closed_queue(reason: str) -> str:
    """Return the name of the inactive ClusterQueue in the reason of a waiting job; "" if the reason names none."""
    closed = re.fullmatch(_CLOSED, reason)
    return closed[1] if closed is not None else ""


def _count_evictions(status: WorkloadStatus) -> int:
    counts = status.scheduling_stats.evictions if status.scheduling_stats is not None else ()
    return sum(one.count for one in counts if not one.reason.startswith(DEACTIVATED))


def _describe_last_eviction(status: WorkloadStatus) -> str:
    """Return why a Workload that has quota last lost it; "" if it never did, or has no quota now."""
    evicted = find(status.conditions, EVICTED)
    if evicted is None or evicted.status == "True" or not is_true(status.conditions, QUOTA_RESERVED):
        return ""
    return shorten_eviction(evicted.message.removeprefix(PREVIOUSLY))


def shorten_eviction(message: str) -> str:
    """Return why a job lost its quota, in terms that users know.

    The message of a move to a better flavor is replaced, because it names variants, which users do not know.
    """
    if message == DEACTIVATED_MESSAGE:
        return HELD
    return "it moved to a better flavor, and started over" if message.endswith(FLAVOR_MIGRATION_CAUSE) else message


def _shorten_reason(workload: Workload, reason: str) -> str:
    """Return a queue's message about a Workload without the parts that users cannot use."""
    if is_parent(workload):  # the message names each variant
        own = re.sub(_OF_SIBLINGS, "", reason).replace(": , ", ": ")
        return re.sub(_ANY_PREAMBLE, "", own) if len(workload.spec.pod_sets) < 2 else own
    return re.sub(_PREAMBLE, "", reason, count=1) if len(workload.spec.pod_sets) < 2 else say_once(reason)


def say_once(message: str) -> str:
    """Return a queue's message about podsets, with each phrase that several podsets share written only once."""
    parts = [(part[1], part[2]) for part in re.finditer(_OF_PODSET, message)]
    groups = group_alike(parts)
    if len(groups) == len(parts):
        return message
    return "; ".join(f"couldn't assign flavors to pod sets {names}: {text}" for names, text in groups)


def _find_stage(workload: Workload, waits_since: datetime | None) -> tuple[Stage, str, datetime | None]:
    """Return the state of a Workload as a word, its reason, and when it began; "" and None if these are unknown.

    waits_since: when the Workload last began to wait.
    """
    conditions, created = workload.status.conditions, workload.metadata.creation_timestamp
    if (finished := find_true(conditions, FINISHED)) is not None:
        if finished.reason == FAILED:
            return "Failed", finished.message, finished.last_transition_time
        return "Completed", "", finished.last_transition_time
    evicted, reserved = find_true(conditions, EVICTED), find_true(conditions, QUOTA_RESERVED)
    if evicted is not None and reserved is not None:
        return "Evicting", evicted.message, evicted.last_transition_time
    if reserved is not None and not workload.spec.active:  # the engine evicts it next
        return "Evicting", DEACTIVATED_MESSAGE, reserved.last_transition_time
    if not workload.spec.active:
        message = evicted.message if evicted else DEACTIVATED_MESSAGE
        return "Held", message, evicted.last_transition_time if evicted else created
    if (admitted := find_true(conditions, ADMITTED)) is not None:
        return "Admitted", "", admitted.last_transition_time
    if reserved is not None:
        return "Checking", _describe_checks(workload), reserved.last_transition_time
    waiting = find(conditions, QUOTA_RESERVED)
    return "Queued", waiting.message if waiting is not None else "", waits_since


def _find_wait_begin(workload: Workload) -> datetime | None:
    """Return when a Workload last began to wait: at its submission, or at its last eviction or requeue.

    The result is None if the Workload has no such time.
    """
    latest = workload.metadata.creation_timestamp
    for type_ in (EVICTED, REQUEUED):
        begun = find_true(workload.status.conditions, type_)
        at = begun.last_transition_time if begun is not None else None
        if at is not None and (latest is None or at > latest):
            latest = at
    return latest


def _describe_checks(workload: Workload) -> str:
    if workload.status.nominated_cluster_names:  # when clusters are nominated, all other checks are ready
        tried, barred = find_nominated_clusters(workload.status)
        where = f"{'cluster' if len(tried) == 1 else 'one of the clusters'} {', '.join(tried)}"
        return "; ".join(filter(None, (f"waiting for quota in {where}" if tried else "", barred)))
    waiting = [check for check in workload.status.admission_checks if check.state != CHECK_READY]
    if not waiting:
        return "waiting for its admission"
    sentences = (f"{check.name} ({check.state}{f': {check.message}' if check.message else ''})" for check in waiting)
    return f"waiting for admission checks: {', '.join(sentences)}"


def find_nominated_clusters(status: WorkloadStatus) -> tuple[tuple[str, ...], str]:
    """Return the nominated clusters that may still admit a Workload, and a message on why others cannot.

    The message is "" if there is none.
    """
    message = next((check.message for check in status.admission_checks if find_barred(check.message)), "")
    return tuple(name for name in status.nominated_cluster_names if name not in find_barred(message)), message


def display_name(meta: ObjectMeta, namespace: str) -> str:
    """Return the display name of a Workload: the name of its only owner, or else its own name.

    The namespace precedes the name if it is not `namespace`.
    """
    owners = meta.owner_references
    name = owners[0].name if len(owners) == 1 else meta.name
    return name if meta.namespace == namespace else f"{meta.namespace}/{name}"


@ignores_status
def owner_uids(workload: Workload) -> set[str]:
    """Return the UIDs of the jobs that own a Workload, including a job that its label names."""
    uids = {owner.uid for owner in workload.metadata.owner_references}
    return uids | ({uid} if (uid := workload.metadata.labels.get(JOB_UID_LABEL)) else set())


def find_owner_uid(workload: Workload) -> str:
    """Return the UID of the job that owns a Workload, or of the Workload itself if several pods own it."""
    meta = workload.metadata
    return meta.owner_references[0].uid if len(meta.owner_references) == 1 else meta.uid


def is_owned_by(workload: Workload, uids: Collection[str]) -> bool:
    """Return whether one of the jobs with these UIDs owns a Workload."""
    meta = workload.metadata
    return meta.labels.get(JOB_UID_LABEL) in uids or any(owner.uid in uids for owner in meta.owner_references)


def index_by_owner(workloads: Iterable[Workload]) -> dict[str, Workload]:
    """Return the Workload of each job by the job's UID; variants are left out.

    If a job has several Workloads, prefer an unfinished one, then one that replaces no other, then the youngest.
    """
    index: dict[str, Workload] = {}
    for workload in workloads:
        if is_variant(workload):
            continue
        for uid in owner_uids(workload):
            other = index.get(uid)
            if other is None or _make_sort_key(other) <= _make_sort_key(workload):
                index[uid] = workload
    return index


def _make_sort_key(workload: Workload) -> tuple[tuple[bool, bool], tuple[str, str]]:
    return _is_live(workload), _make_age_key(workload)


def _is_live(workload: Workload) -> tuple[bool, bool]:
    return not is_true(workload.status.conditions, FINISHED), not waits_to_replace(workload)


def _make_age_key(workload: Workload) -> tuple[str, str]:
    return str(workload.metadata.creation_timestamp or ""), workload.metadata.name
