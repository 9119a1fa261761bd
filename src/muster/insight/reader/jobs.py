"""The jobs of a cluster, and what each does: what `muster ps` prints, and `muster status` counts."""

from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from typing import Any

from muster.runtime.client import Client


async def job_rows(client: Client, namespace: str, now: datetime, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Jobs, and what else has a Workload of its own; the oldest first. What may not be seen is said."""
    from muster.insight.jobstate import job_state, workload_state
    from muster.insight.quotastate import by_owner, owner_uids, quota_state
    from muster.insight.reader.queues import Visibility, workloads_of
    from muster.insight.reader.records import all_records
    from muster.insight.text import age

    jobs = await all_records(client, namespace)
    pods = await _pods_by_job(client, namespace)
    workloads = await workloads_of(client, namespace, say)
    waiting = {(w.metadata.namespace, w.spec.queue_name) for w in workloads if quota_state(w).waits}
    positions = await Visibility(client).positions(waiting)
    refused = await refused_pods(client, namespace)

    def stands(workload: Any) -> Any:
        return quota_state(workload, positions.get((workload.metadata.namespace, workload.metadata.name)))

    mine = by_owner(workloads)
    uids = {job.metadata.uid for job in jobs}
    found: list[tuple[Any, Any, Any]] = []  # each job or Workload, its state, and where it stands
    for job in jobs:
        workload = mine.get(job.metadata.uid)
        stand = stands(workload) if workload is not None else None
        found.append((job, job_state(job, pods[job.metadata.uid], stand), stand))
    for workload in workloads:
        if not owner_uids(workload) & uids:
            stand = stands(workload)
            found.append((workload, workload_state(workload, stand), stand))
    free = await _quota_free(client, jobs, namespace, set(mine))
    rows = []
    for subject, state, stand in await _doubted(client, namespace, found):
        meta = subject.metadata
        if meta.uid in uids:
            said = (refused[job.metadata.uid] for job in subject.jobs if job.metadata.uid in refused)
            row = _job_row(subject, pods[meta.uid], state, stand, next(said, ""))
            if meta.uid in free and not state.finished:
                row["reason"] = "; ".join(filter(None, (row["reason"].rstrip("."), "in no queue: it takes no quota")))
        else:
            row = _workload_row(subject, state, stand)
        rows.append((meta.creation_timestamp or now, row))
    rows.sort(key=lambda found: (found[0], found[1]["name"]))
    return [row | {"age": age(created, now)} for created, row in rows]


async def _quota_free(client: Client, jobs: Any, namespace: str, queued: set[str]) -> set[str]:
    """The UIDs of jobs that are in no queue, on a cluster that has queues."""
    from muster.api.kueue import LOCAL_QUEUE
    from muster.api.kueue.names import QUEUE_NAME_LABEL
    from muster.insight.reader.queues import list_or_none

    uids = {job.metadata.uid for job in jobs if QUEUE_NAME_LABEL not in job.metadata.labels} - queued
    return uids if uids and await list_or_none(client, LOCAL_QUEUE, namespace) is not None else set()


async def _doubted(client: Any, namespace: str, found: list[tuple[Any, Any, Any]]) -> list[tuple[Any, Any, Any]]:
    """With the reason of those that can never start: it takes a look at all that the cluster has."""
    if not any(state.hopeless for _, state, _ in found):
        return found
    from muster.insight.never import doubted
    from muster.insight.reader.lists import Lists
    from muster.insight.reader.room import survey

    room = await survey(Lists(client), namespace)
    return [(one, doubted(one, state, room) if state.hopeless else state, stand) for one, state, stand in found]


async def _pods_by_job(client: Client, namespace: str) -> dict[str, list[Any]]:
    """By the UIDs of their Jobs, and of the JobSets that these are of."""
    from muster.api.batch import JOB_NAME_LABEL
    from muster.api.core import POD
    from muster.api.jobset.names import JOBSET_UID

    found: dict[str, list[Any]] = defaultdict(list)
    for pod in (await client.list(POD, namespace, labels=JOB_NAME_LABEL)).items:
        of_set = pod.metadata.labels.get(JOBSET_UID)
        for uid in {owner.uid for owner in pod.metadata.owner_references} | ({of_set} if of_set else set()):
            found[uid].append(pod)
    return found


async def refused_pods(client: Client, namespace: str) -> dict[str, str]:
    """Why the pods of jobs could not be made, by the job's UID: the newest event that says so."""
    from muster.api.core import EVENT
    from muster.runtime.events.correlator import COMBINED

    events = await client.list(EVENT, namespace, fields="reason=FailedCreate,involvedObject.kind=Job")
    newest = sorted(events.items, key=lambda event: str(event.last_timestamp))
    return {event.involved_object.uid: event.message.removeprefix(COMBINED) for event in newest}


def _job_row(job: Any, pods: list[Any], state: Any, stands: Any, refused: str) -> dict[str, Any]:
    from muster.api.kueue.names import QUEUE_NAME_LABEL

    row = _row(job.metadata.namespace, job.metadata.name, state, stands)
    row["queue"] = row["queue"] or job.metadata.labels.get(QUEUE_NAME_LABEL, "")
    row["reason"] = refused or state.reason if state.word == "Pending" else state.reason
    return row | {"nodes": sorted({pod.spec.node_name for pod in pods if pod.spec.node_name})}


def _workload_row(workload: Any, state: Any, stands: Any) -> dict[str, Any]:
    """Of a pod group, or another kind of job."""
    from muster.insight.quotastate import display_name

    namespace = workload.metadata.namespace
    name = display_name(workload.metadata, namespace)
    return _row(namespace, name, state, stands) | {"nodes": []}


def _row(namespace: str, name: str, state: Any, stands: Any) -> dict[str, Any]:
    return {
        "namespace": namespace,
        "name": name,
        "state": state.word,
        "ready": state.ready,
        "wanted": state.wanted,
        "queue": stands.queue if stands is not None else "",
        "position": stands.position if stands is not None else None,
        "clusterQueue": stands.cluster_queue if stands is not None else "",
        "priority": stands.priority if stands is not None else None,
        "reason": state.reason,
    }
