"""Build the records of runs from the objects of an ended or deleted job, from its pods, or from Events.

`run_of` takes a job and its pods, `run_of_workload` a Workload and its pods, and `read_runs_from_events` the Events of
a cluster. Each returns `Run`s. The server stores the records, and `insight.reader` reads them.
"""

import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from muster.api.core import Container, Event, Pod, PodSpec
from muster.api.kueue import Workload
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.meta import ObjectMeta
from muster.api.ours.submitter import SUBMITTER_ANNOTATION
from muster.api.ours.usage import USAGE_ANNOTATION, Usage, usage_of
from muster.api.pods import is_finished, pod_requests
from muster.api.values.quantity import format_amount
from muster.api.values.shells import find_typed_command
from muster.gang.order.ends import end_of
from muster.insight.history.runs import Outcome, PodRequests, Run
from muster.insight.jobs.state import find_ending, find_job_state, is_cancelling
from muster.insight.quota.state import display_name, find_quota_state
from muster.insight.record import JobRecord

# The maximum length of a text in a record.
MOST_TEXT = 2_000

# The maximum number of nodes in a record.
MOST_NODES = 256

_FINAL = ("Complete", "Completed", "Failed")

# The reasons of the Events by which controllers of Jobs and JobSets report an end.
_ENDINGS: dict[str, Outcome] = {
    "Completed": "Completed",
    "AllJobsCompleted": "Completed",
    "JobSetCompleted": "Completed",
    "BackoffLimitExceeded": "Failed",
    "DeadlineExceeded": "Failed",
    "FailedIndexes": "Failed",
    "MaxFailedIndexesExceeded": "Failed",
    "PodFailurePolicy": "Failed",
    "FailedJobs": "Failed",
    "ReachedMaxRestarts": "Failed",
}


class Trace(Struct, frozen=True):
    """The record of a job's pods, which may be deleted: their nodes, when the first pod started, and their usage."""

    nodes: frozenset[str] = frozenset()
    started: datetime | None = None
    usage: Usage | None = None

    def __add__(self, other: "Trace") -> "Trace":
        usages = [one for one in (self.usage, other.usage) if one is not None]
        starts = [one for one in (self.started, other.started) if one is not None]
        return Trace(self.nodes | other.nodes, min(starts, default=None), sum(usages, Usage()) if usages else None)


NO_TRACE = Trace()


def sum_traces(pods: Iterable[Pod]) -> Trace:
    """Return the nodes of these pods, when the first one started, and their summed usage."""
    traced = list(pods)
    nodes = frozenset(pod.spec.node_name for pod in traced if pod.spec.node_name)
    usages = filter(None, (usage_of(pod.metadata.annotations.get(USAGE_ANNOTATION, "")) for pod in traced))
    first = next(usages, None)
    return Trace(nodes, find_first_start(traced), sum(usages, first) if first is not None else None)


def find_first_start(pods: Sequence[Pod]) -> datetime | None:
    """Return when the first container of these pods began to run; None if none is known to have run."""
    if not pods:  # the case of most jobs, for which the generators would be slowest
        return None
    statuses = (one for pod in pods for one in pod.status.container_statuses)
    phases = (state.running or state.terminated for one in statuses for state in (one.state, one.last_state))
    return min((one.started_at for one in phases if one is not None and one.started_at is not None), default=None)


def run_of(
    job: JobRecord,
    pods: Sequence[Pod],
    before: Trace = NO_TRACE,
    deleted: datetime | None = None,
    workload: Workload | None = None,
) -> Run | None:
    """Return the record of a job's run; None if the job has neither ended nor been deleted.

    before: the trace of the job's pods that no longer exist.
    deleted: when the job was deleted; None if it was not.
    workload: the Workload of the job; None if it no longer exists.
    """
    end, meta = job.end, job.metadata
    ended = ended_at(job) if end is not None else deleted
    if ended is None:
        return None
    traces = before + sum_traces(pods)
    run = Run(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        kind=job.kind.kind,
        state=end.word if end is not None else "Deleted",
        submitted=meta.creation_timestamp or ended,
        ended=ended,
        started=started_at(job, traces.started),
        owner=_shorten_text(owner_of(meta)),
        queue=meta.labels.get(QUEUE_NAME_LABEL, ""),
        command=command_of(job.templates[0].spec.containers if job.templates else ()),
        workers=job.wanted,
        requested_cpus=_sum_requested_cpus(job),
        restarts=job.counted_restarts,
        interruptions=job.interruptions,
        priority=_find_priority(workload, pods),
        limit_seconds=_find_limit(meta, job.deadline),
        pod_requests=tuple(
            _make_pod_requests(workers, one.spec)
            for workers, one in zip(job.workers_by_role, job.templates, strict=True)
        ),
    )
    return _add_outcome(_add_usage(run, traces), job, pods)


