"""Read the jobs of a cluster and their states, for `muster ps` and `muster status`.

`job_rows` reads jobs, pods, Workloads and Events, and returns a row for each job. `insight.jobs` and `insight.quota`
determine the states themselves.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from operator import itemgetter
from typing import Any, Final, NamedTuple

from msgspec.structs import asdict, replace

from muster.api.batch import JOB_NAME_LABEL
from muster.api.core import EVENT, POD, Pod
from muster.api.jobset.names import JOBSET_UID
from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD, Workload
from muster.api.kueue.names import (
    ERR_WORKLOAD_COMPOSE,
    IS_GROUP_WORKLOAD,
    MANAGED_LABEL,
    QUEUE_NAME_LABEL,
)
from muster.api.managed.podgroup import group_name
from muster.api.meta import ObjectMeta
from muster.insight.history.build import nodes_of, read_times, run_seconds
from muster.insight.history.runs import Run
from muster.insight.jobs.obstacles import with_obstacle
from muster.insight.jobs.replacements import needs_replacements
from muster.insight.jobs.state import JobState, find_job_state, find_wait_begin, find_workload_state
from muster.insight.quota.state import (
    QuotaState,
    display_name,
    find_quota_state,
    index_by_owner,
    is_owned_by,
    owner_uids,
)
from muster.insight.reader.history.recorded import recall_jobs
from muster.insight.reader.jobs.records import all_records
from muster.insight.reader.listing.access import list_all, list_or_none
from muster.insight.reader.listing.memo import Memo
from muster.insight.reader.listing.views import JOB_LINES, JOB_SET_LINES, POD_LINES, WORKLOAD_LINES
from muster.insight.reader.quota.workloads import workloads_of
from muster.insight.reader.visibility import Visibility
from muster.insight.record import JobRecord
from muster.insight.text import format_age
from muster.runtime.client import Client
from muster.runtime.eventloop import await_all
from muster.runtime.events.correlator import COMBINED
from muster.runtime.process.garbage import collector_paused

# The queue position of an unchanged Workload changes with the use of fair queues, and is read again after this time.
_POSITION_SECONDS = 10.0

# The fields of a row that are unknown without a job.
_UNKNOWN: Final[dict[str, Any]] = {"nodes": (), "owner": "", "started": None, "runSeconds": None}


async def job_rows(
    client: Client, namespace: str, now: datetime, say: Callable[[str], None], memo: Memo | None = None
) -> list[dict[str, Any]]:
    """Return a row for each job, each Workload without a job, and each pod group without a Workload, the oldest first.

    say: receives a sentence about the objects that the user may not see.
    memo: results of earlier calls for this namespace, for a caller whose lists follow a watch.

    Raises:
        ApiError: the user may not see Jobs.
    """
    memo = memo if memo is not None else Memo()
    unseen: list[str] = []
    # If the server refuses several lists, the error is the one about jobs.
    jobs, pods, workloads, grouped = await await_all(
        all_records(client, namespace, jobs=JOB_LINES, sets=JOB_SET_LINES),
        pods_by_job(client, namespace, POD_LINES),
        workloads_of(client, namespace, unseen.append, WORKLOAD_LINES),
        list_or_none(client, POD_LINES, namespace, labels=MANAGED_LABEL),
    )
    for text in unseen:
        say(text)
    stands = await _find_quota_states(client, workloads, now, memo)
    rows = await _make_rows(client, namespace, now, memo, jobs, pods, workloads, stands)
    return _add_unqueued_groups(rows, grouped, workloads, now) if grouped and not unseen else rows


async def job_rows_of(
    client: Client, namespace: str, now: datetime, workloads: Sequence[Workload], positions: Mapping[str, int | None]
) -> list[dict[str, Any]]:
    """Return the rows of `job_rows` for the jobs of some Workloads, and for Workloads without a job.

    Raises `ApiError` if the user may not see Jobs.

    workloads: all Workloads of these jobs that the user may see.
    positions: the queue positions of waiting Workloads, by UID.
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
    """Return the rows of jobs, and of Workloads that belong to no listed job, in the order of creation.

    pods, stands: by the UID of the job, and by the UID of the Workload.
    """
    jobs = await recall_jobs(client, namespace, jobs, pods)
    mine = index_by_owner(workloads)
    uids = {job.metadata.uid for job in jobs}
    standings = []
    with collector_paused():
        for job in jobs:
            workload = mine.get(job.metadata.uid)
            stand = stands[workload.metadata.uid] if workload is not None else None
            standings.append(_recall_job(memo, job, pods.get(job.metadata.uid, ()), stand))
    alone = [workload for workload in workloads if not is_owned_by(workload, uids)]
    standings += await _find_alone(client, namespace, now, memo, alone, stands)
    memo.retain("job", uids)
    changed_rows = await _explain_unsettled(client, namespace, memo, standings, pods)
    free = await _find_quota_free(client, jobs, namespace, set(mine))
    rows = []
    with collector_paused():
        for subject, state, _, own_row, _ in standings:
            meta = subject.metadata
            row = changed_rows.get(meta.uid, own_row)
            of_now: dict[str, Any] = {"age": format_age(meta.creation_timestamp or now, now)}
            if meta.uid in uids:
                of_now["runSeconds"] = run_seconds(row["started"], row["ended"], now)
            if meta.uid in free and not state.finished and state.word != "Deleting":
                of_now["reason"] = "; ".join(
                    filter(None, (row["reason"].rstrip("."), "in no queue: it takes no quota"))
                )
            rows.append((meta.creation_timestamp or now, row["name"], row | of_now))
    rows.sort(key=itemgetter(0, 1))
    return [row for *_, row in rows]


