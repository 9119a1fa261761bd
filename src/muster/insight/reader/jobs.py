"""Read the jobs of a cluster and their states, for `muster ps` and `muster status`.

`job_rows` reads jobs, pods, Workloads and Events, and returns a line for each job. `insight.jobs` and `insight.quota`
decide the states themselves.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from muster.api.batch import JOB_NAME_LABEL
from muster.api.core import EVENT, POD, Pod
from muster.api.jobset.names import JOBSET_UID
from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD, Workload
from muster.api.kueue.names import (
    ERR_WORKLOAD_COMPOSE,
    IS_GROUP_WORKLOAD,
    MANAGED_LABEL,
    POD_GROUP_NAME_LABEL,
    QUEUE_NAME_LABEL,
)
from muster.api.managed.podgroup import group_name
from muster.api.meta import ObjectMeta
from muster.insight.history.build import nodes_of, read_times, run_seconds
from muster.insight.history.runs import Run
from muster.insight.jobs.obstacles import with_obstacle
from muster.insight.jobs.replacements import needs_replacements
from muster.insight.jobs.state import WAITING, JobState, find_job_state, find_workload_state
from muster.insight.quota.state import QuotaState, display_name, find_quota_state, index_by_owner, owner_uids
from muster.insight.reader.history import recall_jobs
from muster.insight.reader.listviews import JOB_LINES, JOB_SET_LINES, POD_LINES, WORKLOAD_LINES, PodSharer
from muster.insight.reader.memo import Memo
from muster.insight.reader.queues import Visibility, list_or_none, workloads_of
from muster.insight.reader.records import all_records
from muster.insight.record import JobRecord
from muster.insight.text import format_age
from muster.runtime.client import Client
from muster.runtime.eventloop import await_all
from muster.runtime.events.correlator import COMBINED

# Positions of Workloads that stay the same change with the use of fair queues, and are read anew after this time.
_POSITION_SECONDS = 10.0

# The fields of a row that are known only of a job.
_UNKNOWN: Final[dict[str, Any]] = {"nodes": (), "owner": "", "started": None, "runSeconds": None}


async def job_rows(
    client: Client, namespace: str, now: datetime, say: Callable[[str], None], memo: Memo | None = None
) -> list[dict[str, Any]]:
    """Return a row for each job, each Workload without a job, and each pod group without a Workload, the oldest first.

    say: receives a sentence about what the user may not see.
    memo: results of earlier calls for this namespace, for a caller whose lists follow a watch.

    Raises:
        ApiError: the user may not see Jobs.
    """
    share = PodSharer() if memo is None else None  # lists that follow a watch are kept by their watch
    memo = memo if memo is not None else Memo()
    unseen: list[str] = []
    # If the server refuses several lists, the error is the one about jobs.
    jobs, pods, workloads, grouped = await await_all(
        all_records(client, namespace, jobs=JOB_LINES, sets=JOB_SET_LINES),
        pods_by_job(client, namespace, POD_LINES, transform=share),
        workloads_of(client, namespace, unseen.append, WORKLOAD_LINES),
        list_or_none(client, POD_LINES, namespace, labels=POD_GROUP_NAME_LABEL),
    )
    for text in unseen:
        say(text)
    stands = await _quota_states(client, workloads, now, memo)
    rows = await _make_rows(client, namespace, now, memo, jobs, pods, workloads, stands)
    return _add_unqueued_groups(rows, grouped, workloads, now) if grouped and not unseen else rows


async def job_rows_of(
    client: Client, namespace: str, now: datetime, workloads: Sequence[Workload], positions: Mapping[str, int | None]
) -> list[dict[str, Any]]:
    """Return the lines of `job_rows` for the jobs of some Workloads, and for those of the Workloads without a job.

    workloads: all Workloads of these jobs that the user may see. positions: of those that wait, by UID.

    Raises:
        ApiError: the user may not see Jobs.
    """
    uids = frozenset[str]().union(*map(owner_uids, workloads))
    jobs = await all_records(client, namespace, jobs=JOB_LINES, sets=JOB_SET_LINES, only=uids)
    pods = await pods_by_job(client, namespace, POD_LINES, uids)
    stands = {one.metadata.uid: find_quota_state(one, positions.get(one.metadata.uid)) for one in workloads}
    return await _make_rows(client, namespace, now, Memo(), jobs, pods, workloads, stands)


async def _make_rows(
    client: Client,
    namespace: str,
    now: datetime,
    memo: Memo,
    jobs: Sequence[JobRecord],
    pods: Mapping[str, Sequence[Pod]],
    workloads: Sequence[Workload],
    stands: Mapping[str, QuotaState],
) -> list[dict[str, Any]]:
    jobs = await recall_jobs(client, namespace, jobs, pods)
    mine = index_by_owner(workloads)
    uids = {job.metadata.uid for job in jobs}
    standings: list[tuple[Any, Any, Any]] = []  # each job or Workload, its state, and where it stands
    for job in jobs:
        workload = mine.get(job.metadata.uid)
        stand = stands[workload.metadata.uid] if workload is not None else None
        standings.append((job, _recall_state(memo, job, pods.get(job.metadata.uid, ()), stand), stand))
    if any(state.outside for _, state, _ in standings):
        untaken = await explain_missing_workloads(client, namespace)
        standings = [
            (job, state.with_refusal(untaken.get(job.metadata.uid, "")), stand) for job, state, stand in standings
        ]
    alone = [workload for workload in workloads if not owner_uids(workload) & uids]
    states = {one.metadata.uid: _recall_workload_state(memo, one, stands[one.metadata.uid]) for one in alone}
    unclear = [one for one in alone if needs_replacements(one) or states[one.metadata.uid].word == "Starting"]
    plain = await plain_pods(client, namespace, unclear)
    silence = await _explain_silent_operators(client, namespace, unclear, states, now)
    for workload in alone:
        uid, own_pods = workload.metadata.uid, pods_of(workload, plain)
        state = find_workload_state(workload, stands[uid], own_pods) if own_pods else states[uid]
        standings.append((workload, state.with_silence(silence.get(uid, "")), stands[uid]))
    refused = (
        await explain_refused_pods(client, namespace)
        if any(state.word == "Pending" for _, state, _ in standings)
        else {}
    )
    free = await _quota_free(client, jobs, namespace, set(mine))
    rows = []
    standings = await _add_verdicts(client, namespace, await _explain_closed_queues(client, standings))
    for subject, state, stand in standings:
        meta = subject.metadata
        if meta.uid in uids:
            said = (refused[job.metadata.uid] for job in subject.jobs if job.metadata.uid in refused)
            row = _recall_row(memo, subject, pods.get(meta.uid, ()), state, stand, next(said, ""))
            row = row | {"runSeconds": run_seconds(row["started"], row["ended"], now)}
            if meta.uid in free and not state.finished and state.word != "Deleting":
                row["reason"] = "; ".join(filter(None, (row["reason"].rstrip("."), "in no queue: it takes no quota")))
        else:
            row = _recall_workload_row(memo, subject, state, stand)
        rows.append((meta.creation_timestamp or now, row))
    for topic in ("state", "row"):
        memo.retain(topic, uids)
    for topic in ("workload state", "workload row"):
        memo.retain(topic, states.keys())
    rows.sort(key=lambda row: (row[0], row[1]["name"]))
    return [row | {"age": format_age(created, now)} for created, row in rows]


def _add_unqueued_groups(
    rows: list[dict[str, Any]], pods: Iterable[Pod], workloads: Iterable[Workload], now: datetime
) -> list[dict[str, Any]]:
    """Return the rows, and those of the pod groups without a Workload, the oldest first."""
    from muster.insight.jobs.unqueued import find_unqueued_groups, find_unqueued_state  # importing it takes long

    queued = {(one.metadata.namespace, one.metadata.name) for one in workloads}
    for group in find_unqueued_groups(pods, queued):
        first = min((pod.metadata for pod in group.pods), key=lambda meta: meta.creation_timestamp or now)
        fields = _make_row(first, group.name, find_unqueued_state(group), None)
        fields["queue"] = first.labels.get(QUEUE_NAME_LABEL, "")
        submitted = first.creation_timestamp or now
        times = {"submitted": submitted, "ended": None, "uid": first.uid, "age": format_age(submitted, now)}
        rows.append(fields | _UNKNOWN | times)
    return sorted(rows, key=lambda row: (row["submitted"] or now, row["name"]))


async def _explain_silent_operators(
    client: Client, namespace: str, workloads: Sequence[Workload], states: Mapping[str, JobState], now: datetime
) -> dict[str, str]:
    others = [(one, states[one.metadata.uid]) for one in workloads if not _is_of_pods(one)]
    if not others:
        return {}
    from muster.insight.reader.operators import explain_silent_operators  # few clusters run such jobs

    return await explain_silent_operators(client, namespace, others, now)


async def _quota_states(client: Client, workloads: list[Workload], now: datetime, memo: Memo) -> dict[str, QuotaState]:
    """Return the quota state of each Workload by its UID, with the position of each one that waits."""
    states = {
        one.metadata.uid: memo.recall("quota", one.metadata.uid, (one,), partial(find_quota_state, one))
        for one in workloads
    }
    waiting = [one for one in workloads if states[one.metadata.uid].waits]
    positions = await _read_positions(client, waiting, now, memo)
    for one in waiting:
        uid, position = one.metadata.uid, positions.get((one.metadata.namespace, one.metadata.name))
        if position is not None:
            made = partial(replace, states[uid], position=position)
            states[uid] = memo.recall("position", uid, (states[uid], position), made)
    memo.retain("quota", states.keys())
    memo.retain("position", states.keys())
    return states


async def _read_positions(
    client: Client, waiting: Sequence[Workload], now: datetime, memo: Memo
) -> dict[tuple[str, str], int]:
    """Return the queue positions of the waiting Workloads.

    They are read from the server again when one of the Workloads changed.
    """
    inputs = int(now.timestamp() / _POSITION_SECONDS), *waiting
    positions: dict[tuple[str, str], int] | None = memo.find("positions", "", inputs)
    if positions is None:
        queues = {(one.metadata.namespace, one.spec.queue_name) for one in waiting}
        positions = memo.keep("positions", "", inputs, await Visibility(client).positions(queues))
    return positions


def _recall_state(memo: Memo, job: JobRecord, pods: Sequence[Pod], stand: QuotaState | None) -> JobState:
    inputs = (job.source, *job.jobs, job.past, stand, *pods)
    return memo.recall("state", job.metadata.uid, inputs, lambda: find_job_state(job, pods, stand))


def _recall_workload_state(memo: Memo, workload: Workload, stand: QuotaState) -> JobState:
    """Return the state of a Workload without a job, from the memo if the Workload has not changed.

    Pods are not considered.
    """
    uid = workload.metadata.uid
    return memo.recall("workload state", uid, (workload, stand), lambda: find_workload_state(workload, stand))


def _recall_workload_row(memo: Memo, workload: Workload, state: JobState, stand: QuotaState) -> dict[str, Any]:
    inputs = (workload, state, stand)
    return memo.recall("workload row", workload.metadata.uid, inputs, lambda: _workload_row(workload, state, stand))


def _recall_row(
    memo: Memo, job: JobRecord, pods: Sequence[Pod], state: JobState, stand: QuotaState | None, refused: str
) -> dict[str, Any]:
    """Return the row of a job, from the memo if none of the objects that it depends on has changed."""

    def make() -> dict[str, Any]:
        about = read_times(job, pods, job.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC))
        return _job_row(job, pods, state, stand, refused) | about

    return memo.recall("row", job.metadata.uid, (job.source, *job.jobs, job.past, stand, state, refused, *pods), make)


async def _quota_free(client: Client, jobs: Any, namespace: str, queued: set[str]) -> set[str]:
    """Return the UIDs of the jobs that are in no queue; on a cluster without queues, an empty set.

    queued: the UIDs of the jobs that have a Workload.
    """
    uids = {job.metadata.uid for job in jobs if QUEUE_NAME_LABEL not in job.metadata.labels} - queued
    return uids if uids and await list_or_none(client, LOCAL_QUEUE, namespace) is not None else set()


async def _explain_closed_queues(client: Client, standings: list[tuple[Any, Any, Any]]) -> list[tuple[Any, Any, Any]]:
    """Return the states; the state of each job whose ClusterQueue admits nothing gets the reason."""
    if not any(stand is not None and stand.closed for _, _, stand in standings):
        return standings
    queues = {one.metadata.name: one for one in await list_or_none(client, CLUSTER_QUEUE) or ()}
    return [(one, with_obstacle(state, queues), stand) for one, state, stand in standings]


async def _add_verdicts(
    client: Client, namespace: str, standings: list[tuple[Any, Any, Any]]
) -> list[tuple[Any, Any, Any]]:
    """Return the states, with a verdict for each job that may never start.

    If there are such jobs, the function reads these jobs in full, and all nodes and quotas; otherwise it reads nothing.
    """
    hopeless = {one.metadata.uid for one, state, _ in standings if state.hopeless}
    if not hopeless:
        return standings
    from muster.insight.forecasts.never import with_verdict
    from muster.insight.reader.lists import Lists
    from muster.insight.reader.room import survey_room

    subjects: list[Any] = await all_records(client, namespace)
    if hopeless - {one.metadata.uid for one in subjects}:
        subjects += await list_or_none(client, WORKLOAD, namespace) or []
    whole = {one.metadata.uid: one for one in subjects if one.metadata.uid in hopeless}
    room = await survey_room(Lists(client), namespace)

    def judged(uid: str, state: Any) -> Any:
        return with_verdict(whole[uid], state, room) if uid in whole else state  # a missing job was deleted meanwhile

    return [(one, judged(one.metadata.uid, state), stand) for one, state, stand in standings]


async def pods_by_job(
    client: Client,
    namespace: str,
    kind: Kind[Pod] = POD,
    only: Collection[str] | None = None,
    transform: Callable[[Pod], Pod] | None = None,
) -> dict[str, list[Any]]:
    """Return the pods of jobs by the UID of their Job, and also by the UID of their JobSet.

    kind: the view of pods that the caller reads.
    only: the UIDs of the Jobs and JobSets whose pods are wanted; None for all.
    transform: as for `Client.list`.
    """
    pods: dict[str, list[Any]] = defaultdict(list)
    for pod in (await client.list(kind, namespace, labels=JOB_NAME_LABEL, transform=transform)).items:
        of_set = pod.metadata.labels.get(JOBSET_UID)
        for uid in {owner.uid for owner in pod.metadata.owner_references} | ({of_set} if of_set else set()):
            if only is None or uid in only:
                pods[uid].append(pod)
    return pods


async def plain_pods(client: Client, namespace: str, workloads: Iterable[Workload]) -> Sequence[Pod]:
    """Return the pods that queue without a job, or none if no given Workload belongs to such a pod."""
    if not any(map(_is_of_pods, workloads)):
        return ()
    return await list_or_none(client, POD, namespace, labels=MANAGED_LABEL) or ()


def pods_of(workload: Workload, plain: Iterable[Pod]) -> list[Pod]:
    """Return the pods, single or in a group, that this Workload queues for."""
    if not _is_of_pods(workload):
        return []
    meta, owners = workload.metadata, owner_uids(workload)
    is_group = _is_of_group(workload)
    return [pod for pod in plain if pod.metadata.uid in owners or (is_group and group_name(pod.metadata) == meta.name)]


def _is_of_pods(workload: Workload) -> bool:
    return _is_of_group(workload) or any(map(POD.is_of, workload.metadata.owner_references))


def _is_of_group(workload: Workload) -> bool:
    return workload.metadata.annotations.get(IS_GROUP_WORKLOAD) == "true"


async def explain_refused_pods(client: Client, namespace: str) -> dict[str, str]:
    """Return why pods of jobs could not be created: the message of the newest Event, by the job's UID."""
    return await _read_newest_messages(client, namespace, "reason=FailedCreate,involvedObject.kind=Job")


