"""Describe the level of quota: the job's queue, its position, the quota that it lacks, and which jobs use it. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from muster.api.conditions import find_true
from muster.api.kueue import CLUSTER_QUEUE, Workload
from muster.api.kueue.names import EVICTED, QUEUE_NAME_LABEL
from muster.api.values.quantity import parse_amount
from muster.insight.jobs.deferral import describe_deferral
from muster.insight.jobs.failures import NAMED
from muster.insight.jobs.replacements import needs_replacements
from muster.insight.jobs.state import describe_evictions
from muster.insight.quota.queues import describe_resume
from muster.insight.quota.state import UNTIL_RELEASED, QuotaState, display_name
from muster.insight.text import format_age, format_owner, format_quantity, group_alike
from muster.insight.why.readings import DetailTable, JobLevel, JobReadings, State

if TYPE_CHECKING:
    from muster.insight.forecasts.forecast import Holder


def describe_quota(readings: JobReadings) -> JobLevel:
    """Return the level that says which state the job has in its queue."""
    quota_state, workload = readings.quota_state, readings.workload
    if (deferral := describe_deferral(readings.job)) and (quota_state is None or quota_state.waits):
        return JobLevel("quota", "here", f"held: {deferral}; start it now with: muster release {readings.name}")
    if quota_state is None or workload is None:
        return _describe_without_workload(readings)
    if quota_state.finished:
        return JobLevel(
            "quota", "done", f"given back to ClusterQueue {quota_state.cluster_queue or readings.cluster_queue}"
        )
    since = f", for {format_age(quota_state.since, readings.now)}"
    if quota_state.word == "Queued":
        return _describe_waiting(readings, quota_state, workload, since)
    if quota_state.word == "Held":
        reason = (quota_state.reason,) if quota_state.reason != UNTIL_RELEASED else ()
        return JobLevel("quota", "here", f"held{since}; release it with: muster release {readings.name}", reason)
    if quota_state.word == "Evicting":
        return JobLevel("quota", "here", f"giving its quota back{since}", (quota_state.reason,))
    nominated = workload.status.nominated_cluster_names
    if quota_state.word == "Checking" and nominated:  # the level of the cluster is more precise
        return JobLevel("quota", "done", f"reserved in ClusterQueue {quota_state.cluster_queue}{since}")
    if quota_state.word == "Checking":
        return JobLevel(
            "quota", "here", f"reserved in ClusterQueue {quota_state.cluster_queue}{since}", (quota_state.reason,)
        )
    text = f"admitted by ClusterQueue {quota_state.cluster_queue} through queue {quota_state.queue}{since}"
    evictions = readings.name_others(describe_evictions(quota_state, readings.job))
    return JobLevel("quota", "done", text, (*_describe_assignments(workload), *filter(None, (evictions,))))


def _describe_without_workload(readings: JobReadings) -> JobLevel:
    queue = readings.job.metadata.labels.get(QUEUE_NAME_LABEL, "") if readings.job is not None else ""
    if not queue:
        return JobLevel("quota", "none", "it is in no queue and needs no quota")
    if readings.job is not None and readings.job.manager:
        return JobLevel("quota", "none", f"{readings.job.manager} runs it, and queue {queue} does not hold it")
    if readings.unseen:
        state: State = "here" if readings.job is not None and readings.job.suspended else "none"
        return JobLevel(
            "quota", state, f"it is for queue {queue}; how it does there cannot be seen", (readings.unseen,)
        )
    if readings.job is not None and readings.job.suspended:
        why = (readings.state.reason,) if readings.state.outside and readings.state.blocked else ()
        return JobLevel("quota", "here", f"waiting to be taken in by queue {queue}: it has no Workload yet", why)
    return JobLevel("quota", "done", f"it is in queue {queue}")


def _describe_waiting(readings: JobReadings, quota_state: QuotaState, workload: Workload, since: str) -> JobLevel:
    if not quota_state.queue:
        advice = f"name one with the label {QUEUE_NAME_LABEL} of the job"
        return JobLevel("quota", "here", f"it names no queue, and waits{since}", (advice,))
    place = f"{_describe_position(readings, quota_state)}{since}"
    if needs_replacements(workload):
        lines = (readings.state.reason, *_describe_eviction(readings))
        return JobLevel("quota", "here", f"kept out of queue {place}: its pods have ended", lines)
    reasons = [quota_state.reason] if quota_state.reason else []
    details: tuple[str | DetailTable, ...] = (
        *reasons,
        *_describe_stopped(readings),
        *_tabulate_needs(readings),
        *_describe_ahead(readings),
        *_describe_holders(readings),
        *_describe_eviction(readings),
    )
    return JobLevel("quota", "here", f"waiting in queue {place}", details)


def _describe_position(readings: JobReadings, quota_state: QuotaState) -> str:
    where = (
        f"{quota_state.queue} (ClusterQueue {readings.cluster_queue})" if readings.cluster_queue else quota_state.queue
    )
    if quota_state.position is None:
        return where
    return f"{where}, position {quota_state.position}" + (f" of {readings.waiting}" if readings.waiting else "")


def _describe_stopped(readings: JobReadings) -> list[str]:
    return [
        f"{kind} {name} is stopped; start it again with: {describe_resume(name, cluster=kind == CLUSTER_QUEUE.kind)}"
        for kind, name in readings.stopped
    ]


def _describe_eviction(readings: JobReadings) -> list[str]:
    """Return a line that says why the job lost its quota; [] if it was never evicted, or has got quota since."""
    evicted = find_true(readings.workload.status.conditions, EVICTED) if readings.workload is not None else None
    if evicted is None:
        return []
    return [f"it lost its quota ({evicted.reason}): {readings.name_others(evicted.message)}"]


def _describe_assignments(workload: Workload) -> list[str]:
    """Return a line for each podset with the flavors and amounts of its quota; equal podsets share a line."""
    assert workload.status.admission is not None, "the workload is admitted"
    assignments = (
        (podset.name, ", ".join(_describe_usage(podset.flavors, *used) for used in podset.resource_usage.items()))
        for podset in workload.status.admission.pod_set_assignments
        if podset.resource_usage
    )
    return [f"{names}: {text}" + (" each" if ", " in names else "") for names, text in group_alike(assignments)]


def _describe_usage(flavors: Mapping[str, str], resource: str, total: Any) -> str:
    return (
        f"{resource} {format_quantity(resource, parse_amount(resource, total))} ({flavors.get(resource, 'no flavor')})"
    )


def _tabulate_needs(readings: JobReadings) -> list[str | DetailTable]:
    """Return a table of the job's requests and its queue's quota; empty without `readings.needs`.

    Sentences follow the table: about the fewest pods with which the job starts, or else about requests that exceed all
    quota.
    """
    if not readings.needs:
        return []
    header = ("RESOURCE", "FLAVOR", "ASKED", "QUOTA", "USED", "AVAILABLE", "MISSING")
    rows = (
        (
            need.resource,
            need.flavor,
            *(
                format_quantity(need.resource, n)
                for n in (need.asked, need.nominal, need.used, need.available, need.missing)
            ),
        )
        for need in readings.needs
    )
    short = [
        f"more than there is: {need.resource} of flavor {need.flavor} is {format_quantity(need.resource, need.most)} "
        "in all"
        for need in readings.needs
        if need.asked > need.most and not readings.verdict.suffices
    ]
    podsets = readings.workload.spec.pod_sets if readings.workload is not None else ()
    fewer = [f"it starts with as few as {one.min_count} of {one.count}" for one in podsets if one.min_count]
    return [DetailTable((header, *rows)), *(fewer or short)]


def _describe_ahead(readings: JobReadings) -> list[str]:
    if not readings.ahead:
        return []
    names = [
        f"{display_name(one.metadata, readings.namespace)}"
        f"{_describe_owner(readings.owners.get((one.metadata.namespace, one.metadata.name), ''))} "
        f"(priority {one.priority})"
        for one in readings.ahead[:NAMED]
    ]
    head = [f"nothing passes {names[0]} in a StrictFIFO queue{f': {readings.head}' if readings.head else ''}"]
    more = len(readings.ahead) - NAMED
    ahead = f"ahead of it: {', '.join(names)}" + (f" and {more} more" if more > 0 else "")
    return [ahead, *(head if readings.strict else [])]


def _describe_holder(holder: "Holder", now: datetime) -> str:
    usage = ", ".join(f"{resource} {format_quantity(resource, n)}" for resource, n in holder.usage.items())
    return f"{holder.name}{_describe_owner(holder.owner)} ({usage}, for {format_age(holder.since, now)})"


def _describe_owner(name: str) -> str:
    return f" of {format_owner(name)}" if name else ""


def _describe_holders(readings: JobReadings) -> list[str]:
    if not readings.holders or readings.verdict.suffices:
        return []
    names = [_describe_holder(one, readings.now) for one in readings.holders[:NAMED]]
    more = len(readings.holders) - NAMED
    return [f"the missing quota is used by: {', '.join(names)}" + (f" and {more} more" if more > 0 else "")]