class _Standing(NamedTuple):
    """A job, or a Workload without a job, with its state and its state in its queue.

    row: the row for this state, without the age and the run time, which the caller adds.
    is_settled: whether the job's own objects determine the state. Otherwise Events, queues or nodes may give more
    details.
    """

    subject: Any
    state: JobState
    stand: QuotaState | None
    row: dict[str, Any]
    is_settled: bool


def _make_standing(subject: Any, state: JobState, stand: QuotaState | None, row: dict[str, Any]) -> _Standing:
    may_change = state.word == "Pending" or state.outside or state.hopeless or (stand is not None and stand.closed)
    return _Standing(subject, state, stand, row, not may_change)


def _recall_job(memo: Memo, job: JobRecord, pods: Sequence[Pod], stand: QuotaState | None) -> _Standing:
    """Return a job with its state and row, from the memo if no object that they depend on has changed."""

    def make() -> _Standing:
        state = find_job_state(job, pods, stand)
        return _make_standing(job, state, stand, _make_job_row(job, pods, state, stand))

    return memo.recall("job", job.metadata.uid, (job.source, *job.jobs, job.past, stand, *pods), make)


async def _find_alone(
    client: Client,
    namespace: str,
    now: datetime,
    memo: Memo,
    workloads: Sequence[Workload],
    stands: Mapping[str, QuotaState],
) -> list[_Standing]:
    """Return the state and row of each Workload without a job, with reasons from its pods and its operator."""
    standings = [_recall_workload(memo, one, stands[one.metadata.uid]) for one in workloads]
    memo.retain("workload", {one.metadata.uid for one in workloads})
    unclear = [one for one in standings if needs_replacements(one.subject) or one.state.word == "Starting"]
    plain = await plain_pods(client, namespace, [one.subject for one in unclear])
    silence = await _explain_silent_operators(client, namespace, unclear, now)
    found = []
    for standing in standings:
        workload, uid = standing.subject, standing.subject.metadata.uid
        own_pods, why = pods_of(workload, plain) if plain else [], silence.get(uid, "")
        found.append(_find_standing(workload, stands[uid], own_pods, why) if own_pods or why else standing)
    return found


def _recall_workload(memo: Memo, workload: Workload, stand: QuotaState) -> _Standing:
    return memo.recall("workload", workload.metadata.uid, (workload, stand), lambda: _find_standing(workload, stand))


def _find_standing(workload: Workload, stand: QuotaState, pods: Sequence[Pod] = (), silence: str = "") -> _Standing:
    state = find_workload_state(workload, stand, pods).with_silence(silence)
    return _make_standing(workload, state, stand, _make_workload_row(workload, state, stand))