async def explain_missing_workloads(client: Client, namespace: str) -> dict[str, str]:
    """Return why jobs have no Workload: the message of the newest Event, by the job's UID."""
    reasons = (ERR_WORKLOAD_COMPOSE, "WorkloadPriorityClassNotFound")
    invalid, unranked = await await_all(
        *(_read_newest_messages(client, namespace, f"reason={reason}") for reason in reasons)
    )
    return unranked | invalid


async def _read_newest_messages(client: Client, namespace: str, fields: str) -> dict[str, str]:
    """Return the message of the newest matching Event of each object, by the object's UID.

    The result is empty if the user may not see Events.
    """
    events = await list_or_none(client, EVENT, namespace, fields=fields) or []
    newest = sorted(events, key=lambda event: str(event.last_timestamp))
    return {event.involved_object.uid: event.message.removeprefix(COMBINED) for event in newest}


def _job_row(job: Any, pods: Sequence[Pod], state: Any, stands: Any, refused: str) -> dict[str, Any]:
    row = _make_row(job.metadata, job.metadata.name, state, stands)
    row["queue"] = row["queue"] or job.metadata.labels.get(QUEUE_NAME_LABEL, "")
    row["reason"] = refused or state.reason if state.word == "Pending" else state.reason
    trials = {"trials": asdict(state.count)} if state.count is not None else {}
    return row | trials | {"nodes": nodes_of(job, pods)}


