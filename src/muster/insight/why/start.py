"""Describe the levels of readiness and of the common start of a group. Pure."""

from datetime import datetime

from muster.api.conditions import find
from muster.api.core import Pod
from muster.api.kueue.names import PODS_READY
from muster.api.pods import find_condition, is_ready
from muster.insight.jobs.failures import NAMED, describe_absent, explain_unheard, explain_waiting, is_unheard
from muster.insight.jobs.state import count_started
from muster.insight.record import JobRecord
from muster.insight.text import format_age
from muster.insight.why.readings import JobLevel, JobReadings


def describe_readiness(readings: JobReadings) -> JobLevel:
    """Return the level that says how many pods are ready, and what the other pods wait for.

    The level does not apply ("none") to a job without pods, or whose pods still wait to start together.
    """
    if readings.state.finished:
        return JobLevel("readiness", "done", "")
    if not readings.live:
        return JobLevel("readiness", "none", "")
    if readings.job is not None and readings.job.group_start is not None:
        return JobLevel("readiness", "none", "once they have started")
    ready = [pod for pod in readings.live if is_ready(pod)]
    pods_ready = find(readings.workload.status.conditions, PODS_READY) if readings.workload is not None else None
    text = f"{len(ready)} of {len(readings.live)} pods ready"
    if len(ready) == len(readings.live):
        since = max(filter(None, map(_find_ready_since, ready)), default=None)
        return JobLevel(
            "readiness", "done", text + (f", for {format_age(since, readings.now)}" if since is not None else "")
        )
    late = [pods_ready.message] if pods_ready is not None and pods_ready.status != "True" else []
    return JobLevel("readiness", "here", text, (*_explain_unready(readings), *filter(None, late)))


def _explain_unready(readings: JobReadings) -> list[str]:
    """Return lines on why pods are not ready. If there are many, only the first few are listed."""
    if readings.job is None:
        return []
    waiting = (pod for pod in readings.live if not is_ready(pod) and not is_unheard(pod))
    unheard = explain_unheard(readings.job, readings.live)
    reasons = [reason for pod in waiting for reason in explain_waiting(readings.job, pod, with_reason=True)]
    return ([unheard] if unheard else []) + reasons[:NAMED]


def _find_ready_since(pod: Pod) -> datetime | None:
    condition = find_condition(pod, "Ready")
    return condition.last_transition_time if condition is not None else None


def describe_start(readings: JobReadings) -> JobLevel:
    """Return the level that says how many workers have started, and whether they wait for one another.

    The level does not apply ("none") to a job without pods.
    """
    if readings.state.finished or not readings.live:
        return JobLevel("start", "done" if readings.state.finished else "none", "")
    if readings.job is not None and readings.job.group_start is not None:
        return _describe_group_start(readings, readings.job)
    started = sum(pod.status.phase == "Running" for pod in readings.live)
    return JobLevel(
        "start", "done" if started == len(readings.live) else "here", f"{started} of {len(readings.live)} started"
    )


def _describe_group_start(readings: JobReadings, job: JobRecord) -> JobLevel:
    """Return the level that says how many workers of the group have started and wait for the others."""
    assert job.group_start is not None, "the group waits"
    until = f", or fail in {format_age(readings.now, job.start_by)}" if job.start_by is not None else ""
    missing = describe_absent(job, readings.live)
    started = count_started(job, readings.live)
    state = f"{started} of {job.group_start.expected} workers have started"
    text = f"{state}; their commands begin when all have started{until}"
    return JobLevel("start", "here", text, (f"not yet: {missing}",) if missing else ())
