"""Describe the level of size: how many pods the job has, and whether that may change. Pure."""

from muster.api.ours.elastic import ELASTIC_ANNOTATION, is_elastic
from muster.insight.jobs.failures import count_of, describe_cancelled_trials
from muster.insight.quota.state import QuotaState
from muster.insight.why.readings import JobLevel, JobReadings


def describe_size(readings: JobReadings) -> JobLevel:
    """Return the level that says how many pods the job has, and within which bounds that number may change."""
    desired = readings.state.wanted
    text = count_of(desired, "pod")
    partial = _describe_partial_admission(readings.quota_state) if readings.quota_state is not None else ""
    if readings.job is not None and readings.job.array is not None:
        text = f"{count_of(desired, 'trial')}, at most {sum(readings.job.workers_by_role)} at a time"
        text = f"{text} ({partial})" if partial else text
        return JobLevel("size", "none", "; ".join(filter(None, (text, describe_cancelled_trials(readings.job)))))
    if partial:
        return JobLevel("size", "none", f"{text}, {partial}")
    annotations = readings.job.metadata.annotations if readings.job is not None else {}
    if ELASTIC_ANNOTATION in annotations:
        return JobLevel("size", "none", f"{text} now, between {annotations[ELASTIC_ANNOTATION].replace(':', ' and ')}")
    if readings.job is None or readings.job.has_fixed_size:
        return JobLevel("size", "none", f"{text}, always")
    may_be_scaled = is_elastic(annotations) or readings.workload is None  # the queue keeps the size of any other job
    return JobLevel("size", "none", f"{text}, may be scaled" if may_be_scaled else f"{text}, always")


def _describe_partial_admission(quota_state: QuotaState) -> str:
    return f"admitted with {quota_state.granted} of {quota_state.asked}" if quota_state.is_partial else ""
