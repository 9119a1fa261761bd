"""Describe in sentences what happened to a job's pods, and when the job will start. Pure."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from muster.api.ours.notify import NOTIFY_FAILURE_ANNOTATION
from muster.insight.jobs.failures import NAMED, count_times, find_failures, last_telling_line
from muster.insight.text import format_age
from muster.insight.why.readings import JobReadings
from muster.jobs.interruption import INTERRUPTED, interruption_of

if TYPE_CHECKING:
    from muster.queueing.scheduling.estimate import StartEstimate

_DAY = timedelta(days=1)


def describe_failures(readings: JobReadings) -> list[str]:
    """Return lines about the first few failed pods, then one with the job's conditions and Kubernetes' messages.

    If a job that has ended has only one failure, it gets no line, because the job's state already contains it. While
    the job has not ended, interrupted pods are no failures: `describe_interruptions` describes them. Without a job, or
    without failures and failed conditions, the result is empty.
    """
    if readings.job is None:
        return []
    job, is_over = readings.job, readings.state.finished
    ends = find_failures(job, (pod for pod in readings.pods if is_over or not job.is_excused(pod)))
    lines = [str(one) for one in ends[:NAMED]] if len(ends) > 1 or not readings.state.finished else []
    lines += [f"and {len(ends) - NAMED} more"] if len(ends) > NAMED else []
    shown_conditions = (one for one in job.failed_conditions if is_over or one.reason != INTERRUPTED)
    conditions = [": ".join(filter(None, (one.reason, one.message))) for one in shown_conditions]
    messages = conditions + [f"{one.who}: {one.upstream}" for one in ends[:NAMED]]
    return [*lines, *([f"as the cluster says it: {'; '.join(messages)}"] if messages else [])]


def describe_interruptions(readings: JobReadings) -> list[str]:
    """Return lines about the interruptions of an unfinished job: the job's own count, or else those of its pods.

    The result is empty after the job's end. If there are many pods, only the first few have a line.
    """
    job = readings.job
    if job is None or readings.state.finished:
        return []
    if job.interruptions:
        return [f"by the cluster {count_times(job.interruptions)}, last: {readings.name_others(job.last_interruption)}"]
    pod_ends = ((job.name_of_pod(pod), interruption_of(pod)) for pod in readings.pods)
    return [f"{who} {end.message}" for who, end in pod_ends if end is not None][:NAMED]


def describe_notices(readings: JobReadings) -> str:
    """Return why the last notice to the job's user could not be delivered; "" if none failed."""
    annotations = readings.job.metadata.annotations if readings.job is not None else {}
    return last_telling_line(annotations.get(NOTIFY_FAILURE_ANNOTATION, ""))


def describe_estimate(estimate: "StartEstimate", now: datetime, *, with_clock: bool = True) -> str:
    """Return an estimate as a sentence.

    with_clock: whether the sentence also has the time of day on this machine.
    """
    if estimate.at is None:
        return f"{estimate.certainty}: {estimate.because}"
    if (estimate.at - now).total_seconds() < 1:
        return f"any moment ({estimate.certainty}: {estimate.because})"
    clock = estimate.at.astimezone().strftime(", %H:%M:%S" if estimate.at - now < _DAY else ", %Y-%m-%d %H:%M")
    within = "at the latest in" if str(estimate.certainty) == "sure" else "in about"
    when = f"{within} {format_age(now, estimate.at)}{clock if with_clock else ''}"
    return f"{when} ({estimate.certainty}: {estimate.because})"