def _workload_row(workload: Any, state: Any, stands: Any) -> dict[str, Any]:
    """Return the row of a pod group or of a foreign kind of job, from its Workload."""
    meta, since = workload.metadata, stands.since
    name = display_name(meta, meta.namespace)
    times = {"submitted": meta.creation_timestamp, "ended": since if state.finished else None, "uid": meta.uid}
    return _make_row(meta, name, state, stands) | _UNKNOWN | times


def past_row(run: Run, now: datetime) -> dict[str, Any]:
    """Return the row of a job whose objects no longer exist, from its recorded run."""
    fields = {
        "namespace": run.namespace,
        "name": run.name,
        "state": run.state,
        "queue": run.queue,
        "reason": run.reason,
    }
    pods = {"ready": run.workers if run.state == "Completed" else 0, "wanted": run.workers, "nodes": list(run.nodes)}
    nothing = {"position": None, "clusterQueue": "", "priority": None, "cluster": "", "waitsSince": None}
    times = {"submitted": run.submitted, "started": run.started, "ended": run.ended, "runSeconds": run.run_seconds}
    return fields | pods | nothing | times | {"owner": run.owner, "uid": run.uid, "age": format_age(run.submitted, now)}


def _make_row(meta: ObjectMeta, name: str, state: Any, stands: Any) -> dict[str, Any]:
    waits_since = stands.waits_since if stands is not None else meta.creation_timestamp
    return {
        "namespace": meta.namespace,
        "name": name,
        "state": state.word,
        "ready": state.ready,
        "wanted": state.wanted,
        "queue": stands.queue if stands is not None else "",
        "position": stands.position if stands is not None else None,
        "clusterQueue": stands.cluster_queue if stands is not None else "",
        "priority": stands.priority if stands is not None else None,
        "cluster": stands.cluster if stands is not None else "",
        "reason": state.reason,
        "waitsSince": waits_since if state.word in WAITING else None,
    }
