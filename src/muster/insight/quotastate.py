"""Where a Workload stands on its way through quota, in a word and a sentence. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from muster.api.conditions import find, find_true, is_true
from muster.api.kueue import CHECK_READY, Workload, WorkloadStatus
from muster.api.kueue.names import (
    ADMITTED,
    DEACTIVATED_MESSAGE,
    EVICTED,
    FAILED,
    FINISHED,
    JOB_UID_LABEL,
    QUOTA_RESERVED,
)
from muster.api.managed.dispatch import barred_in
from muster.api.meta import ObjectMeta
from muster.insight.text import alike

# What comes before the numbers says nothing where there is only one podset.
_PREAMBLE = re.compile(r"(?<!; )couldn't assign flavors to pod set [^ :]+: (?!.*; )")


# What is said of each podset; of many alike it is said once.
_OF_PODSET = re.compile(r"couldn't assign flavors to pod set ([^ :]+): (.*?)(?=; couldn't assign flavors|$)", re.DOTALL)

# What a Workload that is held says of itself, in a user's words; once it is released, it is no reason any more.
UNTIL_RELEASED = "until it is released"
_DEACTIVATED = {"Evicting": "it is held", "Held": UNTIL_RELEASED}

# What admission says of a request that no waiting will help. It alone knows how its configuration counts resources.
_FINAL = ("> maximum capacity (", "unavailable in ClusterQueue")


Stage: TypeAlias = Literal["Queued", "Checking", "Evicting", "Held", "Admitted", "Completed", "Failed"]


@dataclass(frozen=True, slots=True)
class QuotaState:
    """A Workload as its queue sees it.

    reason: why it is not further, as the queue says it; "" if the queue has not said anything yet.
    queue: its LocalQueue. cluster_queue: whose quota it holds; "" if it holds none.
    position: from 1, among all that wait for the same ClusterQueue; None if the server does not tell.
    since: since when it is so.
    cluster: the other cluster that runs it; "" if none does.
    """

    word: Stage
    reason: str = ""
    queue: str = ""
    cluster_queue: str = ""
    priority: int = 0
    position: int | None = None
    since: datetime | None = None
    cluster: str = ""

    @property
    def waits(self) -> bool:
        """Whether it waits for quota."""
        return self.word == "Queued"

    @property
    def final(self) -> bool:
        """Whether its queue sees no way, as far as it has said."""
        return self.waits and any(words in self.reason for words in _FINAL)

    @property
    def finished(self) -> bool:
        """Whether it will not change any more."""
        return self.word in ("Completed", "Failed")

    @property
    def stopped(self) -> bool:
        """Whether its pods do not run, or are about to end."""
        return self.word in ("Queued", "Checking", "Evicting", "Held")

    @property
    def sentence(self) -> str:
        """What is said of a job that waits."""
        if not self.waits:
            return f"{self.word.lower()}: {self.reason}"
        place = f", position {self.position}" if self.position is not None else ""
        return f"waiting in queue {self.queue}{place}" + (f": {self.reason}" if self.reason else "")


def quota_state(workload: Workload, position: int | None = None) -> QuotaState:
    """Where the Workload stands; the position counts only while it waits."""
    spec, status = workload.spec, workload.status
    word, reason, since = _stage(workload)
    if reason == DEACTIVATED_MESSAGE:
        reason = _DEACTIVATED.get(word, "")
    return QuotaState(
        word=word,
        reason=_PREAMBLE.sub("", reason, count=1) if len(spec.pod_sets) < 2 else once(reason),
        queue=spec.queue_name,
        cluster_queue=status.admission.cluster_queue if status.admission is not None else "",
        priority=spec.priority or 0,
        position=position if word == "Queued" else None,
        since=since,
        cluster=status.cluster_name or "",
    )


def once(message: str) -> str:
    """What the queue says of its podsets, with what it says of several alike said once."""
    found = [(part[1], part[2]) for part in _OF_PODSET.finditer(message)]
    said = alike(found)
    if len(said) == len(found):
        return message
    return "; ".join(f"couldn't assign flavors to pod sets {names}: {text}" for names, text in said)


def _stage(workload: Workload) -> tuple[Stage, str, datetime | None]:
    """Word, reason, and since when."""
    conditions, created = workload.status.conditions, workload.metadata.creation_timestamp
    if (finished := find_true(conditions, FINISHED)) is not None:
        if finished.reason == FAILED:
            return "Failed", finished.message, finished.last_transition_time
        return "Completed", "", finished.last_transition_time
    evicted = find_true(conditions, EVICTED)
    if evicted is not None and is_true(conditions, QUOTA_RESERVED):
        return "Evicting", evicted.message, evicted.last_transition_time
    if not workload.spec.active:
        said = evicted.message if evicted else DEACTIVATED_MESSAGE
        return "Held", said, evicted.last_transition_time if evicted else created
    if (admitted := find_true(conditions, ADMITTED)) is not None:
        return "Admitted", "", admitted.last_transition_time
    if (reserved := find_true(conditions, QUOTA_RESERVED)) is not None:
        return "Checking", _checks(workload), reserved.last_transition_time
    waiting = find(conditions, QUOTA_RESERVED)
    return (
        "Queued",
        waiting.message if waiting is not None else "",
        evicted.last_transition_time if evicted else created,
    )


def _checks(workload: Workload) -> str:
    if workload.status.nominated_cluster_names:  # all other checks are ready by then
        tried, barred = tried_in(workload.status)
        where = f"{'cluster' if len(tried) == 1 else 'one of the clusters'} {', '.join(tried)}"
        return "; ".join(filter(None, (f"waiting for quota in {where}" if tried else "", barred)))
    waiting = [check for check in workload.status.admission_checks if check.state != CHECK_READY]
    if not waiting:
        return "waiting for its admission"
    said = (f"{check.name} ({check.state}{f': {check.message}' if check.message else ''})" for check in waiting)
    return f"waiting for admission checks: {', '.join(said)}"


def tried_in(status: WorkloadStatus) -> tuple[tuple[str, ...], str]:
    """The clusters that may still take a Workload, and why others of those that were asked cannot."""
    said = next((check.message for check in status.admission_checks if barred_in(check.message)), "")
    return tuple(name for name in status.nominated_cluster_names if name not in barred_in(said)), said


def display_name(meta: ObjectMeta, namespace: str) -> str:
    """What people call a Workload: the name of its job; with its namespace if that is another."""
    owners = meta.owner_references
    name = owners[0].name if len(owners) == 1 else meta.name
    return name if meta.namespace == namespace else f"{meta.namespace}/{name}"


def owner_uids(workload: Workload) -> set[str]:
    """The UIDs of the jobs whose Workload this is."""
    uids = {owner.uid for owner in workload.metadata.owner_references}
    return uids | ({uid} if (uid := workload.metadata.labels.get(JOB_UID_LABEL)) else set())


def by_owner(workloads: Iterable[Workload]) -> dict[str, Workload]:
    """The Workload of each job by the job's UID: of several, one that is not finished, and the youngest."""
    ranked = sorted(workloads, key=lambda one: (not is_true(one.status.conditions, FINISHED), _born(one)))
    return {uid: workload for workload in ranked for uid in owner_uids(workload)}


def _born(workload: Workload) -> tuple[str, str]:
    return str(workload.metadata.creation_timestamp or ""), workload.metadata.name
