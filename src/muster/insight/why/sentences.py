"""Puts into sentences what became of a job's pods, and when the job will start. Pure."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from muster.api.ours.notify import NOTIFY_FAILURE_ANNOTATION
from muster.insight.jobs.failures import NAMED, count_times, find_failures, last_telling_line
from muster.insight.text import format_age
from muster.insight.why.readings import JobReadings
from muster.jobs.interruption import INTERRUPTED, interruption_of

if TYPE_CHECKING:
    from muster.queueing.scheduling.estimate import Estimate

_DAY = timedelta(days=1)


def describe_failures(readings: JobReadings) -> list[str]:
    """Return what is known of the pods that failed, then the cluster's own words for it.

    While the job goes on, what the platform interrupted is no failure: `describe_interruptions` tells of it.
    """
    if readings.job is None:
        return []
    job, is_over = readings.job, readings.state.finished
    ends = find_failures(job, (pod for pod in readings.pods if is_over or not job.is_excused(pod)))
    lines = [str(one) for one in ends[:NAMED]] if len(ends) > 1 or not readings.state.finished else []
    lines += [f"and {len(ends) - NAMED} more"] if len(ends) > NAMED else []
    said = (one for one in job.failed_conditions if is_over or one.reason != INTERRUPTED)
    conditions = [": ".join(filter(None, (one.reason, one.message))) for one in said]
    messages = conditions + [f"{one.who}: {one.upstream}" for one in ends[:NAMED]]
    return [*lines, *([f"as the cluster says it: {'; '.join(messages)}"] if messages else [])]


def describe_interruptions(readings: JobReadings) -> list[str]:
    """Return what interrupted a job that goes on: the job's own count, or else what its pods say."""
    job = readings.job
    if job is None or readings.state.finished:
        return []
    if job.interruptions:
        return [f"by the cluster {count_times(job.interruptions)}, last: {readings.name_others(job.last_interruption)}"]
    pod_ends = ((job.name_of_pod(pod), interruption_of(pod)) for pod in readings.pods)
    return [f"{who} {end.message}" for who, end in pod_ends if end is not None][:NAMED]


def describe_notices(readings: JobReadings) -> str:
    """Return why the last notice of the job that did not arrive failed; "" if all arrived."""
    annotations = readings.job.metadata.annotations if readings.job is not None else {}
    return last_telling_line(annotations.get(NOTIFY_FAILURE_ANNOTATION, ""))


def describe_estimate(estimate: "Estimate", now: datetime) -> str:
    """Return an estimate as a sentence."""
    if estimate.at is None:
        return f"{estimate.certainty}: {estimate.because}"
    if (estimate.at - now).total_seconds() < 1:
        return f"any moment ({estimate.certainty}: {estimate.because})"
    clock = estimate.at.astimezone().strftime("%H:%M:%S" if estimate.at - now < _DAY else "%Y-%m-%d %H:%M")
    latest = "at the latest " if str(estimate.certainty) == "sure" else "about "
    return f"{latest}in {format_age(now, estimate.at)}, {clock} ({estimate.certainty}: {estimate.because})"