def _sum_requested_cpus(job: JobRecord) -> float | None:
    """Return how many CPUs the workers that run at the same time request in total; None if they request none."""
    roles = zip(job.workers_by_role, job.templates, strict=True)
    return sum(workers * pod_requests(one.spec).get("cpu", 0) for workers, one in roles) / 1000 or None


def _find_priority(workload: Workload | None, pods: Sequence[Pod]) -> int | None:
    """Return the priority of a job in its queue, or else the priority of its pods; None if neither is known."""
    if workload is not None and workload.spec.priority is not None:
        return workload.spec.priority
    return max((pod.spec.priority for pod in pods if pod.spec.priority is not None), default=None)


def _find_limit(meta: ObjectMeta, deadline: int | None) -> int | None:
    """Return the time limit of a job in seconds; None if it has no limit."""
    end = end_of(meta, deadline, started=0.0)
    return int(end.at) if end is not None and end.is_enforced else None


def _make_pod_requests(pods: int, spec: PodSpec) -> PodRequests:
    amounts = pod_requests(spec)
    return PodRequests(pods, {name: format_amount(name, amounts[name]) for name in sorted(amounts)})


def _add_outcome(run: Run, job: JobRecord, pods: Sequence[Pod]) -> Run:
    """Return the run with exit code 0 if it completed, or the exit code and the reason if it failed; else unchanged."""
    if run.state == "Completed":
        return replace(run, exit_code=0)
    if run.state != "Failed":
        return run
    return replace(run, exit_code=find_ending(job, pods).code, reason=_shorten_text(find_job_state(job, pods).reason))


def run_of_workload(
    workload: Workload, pods: Sequence[Pod], before: Trace = NO_TRACE, deleted: datetime | None = None
) -> Run | None:
    """Return the run of a group of pods or of a foreign kind of job, which only its Workload describes.

    The result is None if the Workload has neither finished nor been deleted. The other parameters are as in `run_of`.
    """
    meta, stands = workload.metadata, find_quota_state(workload)
    ended = stands.since if stands.finished else deleted
    if ended is None:
        return None
    owners, left = meta.owner_references, before + sum_traces(pods)
    failed = stands.word == "Failed"
    run = Run(
        uid=meta.uid,
        namespace=meta.namespace,
        name=display_name(meta, meta.namespace),
        kind=owners[0].kind if owners else "Workload",
        state="Failed" if failed else "Completed" if stands.finished else "Deleted",
        submitted=meta.creation_timestamp or ended,
        ended=ended,
        started=left.started,
        owner=_shorten_text(next(filter(None, (owner_of(pod.metadata) for pod in pods)), "")),
        queue=workload.spec.queue_name,
        command=command_of(pods[0].spec.containers if pods else ()),
        reason=_shorten_text(stands.reason) if failed else "",
        workers=sum(podset.count for podset in workload.spec.pod_sets),
        priority=_find_priority(workload, pods),
        limit_seconds=workload.spec.maximum_execution_time_seconds,
        pod_requests=tuple(_make_pod_requests(one.count, one.template.spec) for one in workload.spec.pod_sets),
    )
    return _add_usage(run, left)


def amend_run(first: Run, later: Run) -> Run:
    """Return the first record of a run, completed with usage that became known later.

    All other fields keep the values of the first record, which was made while the pods of the job existed.
    """
    usages = [one for one in (first, later) if one.cpu_seconds is not None]
    if not usages:
        return first
    return replace(
        first,
        cpu_seconds=max(one.cpu_seconds or 0.0 for one in usages),
        memory_bytes=max(one.memory_bytes or 0 for one in usages),
        gpu_seconds=max(one.gpu_seconds or 0.0 for one in usages) or None,
        gpu_memory_bytes=max(one.gpu_memory_bytes or 0 for one in usages) or None,
    )


def owner_of(meta: ObjectMeta) -> str:
    """Return the user who submitted a job, or "" if unknown."""
    return meta.annotations.get(SUBMITTER_ANNOTATION, "")


def started_at(job: JobRecord, first: datetime | None) -> datetime | None:
    """Return when the first pod of a job began to run; None if none is known to have run.

    first: the earliest start in the statuses of the job's pods; None if there is none.
    """
    if first is not None:
        return first
    starts = [one.status.start_time for one in job.jobs if one.status.start_time is not None]
    return min(starts) if starts and (job.succeeded or job.failed) else None