async def _explain_unsettled(
    client: Client, namespace: str, memo: Memo, standings: Iterable[_Standing], pods: Mapping[str, Sequence[Pod]]
) -> dict[str, dict[str, Any]]:
    """Return new rows, by UID, of the jobs and Workloads about which Events, queues or nodes give more details.

    Rows of other jobs are not included.
    """
    unsettled = [one for one in standings if not one.is_settled]
    later = unsettled
    if any(one.state.outside for one in unsettled):
        untaken = await explain_missing_workloads(client, namespace)
        later = [
            one._replace(state=one.state.with_refusal(untaken.get(one.subject.metadata.uid, ""))) for one in unsettled
        ]
    is_pending = any(one.state.word == "Pending" for one in unsettled)
    refused = await explain_refused_pods(client, namespace) if is_pending else {}
    later = await _add_verdicts(client, namespace, memo, await _explain_closed_queues(client, later))
    rows = {}
    for before, (subject, state, stand, _, _) in zip(unsettled, later, strict=True):
        uid = subject.metadata.uid
        if not isinstance(subject, JobRecord):
            rows[uid] = _make_workload_row(subject, state, stand) if state is not before.state else before.row
            continue
        said = next((refused[job.metadata.uid] for job in subject.jobs if job.metadata.uid in refused), "")
        is_new = said or state is not before.state
        rows[uid] = _make_job_row(subject, pods.get(uid, ()), state, stand, said) if is_new else before.row
    return rows


def _add_unqueued_groups(
    rows: list[dict[str, Any]], pods: Iterable[Pod], workloads: Iterable[Workload], now: datetime
) -> list[dict[str, Any]]:
    """Return the rows, and a row for each pod group without a Workload, the oldest first."""
    from muster.insight.jobs.unqueued import find_unqueued_groups, find_unqueued_state  # importing it is slow

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
    client: Client, namespace: str, standings: Iterable[_Standing], now: datetime
) -> dict[str, str]:
    others = [(one.subject, one.state) for one in standings if not _is_of_pods(one.subject)]
    if not others:
        return {}
    from muster.insight.reader.jobs.operators import explain_silent_operators  # few clusters run such jobs

    return await explain_silent_operators(client, namespace, others, now)


async def _find_quota_states(
    client: Client, workloads: list[Workload], now: datetime, memo: Memo
) -> dict[str, QuotaState]:
    """Return the quota state of each Workload by its UID, with its position if it waits and the server serves it."""
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
    """Return the queue positions of the waiting Workloads, by namespace and name.

    The server is queried again after some seconds, or when one of the Workloads changed.
    """
    inputs = int(now.timestamp() / _POSITION_SECONDS), *waiting
    positions: dict[tuple[str, str], int] | None = memo.find("positions", "", inputs)
    if positions is None:
        queues = {(one.metadata.namespace, one.spec.queue_name) for one in waiting}
        positions = memo.keep("positions", "", inputs, await Visibility(client).find_positions(queues))
    return positions


async def _find_quota_free(client: Client, jobs: Any, namespace: str, queued: set[str]) -> set[str]:
    """Return the UIDs of the jobs that are in no queue.

    The set is empty if the cluster does not serve LocalQueues, or the user may not list them.

    queued: the UIDs of the jobs that have a Workload.
    """
    uids = {job.metadata.uid for job in jobs if QUEUE_NAME_LABEL not in job.metadata.labels} - queued
    return uids if uids and await list_or_none(client, LOCAL_QUEUE, namespace) is not None else set()


async def _explain_closed_queues(client: Client, standings: list[_Standing]) -> list[_Standing]:
    """Return the standings, with the reason added to the state of each job whose ClusterQueue admits nothing."""
    if not any(one.stand is not None and one.stand.closed for one in standings):
        return standings
    queues = {one.metadata.name: one for one in await list_or_none(client, CLUSTER_QUEUE) or ()}
    return [one._replace(state=with_obstacle(one.state, queues)) for one in standings]


