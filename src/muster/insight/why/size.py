"""The level of size: how many pods the job has, and whether that may change. Pure."""

from muster.api.conditions import find_true
from muster.api.kueue import Workload
from muster.api.kueue.names import ADMITTED
from muster.api.ours.elastic import ELASTIC_ANNOTATION, is_elastic
from muster.insight.jobs.failures import count_of
from muster.insight.why.readings import JobReadings, Level


def describe_size(readings: JobReadings) -> Level:
    """Return the number of pods, and the bounds within which it may change."""
    wanted = readings.state.wanted
    text = count_of(wanted, "pod")
    partial = _describe_partial_admission(readings.workload) if readings.workload is not None else ""
    if readings.job is not None and readings.job.array is not None:
        text = f"{count_of(wanted, 'trial')}, at most {readings.job.workers} at a time"
        return Level("size", "none", f"{text} ({partial})" if partial else text)
    if partial:
        return Level("size", "none", f"{text}, {partial}")
    annotations = readings.job.metadata.annotations if readings.job is not None else {}
    if ELASTIC_ANNOTATION in annotations:
        return Level("size", "none", f"{text} now, between {annotations[ELASTIC_ANNOTATION].replace(':', ' and ')}")
    if readings.job is None or readings.job.has_fixed_size:
        return Level("size", "none", f"{text}, always")
    may_be_scaled = is_elastic(annotations) or readings.workload is None  # its queue keeps the size of any other job
    return Level("size", "none", f"{text}, may be scaled" if may_be_scaled else f"{text}, always")


def _describe_partial_admission(workload: Workload) -> str:
    admission = workload.status.admission
    if admission is None or find_true(workload.status.conditions, ADMITTED) is None:
        return ""
    asked = sum(podset.count for podset in workload.spec.pod_sets)
    admitted = sum(podset.count or 0 for podset in admission.pod_set_assignments)
    return f"admitted with {admitted} of {asked}" if 0 < admitted < asked else ""