def read_times(job: JobRecord, pods: Sequence[Pod], now: datetime) -> dict[str, Any]:
    """Return the owner, UID and times of a job for its table row: submitted, started, ended, seconds of running.

    A time is None if the job has not reached it.
    """
    ended = None if is_cancelling(job, pods) else ended_at(job)
    started = job.past.started if job.past is not None else started_at(job, find_first_start(pods))
    meta = job.metadata
    return {
        "owner": owner_of(meta),
        "submitted": meta.creation_timestamp,
        "started": started,
        "ended": ended,
        "runSeconds": run_seconds(started, ended, now),
        "uid": meta.uid,
    }


def run_seconds(started: datetime | None, ended: datetime | None, now: datetime) -> int | None:
    """Return for how many seconds a job has run, or ran before it ended; None if it has not started."""
    return max(int(((ended or now) - started).total_seconds()), 0) if started is not None else None


def command_of(containers: Sequence[Container]) -> str:
    """Return the command of the first container as a user would type it in a shell, cut to a limit; "" without one.

    `$$` in a manifest stands for `$`.
    """
    if not containers:
        return ""
    words = [word.replace("$$", "$") for word in (*containers[0].command, *containers[0].args)]
    return _shorten_text(shlex.join(find_typed_command(words)))


def _add_usage(run: Run, left: Trace) -> Run:
    used_run = replace(run, nodes=tuple(sorted(left.nodes)[:MOST_NODES]))
    if left.usage is None:
        return used_run
    used_run = replace(used_run, cpu_seconds=round(left.usage.cpu_seconds, 3), memory_bytes=left.usage.memory_bytes)
    if not (left.usage.gpu_seconds or left.usage.gpu_memory_bytes):
        return used_run
    return replace(used_run, gpu_seconds=round(left.usage.gpu_seconds, 3), gpu_memory_bytes=left.usage.gpu_memory_bytes)


def lacks_pods(job: JobRecord, pods: Iterable[Pod]) -> bool:
    """Return whether pods of an ended job that ran in this cluster no longer exist, as after a drain.

    pods: the pods that still exist.
    """
    return (
        job.end is not None and job.remote_counts is None and sum(map(is_finished, pods)) < job.succeeded + job.failed
    )


def with_past(job: JobRecord, run: Run | None) -> JobRecord:
    """Return an ended job with its recorded run attached, unless the record has another end than the job."""
    ended = job.end is not None and run is not None and run.state == job.end.word
    return replace(job, past=run) if ended else job


def nodes_of(job: JobRecord, pods: Iterable[Pod]) -> list[str]:
    """Return the names of the nodes on which the pods of a job run or ran, sorted."""
    past = job.past.nodes if job.past is not None else ()
    return sorted({*past, *(pod.spec.node_name for pod in pods if pod.spec.node_name)})


def ended_at(job: JobRecord) -> datetime | None:
    """Return when a job ended, or None if it has not ended."""
    conditions = job.source.status.conditions
    ends = (one.last_transition_time for one in conditions if one.type in _FINAL and one.status == "True")
    return next(ends, None)


def _shorten_text(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 1]}…"


def read_runs_from_events(events: Iterable[Event]) -> list[Run]:
    """Return the runs of ended Jobs and JobSets that Events report.

    Such a run has little more than the time and the kind of its end.
    """
    by_uid: dict[str, list[Event]] = {}
    for event in events:
        if event.involved_object.kind in ("Job", "JobSet"):
            by_uid.setdefault(event.involved_object.uid, []).append(event)
    return [run for uid, told in by_uid.items() if uid and (run := _read_run(uid, told)) is not None]


def _read_run(uid: str, events: Sequence[Event]) -> Run | None:
    ends = [(at, event) for event in events if event.reason in _ENDINGS and (at := _get_time(event)) is not None]
    if not ends:
        return None
    ended, last = max(ends, key=lambda end: end[0])
    first = min(filter(None, (event.first_timestamp or _get_time(event) for event in events)), default=ended)
    about, state = last.involved_object, _ENDINGS[last.reason]
    return Run(
        uid=uid,
        namespace=about.namespace,
        name=about.name,
        kind=about.kind,
        state=state,
        submitted=first,
        ended=ended,
        reason=_shorten_text(last.message) if state == "Failed" else "",
        exit_code=0 if state == "Completed" else None,
    )


def _get_time(event: Event) -> datetime | None:
    return event.last_timestamp or event.event_time or event.first_timestamp