async def _add_verdicts(client: Client, namespace: str, memo: Memo, standings: list[_Standing]) -> list[_Standing]:
    """Return the standings, with a verdict for each job that may never start.

    If there are such jobs, the function reads these jobs in full, and all nodes and quotas; otherwise it reads nothing.
    """
    hopeless = {one.subject.metadata.uid for one in standings if one.state.hopeless}
    if not hopeless:
        return standings
    from muster.insight.forecasts.never import with_verdict
    from muster.insight.reader.forecasts.room import survey_room
    from muster.insight.reader.listing.lists import Lists

    subjects: list[Any] = await all_records(client, namespace)
    if hopeless - {one.metadata.uid for one in subjects}:
        subjects += await list_or_none(client, WORKLOAD, namespace) or []
    whole = {one.metadata.uid: one for one in subjects if one.metadata.uid in hopeless}
    room = await survey_room(Lists(client), namespace, memo)

    def judged(uid: str, state: Any) -> Any:
        return with_verdict(whole[uid], state, room) if uid in whole else state  # a missing job was deleted since

    return [one._replace(state=judged(one.subject.metadata.uid, one.state)) for one in standings]


async def pods_by_job(
    client: Client,
    namespace: str,
    kind: Kind[Pod] = POD,
    only: Collection[str] | None = None,
) -> dict[str, list[Any]]:
    """Return the pods of jobs by the UID of their Job, and also by the UID of their JobSet.

    kind: the view of pods that the caller reads.
    only: the UIDs of the Jobs and JobSets whose pods are wanted; None for all.
    """
    pods: dict[str, list[Any]] = defaultdict(list)
    for pod in await list_all(client, kind, namespace, labels=JOB_NAME_LABEL):
        of_set = pod.metadata.labels.get(JOBSET_UID)
        for uid in {owner.uid for owner in pod.metadata.owner_references} | ({of_set} if of_set else set()):
            if only is None or uid in only:
                pods[uid].append(pod)
    return pods


async def plain_pods(
    client: Client, namespace: str, workloads: Iterable[Workload], kind: Kind[Pod] = POD_LINES
) -> Sequence[Pod]:
    """Return the pods of a namespace that queue without a job; empty if no given Workload belongs to such a pod.

    Also return an empty list if the user may not see pods.

    kind: the view of pods to read.
    """
    if not any(map(_is_of_pods, workloads)):
        return ()
    return await list_or_none(client, kind, namespace, labels=MANAGED_LABEL) or ()


def pods_of(workload: Workload, plain: Iterable[Pod]) -> list[Pod]:
    """Return the pod or the group of pods that a Workload stands for; empty for the Workload of another job."""
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
    """Return why pods of Jobs could not be created: the message of the newest Event, by the Job's UID.

    The result is empty if there is no such Event, or the user may not see Events.
    """
    return await _read_newest_messages(client, namespace, "reason=FailedCreate,involvedObject.kind=Job")


async def explain_missing_workloads(client: Client, namespace: str) -> dict[str, str]:
    """Return why jobs have no Workload: the message of the newest Event, by the job's UID.

    The result is empty if there is no such Event, or the user may not see Events.
    """
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


def _make_job_row(job: Any, pods: Sequence[Pod], state: Any, stands: Any, refused: str = "") -> dict[str, Any]:
    times = read_times(job, pods, job.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC))
    row = _make_row(job.metadata, job.metadata.name, state, stands, times["started"])
    row["queue"] = row["queue"] or job.metadata.labels.get(QUEUE_NAME_LABEL, "")
    row["reason"] = refused or state.reason if state.word == "Pending" else state.reason
    trials = {"trials": asdict(state.count)} if state.count is not None else {}
    return {**row, **trials, "nodes": nodes_of(job, pods), **times}


def _make_workload_row(workload: Any, state: Any, stands: Any) -> dict[str, Any]:
    """Return the row of a pod group or of a foreign kind of job, from its Workload. Fields of its pods are unknown."""
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


def _make_row(meta: ObjectMeta, name: str, state: Any, stands: Any, started: datetime | None = None) -> dict[str, Any]:
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
        "waitsSince": find_wait_begin(state, stands, meta.creation_timestamp, started),
    }
